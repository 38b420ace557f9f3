"""Work that can be done in several ways: which is the quickest, and the stages of the one that was taken.

A way is settled by one number, which a saved model keeps: the way, and for each product in it which of its
tilings it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ascendsim.core.errors import CompileError
from ascendsim.lower.accesses import task_of
from ascendsim.lower.task_cost import closed_form
from ascendsim.lower.templates.sequence import join_stages
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.tiling_search import TilingSearch, quickest
from ascendsim.opset.work import CubeWork, SequenceWork, Way, Work, WorkChoice
from ascendsim.soc.spec import SocSpec

TILINGS = 64  # a product has fewer that are worth a look


class Settling(Protocol):
    """What makes stages of plain work (`program.Lowering`)."""

    soc: SocSpec
    tilings: TilingSearch | None

    def settled(self, work: Work, option: int | None) -> list[Stage]:
        """The stages of work with a tiling that is settled, the first of which says which one."""
        ...


class WayPicker:
    """Picks ways for one chip.

    Args:
        lowering: Of that chip.
    """

    def __init__(self, lowering: Settling) -> None:
        self._lowering = lowering

    def pick(self, work: WorkChoice) -> int:
        """The number of the quickest way: on the machine, or by the closed form if nothing is timed."""
        ways = [partial(self._stages, way, None) for way in work.ways]
        search = self._lowering.tilings
        chosen = quickest(ways, self._closed_form) if search is None else search.choose_way(work, ways)
        code = 0
        for option in reversed(self._options(work.ways[chosen])):
            code = code * TILINGS + option
        return chosen + len(work.ways) * code

    def way(self, work: WorkChoice, number: int) -> tuple[Way, list[Stage]]:
        """The way that a number stands for, and its stages."""
        way = work.ways[number % len(work.ways)]
        code = number // len(work.ways)
        options: list[int] = []
        for _ in _products(way):
            options.append(code % TILINGS)
            code //= TILINGS
        if code:
            raise CompileError(
                "the tiling of a task", "must be one that it can have", number, "compile the model again"
            )
        return way, self._stages(way, options)

    def _stages(self, way: Way, options: Sequence[int] | None) -> list[Stage]:
        """The stages of a way whose products have the given tilings, or the quickest."""
        left = list(options or ())

        def part(work: Work) -> list[Stage]:
            return self._lowering.settled(work, left.pop(0) if left and isinstance(work, CubeWork) else None)

        if not isinstance(way, SequenceWork) or way.repeat > 1:
            return part(way)
        return join_stages([stage for item in way.parts for stage in part(item)], 1)

    def _options(self, way: Way) -> list[int]:
        """Which tiling each product of a way takes."""
        if self._lowering.tilings is None:
            return [0] * len(_products(way))
        return [max(0, self._lowering.settled(product, None)[0].option) for product in _products(way)]

    def _closed_form(self, stages: Sequence[Stage]) -> float:
        """Seconds of tasks one after the other, all that they touch in DRAM."""
        soc = self._lowering.soc
        return sum(closed_form(task_of(stage, 0, "way", soc), soc).far for stage in stages)


def _products(way: Way) -> list[CubeWork]:
    parts = way.parts if isinstance(way, SequenceWork) and way.repeat == 1 else (way,)
    return [part for part in parts if isinstance(part, CubeWork)]
