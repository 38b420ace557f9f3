"""Reduction kernels against float64 NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim_kernels.reduce import Reduction, reduce
from tests.support.half import emulate, ulps

FUNCTIONS: dict[Reduction, Any] = {
    Reduction.SUM: np.sum,
    Reduction.MAX: np.max,
    Reduction.MIN: np.min,
    Reduction.SUM_ABS: lambda x, axis: np.sum(np.abs(x), axis=axis),
    Reduction.SUM_SQUARE: lambda x, axis: np.sum(x * x, axis=axis),
}


@pytest.mark.parametrize("op", Reduction, ids=lambda op: op.name)
@pytest.mark.parametrize("shape", [(5, 37, 1), (4, 3, 6), (1, 64, 9), (7, 1, 1), (2, 5, 1)])
def test_folds(op: Reduction, shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(2).standard_normal(shape)
    wanted = FUNCTIONS[op](x.astype(np.float32).astype(np.float64), axis=1)
    found = reduce(op, x.astype(np.float32), *shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    half = x.astype(np.float16)
    assert ulps(reduce(op, half, *shape), emulate(lambda v: FUNCTIONS[op](v, axis=1), half)).max() == 0


def test_scale_gives_the_mean_without_overflow_inside() -> None:
    x = np.full((2, 100_000), 60_000, np.float16)
    np.testing.assert_array_equal(
        reduce(Reduction.SUM, x, 2, 100_000, 1, 1e-5), np.full((2, 1), 60_000, np.float16)
    )


def test_nan_and_empty_groups() -> None:
    x = np.array([[1, np.nan, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9]], np.float32)
    np.testing.assert_array_equal(reduce(Reduction.MAX, x, 2, 9, 1).ravel(), [np.nan, 9])
    np.testing.assert_array_equal(reduce(Reduction.MIN, x, 1, 2, 9).ravel(), [1, np.nan, 3, 4, 5, 6, 7, 8, 9])
    empty = np.empty((2, 0), np.float32)
    assert reduce(Reduction.SUM, empty, 2, 0, 1).tolist() == [[0], [0]]
    assert reduce(Reduction.MAX, empty, 2, 0, 1).tolist() == [[-np.inf], [-np.inf]]
    assert reduce(Reduction.MIN, empty, 1, 0, 2).tolist() == [[np.inf, np.inf]]
