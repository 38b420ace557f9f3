"""Timelines of several runs under each other on one time axis.

Runs of a few tasks show what each task does: lanes for emit, read, compute and write (E, R, C, W), in which
the phases of a task that fusion removed are seen to be gone. Longer runs show streams and the busy shares of
the pipes that matter for fusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.plot.drawing import LAUNCHED, LIKELY, LaneArtist, draw_legend
from ascendsim.plot.figures import Picture, lay_out
from ascendsim.plot.frame import (
    draw_frame,
    duration_text,
    lane_height,
    lane_tops,
    name_lanes,
    time_scale,
    write_shares,
)
from ascendsim.plot.lanes import (
    COLOURED,
    Floats,
    Lane,
    host_lanes,
    phase_lanes,
    phases_recorded,
    share_lanes,
    stream_lanes,
)
from ascendsim.plot.palette import FAINT, INK, SURE
from ascendsim.profiling.comparison import VariantFigures, compare_figures
from ascendsim.profiling.interval import DurationInterval
from ascendsim.profiling.select import Window
from ascendsim.profiling.view import ProfiledRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lanes = Literal["auto", "phases", "pipes"]
PHASE_TASKS = 12  # runs of more tasks are shown by pipes
# first words of the lanes shown; MTE1 and Scalar follow the Cube
_PIPES = (
    "Cube",
    "Vector",
    "MTE2",
    "MTE3",
    "FixPipe",
)
_STREAM_WEIGHT = 2.2  # height of a stream's lane beside pipes, so that upright names of fused tasks fit
_HEADS = (0.85, 1.4)  # height of the line above the lanes of the first variant, and of the others
_BAR = 0.22  # height of the bar that says how sure an end is, below the lanes
_ROW_INCHES = (0.40, 0.24)  # height of a row in pictures of up to 12 rows and of 40 or more


@dataclass(frozen=True, eq=False)
class VariantLanes:
    """One variant in the picture.

    Attributes:
        name: Of the variant.
        facts: What stands behind the name: time, speed-up, tasks, traffic.
        lanes: From the top.
        end_us: When it was done.
        likely_us: From when to when a real chip is likely to be done; None = not asked for, or nothing
            like it was measured.
    """

    name: str
    facts: str
    lanes: tuple[Lane, ...]
    end_us: float
    likely_us: tuple[float, float] | None = None


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Picture):
    """Timelines of variants as numbers, and the picture of them.

    Attributes:
        variants: From the top.
        window: Start and end in us, the same for all.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    variants: tuple[VariantLanes, ...]
    window: Window
    title: str

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the timelines.

        Args:
            ax: Axes to draw on; a new figure, high enough for the lanes, if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        tops: list[Floats] = []
        rows = 0.0
        for variant in self.variants:
            tops.append(lane_tops(variant.lanes, rows + _HEADS[bool(tops)]))
            rows = float(tops[-1][-1])
        sure = any(variant.likely_us is not None for variant in self.variants)
        rows += 2 * _BAR * sure
        own = ax is None
        ax = self._begin(ax, 13.0, 1.2 + _row_inches(rows) * rows)
        draw_frame(ax, self.window, rows, self.title)
        placed = [
            (lane, float(top), variant)
            for variant, own_tops in zip(self.variants, tops, strict=True)
            for lane, top in zip(variant.lanes, own_tops, strict=False)
        ]
        name_lanes(
            ax, [lane for lane, _, _ in placed], [top + lane_height(lane) / 2 for lane, top, _ in placed]
        )
        present = sorted({int(kind) for lane, _, _ in placed for kind in lane.kinds})
        pale = any(lane.begun is not None for lane, _, _ in placed)
        draw_legend(ax, [*(COLOURED[kind] for kind in present), *[LAUNCHED] * pale, *[LIKELY] * sure])
        for variant, own_tops in zip(self.variants, tops, strict=True):
            write_shares(ax, variant.lanes, own_tops, (0.0, max(variant.end_us, 1e-3)))
        if own:
            # settles the layout, so that pixel widths are those of the final picture
            lay_out(self.figure_)
        artist = LaneArtist(ax, self.window, time_scale(self.window), None)
        for lane, top, variant in placed:
            artist.draw(lane, top, lane_height(lane), variant.end_us)
        for variant, own_tops in zip(self.variants, tops, strict=True):
            self._head(ax, variant, float(own_tops[0]))
            self._end(ax, variant, float(own_tops[0]), float(own_tops[-1]))
        return self

    def _head(self, ax: Axes, variant: VariantLanes, bottom: float) -> None:
        """The name of a variant in bold, its facts behind it."""
        across = ax.get_yaxis_transform()  # x from 0 to 1, y in rows
        style: dict[str, Any] = {"textcoords": "offset points", "va": "baseline"}
        name = ax.annotate(
            variant.name, (0, bottom), (0, 5), xycoords=across, fontsize=10, color=INK, weight="bold", **style
        )
        ax.annotate(
            variant.facts, (1, bottom), (10, 5), xycoords=(name, across), fontsize=9, color=FAINT, **style
        )

    def _end(self, ax: Axes, variant: VariantLanes, top: float, bottom: float) -> None:
        """A line where the variant was done, above a light bar where a real chip is likely to be."""
        scale = time_scale(self.window)
        if variant.likely_us is not None:
            low, high = (us * scale for us in variant.likely_us)
            edges = [bottom + _BAR / 2, bottom + _BAR * 3 / 2]
            ax.fill_betweenx(edges, low, high, color=SURE, lw=0, zorder=4)
        place = variant.end_us * scale
        ax.plot([place, place], [top, bottom], color=INK, lw=1.0, zorder=5, clip_on=False)


