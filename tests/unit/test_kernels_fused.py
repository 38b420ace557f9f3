"""The interpreter of elementwise programs against NumPy, one instruction at a time and in random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim_kernels.elementwise import BLOCK, Unary, unary
from ascendsim_kernels.fused import Compare, Instruction, Kind, run_program
from ascendsim_kernels.pairwise import Binary
from tests.support.gate import in_one
from tests.support.half import emulate

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 1e-40, 65519.0, 65520.0, 3.4e38], np.float32
)
SIZES = (1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def some(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def one(kind: Kind, op: int, *arrays: Any, dtype: Any = np.float32, a: float = 0.0, b: float = 0.0) -> Any:
    """The result of one instruction on arrays of one shape."""
    shape, count = arrays[0].shape, len(arrays)
    inputs = [(number, array, shape) for number, array in enumerate(arrays)]
    program = [Instruction(kind, op, count, tuple(range(count)), a, b)]
    return run_program(program, count + 1, inputs, [(count, np.dtype(dtype))], arrays[0].size)[0][0].reshape(
        shape
    )


PAIRS = tuple(array.reshape(-1) for array in np.meshgrid(SPECIAL, SPECIAL))
BINARY = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.DIV: np.divide,
    Binary.MAX: np.maximum,
    Binary.MIN: np.minimum,
    Binary.PRELU: lambda x, y: np.where(x < 0, x * y, x),
    Binary.SUB_REVERSED: lambda x, y: y - x,
    Binary.DIV_REVERSED: lambda x, y: y / x,
}
COMPARE = {
    Compare.EQUAL: np.equal,
    Compare.GREATER: np.greater,
    Compare.GREATER_EQUAL: np.greater_equal,
    Compare.LESS: np.less,
    Compare.LESS_EQUAL: np.less_equal,
}
LOGIC = {
    Compare.LOGICAL_AND: np.logical_and,
    Compare.LOGICAL_OR: np.logical_or,
    Compare.LOGICAL_XOR: np.logical_xor,
}


@pytest.mark.parametrize("op", Binary, ids=lambda op: op.name)
def test_binary_instructions(op: Binary) -> None:
    np.testing.assert_array_equal(one(Kind.BINARY, op, *PAIRS), BINARY[op](*PAIRS))


@pytest.mark.parametrize("op", Compare, ids=lambda op: op.name)
def test_comparisons_give_ones_and_zeros(op: Compare) -> None:
    if op in COMPARE:
        np.testing.assert_array_equal(one(Kind.COMPARE, op, *PAIRS), COMPARE[op](*PAIRS).astype(np.float32))
    else:
        truths = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
        np.testing.assert_array_equal(one(Kind.COMPARE, op, *truths, dtype=np.bool_), LOGIC[op](*truths))


@pytest.mark.parametrize("op", Unary, ids=lambda op: op.name)
def test_unary_instructions_are_those_of_the_single_kernels(op: Unary) -> None:
    curved = op in (Unary.EXP, Unary.SIGMOID, Unary.TANH, Unary.ERF, Unary.GELU, Unary.SWISH, Unary.GELU_TANH)
    kind = Kind.CURVED if curved else Kind.PLAIN
    for x in (SPECIAL, some(BLOCK + 3)):
        np.testing.assert_array_equal(one(kind, op, x, a=0.5, b=1.25), unary(op, x, 0.5, 1.25))


def test_choices_rounding_and_copies() -> None:
    x, y, z = SPECIAL, some(SPECIAL.size), some(SPECIAL.size, seed=1)
    np.testing.assert_array_equal(one(Kind.SELECT, 0, x, y, z), np.where(x != 0, y, z))
    np.testing.assert_array_equal(one(Kind.ROUND, 0, x), x.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(one(Kind.CUBE, 0, y), y * y * y)
    np.testing.assert_array_equal(one(Kind.TRUTH, 0, x), (x != 0).astype(np.float32))
    assert one(Kind.COPY, 0, x).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.bool_])
@pytest.mark.parametrize("size", SIZES)
def test_arrays_come_and_go_in_their_types(dtype: Any, size: int) -> None:
    x = some(size) > 0 if dtype is np.bool_ else some(size).astype(dtype)
    assert one(Kind.COPY, 0, x, dtype=dtype).tobytes() == x.tobytes()
    if dtype is not np.bool_:
        np.testing.assert_array_equal(one(Kind.COPY, 0, x, dtype=np.bool_), x != 0)


@in_one(
    "part",
    [
        (),
        (1,),
        (40,),
        (7, 1),
        (7, 40),
        (3, 7, 40),
        (3, 1, 1),
        (3, 7, 1),
        (1, 7, 1),
        (3, 1, 40),
        (1, 1, 40),
        (1500,),
        (6, 1),
    ],
)
@in_one("dtype", [np.float16, np.float32, np.bool_])
def test_operands_broadcast(part: tuple[int, ...], dtype: Any) -> None:
    full = (5, 1500) if part == (1500,) else (6, 1500) if part == (6, 1) else (3, 7, 40)
    x, y = some(*full), some(*part, seed=1).astype(dtype)
    program = [Instruction(Kind.BINARY, Binary.SUB, 2, (0, 1))]
    found = run_program(program, 3, [(0, x, full), (1, y, full)], [(2, np.dtype(np.float32))], x.size)[0][0]
    np.testing.assert_array_equal(found.reshape(full), x - y.astype(np.float32))


def test_a_program_of_many_steps_rounds_where_it_says() -> None:
    """Clip(x * y + 1) in float16 steps, two results, over an array that is cut in two."""
    size = (1 << 17) + 77
    x, y = (some(size, seed=number).astype(np.float16) for number in (1, 2))
    y[::1000] *= np.float16(1e-7)
    program = [
        Instruction(Kind.BINARY, Binary.MUL, 2, (0, 1)),
        Instruction(Kind.ROUND, 0, 3, (2,)),
        Instruction(Kind.PLAIN, Unary.LINEAR, 4, (3,), 1.0, 1.0),
        Instruction(Kind.ROUND, 0, 5, (4,)),
        Instruction(Kind.PLAIN, Unary.CLIP, 2, (5,), -0.5, 2.0),
        Instruction(Kind.COMPARE, Compare.GREATER, 3, (2, 0)),
    ]
    half, truth = np.dtype(np.float16), np.dtype(np.bool_)
    found, peaks, flushed = run_program(
        program, 6, [(0, x, (size,)), (1, y, (size,))], [(2, half), (3, truth), (5, half)], size
    )
    summed = emulate(lambda v: v + 1, emulate(np.multiply, x, y))
    np.testing.assert_array_equal(found[2], summed)
    exact = np.abs(x.astype(np.float32) * y.astype(np.float32)).max()
    assert peaks[1] == exact  # before it was rounded, in both halves
    assert peaks[3] == np.abs(emulate(np.multiply, x, y).astype(np.float32) + 1).max()
    assert not peaks[[0, 2, 4, 5]].any()
    assert flushed[1] == np.count_nonzero((x != 0) & (y != 0) & (emulate(np.multiply, x, y) == 0)) > 0
    np.testing.assert_array_equal(found[0], np.clip(summed, np.float16(-0.5), np.float16(2)))
    np.testing.assert_array_equal(found[1], found[0] > x)
    assert run_program(program, 6, [(0, x[:0], (0,)), (1, y[:0], (0,))], [(2, half)], 0)[0][0].size == 0
