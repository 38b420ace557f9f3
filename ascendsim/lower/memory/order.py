"""Which tasks have ended for sure when a task starts: order within streams and events between them, as vector
clocks.

The clock of a task holds, for every stream, how many of the stream's tasks happen before it (Mattern 1989,
Fidge 1988). Memory of a tensor may be given to another one only if all uses of the first happen before all
uses of the second, whatever the speed of the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.program import Task

Clocks = NDArray[np.int64]


class TaskOrder:
    """The order of tasks that streams and events guarantee.

    Args:
        streams: Stream of each task, in launch order, numbered from 0.
        waits: By task: numbers of earlier tasks that must have ended before it starts.

    Attributes:
        streams: Number of streams.
        stream: By task: its stream.
        position: By task: its place in its stream, from 0.
        before: By task and stream: how many tasks of the stream have ended when the task starts.
    """

    def __init__(self, streams: Sequence[int], waits: Sequence[Iterable[int]]) -> None:
        self.streams = max(streams, default=0) + 1
        self.stream = np.asarray(streams, np.int64)
        self.position = np.zeros(len(streams), np.int64)
        self.before: Clocks = np.zeros((len(streams), self.streams), np.int64)
        if self.streams == 1:
            self.position[:] = self.before[:, 0] = np.arange(len(streams))
            return
        clocks = [[0] * self.streams for _ in range(self.streams)]  # by stream: what its next task knows
        done: list[list[int]] = []  # by task: what those know that wait for it
        for task, (stream, awaited) in enumerate(zip(streams, waits, strict=True)):
            now = clocks[stream]
            for other in awaited:
                now = [max(pair) for pair in zip(now, done[other], strict=True)]
            self.before[task] = now
            self.position[task] = now[stream]
            after = list(now)
            after[stream] += 1
            done.append(after)
            clocks[stream] = after

    @classmethod
    def single(cls, tasks: int) -> TaskOrder:
        """One stream of so many tasks."""
        return cls([0] * tasks, [()] * tasks)

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> TaskOrder:
        """The order of a program's tasks, which are numbered in launch order."""
        number = {task.id: place for place, task in enumerate(tasks)}
        return cls(
            [task.stream for task in tasks], [[number[other] for other in task.waits_for] for task in tasks]
        )

    def __len__(self) -> int:
        return len(self.stream)

    def happens_before(self, one: int, other: int) -> bool:
        """Whether a task has ended for sure when another one starts."""
        return bool(self.before[other, self.stream[one]] > self.position[one])

    @cached_property
    def through(self) -> Clocks:
        """By task and stream: how many tasks of the stream have ended when the task has ended, itself
        included.
        """
        clocks = self.before.copy()
        clocks[np.arange(len(self)), self.stream] += 1
        return clocks
