"""Execution order: each node after those that it needs, ties in the order in which they are given."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def can_run(order: Collection[Item], needs: Callable[[Item], Iterable[Item]]) -> bool:
    """Whether each item comes after those of the order that it needs.

    >>> can_run("ab", {"a": "", "b": "a"}.__getitem__), can_run("ba", {"a": "", "b": "a"}.__getitem__)
    (True, False)
    """
    waiting = set(order)
    for item in order:
        if not waiting.isdisjoint(needs(item)):
            return False
        waiting.remove(item)
    return True


def stable_order(
    items: Iterable[Item], needs: Callable[[Item], Iterable[Item]]
) -> tuple[list[Item], list[Item]]:
    """Items in an order in which they can run, of those that are ready always the first; and those on or
    behind a cycle.

    >>> stable_order("cab", {"a": "", "b": "a", "c": "b"}.__getitem__)
    (['a', 'b', 'c'], [])
    """
    given = list(items)
    number_of = {item: number for number, item in enumerate(given)}
    waiting = [0] * len(given)  # edges from items that have not run
    followers: list[list[int]] = [[] for _ in given]
    for number, item in enumerate(given):
        for before in needs(item):
            place = number_of.get(before)
            if place is not None:
                waiting[number] += 1
                followers[place].append(number)
    ready = [number for number, count in enumerate(waiting) if count == 0]  # rising, so it is a heap
    order: list[Item] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(given[number])
        for follower in followers[number]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, follower)
    return order, [item for item, count in zip(given, waiting, strict=True) if count > 0]
