"""What a sweep gives: a row a point, and what is asked of rows: tables, the best, fronts, pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import Cell, Table
from ascendsim.sweep.fronts import front
from ascendsim.sweep.space import Point, column_of, flat
from ascendsim.sweep.store import DONE, Answer
from ascendsim.sweep.work import FIGURES, NOTES, SHARES, Source, simulated

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ascendsim.api.result import Result
    from ascendsim.plot.pareto import LinesDisplay, ParetoDisplay
    from ascendsim.report import Report

ROW = "Row"
MORE_IS_BETTER = frozenset({"Samples/s", *SHARES})


@dataclass(frozen=True)
class SweepRow:
    """One point and what came of it.

    Attributes:
        point: What was asked.
        answer: What came of it.
        source: The model.
    """

    point: Point
    answer: Answer
    source: Source


@dataclass(frozen=True, repr=False)
class Sweep:
    """Points with their figures.

    Attributes:
        rows: In the order of the points.
        named: Axes that the user named.
        store: File that keeps the answers; None if nothing does.
        goals: Columns that `pareto` weighs if it is not told others.
        larger: Columns that are better the larger they are; all others the smaller.
    """

    rows: tuple[SweepRow, ...]
    named: tuple[str, ...]
    store: Path | None = None
    goals: tuple[str, ...] = ("Samples/s", "Memory(MiB)")
    larger: frozenset[str] = MORE_IS_BETTER

    def table(self) -> Table:
        """One row a point that was done: its number, the axes, and the columns of `Comparison.table()` that
        say something of one run: with the shares of Cube and DDR over the run, the rate on the Cube, and what
        the compiler has to say of the point.
        """
        done = [(number, row) for number, row in enumerate(self.rows) if row.answer.state == DONE]
        figures = list(dict.fromkeys(name for _, row in done for name in row.answer.figures)) or [*FIGURES]
        rows = [
            (number, *self._place(row), *(row.answer.figures.get(name) for name in figures))
            for number, row in done
        ]
        return Table("sweep", (ROW, *self._axes(), *figures), tuple(rows))

    def failed(self) -> Table:
        """One row a point that failed: its number, the axes, and why."""
        rows = [
            (number, *self._place(row), row.answer.error)
            for number, row in enumerate(self.rows)
            if row.answer.state != DONE
        ]
        return Table("failed", (ROW, *self._axes(), "Error"), tuple(rows))

    def _done(self) -> Table:
        """The table, if it has rows."""
        table = self.table()
        if not len(table):
            raise InputError("this sweep", "has no point that was done", remedy="failed() says why")
        return table

    def _axes(self) -> list[str]:
        return [column_of(name) for name in self._axis_names]

    @cached_property
    def _axis_names(self) -> tuple[str, ...]:
        """Axes that differ from row to row, and those that were named: found once, every row asks."""
        seen: dict[str, set[str]] = {}
        holders: Counter[str] = Counter()
        for row in self.rows:
            for name, value in flat(row.point).items():
                seen.setdefault(name, set()).add(repr(value))
                holders[name] += 1
        several = {name for name, values in seen.items() if len(values) > 1 or holders[name] < len(self.rows)}
        models = ["model"] if "model" in several else []
        return tuple([*models, *dict.fromkeys(("soc", *self.named, *sorted(several - {"model"})))])

    @cached_property
    def _differing(self) -> tuple[str, ...]:
        """The axes that have several values."""
        cells = {name: {repr(cell_of(name, row.point)) for row in self.rows} for name in self._axis_names}
        return tuple(name for name, values in cells.items() if len(values) > 1)

    def _place(self, row: SweepRow) -> tuple[Cell, ...]:
        return tuple(cell_of(name, row.point) for name in self._axis_names)

    @checked()
    def best(self, column: str) -> dict[str, Cell]:
        """The row with the best figure: the least, or the largest of what is better the larger it is
        (Samples/s, Cube(%), DDR(%), TFLOP/s).

        Raises:
            InputError: If there is no such column of numbers, or no point was done.
        """
        table = self._done()
        _check_numbers(table, column)
        return min(table.records(), key=lambda record: costs_of(record, [column], self.larger))

    @checked()
    def pareto(self, *columns: str) -> Table:
        """The rows that no other beats: none is better in one of the columns and as good in all others. Which
        way is better is as for `best`.

        Args:
            *columns: Of numbers; ("Samples/s", "Memory(MiB)") if none, or the goals of a search.

        Raises:
            InputError: If there is no such column of numbers.
        """
        asked = columns or self.goals
        table = self._done()
        _check_numbers(table, *asked)
        costs = [costs_of(record, asked, self.larger) for record in table.records()]
        kept = sorted(front(costs), key=lambda place: costs[place])
        return Table("pareto", table.columns, tuple(table.rows[place] for place in kept))

    @checked()
    def result(self, row: int) -> Result:
        """Simulates a point once more, in full: timeline, tables, pictures.

        Args:
            row: Its number, column "Row" of the tables.

        Raises:
            InputError: If there is no such row, or the model has changed since.
            AscendSimError: Why the point failed, if it did.
        """
        if not 0 <= row < len(self.rows):
            raise InputError("argument row", f"must be a row from 0 to {len(self.rows) - 1}", row)
        return simulated(self.rows[row].point, self.rows[row].source)

    @checked()
    def report(self, path: str | PathLike[str] | None = None, *, rows: Sequence[int] | None = None) -> Report:
        """One HTML page on some points, each simulated again in full; see `Result.report`.

        Args:
            path: File to write, ends in .html; None = a notebook alone shall show it.
            rows: Their numbers; by default the first that was done and that with the most samples a second.

        Raises:
            InputError: As `result` and `Result.report`.
        """
        from ascendsim.api.reporting import report
        from ascendsim.report import check_report

        if path is not None:
            check_report(path)
        if rows is None:
            fastest = self.best("Samples/s")[ROW]
            rows = list(dict.fromkeys([int(self.table()[0][0]), int(str(fastest))]))
        return report({self.name_of(row): self.result(row) for row in rows}, path)

    @checked()
    def name_of(self, row: int) -> str:
        """A row in words: its axes that differ from others'."""
        point = self.rows[row].point
        told = (f"{column_of(name)} {cell_of(name, point)}" for name in self._differing)
        return ", ".join(told) or str(point["soc"])

    @checked()
    def plot_pareto(self, x: str = "Time(us)", y: str = "Samples/s", ax: Axes | None = None) -> ParetoDisplay:
        """Draws a dot a point, and the line of those that no other beats.

        Args:
            x, y: Columns of numbers.
            ax: Axes to draw on; a new figure if None.

        Raises:
            InputError: If there is no such column.
        """
        from ascendsim.plot.pareto import plot_pareto

        table = self._done()
        _check_numbers(table, x, y)
        groups, *rest = map(column_of, self._axis_names)
        others = [name for name in rest if len(set(table.column(name))) > 1 and name not in (x, y)]
        best = set(self.pareto(x, y).column(ROW)) if x != y else set()
        larger = x in self.larger
        beside = others[0] if len(others) == 1 else ""  # two figures beside each point are no picture
        return plot_pareto(table, (x, y), groups, best, ax, beside=beside, larger_x=larger)

    @checked()
    def plot_lines(
        self, x: str, y: str = "Time(us)", by: str | None = None, ax: Axes | None = None
    ) -> LinesDisplay:
        """Draws a figure over an axis, a line for each value of another.

        Args:
            x: Column that runs along the horizontal axis.
            y: Column of numbers.
            by: Column whose values have a line each; all other axes should have one value. None = the axes
                that differ besides x, a line for each of their combinations.
            ax: Axes to draw on; a new figure if None.

        Raises:
            InputError: If there is no such column, or a line would have several figures at one place.
        """
        from ascendsim.plot.pareto import plot_lines

        table = self._done()
        _check_numbers(table, y)
        for name in (x, by):
            if name is not None:
                table.index(name)
        free = [name for name in self._axes() if name not in (x, by) and len(set(table.column(name))) > 1]
        if by is None and free:
            by, free = ", ".join(free), []
            if by not in table.columns:  # several: each combination is a line
                named = zip(*(table.column(name) for name in by.split(", ")), strict=True)
                cells = [", ".join(map(str, values)) for values in named]
                table = Table(
                    table.name,
                    (*table.columns, by),
                    tuple((*row, cell) for row, cell in zip(table.rows, cells, strict=True)),
                )
        places = [(record[x], record[by] if by else None) for record in table.records()]
        if len(set(places)) < len(places):
            raise InputError(
                "plot_lines",
                f"has several points at one place: {', '.join(free)} differ too",
                remedy="draw a part of the sweep, or leave by= out",
            )
        return plot_lines(table, x, y, by, ax)

    @checked()
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV, written to a file as well if a path is given."""
        return self.table().to_csv(path)

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas data frame (needs the extra `ascendsim[dataframe]`)."""
        return self.table().to_dataframe()

    @checked()
    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Writes the table as a Parquet file (needs pandas and pyarrow).

        Raises:
            InputError: If one of them is not installed, or the file cannot be written.
        """
        import io

        from ascendsim.core.files import check_place, write_whole

        check_place(path)
        buffer = io.BytesIO()
        try:
            self.to_dataframe().to_parquet(buffer, index=False)
        except ImportError:
            raise InputError(
                "to_parquet()",
                "needs pyarrow, which is not installed",
                remedy="install it with pip install pyarrow",
            ) from None
        return write_whole(path, buffer.getvalue())

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        done = sum(row.answer.state == DONE for row in self.rows)
        text = f"Sweep({done} of {len(self.rows)} points done"
        bad = next((row.answer.error for row in self.rows if row.answer.state != DONE), None)
        return f"{text}, the first that failed: {bad})" if bad else f"{text})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + (self.failed()._repr_html_() if len(self.failed()) else "")


def cell_of(name: str, point: Point) -> Cell:
    """What a point has on an axis, as tables show it."""
    from ascendsim.compiler.options import default_of
    from ascendsim.compiler.profile_options import profile_options

    known: Mapping[str, Any] = flat(point)
    if name in known:
        value = known[name]
    elif name.startswith("options."):
        value = profile_options(None, point.get("release", "cann"))[name.partition(".")[2]]
    elif name in ("batch", "shapes") or name.startswith("set."):
        value = None  # the model's own, the chip's own
    else:
        value = default_of(name)
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, (int, float, str)) or value is None else str(value)


def _check_numbers(table: Table, *columns: str) -> None:
    """Refuses columns that are not there, or have text."""
    named = [name for name in table.columns if name not in (ROW, NOTES)]
    for column in columns:
        if column not in named:
            raise InputError(f"column {column!r}", "is not in the sweep", remedy=suggest(column, named))
        if any(isinstance(cell, str) for cell in table.column(column)):
            raise InputError(f"column {column!r}", "has no numbers", remedy="choose a column of figures")


def costs_of(
    figures: Mapping[str, Any], columns: Sequence[str], larger: frozenset[str] = MORE_IS_BETTER
) -> list[float]:
    """Figures of a point, the smaller the better; infinite where there is none."""
    found = []
    for column in columns:
        value = figures[column]
        number = float("inf") if value is None else -float(value) if column in larger else float(value)
        found.append(number)
    return found
