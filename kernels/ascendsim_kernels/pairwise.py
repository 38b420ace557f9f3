"""Functions of two arrays that broadcast: an op-code interpreter for float16 bits; NumPy computes all other
types.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.element import kernel_view
from ascendsim_kernels.elementwise import BLOCK, in_two, narrow_block, scratch, widen_block
from ascendsim_kernels.half import half_to_float
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.math32 import ZERO


class Binary(IntEnum):
    """Functions of two numbers."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MAX = 4
    MIN = 5
    PRELU = 6  # x if x >= 0 else x y
    SUB_REVERSED = 7  # y - x
    DIV_REVERSED = 8  # y / x


_ADD, _SUB, _MUL, _DIV, _MAX, _MIN, _PRELU, _SUB_REVERSED, _DIV_REVERSED = (int(op) for op in Binary)


@kernel
def _binary32(op: Any, x: Any, y: Any, z: Any, n: Any) -> None:
    """z[i] = op(x[i], y[i]) for the first n elements of float32 vectors that do not overlap."""
    if op == _ADD:
        for i in range(n):
            z[i] = x[i] + y[i]
    elif op == _SUB:
        for i in range(n):
            z[i] = x[i] - y[i]
    elif op == _MUL:
        for i in range(n):
            z[i] = x[i] * y[i]
    elif op == _DIV:
        for i in range(n):
            z[i] = x[i] / y[i]
    elif op == _MAX:
        for i in range(n):
            v = x[i] if x[i] > y[i] else y[i]
            z[i] = x[i] if x[i] != x[i] else v
    elif op == _MIN:
        for i in range(n):
            v = x[i] if x[i] < y[i] else y[i]
            z[i] = x[i] if x[i] != x[i] else v
    elif op == _PRELU:
        for i in range(n):
            z[i] = x[i] * y[i] if x[i] < ZERO else x[i]
    elif op == _SUB_REVERSED:
        for i in range(n):
            z[i] = y[i] - x[i]
    else:
        for i in range(n):
            z[i] = y[i] / x[i]


@kernel
def binary16(
    op: Any, x: Any, y: Any, z: Any, period: Any, inner: Any, left: Any, right: Any, result: Any
) -> None:
    """z[i] = op(x[i], y[i // inner % period]) for vectors of float16 bits; the last three are scratch."""
    run = period if inner == 1 else inner  # elements over which y is one piece, or one value
    start = 0
    while start < x.size:
        count = min(BLOCK, run - start % run)
        widen_block(x, start, count, left)
        if inner == 1:
            widen_block(y, start % period, count, right)
        else:
            value = half_to_float(y[start // inner % period])
            for i in range(count):
                right[i] = value
        _binary32(op, left, right, result, count)
        narrow_block(result, count, z, start)
        start += count


_SWAPPED = {Binary.SUB: Binary.SUB_REVERSED, Binary.DIV: Binary.DIV_REVERSED}
_COMMUTATIVE = frozenset({Binary.ADD, Binary.MUL, Binary.MAX, Binary.MIN})
_NUMPY: dict[Binary, Callable[..., NDArray[Any]]] = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.DIV: np.divide,
    Binary.MAX: np.maximum,
    Binary.MIN: np.minimum,
}


def pattern(full: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, int] | None:
    """(period, inner) such that a broadcast operand is part[i // inner % period] of the flat result; None if
    it is not so regular.

    >>> pattern((2, 3, 4, 4), (3, 1, 1)), pattern((2, 5), (5,)), pattern((2, 3, 4), (2, 1, 4))
    ((3, 16), (5, 1), None)
    """
    padded = (1,) * (len(full) - len(part)) + part
    axes = [axis for axis, size in enumerate(padded) if size > 1]
    if not axes:
        return (1, int(np.prod(full, dtype=np.int64)))
    first, last = axes[0], axes[-1]
    if padded[first : last + 1] != full[first : last + 1]:
        return None
    return int(np.prod(padded, dtype=np.int64)), int(np.prod(full[last + 1 :], dtype=np.int64))


def binary(op: Binary, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Applies op to two arrays that broadcast; float16 is computed in float32 and rounded once, all else in
    its own type by NumPy.
    """
    if left.dtype != np.float16:
        if op is Binary.PRELU:
            return np.where(left < 0, left * right, left)
        return _NUMPY[op](left, right)
    shape = np.broadcast_shapes(left.shape, right.shape)
    if left.shape != shape and right.shape == shape and (op in _COMMUTATIVE or op in _SWAPPED):
        left, right, op = right, left, _SWAPPED.get(op, op)
    if left.shape != shape:
        left = np.broadcast_to(left, shape)
    regular = pattern(shape, right.shape)
    if regular is None:
        right = np.broadcast_to(right, shape)
        regular = (int(np.prod(shape, dtype=np.int64)), 1)
    period, inner = regular
    result = np.empty(shape, np.float16)
    x, y, z = (kernel_view(array, (array.size,)) for array in (left, right, result))
    equal = inner == 1 and period == x.size  # then any cut will do

    def run(start: int, stop: int) -> None:
        part, length = (y[start:stop], stop - start) if equal else (y, period)
        binary16(int(op), x[start:stop], part, z[start:stop], length, inner, scratch(), scratch(), scratch())

    in_two(run, x.size, BLOCK if equal else period * inner)
    return result
