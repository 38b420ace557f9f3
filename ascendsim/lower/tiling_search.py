"""Picks a tiling by time: the best few of the closed form run on the machine, and the quickest is taken.

The closed form (`templates.score`) knows rates and what overlaps; the machine also knows queues, flags and
what cores do to each other on shared links. Lowering does not know the machine: whoever compiles hands in a
`Timer`. What was found is remembered by the work itself, with tensors by number, so that equal work is timed
once however often it is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from ascendsim.core.errors import CompileError
from ascendsim.core.keys import key_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.opset.regions import refs_of, with_regions
from ascendsim.opset.work import CubePair, CubeWork, FinishedProduct, WorkChoice

Tiled: TypeAlias = CubeWork | CubePair | FinishedProduct  # work that has tilings
Made = TypeVar("Made")
Options: TypeAlias = Sequence[Callable[[], Stage]]
Ways: TypeAlias = Sequence[Callable[[], Sequence[Stage]]]  # one stage a task
TILING = "tiling"  # key in Node.origin of a loaded model: which of the options its task takes
MOST_KNOWN = 8192  # units of work that are remembered; those that came first are given up first


class Timer(Protocol):
    """What runs one task on the machine."""

    def __call__(self, stage: Stage, weights: Collection[str]) -> int:
        """Its time, in any unit that is the same for all stages of a chip; `weights` are regions that no task
        before it has touched.
        """
        ...


class Store(Protocol):
    """What keeps choices longer than a process lives."""

    def get(self, work: Hashable) -> int | None:
        """The choice for work; None if it is not known."""

    def put(self, work: Hashable, choice: int) -> None:
        """Keeps a choice."""


class Choices:
    """What is known of choices, by the work.

    Args:
        store: Knows those of other processes; None = each process finds them itself.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._known: dict[Hashable, int] = {}

    def get(self, key: Hashable, count: int, find: Callable[[], int]) -> int:
        """What is known of work, or found now; `count` choices it has."""
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            stored = self._store.get(key) if self._store is not None else None
            if stored is None or stored >= count:
                stored = find()
                if self._store is not None:
                    self._store.put(key, stored)
            self._known[key] = stored
        return self._known[key]


class TilingSearch:
    """Finds the quickest option for work of one chip.

    Args:
        timer: Of that chip.
        alone: Runs tasks one after the other with nothing before them; returns their time in any unit. Needed
            for ways.
        tilings: Known of single tasks, also by searches of other chips on which these run alike; None =
            nothing yet.
        ways: Known of ways.
    """

    def __init__(
        self,
        timer: Timer,
        alone: Callable[[Sequence[Stage]], int] | None = None,
        tilings: Choices | None = None,
        ways: Choices | None = None,
    ) -> None:
        self._timer, self._alone = timer, alone
        self.tilings, self._ways = tilings or Choices(), ways or Choices()

    def choose(self, work: Tiled, options: Options) -> int:
        """Index of the quickest option; of equals the first, which is the one that the closed form likes
        better.

        Options without a program (the operands of an epilogue do not fit beside the tile) are left out; if
        there are no others, it is 0.
        """
        if len(options) == 1:
            return 0
        return self.tilings.get(
            anonymous(work), len(options), lambda: self._quickest(options, weights_of(work))
        )

    def choose_way(self, work: WorkChoice, ways: Ways) -> int:
        """Index of the quickest way to do work, with nothing in L2 before; of equals the first. Ways without
        a program are left out.
        """
        alone = self._alone
        if alone is None:
            return 0
        return self._ways.get(anonymous(work), len(ways), lambda: quickest(ways, alone))

    def _quickest(self, options: Options, weights: Collection[str]) -> int:
        return quickest(options, lambda stage: self._timer(stage, weights))


def quickest(ways: Sequence[Callable[[], Made]], time: Callable[[Made], float]) -> int:
    """Index of the way with the least time; of equals the first. Ways without a program are left out; if
    there are no others, it is 0.
    """
    best, least = 0, math.inf
    for number, way in enumerate(ways):
        try:
            taken = time(way())
        except CompileError:
            continue
        if taken < least:
            best, least = number, taken
    return best


def weights_of(work: Tiled) -> tuple[str, ...]:
    """Regions of constants among the operands."""
    return tuple(dict.fromkeys(ref.region for ref in refs_of(work) if ref.constant))


def anonymous(work: Tiled | WorkChoice) -> Hashable:
    """All that decides how long work takes: its fields, with regions numbered in the order of their first
    use.
    """
    numbers: dict[str, str] = {}
    return key_of(with_regions(work, lambda name: numbers.setdefault(name, str(len(numbers)))))
