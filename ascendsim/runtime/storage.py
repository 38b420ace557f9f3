"""Tensors as their formats store them: logical arrays to the bytes of global memory and back.

Padding is zeros on the way in and is not looked at on the way out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import SimulationError
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, Format, align, ceil_div
from ascendsim.opset.work import CubeWork

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Filters:
    """How the filters of a convolution lie: enlarged groups (`ops.shared.cube`) side by side.

    Attributes:
        groups: Enlarged groups.
        channels, outputs: Input and output channels of one.
    """

    groups: int
    channels: int
    outputs: int

    @classmethod
    def of(cls, work: CubeWork) -> Filters:
        """Of a convolution's work, or of a product with filters."""
        return cls(work.batch, work.b.shape[1] if work.conv is None else work.conv.channels, work.n)


def stored(array: Array, format: Format, filters: Filters | None = None, size: int = 0) -> Array:
    """The elements of a tensor as global memory holds them.

    Args:
        array: Its values, in logical order.
        format: Its format.
        filters: Of FRACTAL_Z.
        size: Bytes of an element there, if the array stands for one of another type.

    >>> stored(np.arange(3.0, dtype=np.float16).reshape(1, 3, 1, 1), Format.NC1HWC0).reshape(-1)[:4]
    array([0., 1., 2., 0.], dtype=float16)
    """
    block = BLOCK_BYTES // (size or array.itemsize)
    if format is Format.FRACTAL_Z:
        if filters is None or array.ndim != 4:
            raise SimulationError("filters", "must say how their groups lie", array.shape)
        return _filters(array, filters, block)
    if format is Format.NC1HWC0 and array.ndim == 4:
        n, c, h, w = array.shape
        whole = np.zeros((n, align(c, block), h, w), array.dtype)
        whole[:, :c] = array
        return np.ascontiguousarray(whole.reshape(n, -1, block, h, w).transpose(0, 1, 3, 4, 2))
    if format is Format.FRACTAL_NZ and array.ndim >= 2:
        *batch, m, n = array.shape
        whole = np.zeros((*batch, align(m, FRACTAL_ROWS), align(n, block)), array.dtype)
        whole[..., :m, :n] = array
        cut = whole.reshape(*batch, -1, FRACTAL_ROWS, ceil_div(n, block), block)
        return np.ascontiguousarray(np.moveaxis(cut, -2, -4))
    return np.array(array, order="C", copy=True)


def _filters(array: Array, filters: Filters, block: int) -> Array:
    outputs, channels, high, wide = array.shape
    joined = filters.channels // channels  # groups on the diagonal of an enlarged one
    each = filters.outputs // joined
    whole = np.zeros(
        (filters.groups, filters.outputs, align(filters.channels, block), high, wide), array.dtype
    )
    for group in range(outputs // each):
        outer, inner = divmod(group, joined)
        rows, columns = (
            slice(inner * each, (inner + 1) * each),
            slice(inner * channels, (inner + 1) * channels),
        )
        whole[outer, rows, columns] = array[group * each : (group + 1) * each]
    cut = whole.reshape(filters.groups * filters.outputs, -1, block, high, wide).transpose(1, 3, 4, 0, 2)
    made = np.zeros((*cut.shape[:3], align(cut.shape[3], FRACTAL_ROWS), block), array.dtype)
    made[..., : cut.shape[3], :] = cut
    return made


def logical(array: Array, shape: tuple[int, ...], format: Format, size: int = 0) -> Array:
    """The values of a tensor, in logical order.

    Args:
        array: Its elements as global memory holds them, or anything else that lies like them.
        shape: Its logical shape.
        format: Its format.
        size: As in `stored`.
    """
    block = BLOCK_BYTES // (size or array.itemsize)
    if format is Format.NC1HWC0 and len(shape) == 4:
        n, c, h, w = shape
        cut = array.reshape(n, ceil_div(c, block), h, w, -1).transpose(0, 1, 4, 2, 3)
        return cut.reshape(n, -1, h, w)[:, :c]
    if format is Format.FRACTAL_NZ and len(shape) >= 2:
        *batch, m, n = shape
        cut = np.moveaxis(array.reshape(*batch, ceil_div(n, block), -1, FRACTAL_ROWS, block), -4, -2)
        return cut.reshape(*batch, align(m, FRACTAL_ROWS), -1)[..., :m, :n]
    return array.reshape(shape)
