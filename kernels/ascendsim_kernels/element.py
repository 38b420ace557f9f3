"""Reading and writing array elements inside jitted code that serves float32 arrays and float16 bits (uint16)
alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray


@intrinsic
def load(_context: Any, element: Any) -> Any:
    """The element as float32: itself, or the float16 whose bits it holds."""

    def generate(_ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.args[0] == types.float32:
            return arguments[0]
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(element), generate


@intrinsic
def store(_context: Any, value: Any, like: Any) -> Any:
    """A float32 or float64 in the form of the element `like`: float32, or the bits of the nearest float16."""

    def generate(_ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = arguments[0]
        if signature.args[0] == types.float64:
            number = builder.fptrunc(number, ir.FloatType())
        if signature.args[1] == types.float32:
            return number
        return builder.bitcast(builder.fptrunc(number, ir.HalfType()), ir.IntType(16))

    return like(value, like), generate


def kernel_view(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A contiguous writable view or copy in a shape, float16 as bits: one kind of argument means one
    compilation.
    """
    view = np.ascontiguousarray(array).reshape(shape)
    if not view.flags.writeable:
        view = view.copy()
    return view.view(np.uint16) if view.dtype == np.float16 else view
