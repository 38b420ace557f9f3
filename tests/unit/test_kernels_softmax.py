"""Softmax kernels against float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from ascendsim_kernels.softmax import softmax
from tests.support.half import softmax_by_steps, ulps


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 7), -1), ((3, 129), 1), ((2, 5, 6), 1), ((2, 5, 6), 0), ((3, 1), 1)]
)
def test_values(shape: tuple[int, ...], axis: int, logarithm: bool) -> None:
    function = special.log_softmax if logarithm else special.softmax
    x = np.random.default_rng(3).standard_normal(shape) * 5
    found = softmax(x.astype(np.float32), axis, logarithm)
    np.testing.assert_allclose(
        found,
        function(x.astype(np.float32).astype(np.float64), axis=axis),
        rtol=2e-6,
        atol=2e-6 if logarithm else 0,
    )
    half = x.astype(np.float16)
    assert ulps(softmax(half, axis, logarithm), softmax_by_steps(half, axis, logarithm)).max() <= 1


def test_large_and_infinite_inputs() -> None:
    x = np.array([[1e30, 0, -1e30], [-np.inf, 0, 0], [np.nan, 0, 0]], np.float32)
    np.testing.assert_array_equal(
        softmax(x, 1), np.array([[1, 0, 0], [0, 0.5, 0.5], [np.nan] * 3], np.float32)
    )
    assert np.isnan(softmax(np.full((1, 20), -np.inf, np.float32), 1)).all()
    assert softmax(np.empty((0, 4), np.float16), 1).shape == (0, 4)
