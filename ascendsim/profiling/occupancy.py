"""What the time of a task goes into, on the core that ends last: each moment belongs to one part, so that the
parts add up to the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ascendsim.profiling.phases import launch_ticks
from ascendsim.profiling.view import ProfiledRun, TaskView


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Parts of a task's time, in ticks.

    Attributes:
        launch: From the start of the task to work on its cores.
        alone: While one pipe alone was busy, by pipe.
        several: While several pipes were busy at once.
        waiting: While none was.
    """

    launch: int
    alone: Mapping[str, int]
    several: int
    waiting: int


def occupancy(run: ProfiledRun, view: TaskView) -> Occupancy:
    """Where a task's time goes.

    Args:
        run: With recorded instructions.
        view: The task.
    """
    record = view.record
    begin = min(record.start + launch_ticks(run, view), record.end)
    own = [one for one in run.trace.instructions if one.task == record.task]
    last: dict[int, int] = {}
    for one in own:
        for core in one.cores:
            last[core] = max(last.get(core, 0), one.end)
    latest = max(last, key=lambda core: (last[core], -core), default=-1)
    spans = ((one.pipe, max(one.start, begin), one.end) for one in own if latest in one.cores)
    alone, several = _shared(spans)
    busy = sum(alone.values()) + several
    return Occupancy(begin - record.start, alone, several, record.end - begin - busy)


def _shared(spans: Iterable[tuple[str, int, int]]) -> tuple[dict[str, int], int]:
    """Ticks in which one pipe alone is busy, by pipe, and in which several are."""
    moments = sorted(
        moment for pipe, start, end in spans if start < end for moment in ((start, 1, pipe), (end, -1, pipe))
    )
    alone: Counter[str] = Counter()
    several, before = 0, 0
    open_: Counter[str] = Counter()
    for at, step, pipe in moments:
        if len(open_) == 1:
            alone[next(iter(open_))] += at - before
        elif open_:
            several += at - before
        open_[pipe] += step
        if not open_[pipe]:
            del open_[pipe]
        before = at
    return dict(alone), several