@checked()
def comparison_timelines(
    runs: Mapping[str, ProfiledRun],
    *,
    lanes: Lanes = "auto",
    window: Window | None = None,
    title: str | None = None,
    likely: Mapping[str, DurationInterval] | None = None,
) -> ComparisonDisplay:
    """Timelines of several runs as numbers; `.plot()` draws them.

    Args:
        runs: By name of the variant; the first is the one that the others are measured against.
        lanes: "phases" for emit, read, compute and write of each task (needs recorded instructions), "pipes"
            for the busy shares of pipes; "auto" takes phases if every run has them and at most `PHASE_TASKS`
            tasks.
        window: Show this part only, (start, end) in us; up to the end of the longest run if None.
        title: Line above the picture.
        likely: By name of the variant where a real chip is likely to be done: a light bar, where errors of
            measured runs say so.

    Raises:
        InputError: If the phases are asked for and a run has not recorded its instructions.
    """
    if lanes not in ("auto", "phases", "pipes"):
        raise InputError("option lanes", 'must be "auto", "phases" or "pipes"', repr(lanes))
    lacking = next((name for name, run in runs.items() if not phases_recorded(run)), None)
    if lanes == "phases" and lacking is not None:
        raise InputError(
            'lanes="phases"',
            f"needs the instructions of variant {lacking!r}",
            remedy="simulate with instructions=True",
        )
    few = all(len(run.tasks) <= PHASE_TASKS for run in runs.values())
    by_phase = lanes == "phases" or (lanes == "auto" and few and lacking is None)
    figures = compare_figures(runs, likely=likely)
    ends = [own.likely.high_us if own.likely and own.likely.measured else own.duration_us for own in figures]
    shown = window or (0.0, max(ends, default=0.0) or 1e-3)
    variants = tuple(
        VariantLanes(
            own.name,
            _facts(own, figures[0], shown),
            _lanes(run, by_phase),
            own.duration_us,
            (own.likely.low_us, own.likely.high_us) if own.likely and own.likely.measured else None,
        )
        for run, own in zip(runs.values(), figures, strict=True)
    )
    return ComparisonDisplay(variants, shown, title or _title(runs))


def _lanes(run: ProfiledRun, by_phase: bool) -> tuple[Lane, ...]:
    if by_phase:
        return (*host_lanes(run), *stream_lanes(run, run.tasks), *phase_lanes(run))
    streams = (
        replace(lane, weight=_STREAM_WEIGHT) if lane.name.startswith("Stream") else lane
        for lane in stream_lanes(run, run.tasks)
    )
    pipes = (lane for lane in share_lanes(run, run.tasks) if lane.name.split()[0] in _PIPES)
    return (*host_lanes(run), *streams, *pipes)


def _facts(figures: VariantFigures, first: VariantFigures, window: Window) -> str:
    change = duration_text(figures.duration_us - first.duration_us, window, "+")
    gain = f" ({change}, {figures.speed_up:.2f} x)" if figures is not first else ""
    tasks = f"{figures.tasks:,} tasks" if figures.tasks != 1 else "1 task"
    traffic = f"DDR {_megabytes(figures.ddr_read_bytes)} read, {_megabytes(figures.ddr_write_bytes)} written"
    parts = [f"{duration_text(figures.duration_us, window)}{gain}", tasks, traffic]
    if figures.l2_bytes:
        parts.append(f"L2 {_megabytes(figures.l2_bytes)}")
    return "    ".join(parts)


def _megabytes(count: int) -> str:
    if count < 1e5:
        return f"{count / 1e3:.1f} kB" if count else "0 MB"
    return f"{count / 1e6:,.1f} MB" if count >= 1e7 else f"{count / 1e6:.2f} MB"


def _row_inches(rows: float) -> float:
    """Height of a row: less in taller pictures."""
    most, least = _ROW_INCHES
    return most - (most - least) * min(max((rows - 12) / 28, 0.0), 1.0)


def _title(runs: Mapping[str, ProfiledRun]) -> str:
    models = list(dict.fromkeys(run.graph.name for run in runs.values()))
    chips = list(dict.fromkeys(run.soc.name for run in runs.values()))
    return f"{', '.join(models)} on {', '.join(chips)}"
