"""The lanes of a timeline as columns of whole numbers: starts from span to span, lengths, tasks, heights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.plot.lanes import Lane, host_lanes, instruction_lanes, share_lanes, stream_lanes
from ascendsim.profiling.lanes import sub_lanes
from ascendsim.profiling.select import Window, select
from ascendsim.profiling.view import ProfiledRun
from ascendsim.report.subject import Columns

STEPS_PER_US = 10_000  # spans are whole numbers of 0.1 ns: a cycle of the fastest clock is five of them
HEIGHTS = 255  # steps of a busy share


def span_columns(run: ProfiledRun, window: Window | None = None) -> list[Columns]:
    """All lanes of a run from the top, each of spans that do not overlap.

    Host, streams and pipes; where the run recorded instructions, those of the first core of each kind as
    well. A lane has `s` (start from the start before), `d` (length), `op` (place of the task in `run.tasks`,
    from the one before), for shares `h` (height of 255), for tasks `b` (length of launch and dispatch), for
    instructions `n` (place in `names`).

    Args:
        run: The run.
        window: Only what overlaps (start, end), in us; None = everything.
    """
    place = {view.id: index for index, view in enumerate(run.tasks)}
    views = select(run, window)
    records = run.trace.instructions
    if window is not None:
        start, end = window
        records = tuple(r for r in records if run.us(r.end) >= start and run.us(r.start) <= end)
    tasks = [*host_lanes(run, window), *stream_lanes(run, views), *share_lanes(run, views)]
    found = [columns for lane in tasks for columns in _rows(lane, place)]
    for lane in instruction_lanes(run, records):
        found += _rows(lane, place, named=True)
    return found


def _rows(lane: Lane, place: Mapping[int, int], named: bool = False) -> list[Columns]:
    """A lane as lanes without overlap."""
    starts, ends = _steps(lane.starts), _steps(lane.ends)
    pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
    rows = np.array(sub_lanes(pairs), dtype=np.int64)
    found = []
    for row in range(int(rows.max(initial=0)) + 1):
        members = np.flatnonzero(rows == row)
        members = members[np.lexsort((ends[members], starts[members]))]
        tasks = np.array([place[int(lane.tasks[i])] for i in members], dtype=np.int64)
        columns: dict[str, Any] = {
            "name": f"{lane.name} ({row + 1})" if row else lane.name,
            "s": _deltas(starts[members]),
            "d": (ends - starts)[members].tolist(),
            "op": _deltas(tasks),
        }
        if lane.shares:
            # what worked at all is seen
            heights = np.maximum(np.round(HEIGHTS * np.minimum(lane.heights[members], 1)), 1)
            columns["h"] = heights.astype(np.int64).tolist()
        elif lane.begun is not None:
            columns["b"] = (_steps(lane.begun) - starts)[members].tolist()
        if named:
            labels = [lane.labels[i] for i in members]
            numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
            columns["names"], columns["n"] = list(numbers), [numbers[label] for label in labels]
        found.append(columns)
    return found


def _steps(us: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.round(us * STEPS_PER_US).astype(np.int64)


def _deltas(values: NDArray[np.int64]) -> list[int]:
    deltas: list[int] = np.diff(values, prepend=0).tolist()
    return deltas
