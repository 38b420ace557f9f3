"""Bank conflicts of vector reads against the published examples of the Ascend910B (16 groups)."""

from __future__ import annotations

import pytest

from ascendsim.isa.banks import reads_conflict
from ascendsim.isa.instructions import Affine, Allocation, Buffer, Operand, Vector


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
