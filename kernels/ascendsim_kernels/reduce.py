"""Reductions of float32 or float16 arrays over one axis of (outer, length, inner), accumulated in float64,
rounded once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.element import kernel_view, load, store
from ascendsim_kernels.jit import kernel


class Reduction(IntEnum):
    """What the elements of a group are folded into."""

    SUM = 0
    MAX = 1
    MIN = 2
    SUM_ABS = 3
    SUM_SQUARE = 4


_SUM, _MAX, _MIN, _SUM_ABS, _SUM_SQUARE = (int(op) for op in Reduction)
_LANES = 8  # independent partial sums of a contiguous row
_ZERO, _LOWEST, _HIGHEST = np.float64(0), np.float64(-np.inf), np.float64(np.inf)


@kernel
def _fold(op: Any, total: Any, x: Any, offset: Any, count: Any) -> None:
    """Folds x[offset : offset + count] into total[0 : count], element by element."""
    part = x[offset : offset + count]
    if op == _SUM:
        for i in range(count):
            total[i] += np.float64(load(part[i]))
    elif op == _MAX:
        for i in range(count):
            v = np.float64(load(part[i]))
            larger = v if v > total[i] else total[i]
            total[i] = v if v != v else larger
    elif op == _MIN:
        for i in range(count):
            v = np.float64(load(part[i]))
            smaller = v if v < total[i] else total[i]
            total[i] = v if v != v else smaller
    elif op == _SUM_ABS:
        for i in range(count):
            total[i] += abs(np.float64(load(part[i])))
    else:
        for i in range(count):
            v = load(part[i])
            total[i] += np.float64(np.float32(v * v))  # a product of the vector unit, rounded as it is


@kernel
def _fold_row(op: Any, total: Any, x: Any, offset: Any, count: Any) -> Any:
    """Folds a contiguous row, the lanes of `total` apart first and then together."""
    whole = count // _LANES * _LANES
    if op == _SUM:
        for start in range(0, whole, _LANES):
            for lane in range(_LANES):
                total[lane] += np.float64(load(x[offset + start + lane]))
    else:
        for start in range(0, whole, _LANES):
            _fold(op, total, x, offset + start, _LANES)
    _fold(op, total, x, offset + whole, count - whole)
    result = total[0]
    for lane in range(1, _LANES):
        v = total[lane]
        if op == _MAX:
            result = v if v > result or v != v else result
        elif op == _MIN:
            result = v if v < result or v != v else result
        else:
            result += v
    return result


@kernel
def _reduce(op: Any, x: Any, y: Any, outer: Any, length: Any, inner: Any, scale: Any, total: Any) -> None:
    start = _LOWEST if op == _MAX else (_HIGHEST if op == _MIN else _ZERO)
    for o in range(outer):
        total[:] = start
        if inner == 1:
            y[o] = store(_fold_row(op, total, x, o * length, length) * scale, y[o])
            continue
        for n in range(length):
            _fold(op, total, x, (o * length + n) * inner, inner)
        for i in range(inner):
            y[o * inner + i] = store(total[i] * scale, y[o])


def reduce(
    op: Reduction, array: NDArray[Any], outer: int, length: int, inner: int, scale: float = 1.0
) -> NDArray[Any]:
    """Folds axis 1 of an array seen as (outer, length, inner); result (outer, inner) = scale * fold, in the
    array's type.

    Args:
        op: The fold; sums start at 0, maximum at -inf, minimum at +inf.
        array: float32 or float16, any shape of outer * length * inner elements.
        outer: Groups before the axis.
        length: Elements of a group.
        inner: Elements behind the axis.
        scale: Factor of the result (1 / length gives the mean).
    """
    result = np.empty((outer, inner), array.dtype)
    x, y = kernel_view(array, (array.size,)), kernel_view(result, (result.size,))
    _reduce(int(op), x, y, outer, length, inner, np.float64(scale), np.empty(max(inner, _LANES), np.float64))
    return result
