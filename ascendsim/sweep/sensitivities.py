"""What `sensitivity` gives: what each figure of a chip does to a time, and how far the assumed ones reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal

from ascendsim.core.arguments import check_seed, checked
from ascendsim.core.errors import InputError
from ascendsim.core.table import Row, Table
from ascendsim.sweep.figures import ASSUMED
from ascendsim.sweep.probes import Ask, Probe
from ascendsim.sweep.rows import SweepRow
from ascendsim.sweep.space import Point
from ascendsim.sweep.work import simulated

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ascendsim.plot.tornado import TornadoDisplay
    from ascendsim.report import Report

_COLUMNS: tuple[str, ...] = ("Figure", "Assumed", "Value", "Unit", "Low", "High")
_COLUMNS += ("Time at low(us)", "Time at high(us)", "Change at low(%)", "Change at high(%)")
_COLUMNS += ("Elasticity", "Notes", "Source")


@dataclass(frozen=True)
class Band:
    """From where to where some figures could move a time.

    Attributes:
        keys: Names of the figures.
        base_us: The time as they are.
        low_us, high_us: The least and the largest time with one of them moved.
        together_low_us, together_high_us: The time with all of them moved to their quicker, and to their
            slower side; None if the chip refuses that.
    """

    keys: tuple[str, ...]
    base_us: float
    low_us: float
    high_us: float
    together_low_us: float | None
    together_high_us: float | None

    def __str__(self) -> str:
        def percent(us: float | None) -> str:
            return "refused" if us is None else f"{100 * (us / self.base_us - 1):+.1f} %"

        return (
            f"{len(self.keys)} figures: {self.base_us:,.1f} us, one by one {percent(self.low_us)} to "
            f"{percent(self.high_us)}, all together {percent(self.together_low_us)} to "
            f"{percent(self.together_high_us)}"
        )


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """A time, and what each figure of the chip does to it.

    Attributes:
        base: The point as it is.
        probes: Figures that were moved.
        left_out: Figures that no factor can move, with the reasons.
    """

    base: SweepRow
    probes: tuple[Probe, ...]
    left_out: tuple[tuple[str, str], ...]
    _ask: Ask

    @property
    def duration_us(self) -> float:
        """Device time with the chip as it is."""
        return float(self.base.answer.figures["Time(us)"])

    def table(self) -> Table:
        """One row a figure, the one with the largest change first: where it comes from, what it was moved to,
        the times, and its elasticity (percent of time by percent of the figure).
        """
        return Table("sensitivity", _COLUMNS, tuple(self._row(probe) for probe in self._ordered()))

    def skipped(self) -> Table:
        """One row a figure that was not moved: why."""
        return Table("skipped", ("Figure", "Reason"), self.left_out)

    def _ordered(self) -> list[Probe]:
        return sorted(self.probes, key=lambda probe: (-probe.reach(self.duration_us), probe.figure.name))

    def _row(self, probe: Probe) -> Row:
        base, figure = self.duration_us, probe.figure
        changes = [None if change is None else 100 * change for change in probe.changes(base)]
        ends = (probe.value_at(probe.low), probe.value_at(probe.high))
        times = (probe.low.time_us, probe.high.time_us)
        notes = "; ".join(filter(None, map(probe.left_out, (probe.low, probe.high))))
        known = (figure.name, "yes" if figure.assumed else "no", figure.value, figure.unit)
        return (*known, *ends, *times, *changes, probe.elasticity(base), notes, figure.source)

    @checked()
    def band(self, which: Literal["assumed", "all"] | Sequence[str] = ASSUMED) -> Band:
        """From which to which time some figures could move the result: one by one, and all together, each at
        its quicker or at its slower side, which are simulated once more.

        Args:
            which: Those without a source, all that were moved, or names out of the table.

        Raises:
            InputError: If a name is not in the table.
        """
        names = {probe.figure.name for probe in self.probes}
        if not isinstance(which, str):
            for name in which:
                if name not in names:
                    raise InputError(f"argument which: {name!r}", "was not moved", remedy="see table()")
        wanted = frozenset([which] if isinstance(which, str) else which)
        chosen = [
            probe
            for probe in self.probes
            if which == "all" or (probe.figure.assumed if which == ASSUMED else probe.figure.name in wanted)
        ]
        base = self.duration_us
        times = [
            side.time_us for probe in chosen for side in (probe.low, probe.high) if side.time_us is not None
        ]
        together = [self._together(chosen, slower) for slower in (False, True)]
        low, high = [row.answer.figures.get("Time(us)") for row in self._ask(together)]
        return Band(
            tuple(probe.figure.name for probe in chosen),
            base,
            min([base, *times]),
            max([base, *times]),
            low,
            high,
        )

    def _together(self, probes: Sequence[Probe], slower: bool) -> Point:
        """The point with every figure at its slower, or its quicker side."""
        moved: dict[str, float] = {}
        for probe in probes:
            best = self.duration_us
            for side in (probe.low, probe.high):
                if side.time_us is not None and (side.time_us > best if slower else side.time_us < best):
                    best = side.time_us
                    own = {key: side.values[key] for key in probe.figure.figures}
                    moved |= own
        point = self.base.point
        return {**point, "set": {**point.get("set", {}), **moved}} if moved else point

    @checked()
    def morris(self, walks: int = 4, figures: Sequence[str] | None = None, *, seed: int = 0) -> Table:
        """Screens several figures at once by Morris's method (needs the extra `ascendsim[sweep]`): each is
        moved from many places of the space that all of them span, so that what hangs together shows.

        Columns: mean effect on the time of moving a figure over its whole span, the mean of the effects
        without their signs (mu*), and their standard deviation, which is large where a figure's effect
        depends on where the others are. (Walks x (figures + 1)) points are simulated.

        Args:
            walks: How many walks through the space, at least two.
            figures: Names out of the table; None = the eight with the largest change.
            seed: Of them.

        Raises:
            InputError: If SALib is missing, a name is not in the table or has only one side, or the chip
                refuses a point.
        """
        from ascendsim.sweep.morris import screened

        if walks < 2:
            raise InputError("argument walks", "must be at least 2", walks)
        known = {probe.figure.name: probe for probe in self._ordered()}
        names = [*known][:8] if figures is None else list(dict.fromkeys(figures))
        if not names:
            raise InputError("argument figures", "must name at least one figure that was moved")
        check_seed(seed)
        for name in names:
            if name not in known or known[name].high.time_us is None or known[name].low.time_us is None:
                raise InputError(
                    f"argument figures: {name!r}", "was not moved to both sides", remedy="see table()"
                )
        return screened([known[name] for name in names], self.base.point, self._ask, walks, seed)

    @checked()
    def plot(self, count: int = 15, ax: Axes | None = None) -> TornadoDisplay:
        """Draws a bar a figure, from the time with less of it to the time with more, the longest on top.

        Args:
            count: Figures at most.
            ax: Axes to draw on; a new figure if None.

        Raises:
            InputError: If the count is below 1.
        """
        from ascendsim.plot.tornado import plot_tornado

        if count < 1:
            raise InputError("argument count", "must be at least 1", count)
        shown = [probe for probe in self._ordered()[:count] if probe.reach(self.duration_us)]
        moving = sum(probe.reach(self.duration_us) > 0 for probe in self.probes)
        point = self.base.point
        title = f"{point['model']} on {point['soc']}: {self.duration_us:,.1f} us"
        return plot_tornado(
            [(probe.figure.name, probe.figure.assumed, *probe.changes(self.duration_us)) for probe in shown],
            title,
            f"{moving} of {len(self.probes)} figures change the time" if self.probes else "nothing was moved",
            ax,
        )

    @checked()
    def report(self, path: str | PathLike[str] | None = None) -> Report:
        """One HTML page on the model as it is, where every figure of the chip says what it could change.

        Args:
            path: File to write, ends in .html; None = a notebook alone shall show it.

        Raises:
            InputError: As `Result.report`.
        """
        return simulated(self.base.point, self.base.source).report(path, sensitivity=self.table())

    @checked()
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV, written to a file as well if a path is given."""
        return self.table().to_csv(path)

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas data frame (needs the extra `ascendsim[dataframe]`)."""
        return self.table().to_dataframe()

    def __repr__(self) -> str:
        most = self._ordered()[:1]
        largest = (
            f", most by {most[0].figure.name}: {100 * most[0].reach(self.duration_us):.1f} %" if most else ""
        )
        return f"Sensitivity({self.duration_us:,.1f} us, {len(self.probes)} figures moved{largest})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
