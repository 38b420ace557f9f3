"""Pareto fronts."""

from __future__ import annotations

from collections.abc import Sequence


def front(costs: Sequence[Sequence[float]], margin: float = 0.0) -> list[int]:
    """Which of some points no other beats.

    A point beats another if it is better in one of the costs and as good in all others.

    Args:
        costs: A row a point, the smaller the better.
        margin: Share by which a point must be better in every cost to beat another; 0 = any difference, in
            one of them, counts. With a margin a point stays that could be on the front if costs were off by
            so much.

    Returns:
        Places in `costs`, in order.

    >>> front([[1, 4], [2, 2], [3, 3], [4, 1]]), front([[1, 4], [2, 2], [2.05, 2.05]], margin=0.05)
    ([0, 1, 3], [0, 1, 2])
    """
    kept: list[int] = []
    for place in sorted(range(len(costs)), key=lambda place: list(costs[place])):
        # what beats a point stands before it in this order, and if that is beaten, then by what beats both
        if not any(_beats(costs[other], costs[place], margin) for other in kept):
            kept.append(place)
    return sorted(kept)


def _beats(one: Sequence[float], other: Sequence[float], margin: float) -> bool:
    if margin:
        return all(mine < its - margin * abs(its) for mine, its in zip(one, other, strict=True))
    return list(one) != list(other) and all(mine <= its for mine, its in zip(one, other, strict=True))
