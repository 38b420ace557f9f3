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
    # those that wait for nothing are in order; the others come to a heap, which stays small
    first = [number for number, count in enumerate(waiting) if count == 0]
    first.append(len(given))
    ready: list[int] = []
    order: list[Item] = []
    at = 0
    while True:
        if ready and ready[0] < first[at]:
            number = heapq.heappop(ready)
        elif at + 1 < len(first):
            number = first[at]
            at += 1
        else:
            break
        order.append(given[number])
        for follower in followers[number]:
            left = waiting[follower] = waiting[follower] - 1
            if not left:
                heapq.heappush(ready, follower)
    return order, [item for item, count in zip(given, waiting, strict=True) if count > 0]
