"""An independent float16 device in NumPy: compute in float64, round once; and the distance between float16
numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def every_half() -> NDArray[np.float16]:
    """All 65536 float16 values, NaN and infinities included."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def emulate(function: Callable[..., Any], *arrays: Any) -> NDArray[np.float16]:
    """function of the arrays in float64, rounded once to float16."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.asarray(a, np.float64) for a in arrays))).astype(np.float16)


def _rank(values: NDArray[np.float16]) -> NDArray[np.int32]:
    """Position of each number in the order of all float16 numbers; both zeros are 0."""
    bits = values.view(np.uint16).astype(np.int32)
    return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)


def ulps(found: NDArray[np.float16], wanted: NDArray[np.float16]) -> NDArray[np.int32]:
    """Steps between float16 numbers; 0 for two NaN, huge for one."""
    assert found.dtype == wanted.dtype == np.float16
    assert found.shape == wanted.shape
    distance = np.abs(_rank(found) - _rank(wanted))
    nan = np.isnan(found), np.isnan(wanted)
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 1 << 20, distance))


def softmax_by_steps(x: NDArray[np.float16], axis: int, logarithm: bool) -> NDArray[np.float16]:
    """Maximum, subtract, exponential, sum, divide: each computed in float64 and rounded to float16."""
    shifted = (x.astype(np.float64) - x.max(axis=axis, keepdims=True)).astype(np.float16)
    powers = np.exp(shifted.astype(np.float64)).astype(np.float16)
    total = powers.astype(np.float64).sum(axis=axis, keepdims=True).astype(np.float16).astype(np.float64)
    if logarithm:
        return (shifted - np.log(total).astype(np.float16).astype(np.float64)).astype(np.float16)
    return (powers / total).astype(np.float16)
