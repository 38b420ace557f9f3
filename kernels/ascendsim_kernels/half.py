"""float16 inside jitted code: numba takes no float16 arrays, so kernels take uint16 views and convert element
by element.

Both directions are one instruction on hosts with half-precision conversion and round to nearest even, as
NumPy does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ascendsim_kernels.jit import kernel

_NO_SIGN, _INFINITE, _ONE, _ZERO = np.uint16(0x7FFF), np.uint16(0x7C00), np.uint16(1), np.uint16(0)


@intrinsic
def half_to_float(_context: Any, _bits: Any) -> Any:
    """float32 of the float16 whose bits are given as uint16 (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def float_to_half(_context: Any, _value: Any) -> Any:
    """Bits of the float16 nearest to a float32, ties to even (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@kernel
def _widen(source: Any, target: Any) -> None:
    for i in range(source.size):
        target[i] = half_to_float(source[i])


@kernel
def _narrow(source: Any, target: Any) -> None:
    for i in range(source.size):
        target[i] = float_to_half(source[i])


@kernel
def saturated_bits(bits: Any) -> Any:
    """Bits of a float16 that saturates: infinity is the last number, NaN is 0 (jitted code only)."""
    size = bits & _NO_SIGN
    return bits if size < _INFINITE else (np.uint16(bits - _ONE) if size == _INFINITE else _ZERO)


@kernel
def _saturate(bits: Any) -> None:
    for i in range(bits.size):
        bits[i] = saturated_bits(bits[i])


def saturate(array: NDArray[np.float16]) -> NDArray[np.float16]:
    """A copy of a float16 array of any shape in which infinities are the last number and NaN is 0.

    >>> saturate(np.array([1, np.inf, -np.inf, np.nan], np.float16)).tolist()
    [1.0, 65504.0, -65504.0, 0.0]
    """
    made = np.array(array, np.float16, order="C")
    _saturate(made.view(np.uint16).reshape(-1))
    return made


def widen(array: NDArray[np.float16]) -> NDArray[np.float32]:
    """float32 copy of a float16 array of any shape (exact)."""
    flat = np.ascontiguousarray(array).view(np.uint16).reshape(-1)
    target = np.empty(flat.size, np.float32)
    _widen(flat, target)
    return target.reshape(array.shape)


def narrow(array: NDArray[np.float32]) -> NDArray[np.float16]:
    """float16 copy of a float32 array of any shape, rounded to nearest even."""
    flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    target = np.empty(flat.size, np.uint16)
    _narrow(flat, target)
    return target.view(np.float16).reshape(array.shape)
