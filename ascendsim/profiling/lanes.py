"""Putting intervals into lanes so that none overlaps another in the same lane."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def sub_lanes(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each interval: the lowest that is free at its start.

    Perfetto drops an event that partly overlaps another on its thread, so overlapping ones get threads of
    their own.

    Args:
        intervals: (start, end) in any order, start <= end.

    >>> sub_lanes([(0, 4), (2, 6), (4, 5), (7, 8)])
    [0, 1, 0, 0]
    """
    lanes = [0] * len(intervals)
    running: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    used = 0
    for index in sorted(range(len(intervals)), key=lambda i: (*intervals[i], i)):
        start, end = intervals[index]
        while running and running[0][0] <= start:
            heapq.heappush(free, heapq.heappop(running)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        lanes[index] = lane
        heapq.heappush(running, (end, lane))
    return lanes
