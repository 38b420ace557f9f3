"""What an array holds, in one pass over it: its largest magnitude, and how much of it is zero or nearly so.

The magnitudes of IEEE numbers are ordered as their bits without the sign are; infinity comes after all
numbers and NaN after infinity. So integers are compared, which becomes vector code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.element import kernel_view
from ascendsim_kernels.jit import kernel

_NO_SIGN16, _NORMAL16 = np.int32(0x7FFF), np.int32(0x0400)
_NO_SIGN32, _ZERO = np.int32(0x7FFFFFFF), np.int32(0)
_PART = 1 << 30  # elements that the counters hold


@kernel
def _scan16(bits: Any, found: Any) -> None:
    """Finds the largest magnitude (bits), the zeros, and the zeros with numbers below the normal range."""
    for start in range(0, bits.size, _PART):
        part = bits[start : start + _PART]
        peak, zeros, small = _ZERO, _ZERO, _ZERO
        for i in range(part.size):
            magnitude = np.int32(np.int32(part[i]) & _NO_SIGN16)
            peak = max(peak, magnitude)
            zeros = np.int32(zeros + np.int32(magnitude == _ZERO))
            small = np.int32(small + np.int32(magnitude < _NORMAL16))
        found[0] = max(found[0], np.int64(peak))
        found[1] += np.int64(zeros)
        found[2] += np.int64(small)


@kernel
def _scan32(bits: Any, found: Any) -> None:
    """found[0] = largest magnitude (bits)."""
    peak = _ZERO
    for i in range(bits.size):
        magnitude = np.int32(bits[i] & _NO_SIGN32)
        peak = magnitude if magnitude > peak else peak
    found[0] = max(found[0], np.int64(peak))


def scan(array: NDArray[Any]) -> tuple[float, int, int]:
    """Largest magnitude of a float16 or float32 array, its zeros, and its numbers below float16's normal
    range other than zero (the last two for float16 only).

    >>> scan(np.array([1, -3, 0, 1e-6], np.float16))
    (3.0, 1, 1)
    """
    found = np.zeros(3, np.int64)
    flat = kernel_view(array, (array.size,))
    if array.dtype == np.float16:
        _scan16(flat, found)
        return float(found[:1].astype(np.uint16).view(np.float16)[0]), int(found[1]), int(found[2] - found[1])
    _scan32(flat.view(np.int32), found)
    return float(found[:1].astype(np.int32).view(np.float32)[0]), 0, 0
