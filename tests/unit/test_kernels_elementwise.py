"""Elementwise kernels: accuracy over all of float16, special values, broadcasting, threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from ascendsim_kernels.elementwise import Unary, unary
from ascendsim_kernels.pairwise import Binary, binary, pattern
from tests.support.gate import in_one
from tests.support.half import emulate, every_half, ulps

FUNCTIONS = {
    Unary.LINEAR: lambda x: 1.5 * x - 0.25,
    Unary.CLIP: lambda x: np.minimum(np.maximum(x, 1.5), 3.25),
    Unary.LEAKY: lambda x: np.where(x < 0, 1.5 * x, x),
    Unary.ABS: np.abs,
    Unary.SQRT: np.sqrt,
    Unary.RECIPROCAL: np.reciprocal,
    Unary.EXP: np.exp,
    Unary.SIGMOID: special.expit,
    Unary.TANH: np.tanh,
    Unary.ERF: special.erf,
    Unary.GELU: lambda x: x * special.ndtr(x),
    Unary.SWISH: lambda x: x * special.expit(1.5 * x),
    Unary.GELU_TANH: lambda x: x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    Unary.HARD_SIGMOID: lambda x: np.clip(1.5 * x - 0.25, 0, 1),
    Unary.HARD_SWISH: lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    Unary.SQUARE: np.square,
}
PARAMETERS = {Unary.CLIP: (1.5, 3.25)}


@pytest.mark.parametrize("op", Unary, ids=lambda op: op.name)
def test_unary_is_within_one_ulp_for_every_float16(op: Unary) -> None:
    x = every_half()
    wanted = emulate(FUNCTIONS[op], x)
    found = unary(op, x, *PARAMETERS.get(op, (1.5, -0.25)))
    # one is added to erf or tanh near -1, as in the formula of basic operators: last bits of small results
    assert ulps(found, wanted).max() <= (2 if op in (Unary.GELU, Unary.GELU_TANH) else 1)
    exact = {Unary.CLIP, Unary.ABS, Unary.SQRT, Unary.SQUARE, Unary.RECIPROCAL}
    if op in exact:
        assert ulps(found, wanted).max() == 0


@pytest.mark.parametrize("op", Unary, ids=lambda op: op.name)
def test_unary_float32_is_accurate(op: Unary) -> None:
    x = np.concatenate(
        [np.linspace(-20, 20, 40001), np.logspace(-30, 1.2, 1001), -np.logspace(-30, 0.5, 1001)]
    ).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[op](x.astype(np.float64))
    cancels = (Unary.LINEAR, Unary.HARD_SIGMOID, Unary.HARD_SWISH, Unary.SWISH, Unary.GELU, Unary.GELU_TANH)
    scale = np.abs(wanted) + (0.2 if op in cancels else 0)
    found = unary(op, x, *PARAMETERS.get(op, (1.5, -0.25)))
    normal = (np.abs(wanted) < 2e38) & (np.abs(wanted) > 2e-38)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert (np.abs(found[normal] - wanted[normal]) <= 1e-6 * scale[normal]).all()
    np.testing.assert_array_equal(found[wanted == 0], 0)


def test_float32_limits_of_exp_and_what_builds_on_it() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 88.7, 88.8, -103.0, -110.0, 1e38, -1e38, 0.0, -0.0], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            unary(Unary.EXP, x), np.exp(x.astype(np.float64)).astype(np.float32), rtol=1e-6, atol=1e-44
        )
    np.testing.assert_array_equal(unary(Unary.SIGMOID, x)[:3], np.array([1, 0, np.nan], np.float32))
    np.testing.assert_array_equal(unary(Unary.TANH, x)[:3], np.array([1, -1, np.nan], np.float32))
    np.testing.assert_array_equal(unary(Unary.ERF, x)[:3], np.array([1, -1, np.nan], np.float32))
    signs = np.signbit(unary(Unary.LINEAR, x[-2:], -1, -0.0)), np.signbit(unary(Unary.TANH, x[-2:]))
    np.testing.assert_array_equal(signs, [[True, False], [False, True]])


def test_relu_keeps_nan_and_has_no_negative_zero() -> None:
    x = np.array([np.nan, -0.0, -1, np.inf, -np.inf, 65504], np.float16)
    found = unary(Unary.CLIP, x, 0, np.inf)
    np.testing.assert_array_equal(found, np.array([np.nan, 0, 0, np.inf, 0, 65504], np.float16))
    assert not np.signbit(found[1])


@in_one("op", [Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV, Binary.MAX, Binary.MIN])
@in_one(
    "left, right",
    [
        ((3, 5, 7), (3, 5, 7)),
        ((3, 5, 7), (5, 1)),
        ((3, 5, 7), (7,)),
        ((3, 5, 7), (3, 1, 7)),
        ((3, 5, 7), ()),
        ((1,), (4, 6)),
        ((5, 1), (1, 6)),
        ((0, 3), (3,)),
    ],
)
def test_binary_rounds_once_and_broadcasts(op: Binary, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    generator = np.random.default_rng(int(op))
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in (left, right))
    functions = {
        Binary.ADD: np.add,
        Binary.SUB: np.subtract,
        Binary.MUL: np.multiply,
        Binary.DIV: np.divide,
        Binary.MAX: np.maximum,
    }
    wanted = emulate(functions.get(op, np.minimum), a, b)
    found = binary(op, a, b)
    assert found.shape == wanted.shape
    assert (
        ulps(found, wanted).max(initial=0) == 0
        if op is not Binary.DIV
        else ulps(found, wanted).max(initial=0) <= 1
    )


def test_binary_special_values_follow_numpy() -> None:
    special_values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65504, 6e-8, 1], np.float16)
    a, b = np.meshgrid(special_values, special_values)
    for op, function in (
        (Binary.ADD, np.add),
        (Binary.DIV, np.divide),
        (Binary.MAX, np.maximum),
        (Binary.MIN, np.minimum),
    ):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(binary(op, a, b), function(a, b))


def test_prelu_takes_the_slope_of_its_channel() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float16)
    slope = np.array([[0.5], [2], [0]], np.float16)
    np.testing.assert_array_equal(
        binary(Binary.PRELU, x, slope), emulate(lambda v, s: np.where(v < 0, v * s, v), x, slope)
    )


def test_long_arrays_are_split_without_a_seam() -> None:
    x = np.random.default_rng(1).standard_normal((3, 70_001)).astype(np.float16)
    row = x[:1]
    np.testing.assert_array_equal(unary(Unary.SQUARE, x), emulate(np.square, x))
    np.testing.assert_array_equal(binary(Binary.ADD, x, row), emulate(np.add, x, row))
    np.testing.assert_array_equal(binary(Binary.MUL, x, x[:, :1]), emulate(np.multiply, x, x[:, :1]))


def test_read_only_and_strided_inputs_give_the_same() -> None:
    x = np.arange(24, dtype=np.float16).reshape(4, 6)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(unary(Unary.SQRT, frozen), unary(Unary.SQRT, x))
    np.testing.assert_array_equal(unary(Unary.SQRT, x.T), unary(Unary.SQRT, x).T)
    assert unary(Unary.SQRT, np.array(4, np.float16)).shape == ()


@pytest.mark.parametrize(
    ("full", "part", "wanted"),
    [
        ((2, 3, 4), (3, 1), (3, 4)),
        ((2, 3, 4), (2, 3, 1), (6, 4)),
        ((2, 3, 4), (2, 1, 4), None),
        ((2, 3), (), (1, 6)),
        ((2, 3, 4), (2, 3, 4), (24, 1)),
    ],
)
def test_pattern_of_a_broadcast(
    full: tuple[int, ...], part: tuple[int, ...], wanted: tuple[int, int] | None
) -> None:
    assert pattern(full, part) == wanted


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_two_operands_without_elements(dtype):
    """An empty operand that broadcasts against one element has no period."""
    result = binary(Binary.MUL, np.empty((0,), dtype), np.ones((1,), dtype))
    assert result.shape == (0,)
    assert result.dtype == dtype
