"""Data layouts in global memory and the shapes that tensors take in them.

Source: Ascend C data-layout page (block sizes: C0 = 32 B / element size, N0 = M0 = 16); see
docs/how_time_is_modelled.md.
"""

from __future__ import annotations

import math
from enum import Enum

from ascendsim.core.dtypes import DType

FRACTAL_ROWS = 16  # M0 = N0 of one fractal
BLOCK_BYTES = 32  # one block; C0 elements fill it
REPEAT_BYTES = 8 * BLOCK_BYTES  # what a vector instruction takes in one repeat
FRACTAL_BYTES = FRACTAL_ROWS * BLOCK_BYTES
TRANSACTION_BYTES = 512  # of global memory: bursts are rounded up to it
L0C_ELEMENT_BYTES = 4  # the Cube adds up in float32 or int32
REGION_BYTES = 512  # by which regions of device memory are placed (GE's MEM_ALIGN_SIZE)


class Format(Enum):
    """Layout of a tensor in global memory; shapes in the graph stay logical (ONNX order)."""

    ND = "ND"  # row-major, any rank
    NCHW = "NCHW"  # row-major feature map
    NC1HWC0 = "NC1HWC0"  # feature map in blocks of C0 channels ("5HD")
    FRACTAL_NZ = "FRACTAL_NZ"  # matrix in 16 x C0 fractals, column-major outside
    FRACTAL_Z = "FRACTAL_Z"  # convolution weights

    __hash__ = object.__hash__  # as in `DType`


def ceil_div(a: int, b: int) -> int:
    """Returns a / b rounded up, for b > 0."""
    return -(-a // b)


def align(value: int, to: int) -> int:
    """Returns the smallest multiple of `to` that is not below `value`."""
    return -(-value // to) * to


def c0(dtype: DType) -> int:
    """Elements of one 32 B block: C0 of NC1HWC0 and N0 of FRACTAL_NZ.

    >>> c0(DType.FLOAT16), c0(DType.INT8)
    (16, 32)
    """
    return BLOCK_BYTES // dtype.itemsize


def storage_shape(shape: tuple[int, ...], format: Format, dtype: DType) -> tuple[int, ...]:
    """The physical shape, padding included, of a tensor of logical shape `shape`.

    NC1HWC0 takes shapes of rank 4 (N, C, H, W); FRACTAL_NZ takes rank >= 2 and tiles the last two axes;
    FRACTAL_Z takes (N, C, KH, KW) weights. Other ranks keep their row-major shape.

    >>> storage_shape((1, 3, 224, 224), Format.NC1HWC0, DType.FLOAT16)
    (1, 1, 224, 224, 16)
    >>> storage_shape((20, 40), Format.FRACTAL_NZ, DType.FLOAT16)
    (3, 2, 16, 16)
    """
    block = c0(dtype)
    if format is Format.NC1HWC0 and len(shape) == 4:
        n, c, h, w = shape
        return (n, ceil_div(c, block), h, w, block)
    if format is Format.FRACTAL_NZ and len(shape) >= 2:
        *batch, m, n = shape
        return (*batch, ceil_div(n, block), ceil_div(m, FRACTAL_ROWS), FRACTAL_ROWS, block)
    if format is Format.FRACTAL_Z and len(shape) == 4:
        n, c, h, w = shape
        return (ceil_div(c, block) * h * w, ceil_div(n, FRACTAL_ROWS), FRACTAL_ROWS, block)
    return shape


def storage_bytes(shape: tuple[int, ...], format: Format, dtype: DType) -> int:
    """Bytes that a tensor occupies in global memory, padding included."""
    return math.prod(storage_shape(shape, format, dtype)) * dtype.itemsize
