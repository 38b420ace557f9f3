"""Work that looks for places: who has which rows, what comes at a time, what the scalar unit reads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.isa.instructions import Move, Pipe, Scalar, Vector
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext, VectorWork
from ascendsim.soc import load
from tests.support.lowering import executed, moved, verify
from tests.support.single_node import make_node

SOC = load("Ascend910B1")
READ = SOC.issue.scalar_element_cycles


def asked(shape: tuple[int, ...], axis: int, dtype: type[np.generic], soc: str) -> VectorWork:
    node = make_node("ArgMax", [np.zeros(shape, dtype)], axis=axis, keepdims=0)
    lower = default_opset().get(node).lower
    assert lower is not None
    work = lower(node, LowerContext.of(load(soc)))
    assert isinstance(work, VectorWork)
    return work


def searched(shape: tuple[int, ...], axis: int, dtype: type[np.generic] = np.float32) -> Stage:
    work = asked(shape, axis, dtype, SOC.name)
    stage = lower_vector(work, SOC, Expansion(SOC))
    verify([stage], SOC)
    assert moved([stage])[work.inputs[0].ref.region, False] == math.prod(shape) * np.dtype(dtype).itemsize
    return stage


def cores(stage: Stage) -> int:
    return sum(group.count for group in stage.groups)


def scalar_cycles(stage: Stage) -> int:
    """Of all cores."""
    return sum(item.cycles * times for item, times in executed([stage]) if isinstance(item, Scalar))


@pytest.mark.parametrize(
    ("rows", "dtype", "wanted"),
    [
        (1, np.float32, 1),
        (7, np.float32, 1),
        (9, np.float32, 2),
        (384, np.float32, 48),
        (385, np.float32, 25),
        (15, np.float16, 1),
        (17, np.float16, 2),
        (769, np.float16, 25),
    ],
)
def test_a_core_has_a_block_of_places_and_fewer_rows_stay_on_one(
    rows: int, dtype: type[np.generic], wanted: int
) -> None:
    """8 indices beside float32 rows, 16 beside float16 ones."""
    assert cores(searched((rows, 640), -1, dtype)) == wanted


def test_masks_of_repeats_and_places_of_lanes_are_read() -> None:
    """8 rows of 640: 10 repeats and 64 lanes each."""
    assert scalar_cycles(searched((8, 640), -1)) == 8 * (10 + 64) * READ


def test_long_rows_come_in_pieces_and_the_next_one_meanwhile() -> None:
    """20,000 elements: two pieces of 8192 and what is left, each with its lanes; one buffer does for 8192."""
    long = searched((1, 20_000), -1)
    assert scalar_cycles(long) == (128 + 128 + 57 + 3 * 64) * READ
    brought = [item for item, _ in executed([long]) if isinstance(item, Move) and item.pipe is Pipe.MTE2]
    assert [item.bursts * item.burst_bytes for item in brought] == [32768, 32768, 14464]
    for stage, slots in ((long, 2), (searched((1, 8192), -1), 1)):
        assert {item.name: item.slots for item in stage.groups[0].block.allocations}["in0"] == slots


def test_half_precision_rows_leave_four_places_to_be_read() -> None:
    """24,576 elements come at a time, and vcmax gives a place with each value."""
    stage = searched((1, 60_000), -1, np.float16)
    assert scalar_cycles(stage) == 3 * 4 * READ
    assert {item.op for item, _ in executed([stage]) if isinstance(item, Vector)} == {"vcmax"}


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((363, 20, 373), 46),  # 8 of the outer axis each
        ((1, 20, 1021), 16),  # 64 columns each
        ((1, 20, 40), 1),
        ((2, 20, 8192), 43),  # 192 columns each
    ],
)
def test_other_axes_are_shared_by_what_lies_around_them(shape: tuple[int, ...], wanted: int) -> None:
    assert cores(searched(shape, 1)) == wanted


def test_rows_of_other_axes_wait_for_each_other() -> None:
    """500 rows of 128 columns on one core's share: a transfer a row, and a mask a repeat."""
    stage = searched((500, 96), 0)
    (group, rest) = stage.groups
    assert (group.count, rest.count) == (1, 1)  # 64 and 32 columns
    assert scalar_cycles(stage) == 2 * 500 * READ
    assert {item.name: item.slots for item in group.block.allocations}["in0"] == 1


def test_the_first_generation_folds_and_integers_are_compared_as_floats() -> None:
    assert asked((8, 640), -1, np.float16, "Ascend910A").search is None
    steps = asked((8, 640), -1, np.int8, SOC.name).steps
    assert [(step.op, step.dtype) for step in steps] == [
        ("vconv", DType.FLOAT32),
        ("vmax", DType.FLOAT32),
        ("vcmpv_eq", DType.FLOAT32),
    ]
