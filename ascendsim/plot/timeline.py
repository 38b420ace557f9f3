"""The timeline of a run: what ran when, and how busy each pipe was.

Lanes from the top: launches of the host if it launches task by task, Ctrl CPU and DVPP if images are
prepared, streams, AI CPU, pipes. A task is a bar in its stream's lane, coloured by kind of operator; a
pipe's lane shows the share of its time that each task kept it busy, or single instructions where the run
recorded them. Bars narrower than a few pixels are added up, so that 5,000 tasks give a picture of
densities and five give one of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, Self

from ascendsim.core.arguments import checked, refuse_unknown
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import Table
from ascendsim.plot.drawing import LAUNCHED, LaneArtist, draw_legend
from ascendsim.plot.figures import Picture, lay_out
from ascendsim.plot.frame import (
    draw_frame,
    duration_text,
    lane_height,
    lane_tops,
    name_lanes,
    time_scale,
    time_unit,
    write_shares,
)
from ascendsim.plot.lanes import COLOURED, Lane, host_lanes, instruction_lanes, share_lanes, stream_lanes
from ascendsim.profiling.select import Window, check_window, select
from ascendsim.profiling.view import ProfiledRun, TaskView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THIN = 0.45  # height of the lane of a pipe that hardly worked: its name still fits
IDLE = 0.02  # busy share below which a pipe hardly worked ...
IDLE_BESIDE = 0.1  # ... if another one worked ten times as much

Level = Literal["auto", "task", "instruction"]


@dataclass(eq=False, repr=False)
class TimelineDisplay(Picture):
    """A timeline as numbers, and the picture of it.

    Attributes:
        lanes: From the top.
        window: Start and end in us.
        highlighted: Task ids that stand out; None = all.
        title: Line above the picture.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    lanes: tuple[Lane, ...]
    window: Window
    title: str
    highlighted: frozenset[int] | None = None

    @property
    def unit(self) -> str:
        """Unit of the time axis: "us", or "ms" for long windows."""
        return time_unit(self.window)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the timeline.

        Args:
            ax: Axes to draw on; a new figure, high enough for the lanes, if None.

        Returns:
            Itself, with `ax_` and `figure_` set.
        """
        tops = lane_tops(self.lanes)
        rows = float(tops[-1])
        own = ax is None
        ax = self._begin(ax, 13.0, 1.5 + 0.42 * rows)
        draw_frame(ax, self.window, rows, self.title)
        name_lanes(
            ax,
            self.lanes,
            [float(top) + lane_height(lane) / 2 for lane, top in zip(self.lanes, tops, strict=False)],
        )
        present = sorted({int(kind) for lane in self.lanes for kind in lane.kinds})
        pale = any(lane.begun is not None for lane in self.lanes)
        draw_legend(ax, [*(COLOURED[kind] for kind in present), *([LAUNCHED] if pale else [])])
        write_shares(ax, self.lanes, tops, self.window)
        if own:
            # settles the layout, so that pixel widths are those of the final picture
            lay_out(self.figure_)
        artist = LaneArtist(ax, self.window, time_scale(self.window), self.highlighted)
        for lane, top in zip(self.lanes, tops, strict=False):
            artist.draw(lane, float(top), lane_height(lane))
        return self

    def to_table(self) -> Table:
        """The slices behind the picture, one row each."""
        rows = tuple(
            (
                lane.name,
                lane.labels[i],
                int(lane.tasks[i]),
                COLOURED[lane.kinds[i]],
                float(lane.starts[i]),
                float(lane.ends[i]),
                float(lane.heights[i]),
            )
            for lane in self.lanes
            for i in range(len(lane))
        )
        return Table("timeline", ("Lane", "Label", "Task ID", "Kind", "Start(us)", "End(us)", "Share"), rows)


@checked()
def timeline(
    run: ProfiledRun,
    *,
    window: Window | None = None,
    operators: str | Iterable[str] | None = None,
    lanes: str | Iterable[str] | None = None,
    level: Level = "auto",
    cores: Sequence[int] | None = None,
    title: str | None = None,
) -> TimelineDisplay:
    """The timeline of a run as numbers; `.plot()` draws it.

    Args:
        run: The run.
        window: Show this part only, (start, end) in us.
        operators: Task names, node names or operator types (shell patterns allowed): zooms to them and fades
            everything else.
        lanes: Show these lanes only, by name or shell pattern ("Stream *").
        level: "task" shows the pipes' busy shares a task, "instruction" single instructions; "auto" takes
            instructions if the run recorded them for every AI Core task in the window.
        cores: Numbers of the cores whose instructions to show; the first of each kind if None.
        title: Line above the picture; says model, chip and time if None.

    Raises:
        InputError: If an argument is not usable or selects nothing.
    """
    chosen = None if operators is None else select(run, window, operators)
    if window is None:
        window = _window_of(run, run.tasks if chosen is None else chosen, zoomed=chosen is not None)
    window = check_window(window)
    views = select(run, window)
    found = [
        *host_lanes(run, window),
        *stream_lanes(run, views),
        *_pipe_lanes(run, views, chosen or views, window, level, cores),
    ]
    if lanes is not None:
        found = _choose(found, (lanes,) if isinstance(lanes, str) else tuple(lanes))
    if title is None:
        title = _title(run, window, views if chosen is None else [view for view in views if view in chosen])
    highlighted = None if chosen is None else frozenset(view.id for view in chosen)
    return TimelineDisplay(tuple(found), window, title, highlighted)


@checked()
def plot_timeline(run: ProfiledRun, ax: Axes | None = None, **options: Any) -> TimelineDisplay:
    """Draws the timeline of a run.

    Args:
        run: The run.
        ax: Axes to draw on; a new figure if None.
        **options: `window`, `operators`, `lanes`, `level`, `cores`, `title` as in `timeline`.

    Raises:
        InputError: As in `timeline`.
    """
    refuse_unknown(timeline, options)
    return timeline(run, **options).plot(ax)


def _window_of(run: ProfiledRun, views: Sequence[TaskView], zoomed: bool) -> Window:
    if not views:
        return (0.0, max(run.trace.duration_us, 1.0))
    if not zoomed:
        return (0.0, max(run.trace.duration_us, 1e-3))
    start = run.us(min(view.record.start for view in views))
    end = run.us(max(view.record.end for view in views))
    margin = 0.03 * max(end - start, 1e-3)
    return (max(start - margin, 0.0), end + margin)


def _pipe_lanes(
    run: ProfiledRun,
    views: Sequence[TaskView],
    wanted: Sequence[TaskView],
    window: Window,
    level: Level,
    cores: Sequence[int] | None,
) -> list[Lane]:
    """Lanes of instructions if every wanted AI Core task has them (or they are asked for), else of busy
    shares.
    """
    if level not in ("auto", "task", "instruction"):
        raise InputError("option level", 'must be "auto", "task" or "instruction"', repr(level))
    records = [
        r for r in run.trace.instructions if run.us(r.end) >= window[0] and run.us(r.start) <= window[1]
    ]
    recorded = {record.task for record in records}
    complete = bool(records) and all(view.id in recorded for view in wanted if view.on_ai_core)
    if level == "instruction" and not records:
        raise InputError(
            'level="instruction"',
            "needs instructions recorded in the window",
            remedy="simulate with instructions=True",
        )
    if level == "instruction" or (level == "auto" and complete):
        return instruction_lanes(run, records, cores)
    return _thin_where_idle(share_lanes(run, views), window)


def _thin_where_idle(lanes: Sequence[Lane], window: Window) -> list[Lane]:
    """Pipes that hardly worked take less of the picture's height."""
    busy = [lane.busy_share(window) for lane in lanes]
    most = max(busy, default=0.0)
    return [
        replace(lane, weight=THIN) if lane.shares and share < min(IDLE, most * IDLE_BESIDE) else lane
        for lane, share in zip(lanes, busy, strict=True)
    ]


def _choose(lanes: Sequence[Lane], wanted: Sequence[str]) -> list[Lane]:
    names = [lane.name for lane in lanes]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"lane {pattern!r}", "is not in this timeline", remedy=suggest(pattern, names))
    return [lane for lane in lanes if any(fnmatchcase(lane.name, pattern) for pattern in wanted)]


def _title(run: ProfiledRun, window: Window, views: Sequence[TaskView]) -> str:
    time = duration_text(run.trace.duration_us, window)
    every = f"{len(run.tasks):,} task" if len(run.tasks) == 1 else f"{len(run.tasks):,} tasks"
    tasks = every if len(views) == len(run.tasks) else f"{len(views):,} of {every}"
    return f"{run.graph.name} on {run.soc.name}: {time}, {tasks}"
