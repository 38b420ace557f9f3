"""Softmax and log-softmax of rows of float32 or float16.

The operator is a sequence of vector instructions (maximum, subtract, exponential, sum, divide), and each
rounds its result to the array's type, as the vector unit does; the sum is accumulated wide and rounded once,
in the order of `reduce`, so that float32 has the bits of the formula in basic operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.element import kernel_view, load, store
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.math32 import exp32

_LOWEST, _ZERO = np.float32(-np.inf), np.float64(0)
_LANES = 8


@kernel
def _softmax_rows(
    x: Any,
    y: Any,
    rows: Any,
    cols: Any,
    logarithm: Any,
    work: Any,
    powers: Any,
    lanes: Any,
    peaks: Any,
    in_order: Any,
    most: Any,
) -> None:
    whole = cols // _LANES * _LANES
    apart = 0 if in_order else whole  # elements that go to partial sums
    for row in range(rows):
        base = row * cols
        seen, target = x[base : base + cols], y[base : base + cols]
        for i in range(seen.size):
            work[i] = load(seen[i])
        peaks[:] = _LOWEST
        for start in range(0, whole, _LANES):
            for lane in range(_LANES):
                v = work[start + lane]
                # a NaN comes out of the sum below, whatever the peak
                peaks[lane] = v if v > peaks[lane] else peaks[lane]
        peak = _LOWEST
        for i in range(whole, cols):
            peak = work[i] if work[i] > peak else peak
        for lane in range(_LANES):
            peak = peaks[lane] if peaks[lane] > peak else peak
        for i in range(cols):
            work[i] = load(store(work[i] - peak, y[0]))
        for i in range(cols):
            powers[i] = load(store(exp32(work[i]), y[0]))
        lanes[:] = _ZERO
        for start in range(0, apart, _LANES):
            for lane in range(_LANES):
                lanes[lane] += np.float64(powers[start + lane])
        if in_order:
            for i in range(cols):
                lanes[0] += np.float64(powers[i])
        else:
            for i in range(whole, cols):
                lanes[i - whole] += np.float64(powers[i])
        total = lanes[0]
        for lane in range(1, _LANES):
            total += lanes[lane]
        divisor = load(store(most if total > most else total, y[0]))
        if logarithm:
            shift = load(store(np.log(np.float64(divisor)), y[0]))
            for i in range(cols):
                target[i] = store(work[i] - shift, y[0])
        else:
            for i in range(cols):
                target[i] = store(powers[i] / divisor, y[0])


def softmax(array: NDArray[Any], axis: int, logarithm: bool = False, most: float = np.inf) -> NDArray[Any]:
    """e^(x - max) / sum e^(x - max) along an axis, or its logarithm, in the array's type (float32 or
    float16); the sum is at most `most`, where it saturates.
    """
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    moved = np.moveaxis(array, axis, -1)
    cols = moved.shape[-1]
    result = np.empty(moved.shape, array.dtype)
    x, y = kernel_view(moved, (moved.size,)), kernel_view(result, (moved.size,))
    work, powers = np.empty((2, cols), np.float32)
    lanes, peaks = np.empty(_LANES, np.float64), np.empty(_LANES, np.float32)
    in_order = math.prod(array.shape[axis % array.ndim + 1 :]) > 1  # as `reduce` folds what is not contiguous
    rows = moved.size // cols
    _softmax_rows(x, y, rows, cols, logarithm, work, powers, lanes, peaks, in_order, np.float64(most))
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))
