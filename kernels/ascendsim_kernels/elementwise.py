"""Elementwise kernels: op-code interpreters for functions of one array, for float32 and for float16 bits.

A float16 call widens a block to float32, applies the operation and rounds once, all in the L1 cache. Few
kernels with a switch on the op-code, instead of one for each operator, keep the time of the first compilation
short.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.element import kernel_view
from ascendsim_kernels.half import float_to_half, half_to_float
from ascendsim_kernels.jit import inlined, kernel
from ascendsim_kernels.math32 import HALF, ONE, ZERO, erf32, exp32, gelu32, gelu_tanh32, sigmoid32, tanh32


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


_LINEAR, _CLIP, _LEAKY, _ABS, _SQRT, _RECIPROCAL, _EXP, _SIGMOID = (int(op) for op in list(Unary)[:8])
_TANH, _ERF, _GELU, _SWISH, _GELU_TANH, _HARD_SIGMOID, _HARD_SWISH, _SQUARE = (
    int(op) for op in list(Unary)[8:]
)

_CURVED = frozenset(
    {Unary.EXP, Unary.SIGMOID, Unary.TANH, Unary.ERF, Unary.GELU, Unary.SWISH, Unary.GELU_TANH}
)
BLOCK = 1024  # elements; three float32 blocks lie in the L1 cache
_SHARE = 1 << 17  # elements below which a second thread does not pay
_SIXTH = np.float32(1 / 6)


@kernel
def _plain32(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any) -> None:
    """y[i] = op(x[i]) for the first n elements of float32 vectors that do not overlap: arithmetic and
    choices.
    """
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
        for i in range(n):
            y[i] = gelu_tanh32(x[i])


@inlined
def widen_block(x: Any, start: Any, count: Any, wide: Any) -> None:
    """wide[0 : count] = x[start : start + count] of float16 bits (jitted code only)."""
    # indices from 0 on need no check for negative ones, so that the loop becomes vector code
    seen = x[start : start + count]
    for i in range(seen.size):
        wide[i] = half_to_float(seen[i])


@inlined
def narrow_block(result: Any, count: Any, y: Any, start: Any) -> None:
    """y[start : start + count] = bits of the float16 nearest to result[0 : count] (jitted code only)."""
    target = y[start : start + count]
    for i in range(target.size):
        target[i] = float_to_half(result[i])


@kernel
def _plain16(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any, wide: Any, result: Any) -> None:
    """`_plain32` for vectors of float16 bits, block by block."""
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        widen_block(x, start, count, wide)
        _plain32(op, wide, result, count, a, b)
        narrow_block(result, count, y, start)


@kernel
def _curved16(op: Any, x: Any, y: Any, n: Any, a: Any, b: Any, wide: Any, result: Any) -> None:
    """`_curved32` for vectors of float16 bits, block by block."""
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        widen_block(x, start, count, wide)
        _curved32(op, wide, result, count, a, b)
        narrow_block(result, count, y, start)


@cache
def _helper() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "ascendsim-kernel")


def in_two(run: Callable[[int, int], None], size: int, step: int) -> None:
    """Calls run(start, stop) for both halves of a long array at once, cut at a multiple of `step`; for a
    short one only once.
    """
    middle = size // 2 // step * step if size >= _SHARE else 0
    if middle == 0:
        run(0, size)
        return
    second = _helper().submit(run, middle, size)
    run(0, middle)
    second.result()


def scratch() -> NDArray[np.float32]:
    """A block for intermediate values (allocation inside jitted code would take a while to compile)."""
    return np.empty(BLOCK, np.float32)


def unary(op: Unary, array: NDArray[Any], a: float = 0.0, b: float = 0.0) -> NDArray[Any]:
    """Applies op to every element of a float32 or float16 array; float16 is computed in float32 and rounded
    once.
    """
    result = np.empty(array.shape, array.dtype)
    x, y = kernel_view(array, (array.size,)), kernel_view(result, (array.size,))
    first, second = np.float32(a), np.float32(b)
    plain, half = (_curved32, _curved16) if op in _CURVED else (_plain32, _plain16)

    def run(start: int, stop: int) -> None:
        source, target = x[start:stop], y[start:stop]
        if array.dtype == np.float16:
            half(int(op), source, target, stop - start, first, second, scratch(), scratch())
        else:
            plain(int(op), source, target, stop - start, first, second)

    in_two(run, x.size, BLOCK)
    return result


@kernel
def _where_positive(test: Any, values: Any, result: Any) -> None:
    for i in range(result.size):
        result[i] = values[i] if test[i] > 0 else 0


def where_positive(test: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """The values where `test` is greater than 0, else 0; unlike np.where without a branch that hangs on data.

    Args:
        test, values: Of one shape and one type, float32 or float64.
    """
    result = np.empty(values.shape, values.dtype)
    flat = (values.size,)
    _where_positive(kernel_view(test, flat), kernel_view(values, flat), kernel_view(result, flat))
    return result
