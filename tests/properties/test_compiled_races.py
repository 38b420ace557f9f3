"""Compiled code finds the races that the walk of `isa.hazards` finds, in random programs and in blocks of
products, whichever flags are left out and however far it looks."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.hazards import Walk, has_race
from ascendsim.isa.instructions import Allocation, Buffer
from ascendsim.isa.program import Block
from ascendsim.isa.walk import reads, static, writes
from ascendsim.lower import compiled_races
from ascendsim.lower.compiled_races import CompiledRaces
from ascendsim.lower.needed_flags import with_needed_flags
from ascendsim.lower.templates.cube import cube_options
from ascendsim.lower.templates.steps import Expansion
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul
from tests.support.random_programs import random_block

EVERYTHING = 1 << 30


def compare(block: Block, random: Random, turns: int) -> int:
    """Checks with some flags left out; how many of them found a race."""
    code, found = CompiledRaces(block), 0
    for _ in range(turns):
        left_out = random.sample(block.flags, random.choice((0, 1, 1, 2)) if len(block.flags) > 1 else 0)
        kept = {flag.name: flag.initial for flag in block.flags if flag not in left_out}
        limit = random.choice((3, 40, 300, 5000))
        walk = code.walk(code.trips, limit)
        assert walk is not None
        races = has_race(Walk(block), kept, limit)
        assert walk.has_race(kept, limit) is races, (left_out, limit)
        found += races
    return found


def with_places(block: Block, random: Random) -> Block:
    """The block with room for all that it has in buffers, some of it in the same bytes."""
    operands = {
        operand.name: operand.buffer
        for item, _ in static(block.body)
        for operand in (*reads(item), *writes(item))
        if operand.buffer is not Buffer.GM
    }
    places = [
        Allocation(name, buffer, random.choice((0, 64, 4096)), random.choice((32, 512)), random.randint(1, 3))
        for name, buffer in operands.items()
    ]
    return replace(block, allocations=tuple(places))


def test_races_of_random_programs() -> None:
    """Ragged tails, flags anywhere, nests of loops."""
    found = 0
    for seed in range(150):
        random = Random(seed)
        found += compare(with_places(random_block(random), random), random, 6)
    assert 100 < found < 800


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B4"])
def test_races_of_products(chip: str) -> None:
    """Rings of slots that turn with the loops, tiles that overlap, on coupled and on split cores."""
    soc = load(chip)
    works = [matmul(200, 320, 272, soc), convolution(64, 28, 96, 3, pad=1, images=2)]
    found = checked = 0
    for number, work in enumerate(works):
        for make in cube_options(work, soc, Expansion(soc))[:3]:
            try:
                stage = make()
            except CompileError:
                continue
            for group in (*stage.groups, *with_needed_flags(stage).groups):
                found += compare(group.block, Random(number), 8)
                checked += 8
    assert 0 < found < checked


def test_what_has_no_room_is_left_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_races, "MOST_RANGES", 1)
    soc = load("Ascend310")
    block = cube_options(matmul(200, 320, 272, soc), soc, Expansion(soc))[0]().groups[0].block
    code = CompiledRaces(block)
    assert code.walk(code.trips, EVERYTHING) is None
