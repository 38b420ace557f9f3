"""Bank conflicts of vector instructions against the published examples of the Ascend910B (16 groups)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.isa.banks import Blocks, Conflicts, conflicts, reads_conflict
from ascendsim.isa.cost_compute import vector_cost
from ascendsim.isa.instructions import Affine, Allocation, Buffer, Operand, Vector
from ascendsim.isa.listing import listing
from ascendsim.isa.program import Block
from tests.support.toy_machine import add as sum_of
from tests.support.toy_soc import toy


def add(first: int, second: int) -> tuple[Vector, dict[str, Allocation]]:
    places = {
        "x": Allocation("x", Buffer.UB, first, 16384),
        "y": Allocation("y", Buffer.UB, second, 16384),
        "z": Allocation("z", Buffer.UB, 0x20000, 16384),
    }
    x, y, z = (Operand(Buffer.UB, name, 16384) for name in places)
    return Vector("vadd", "float32", 4096, z, (x, y)), places


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        (0x0, 0x10100, False),  # eight groups apart: the two halves alternate
        (0x0, 0x4000, True),  # same bank
        (0x0, 0x10000, True),  # same group, another bank
        (0x0, 0x100E0, True),  # seven groups apart: one is shared
        (0x0, 0x10120, True),
    ],
)
def test_read_conflicts_are_decided_by_the_group(first: int, second: int, conflict: bool) -> None:
    vector, places = add(first, second)
    assert reads_conflict(vector, places, 16) is conflict


def test_a_source_that_is_read_twice_counts_once() -> None:
    vector, places = add(0, 0x4000)
    square = Vector("vmul", "float32", 4096, vector.dst, (vector.srcs[0], vector.srcs[0]))
    assert not reads_conflict(square, places, 16)


def test_slots_and_offsets_move_the_start() -> None:
    places = {"x": Allocation("x", Buffer.UB, 0, 256, 2)}
    first, second = (Operand(Buffer.UB, "x", 256, slot=Affine(number)) for number in range(2))
    assert not reads_conflict(Vector("vadd", "float32", 64, first, (first, second)), places, 16)
    shifted = Operand(Buffer.UB, "x", 256, offset=Affine(32), slot=Affine(1))
    assert reads_conflict(Vector("vadd", "float32", 64, first, (first, shifted)), places, 16)


@pytest.mark.parametrize(
    ("reads", "write", "turns"),
    [
        ([Blocks(0x10020)], Blocks(0x1FE00, 16), 7),  # all blocks of the result in one group: eight turns
        ([Blocks(0x10020)], Blocks(0x1FE00, 8), 3),  # every other one: four
        ([Blocks(0x10020, 16)], Blocks(0x1FE00), 7),
        ([Blocks(0x10020, 8)], Blocks(0x1FE00), 3),
        ([Blocks(0x10020, 0)], Blocks(0x1FE00), 0),  # one block for all lanes
        ([Blocks(0x10020, 16, 1)], Blocks(0x1FE00, 16, 1), 0),
        ([Blocks(0x10020), Blocks(0x20020)], None, 1),
        ([Blocks(0x10020), Blocks(0x20020), Blocks(0x4020)], None, 2),
        ([Blocks(0x10020), Blocks(0x10020)], None, 0),
        ([Blocks(0x10020), Blocks(0x10120)], None, 0),
    ],
)
def test_strides_that_come_back_to_a_group_take_turns(
    reads: list[Blocks], write: Blocks | None, turns: int
) -> None:
    assert conflicts(reads, write, 16).turns == turns


@pytest.mark.parametrize(
    ("read", "write", "conflict"),
    [
        (0x10020, 0x10E40, True),  # banks 17 to 24, and 18 to 25
        (0x10020, 0x10020, False),  # in place
        (0x10020, 0x10E20, False),  # both begin in bank 17
        (0x10020, 0x20040, False),  # the same groups, other banks of theirs
        (0x10020, 0x10120, False),  # the other half of the groups
        (0x0, 0xF20, True),  # banks 0 to 7, and 9 to 15 with 0 behind them
        (0x0, 0xFF20, False),  # 64 KiB end there: bank 16 is behind them
    ],
)
def test_reading_and_writing_meet_in_a_bank(read: int, write: int, conflict: bool) -> None:
    assert conflicts([Blocks(read)], Blocks(write), 16) == Conflicts(0, conflict)


def test_conflicts_cost_turns_of_every_repeat() -> None:
    soc = toy(vector={"minimum_cycles": 0, "bank_conflict_cycles": 1, "write_conflict_cycles": 0.5})
    plain = sum_of(10)
    cycles = [
        vector_cost(replace(plain, **more), soc, 1000).occupancy
        for more in ({}, {"bank_conflict": 1}, {"bank_conflict": 7}, {"write_conflict": True})
    ]
    assert cycles == [10, 20, 80, 15]


def test_listings_show_conflicts() -> None:
    text = listing(Block((replace(sum_of(1), bank_conflict=3, write_conflict=True),)))
    assert text.endswith("float16 bank conflict x 3 read-write conflict\n")


def test_operands_outside_ub_conflict_with_nothing() -> None:
    assert conflicts([], None, 16) == Conflicts(0, False)
    assert conflicts([], Blocks(0), 16) == conflicts([Blocks(0)], None, 16) == Conflicts(0, False)
