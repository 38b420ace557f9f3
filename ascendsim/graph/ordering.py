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
    left = set(given)
    order: list[Item] = []
    waiting: dict[int, int] = {}  # edges from items that have not run, for those that were passed over
    followers: dict[Item, list[int]] = {}
    for number, item in enumerate(given):
        if not left.isdisjoint(needs(item)):
            waiting[number] = 0
            for before in needs(item):
                if before in left:
                    waiting[number] += 1
                    followers.setdefault(before, []).append(number)
            continue
        # all before it have run or wait for something, so that who becomes ready now comes before who follows
        ready = [number]
        while ready:
            done = given[heapq.heappop(ready)]
            order.append(done)
            left.remove(done)
            for follower in followers.pop(done, ()):
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, follower)
    return order, [given[number] for number, count in waiting.items() if count]
