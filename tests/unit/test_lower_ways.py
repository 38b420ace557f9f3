"""Work that can be done in several ways: the number that stands for a way and its tilings, and which way is
the quickest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.tiling_search import TilingSearch
from ascendsim.lower.ways import TILINGS, WayPicker
from ascendsim.opset.work import CubeWork, SequenceWork, Step, Stream, VectorWork, Way, Work, WorkChoice
from ascendsim.soc import SocSpec, load
from tests.support.lowering import matmul, ref

SOC = load("Ascend310")


def vector(name: str, elements: int) -> VectorWork:
    x, y = Stream(ref(f"{name}_in", (elements,))), Stream(ref(f"{name}_out", (elements,)))
    return VectorWork(1, elements, (Step("vrelu"),), (x,), (y,))


def products(*sizes: int) -> list[CubeWork]:
    return [
        replace(matmul(size, 16, 16, SOC), out=ref(f"c{number}", (size, 16)))
        for number, size in enumerate(sizes, 16)
    ]


A, B, C = products(16, 32, 48)
PAIR = SequenceWork((A, vector("between", 100), B), 1)
CHOICE = WorkChoice((PAIR, C, vector("alone", 100), SequenceWork((A, B), 2)))


@dataclass
class Recorded:
    """Gives each product the tiling that it is told, or the quickest one of `best`."""

    soc: SocSpec
    tilings: TilingSearch | None
    best: dict[int, int]
    quickest: Way

    def settled(self, work: Work, option: int | None) -> list[Stage]:
        known = self.best.get(work.m, -1) if isinstance(work, CubeWork) else -1
        time = 1 if work in (self.quickest, *getattr(self.quickest, "parts", ())) else 9
        return [Stage((), option=known if option is None else option, sizes={"time": time})]


def picker(way: int, **best: int) -> WayPicker:
    def alone(stages: list[Stage]) -> int:
        return sum(stage.sizes["time"] for stage in stages)

    search = TilingSearch(lambda stage, weights: 0, alone)  # type: ignore[arg-type]
    sizes = {"a": A.m, "b": B.m, "c": C.m}
    chosen = {sizes[name]: option for name, option in best.items()}
    return WayPicker(Recorded(SOC, search, chosen, CHOICE.ways[way]))


def options(stages: list[Stage]) -> list[int]:
    return [stage.option for stage in stages if stage.option >= 0]


def test_a_number_gives_back_the_way_and_its_tilings() -> None:
    numbers = set()
    for a, b in product((0, 1, 5, TILINGS - 1), repeat=2):
        number = picker(0, a=a, b=b).pick(CHOICE)
        way, stages = picker(1).way(CHOICE, number)
        assert (way, options(stages)) == (PAIR, [a, b])
        numbers.add(number)
    for c in (0, 7, TILINGS - 1):
        number = picker(1, c=c).pick(CHOICE)
        way, stages = picker(0).way(CHOICE, number)
        assert (way, options(stages)) == (C, [c])
        numbers.add(number)
    assert len(numbers) == 19


def test_ways_without_tilings_have_none_in_their_number() -> None:
    """Vector work, and a sequence that repeats, whose products have the closed form's."""
    for place in (2, 3):
        number = picker(place).pick(CHOICE)
        assert number == place
        assert picker(0).way(CHOICE, number)[0] is CHOICE.ways[place]
        with pytest.raises(CompileError, match="the tiling of a task"):
            picker(0).way(CHOICE, place + len(CHOICE.ways))
    assert picker(1).pick(CHOICE) == 1  # a product without a choice of tilings


def test_a_number_of_too_many_tilings_is_refused() -> None:
    size = len(CHOICE.ways)
    assert options(picker(0).way(CHOICE, 1 + size * (TILINGS - 1))[1]) == [TILINGS - 1]
    with pytest.raises(CompileError, match="the tiling of a task"):
        picker(0).way(CHOICE, 1 + size * TILINGS)
    assert options(picker(0).way(CHOICE, size * (TILINGS**2 - 1))[1]) == [TILINGS - 1] * 2
    with pytest.raises(CompileError, match="the tiling of a task"):
        picker(0).way(CHOICE, size * TILINGS**2)


def test_without_a_machine_the_closed_form_tells_by_all_tasks_of_a_way() -> None:
    """Two pieces of three tenths are quicker than the whole, four are not."""
    lowering = Lowering(load("Ascend910B1"))

    def parts(count: int) -> SequenceWork:
        product = matmul(16, 16, 16, lowering.soc)
        works = [work for number in range(count) for work in (product, vector(f"v{number}", 3_000_000))]
        return SequenceWork(tuple(works), 1)

    whole = vector("whole", 10_000_000)
    assert WayPicker(lowering).pick(WorkChoice((whole, parts(2)))) == 1
    assert WayPicker(lowering).pick(WorkChoice((parts(4), whole))) == 1
    assert WayPicker(lowering).pick(WorkChoice((whole, parts(4)))) == 0
