"""Events between streams: a task waits for tasks of other streams where nothing else makes sure that they
have ended.
"""

from __future__ import annotations

from collections.abc import Sequence


def needed_waits(streams: Sequence[int], needs: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The waits that are left when all that follow from others are gone.

    A wait follows from others if the awaited task happens before the end of the task before it in its stream,
    or before the end of another task that it waits for. Clocks as in `lower.memory.order`.

    Args:
        streams: Stream of each task, in launch order.
        needs: By task: earlier tasks that must have ended.

    Returns:
        By task: tasks of other streams to wait for, rising.

    >>> needed_waits([0, 1, 0, 0], [(), (0,), (), (0, 1, 2)])
    [(), (0,), (), (1,)]
    """
    count = max(streams, default=0) + 1
    # by stream: how many tasks of each have ended when its next task starts
    known = [[0] * count for _ in range(count)]
    places: list[int] = []
    after: list[list[int]] = []
    waits: list[tuple[int, ...]] = []
    for stream, needed in zip(streams, needs, strict=True):
        clock = list(known[stream])
        kept: list[int] = []
        for other in sorted(needed, reverse=True):  # what was launched later knows more
            if clock[streams[other]] > places[other]:
                continue
            kept.append(other)
            clock = [max(pair) for pair in zip(clock, after[other], strict=True)]
        waits.append(tuple(sorted(kept)))
        places.append(clock[stream])
        clock[stream] += 1
        after.append(clock)
        known[stream] = clock
    return waits
