"""Whether pipes can race: the quick answer is that of the walk that names the race, whatever flags stay."""

from __future__ import annotations

from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.hazards import Walk, check_order, has_race
from ascendsim.isa.program import Block
from ascendsim.lower.needed_flags import shortened
from ascendsim.lower.program import Lowering
from ascendsim.soc import load
from tests.support.random_cubes import convolution, matmul

LIMITS = (5000, 40)


def said(walk: Walk, flags: dict[str, int], limit: int) -> bool:
    """Whether the walk names a race."""
    try:
        check_order(walk, flags, limit)
    except CompileError:
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_the_quick_answer_is_that_of_the_walk(seed: int) -> None:
    random, soc = Random(seed), load(("Ascend310P3", "Ascend910B1")[seed % 2])
    work = matmul(random, soc, 150) if seed % 2 else convolution(random, 20)
    found = set()
    for stage in Lowering(soc).drafts(work)[:1]:
        for group in stage.groups[:2]:
            block = group.block
            walk = Walk(Block(shortened(block), block.allocations, block.flags, block.core))
            flags = {flag.name: flag.initial for flag in block.flags}
            left_out = [
                (),
                *((name,) for name in flags),
                *(random.sample(sorted(flags), 2) for _ in range(4)),
            ]
            for names in left_out:
                kept = {name: initial for name, initial in flags.items() if name not in names}
                for limit in LIMITS:
                    found.add(expected := said(walk, kept, limit))
                    assert has_race(walk, kept, limit) == expected, (names, limit)
    assert found == {True, False}
