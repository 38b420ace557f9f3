"""Integer products: exact at the ends of the ranges, at the count of terms that float32 still holds, and one
beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim_kernels.conv import integer_convolve
from ascendsim_kernels.gemm import exact_terms, integer_matmul
from ascendsim_kernels.windows import Window
from tests.support.gate import in_one


def full(*shape: int, value: int) -> Any:
    return np.full(shape, value, np.int32)


@pytest.mark.parametrize(
    ("left", "right", "terms"),
    [
        (-128, -128, 1024),
        (127, 127, 1040),
        (255, 255, 258),
        (-255, 128, 514),
        (1, 1, 1 << 24),
        (4096, 4096, 1),
        (5000, 5000, 1),
    ],
)
def test_terms_that_float32_sums_exactly(left: int, right: int, terms: int) -> None:
    assert exact_terms(np.array([left, 0]), np.array([0, right])) == terms
    assert exact_terms(np.array([0, -left]), np.array([right])) == terms


def test_zeros_and_nothing_have_no_limit() -> None:
    assert exact_terms(np.zeros(3, int), np.array([7])) == 1 << 24
    assert exact_terms(np.empty(0, int), np.array([7])) == 1 << 24


@in_one("inner", [0, 1, 257, 258, 259, 516, 517, 1023, 1025])
@in_one("shapes", [((3,), (2,)), ((2, 3), (4,)), ((), (2,)), ((3,), ())])
def test_products_are_exact_whatever_the_depth(
    inner: int, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    rows, columns = shapes
    generator = np.random.default_rng(inner)
    a = generator.choice([-255, 255, 254, 1], (*rows, inner)).astype(np.int32)
    b = generator.choice([-255, 255, 253, 1], (inner, *columns)).astype(np.int32)
    found = integer_matmul(a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


def test_sums_wrap_at_32_bits() -> None:
    a, b = full(1, 40_000, value=255), full(40_000, 1, value=255)
    assert integer_matmul(a, b)[0, 0] == np.int64(40_000 * 255 * 255).astype(np.int32)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("channels", [28, 29, 56, 57, 115])
def test_convolutions_are_exact_whatever_the_depth(groups: int, channels: int) -> None:
    """9 taps of 255 x 255: float32 holds 28 channels."""
    generator = np.random.default_rng(channels)
    image = generator.choice([-255, 255, 254], (2, channels * groups, 1, 4, 5)).astype(np.int32)
    weight = generator.choice([-255, 255, 253], (2 * groups, channels, 1, 3, 3)).astype(np.int32)
    window = Window((1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 0), (1, 4, 3))
    padded = np.pad(image.astype(np.int64), ((0, 0), (0, 0), (0, 0), (1, 1), (0, 0)))
    wanted = np.zeros((2, 2 * groups, 1, 4, 3), np.int64)
    for output in range(2 * groups):
        part = padded[:, output // 2 * channels : (output // 2 + 1) * channels, 0]
        for row in range(4):
            for column in range(3):
                wanted[:, output, 0, row, column] = (
                    part[:, :, row : row + 3, column : column + 3] * weight[output, :, 0]
                ).sum(axis=(1, 2, 3))
    np.testing.assert_array_equal(integer_convolve(image, weight, window, groups), wanted)
