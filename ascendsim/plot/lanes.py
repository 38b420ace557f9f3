"""The numbers behind a timeline: lanes of slices, and how much of each pixel column they cover. No matplotlib
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendsim.profiling.kinds import CTRL_CPU, DVPP, KINDS, kind_of
from ascendsim.profiling.lanes import sub_lanes
from ascendsim.profiling.metrics import PIPE_NAMES, core_name, pipe_shares
from ascendsim.profiling.phases import launch_ticks
from ascendsim.profiling.view import ProfiledRun, TaskView
from ascendsim.trace.records import InstructionRecord

Floats = NDArray[np.float64]
COLOURED = (*KINDS, *PIPE_NAMES.values())  # what slices are coloured by: kinds of operators, or pipes
PHASES = ("E  emit", "R  read", "C  compute", "W  write")
_PHASE_PIPES = {"MTE2": 1, "M": 2, "V": 2, "MTE3": 3, "FIX": 3}  # index into PHASES
PIPE_ROLES = {"MTE1": "L1 to L0", "MTE2": "GM in", "MTE3": "UB out", "FIX": "L0C out"}


@dataclass(frozen=True, eq=False)
class Lane:
    """One lane of a timeline.

    Attributes:
        name: Label ("Stream 0", "MTE2 (GM in)", "Core 0 Cube").
        shares: Whether slices are shares of a pipe's time (drawn as heights, added where they overlap) or
            whole bars.
        starts, ends: Slices in us.
        heights: Share 0..1 of each slice; 1 for bars.
        kinds: Index into `COLOURED` of each slice: the kind of the task's operator, and in lanes of pipes the
            pipe where a task has none (kernels of the user's own).
        rows: Row in the lane of each slice (bars that overlap get rows of their own).
        tasks: Task id of each slice.
        labels: Text of each slice, "" for none.
        weight: Height of one row against that of other lanes.
        begun: End in us of each slice's first part, in which it was launched and dispatched and no core
            worked for it yet; None if slices have no such part.
    """

    name: str
    shares: bool
    starts: Floats
    ends: Floats
    heights: Floats
    kinds: NDArray[np.int64]
    rows: NDArray[np.int64]
    tasks: NDArray[np.int64]
    labels: tuple[str, ...]
    weight: float = 1.0
    begun: Floats | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def row_count(self) -> int:
        return int(self.rows.max()) + 1 if len(self) else 1

    def busy_share(self, window: tuple[float, float]) -> float:
        """Average height of the lane over a window in us, 0..1 (of its rows, for bars that overlap)."""
        edges = np.array(window)
        return float(coverage(self.starts, self.ends, self.heights, edges)[0]) / self.row_count


def coverage(starts: Floats, ends: Floats, heights: Floats, edges: Floats) -> Floats:
    """Average height of the slices in each bin, added where they overlap.

    The sum of height * overlap from the left up to x is W(s<x)*x - S(s<x) - (W(e<x)*x - S(e<x)), with W the
    sum of heights and S that of height * time over the starts (ends) before x; bins are differences of it.

    Args:
        starts: Starts of slices.
        ends: Ends of slices.
        heights: Heights of slices.
        edges: Ascending bin edges.

    Returns:
        One value a bin.
    """
    origin = edges[0]
    total = np.zeros(len(edges))
    for times, sign in ((starts, 1.0), (ends, -1.0)):
        order = np.argsort(times, kind="stable")
        ordered, weight = times[order] - origin, heights[order]
        before = np.searchsorted(ordered, edges - origin, side="left")
        weights = np.concatenate([[0.0], np.cumsum(weight)])[before]
        moments = np.concatenate([[0.0], np.cumsum(weight * ordered)])[before]
        total += sign * (weights * (edges - origin) - moments)
    return np.maximum(np.diff(total) / np.diff(edges), 0.0)


def host_lanes(run: ProfiledRun, window: tuple[float, float] | None = None) -> list[Lane]:
    """A lane of what the host launches, a slice a task; none if the device launches by itself.

    Args:
        run: The run.
        window: Only what overlaps (start, end), in us: the host may be far ahead of the tasks that run then.
    """
    views = [view for view in run.tasks if view.record.launch_end >= 0]
    if window is not None:
        start, end = window
        views = [
            view
            for view in views
            if run.us(view.record.launch_end) >= start and run.us(view.record.launch_start) <= end
        ]
    if not views:
        return []
    views.sort(key=lambda view: (view.record.launch_start, view.id))
    lane = _lane(
        run,
        "Host launches",
        views,
        [1.0] * len(views),
        rows=[0] * len(views),
        labels=[view.name for view in views],
        shares=False,
    )
    starts, ends = (
        [run.us(tick) for tick in ticks]
        for ticks in zip(*((v.record.launch_start, v.record.launch_end) for v in views), strict=True)
    )
    return [replace(lane, starts=np.array(starts), ends=np.array(ends))]


def stream_lanes(run: ProfiledRun, views: Sequence[TaskView]) -> list[Lane]:
    """A lane a stream with all its tasks, one for the AI CPU and one for collectives if there are any; above
    them the Ctrl CPU and DVPP, whose streams (threads and channels) are rows of one lane.
    """
    streams = sorted({view.record.stream for view in views if not view.for_images})
    lanes = [
        _bars(run, engine, tasks)
        for engine in (CTRL_CPU, DVPP)
        if (tasks := [view for view in views if view.for_images and kind_of(view) == engine])
    ]
    lanes += [
        _bars(run, f"Stream {stream}", [view for view in views if view.record.stream == stream], 1.5)
        for stream in streams
    ]
    on_cpu = [view for view in views if view.on_ai_cpu]
    lanes += [_bars(run, "AI CPU", on_cpu)] if on_cpu else []
    collectives = [view for view in views if view.is_communication]
    return [*lanes, _bars(run, "Communication", collectives)] if collectives else lanes


def share_lanes(run: ProfiledRun, views: Sequence[TaskView]) -> list[Lane]:
    """A lane a pipe that worked: for each task the pipe's busy share, over the task's duration and all units
    of the chip.
    """
    lanes = []
    shares = {view.id: pipe_shares(run, view) for view in views}
    for pipe, name in PIPE_NAMES.items():
        members = [view for view in views if pipe in shares[view.id]]
        if members:
            heights = [shares[view.id][pipe] for view in members]
            role = f"{name} ({PIPE_ROLES[pipe]})" if pipe in PIPE_ROLES else name
            blank = [""] * len(members)
            lane = _lane(run, role, members, heights, rows=[0] * len(members), labels=blank, shares=True)
            lanes.append(replace(lane, kinds=np.array([_colour(view, name) for view in members], np.int64)))
    return lanes


def _colour(view: TaskView, pipe: str) -> int:
    """What a slice in a pipe's lane is coloured by; without an operator all of a task's would be alike."""
    return COLOURED.index(kind_of(view) if view.kinds else pipe)


def instruction_lanes(
    run: ProfiledRun, records: Sequence[InstructionRecord], cores: Sequence[int] | None = None
) -> list[Lane]:
    """A lane a pipe of some cores (the first of each kind if None) with one slice an instruction."""
    views = {view.id: view for view in run.tasks}
    present = sorted({core for record in records for core in record.cores})
    if cores is None:
        vector = [core for core in present if core >= run.soc.ai_cores]
        cores = [*[core for core in present if core < run.soc.ai_cores][:1], *vector[:1]]
    lanes = []
    for core in [core for core in present if core in cores]:
        for pipe, name in PIPE_NAMES.items():
            members = sorted(
                (r for r in records if r.pipe == pipe and core in r.cores),
                key=lambda r: (r.start, r.end, r.task),
            )
            if not members:
                continue
            lanes.append(
                Lane(
                    f"{core_name(run.soc, core)} {name}",
                    False,
                    np.array([run.us(r.start) for r in members]),
                    np.array([run.us(r.end) for r in members]),
                    np.ones(len(members)),
                    np.array([_colour(views[r.task], name) for r in members], dtype=np.int64),
                    np.array(sub_lanes([(r.start, r.end) for r in members]), dtype=np.int64),
                    np.array([r.task for r in members], dtype=np.int64),
                    tuple(r.name for r in members),
                )
            )
    return lanes


def phase_lanes(run: ProfiledRun) -> list[Lane]:
    """Four lanes, one a phase: when each task was emitted, and when at least one core read, computed and
    wrote for it.

    Emit is the time from `ready` to work on the cores. The other three come from the instructions of MTE2, of
    Cube and Vector, and of MTE3 and FixPipe, joined where they touch; so the run must have recorded them
    (`phases_recorded`). A task of the AI CPU emits and computes.
    """
    slices: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (phase, task) -> ticks
    for record in run.trace.instructions:
        if record.pipe in _PHASE_PIPES and record.end > record.start:
            slices.setdefault((_PHASE_PIPES[record.pipe], record.task), []).append((record.start, record.end))
    for view in run.tasks:
        begun = view.record.start + launch_ticks(run, view)
        slices[0, view.id] = [(view.record.ready, begun)]
        if not view.on_ai_core:
            slices[2, view.id] = [(begun, view.record.end)]
    return [
        _phase_lane(
            run, phase, {task: joined(parts) for (own, task), parts in slices.items() if own == phase}
        )
        for phase in range(len(PHASES))
    ]


def phases_recorded(run: ProfiledRun) -> bool:
    """Whether the run recorded instructions of every task on the AI Cores, as `phase_lanes` needs them."""
    recorded = {record.task for record in run.trace.instructions}
    return all(view.id in recorded for view in run.tasks if view.on_ai_core)


def joined(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals as disjoint ones, in order.

    >>> joined([(0, 4), (9, 12), (3, 6), (6, 7)])
    [(0, 7), (9, 12)]
    """
    union: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def _phase_lane(run: ProfiledRun, phase: int, parts: Mapping[int, Sequence[tuple[int, int]]]) -> Lane:
    """Bars of one phase; the longest bar of a task carries its name."""
    views = [view for view in run.tasks if view.id in parts]
    bars = [(view, start, end) for view in views for start, end in parts[view.id]]
    longest = {view.id: max(parts[view.id], key=lambda part: part[1] - part[0]) for view in views}
    return Lane(
        PHASES[phase],
        False,
        np.array([run.us(start) for _, start, _ in bars]),
        np.array([run.us(end) for _, _, end in bars]),
        np.ones(len(bars)),
        np.array([KINDS.index(kind_of(view)) for view, _, _ in bars], dtype=np.int64),
        np.array(sub_lanes([(start, end) for _, start, end in bars]), dtype=np.int64),
        np.array([view.id for view, _, _ in bars], dtype=np.int64),
        tuple(view.name if longest[view.id] == (start, end) else "" for view, start, end in bars),
    )


def _bars(run: ProfiledRun, name: str, views: Sequence[TaskView], weight: float = 1.0) -> Lane:
    rows = sub_lanes([(view.record.start, view.record.end) for view in views])
    lane = _lane(
        run, name, views, [1.0] * len(views), rows=rows, labels=[view.name for view in views], shares=False
    )
    begun = [run.us(min(view.record.start + launch_ticks(run, view), view.record.end)) for view in views]
    return replace(lane, weight=weight, begun=np.array(begun, dtype=np.float64))


def _lane(
    run: ProfiledRun,
    name: str,
    views: Sequence[TaskView],
    heights: Sequence[float],
    *,
    rows: Sequence[int],
    labels: Sequence[str],
    shares: bool,
) -> Lane:
    return Lane(
        name,
        shares,
        np.array([run.us(view.record.start) for view in views]),
        np.array([run.us(view.record.end) for view in views]),
        np.array(heights, dtype=np.float64),
        np.array([KINDS.index(kind_of(view)) for view in views], dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.array([view.id for view in views], dtype=np.int64),
        tuple(labels),
    )
