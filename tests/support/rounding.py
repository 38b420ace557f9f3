"""How far a float16 result may lie from the exact one: the device rule is float32 accumulation and one
rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

EPSILON32 = 2.0**-24  # half a unit in the last place of float32, relative


def assert_device_rounding(
    result: NDArray[Any], exact: NDArray[Any], magnitude: NDArray[Any] | float, terms: int
) -> None:
    """Asserts |result - round(exact)| <= 1 ulp of float16, plus what float32 accumulation may add where terms
    cancel.

    Args:
        result: float16 values.
        exact: The same sums in float64.
        magnitude: Sums of the absolute terms in float64.
        terms: Number of terms; a float32 sum in any order is off by at most terms * 2^-24 * magnitude.
    """
    assert result.dtype == np.float16
    rounded = exact.astype(np.float16)
    ulp = np.spacing(np.abs(rounded)).astype(np.float64)
    allowed = ulp + terms * EPSILON32 * np.asarray(magnitude)
    difference = np.abs(result.astype(np.float64) - rounded.astype(np.float64))
    worst = np.unravel_index(np.argmax(difference - allowed), difference.shape)
    assert (difference <= allowed).all(), f"at {worst}: {result[worst]} instead of {rounded[worst]}"
    assert (result == rounded).mean() > 0.98  # ties apart, the two agree bit by bit


def assert_near_oracle(result: NDArray[Any], oracle: NDArray[Any], part: float = 1e-5) -> None:
    """Asserts that the largest error is at most `part` of the oracle's range."""
    assert result.shape == oracle.shape
    assert result.dtype == oracle.dtype
    span = float(np.max(np.abs(oracle))) if oracle.size else 0.0
    assert np.max(np.abs(result.astype(np.float64) - oracle), initial=0.0) <= part * max(span, 1e-30)
