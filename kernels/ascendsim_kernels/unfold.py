"""What sliding windows see, as the columns of a matrix (img2col), in blocks that stay within a cache.

Which element of a plane a tap of a window sees is the same for all channels: it is worked out once, as a
table, by which every channel is then gathered. Loops over taps, rows and their ends would be entered anew for
every few elements; those of the table run over all positions of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.windows import Triple, Window

COLUMN_BYTES = 4 << 20  # one block of unfolded input stays within a second level cache


@kernel
def _find(table: Any, size: Any, first: Any, outside: Any, places: Any) -> None:
    """places[tap, position] = the element under the tap, counted through all images of a channel; `outside`
    where there is none. Positions are whole output rows, from row `first` of all images on.
    """
    depth, height, width = size
    out_d, out_h, out_w = table[4, 0], table[4, 1], table[4, 2]
    stride_w = table[1, 2]
    for row in range(places.shape[1] // out_w):
        above, oh = divmod(first + row, out_h)
        n, od = divmod(above, out_d)
        tap = 0
        for kd in range(table[0, 0]):
            d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
            for kh in range(table[0, 1]):
                h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                inside = 0 <= d < depth and 0 <= h < height
                base = ((n * depth + d) * height + h) * width
                for kw in range(table[0, 2]):
                    left = kw * table[2, 2] - table[3, 2]  # input column of output column 0
                    target = places[tap, row * out_w : (row + 1) * out_w]
                    for w in range(out_w):
                        column = left + w * stride_w
                        target[w] = base + column if inside and 0 <= column < width else outside
                    tap += 1


@kernel
def _gather(planes: Any, places: Any, columns: Any) -> None:
    """columns[channel * taps + tap, position] = planes[channel, places[tap, position]]."""
    taps = places.shape[0]
    for channel in range(planes.shape[0]):
        seen = planes[channel]
        for tap in range(taps):
            row, target = places[tap], columns[channel * taps + tap]
            for i in range(target.size):
                target[i] = seen[row[i]]


@lru_cache(maxsize=16)  # a convolution asks for the same few, image after image and group after group
def _places(window: Window, images: int, size: Triple, first: int, rows: int) -> NDArray[np.uint32]:
    places = np.empty((window.taps, rows * window.output[2]), np.uint32)
    outside = images * size[0] * size[1] * size[2]
    _find(window.table(), size, first, outside, places)
    places.setflags(write=False)
    return places


def rows_at_once(window: Window, channels: int, itemsize: int) -> int:
    """Output rows of a block: whole ones, at least one, within `COLUMN_BYTES`."""
    return max(1, COLUMN_BYTES // max(1, channels * window.taps * window.output[2] * itemsize))


def unfolded(images: NDArray[Any], window: Window) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """What the windows over images see, in blocks.

    Args:
        images: (n, c, d, h, w).
        window: Geometry.

    Yields:
        First window position of a block, the one behind its last, and its columns (c * taps, positions);
        positions are those of one image after the other. Every block overwrites the one before.
    """
    count, channels, *size = images.shape
    depth, height, width = size
    planes = _with_nothing(images)
    rows, long = count * window.output[0] * window.output[1], window.output[2]
    block = min(rows, rows_at_once(window, channels, images.itemsize))
    room = np.empty(channels * window.taps * block * long, images.dtype)
    for first in range(0, rows if long else 0, max(1, block)):
        some = min(block, rows - first)
        columns = room[: channels * window.taps * some * long].reshape(channels * window.taps, some * long)
        _gather(planes, _places(window, count, (depth, height, width), first, some), columns)
        yield first * long, (first + some) * long, columns


def _with_nothing(images: NDArray[Any]) -> NDArray[Any]:
    """The planes of each channel one behind the other, and a zero, which is what lies outside of them."""
    count, channels, *size = images.shape
    planes = np.empty((channels, images.size // max(1, channels) + 1), images.dtype)
    planes[:, -1] = 0
    planes[:, :-1].reshape(channels, count, *size)[...] = images.swapaxes(0, 1)
    return planes
