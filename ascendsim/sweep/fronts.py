"""Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def front(costs: Sequence[Sequence[float]], margin: float = 0.0) -> list[int]:
    """Which of some points no other beats.

    A point beats another if it is better in one of the costs and as good in all others.

    Args:
        costs: A row a point, the smaller the better.
        margin: Share, below 1, by which a point must be better in every cost to beat another; 0 = any
            difference, in one of them, counts. With a margin a point stays that could be on the front if
            costs were off by so much.

    Returns:
        Places in `costs`, in order.

    >>> front([[1, 4], [2, 2], [3, 3], [4, 1]]), front([[1, 4], [2, 2], [2.05, 2.05]], margin=0.05)
    ([0, 1, 3], [0, 1, 2])
    """
    if not costs:
        return []
    if len(costs[0]) <= 2:
        return _flat_front(costs, margin)
    points = np.array(costs, dtype=float)
    front = np.empty_like(points)
    kept: list[int] = []
    for place in sorted(range(len(costs)), key=lambda place: list(costs[place])):
        # what beats a point stands before it in this order, and if that is beaten, then by what beats both
        if not _beaten(front[: len(kept)], points[place], margin):
            front[len(kept)] = points[place]
            kept.append(place)
    return sorted(kept)


def _flat_front(costs: Sequence[Sequence[float]], margin: float) -> list[int]:
    """The same for one cost or two, in one walk by the first of them: of all points whose first cost is low
    enough to beat a point, the one with the least second cost beats it if any does.
    """
    points = [(cost[0], cost[-1]) for cost in costs]
    order = sorted(range(len(points)), key=points.__getitem__)
    kept: list[int] = []
    least, passed = float("inf"), 0  # second costs of the points before `passed`
    for place in order:
        first, second = points[place]
        if margin:
            bounds = (_lowered(first, margin), _lowered(second, margin))
            while passed < len(order) and points[order[passed]][0] < bounds[0]:
                least, passed = min(least, points[order[passed]][1]), passed + 1
            beaten = least < bounds[1]
        else:
            while passed < len(order) and points[order[passed]] < points[place]:
                least, passed = min(least, points[order[passed]][1]), passed + 1
            beaten = passed > 0 and least <= second
        if not beaten:
            kept.append(place)
    return sorted(kept)


def _lowered(cost: float, margin: float) -> float:
    """What is better than a cost by a margin; any finite cost is better than an infinite one."""
    return cost - margin * abs(cost) if math.isfinite(cost) else cost


def _beaten(kept: Points, point: Points, margin: float) -> bool:
    """Whether one of some points beats another."""
    if margin:
        bound = np.array([_lowered(cost, margin) for cost in point])
        return bool((kept < bound).all(axis=1).any())
    return bool(((kept <= point).all(axis=1) & (kept != point).any(axis=1)).any())
