"""Elementwise kernels: op-code interpreters for functions of one array and of two, for float32 and for float16 bits.

A float16 call widens a block to float32, applies the operation and rounds once, all in the L1 cache. Few kernels with a
switch on the op-code, instead of one for each operator, keep the time of the first compilation short.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.half import float_to_half, half_to_float
from ascendsim_kernels.jit import inlined, kernel
from ascendsim_kernels.math32 import HALF, ONE, TWO, ZERO, erf32, exp32, gelu32, sigmoid32, tanh32


class Unary(IntEnum):
    """Functions of one number and two parameters a, b."""

    LINEAR = 0  # a x + b
    CLIP = 1  # min(max(x, a), b); relu is a = 0, b = inf
    LEAKY = 2  # x if x >= 0 else a x
    ABS = 3
    SQRT = 4
    RECIPROCAL = 5
    EXP = 6
    SIGMOID = 7
    TANH = 8
    ERF = 9
    GELU = 10
    SWISH = 11  # x sigmoid(a x)
    GELU_TANH = 12
    HARD_SIGMOID = 13  # max(0, min(1, a x + b))
    HARD_SWISH = 14  # x max(0, min(1, x / 6 + 1 / 2))
    SQUARE = 15


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


_LINEAR, _CLIP, _LEAKY, _ABS, _SQRT, _RECIPROCAL, _EXP, _SIGMOID = (int(op) for op in list(Unary)[:8])
_TANH, _ERF, _GELU, _SWISH, _GELU_TANH, _HARD_SIGMOID, _HARD_SWISH, _SQUARE = (int(op) for op in list(Unary)[8:])
_ADD, _SUB, _MUL, _DIV, _MAX, _MIN, _PRELU, _SUB_REVERSED, _DIV_REVERSED = (int(op) for op in Binary)

_CURVED = frozenset({Unary.EXP, Unary.SIGMOID, Unary.TANH, Unary.ERF, Unary.GELU, Unary.SWISH, Unary.GELU_TANH})
_BLOCK = 1024  # elements; three float32 blocks lie in the L1 cache
_SHARE = 1 << 17  # elements below which a second thread does not pay
_SIXTH = np.float32(1 / 6)
_GELU_SCALE, _GELU_CUBE = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)


@kernel
def _plain32(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any) -> None:
    """y[i] = op(x[i]) for the first n elements of float32 vectors that do not overlap: arithmetic and choices."""
    if op == _LINEAR:
        for i in range(n):
            y[i] = a * x[i] + b
    elif op == _CLIP:
        for i in range(n):
            v = a if x[i] <= a else x[i]
            y[i] = b if v > b else v
    elif op == _LEAKY:
        for i in range(n):
            y[i] = a * x[i] if x[i] < ZERO else x[i]
    elif op == _ABS:
        for i in range(n):
            y[i] = abs(x[i])
    elif op == _SQRT:
        for i in range(n):
            y[i] = np.sqrt(x[i])
    elif op == _RECIPROCAL:
        for i in range(n):
            y[i] = ONE / x[i]
    elif op == _HARD_SIGMOID:
        for i in range(n):
            v = a * x[i] + b
            v = ZERO if v < ZERO else v
            y[i] = ONE if v > ONE else v
    elif op == _HARD_SWISH:
        for i in range(n):
            v = x[i] * _SIXTH + HALF
            v = ZERO if v < ZERO else v
            y[i] = x[i] * (ONE if v > ONE else v)
    else:
        for i in range(n):
            y[i] = x[i] * x[i]


@kernel
def _curved32(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any) -> None:
    """As `_plain32`, for what is made of exponentials and polynomials."""
    if op == _EXP:
        for i in range(n):
            y[i] = exp32(x[i])
    elif op == _SIGMOID:
        for i in range(n):
            y[i] = sigmoid32(x[i])
    elif op == _TANH:
        for i in range(n):
            y[i] = tanh32(x[i])
    elif op == _ERF:
        for i in range(n):
            y[i] = erf32(x[i])
    elif op == _GELU:
        for i in range(n):
            y[i] = gelu32(x[i])
    elif op == _SWISH:
        for i in range(n):
            y[i] = x[i] * sigmoid32(a * x[i])
    else:
        for i in range(n):  # (1 + tanh u) / 2 = sigmoid(2 u)
            v = x[i]
            y[i] = v * sigmoid32(TWO * _GELU_SCALE * (v + _GELU_CUBE * v * v * v))


@inlined
def _widen(x: Any, start: Any, count: Any, wide: Any) -> None:
    for i in range(count):
        wide[i] = half_to_float(x[start + i])


@inlined
def _narrow(result: Any, count: Any, y: Any, start: Any) -> None:
    for i in range(count):
        y[start + i] = float_to_half(result[i])


@kernel
def _plain16(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any) -> None:
    """`_plain32` for vectors of float16 bits, block by block."""
    wide = np.empty(_BLOCK, np.float32)
    result = np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        _widen(x, start, count, wide)
        _plain32(op, wide, result, count, a, b)
        _narrow(result, count, y, start)


@kernel
def _curved16(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any) -> None:
    """`_curved32` for vectors of float16 bits, block by block."""
    wide = np.empty(_BLOCK, np.float32)
    result = np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        _widen(x, start, count, wide)
        _curved32(op, wide, result, count, a, b)
        _narrow(result, count, y, start)


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
def binary16(op: Any, x: Any, y: Any, z: Any, period: Any, inner: Any) -> None:
    """z[i] = op(x[i], y[i // inner % period]) for vectors of float16 bits."""
    left = np.empty(_BLOCK, np.float32)
    right = np.empty(_BLOCK, np.float32)
    result = np.empty(_BLOCK, np.float32)
    run = period if inner == 1 else inner  # elements over which y is one piece, or one value
    start = 0
    while start < x.size:
        count = min(_BLOCK, run - start % run)
        _widen(x, start, count, left)
        if inner == 1:
            _widen(y, start % period, count, right)
        else:
            value = half_to_float(y[start // inner % period])
            for i in range(count):
                right[i] = value
        _binary32(op, left, right, result, count)
        _narrow(result, count, z, start)
        start += count


@cache
def _helper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ascendsim-kernel")


def _in_two(run: Callable[[int, int], None], size: int, step: int) -> None:
    """Calls run(start, stop) for both halves of a long array at once, cut at a multiple of `step`; for a short one only once."""
    middle = size // 2 // step * step
    if size < _SHARE or middle == 0:
        run(0, size)
        return
    second = _helper().submit(run, middle, size)
    run(0, middle)
    second.result()


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous writable vector over the array (one kind of argument means one compilation); float16 as uint16 bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not flat.flags.writeable:
        flat = flat.copy()
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat


def unary(op: Unary, array: NDArray[Any], a: float = 0.0, b: float = 0.0) -> NDArray[Any]:
    """Applies op to every element of a float32 or float16 array; float16 is computed in float32 and rounded once."""
    result = np.empty(array.shape, array.dtype)
    x, y = _flat(array), _flat(result)
    kernels = (_curved32, _curved16) if op in _CURVED else (_plain32, _plain16)
    apply = kernels[array.dtype == np.float16]
    first, second = np.float32(a), np.float32(b)
    _in_two(lambda start, stop: apply(int(op), x[start:stop], y[start:stop], stop - start, first, second), x.size, _BLOCK)
    return result


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
    """(period, inner) such that a broadcast operand is part[i // inner % period] of the flat result; None if it is not so regular.

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
    """Applies op to two arrays that broadcast; float16 is computed in float32 and rounded once, all else in its own type by NumPy."""
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
    x, y, z = _flat(left), _flat(right), _flat(result)
    if inner == 1 and period == x.size:  # equal shapes: any cut will do
        _in_two(lambda start, stop: binary16(int(op), x[start:stop], y[start:stop], z[start:stop], stop - start, 1), x.size, _BLOCK)
    else:
        cycle = period * inner
        _in_two(lambda start, stop: binary16(int(op), x[start:stop], y, z[start:stop], period, inner), x.size, cycle)
    return result
