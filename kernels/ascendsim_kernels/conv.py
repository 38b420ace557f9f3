"""Convolution: img2col in bounded blocks and a matrix product, a direct kernel where a group has one input
channel.

All arrays are float32 (or float64); halves are widened before and rounded after, once, with the bias already
added, as the Cube does. Volumes are (channels, depth, height, width); flat images have depth 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels import unfold
from ascendsim_kernels.gemm import exact_terms
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.unfold import unfolded
from ascendsim_kernels.windows import Window

ENOUGH_PIXELS = 256  # columns with which a product is about as quick an element as with any more


@kernel
def _depthwise(image: Any, weight: Any, table: Any, result: Any) -> None:
    """result[n, c * multiplier + j] = sum over taps of weight * image channel c; taps in row-major order.

    image (n, c, d, h, w), weight (c * multiplier, kd, kh, kw), result (n, c * multiplier, od, oh, ow) zeroed
    by the caller.
    """
    depth, height, width = image.shape[2:]
    multiplier = weight.shape[0] // image.shape[1]
    stride_w = table[1, 2]
    out_d, out_h, out_w = result.shape[2:]
    for n in range(image.shape[0]):
        for channel in range(weight.shape[0]):
            for od in range(out_d):
                for oh in range(out_h):
                    target = result[n, channel, od, oh]
                    for kd in range(table[0, 0]):
                        d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                        if d < 0 or d >= depth:
                            continue
                        for kh in range(table[0, 1]):
                            h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                            if h < 0 or h >= height:
                                continue
                            source = image[n, channel // multiplier, d, h]
                            for kw in range(table[0, 2]):
                                left = kw * table[2, 2] - table[3, 2]
                                low = min(max(0, (stride_w - 1 - left) // stride_w), out_w)
                                high = max(low, min(out_w, (width - left + stride_w - 1) // stride_w))
                                factor = weight[channel, kd, kh, kw]
                                piece = target[low:high]
                                seen = source[left + low * stride_w :]
                                if stride_w == 1:
                                    for w in range(piece.size):
                                        piece[w] += factor * seen[w]
                                else:
                                    for w in range(piece.size):
                                        piece[w] += factor * seen[w * stride_w]


def convolve(image: NDArray[Any], weight: NDArray[Any], window: Window, groups: int) -> NDArray[Any]:
    """Cross-correlation without bias.

    Args:
        image: (n, c, d, h, w), float32 or float64, contiguous.
        weight: (cout, c / groups, kd, kh, kw), same type, contiguous.
        window: Geometry; `window.output` sets the output size.
        groups: Channel groups; divides c and cout.

    Returns:
        (n, cout, od, oh, ow) in the type of `image`.
    """
    batch, channels = image.shape[:2]
    outputs = weight.shape[0]
    shape = (batch, outputs, *window.output)
    if weight.shape[1] == 1 and groups > 1:
        result = np.zeros(shape, image.dtype)
        _depthwise(image, weight.reshape(outputs, *weight.shape[2:]), window.table(), result)
        return result
    result = np.empty(shape, image.dtype)
    matrices = weight.reshape(groups, outputs // groups, math.prod(weight.shape[1:]))
    grouped = image.reshape(batch, groups, channels // groups, *image.shape[2:])
    pixels = int(np.prod(window.output))
    flat = result.reshape(batch, groups, outputs // groups, pixels)
    if window.is_pointwise((image.shape[2], image.shape[3], image.shape[4])):
        np.matmul(matrices, grouped.reshape(batch, groups, channels // groups, pixels), out=flat)
        return result
    together = _images_at_once(pixels, matrices.shape[2] * pixels * image.itemsize)
    for first in range(0, batch, together):
        target = flat[first : first + together]
        for g in range(groups):
            alone = len(target) == 1
            made = target[0, g] if alone else np.empty((outputs // groups, len(target) * pixels), image.dtype)
            for start, stop, columns in unfolded(grouped[first : first + together, g], window):
                np.matmul(matrices[g], columns, out=made[:, start:stop])
            if not alone:
                target[:, g] = made.reshape(outputs // groups, len(target), pixels).swapaxes(0, 1)
    return result


def _images_at_once(pixels: int, columns: int) -> int:
    """How many images share a product: small maps make small products, which read their weights more often
    than they use them.

    Args:
        pixels: Positions of an image.
        columns: Bytes that one unfolds to.
    """
    return max(1, min(ENOUGH_PIXELS // max(1, pixels), unfold.COLUMN_BYTES // max(1, columns)))


@kernel
def _scatter(columns: Any, table: Any, image: Any) -> None:
    """The reverse of `_unfold`: adds columns[(c, kd, kh, kw), (od, oh, ow)] to the image position under the
    tap.
    """
    channels, depth, height, width = image.shape
    out_d, out_h, out_w = table[4, 0], table[4, 1], table[4, 2]
    stride_w = table[1, 2]
    k = 0
    for c in range(channels):
        for kd in range(table[0, 0]):
            for kh in range(table[0, 1]):
                for kw in range(table[0, 2]):
                    left = kw * table[2, 2] - table[3, 2]
                    low = min(max(0, (stride_w - 1 - left) // stride_w), out_w)
                    high = max(low, min(out_w, (width - left + stride_w - 1) // stride_w))
                    for od in range(out_d):
                        d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                        if d < 0 or d >= depth:
                            continue
                        for oh in range(out_h):
                            h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                            if h < 0 or h >= height:
                                continue
                            start = (od * out_h + oh) * out_w
                            piece = columns[k, start + low : start + high]
                            under = image[c, d, h, left + low * stride_w :]
                            if stride_w == 1:
                                for w in range(piece.size):
                                    under[w] += piece[w]
                            else:
                                for w in range(piece.size):
                                    under[w * stride_w] += piece[w]
                    k += 1


def fold(columns: NDArray[Any], window: Window, shape: tuple[int, int, int, int]) -> NDArray[Any]:
    """Sums unfolded columns back into a volume (the gradient of img2col).

    Args:
        columns: (c * taps, positions), positions = product of `window.output`.
        window: Geometry of the windows over the volume that is made.
        shape: (c, d, h, w) of the volume.

    Returns:
        The volume, in the type of `columns`.
    """
    image = np.zeros(shape, columns.dtype)
    _scatter(np.ascontiguousarray(columns), window.table(), image)
    return image


@kernel
def _depthwise_transposed(image: Any, weight: Any, table: Any, result: Any) -> None:
    """Spreads image channel c by the taps weight[c, j] over result channel c * multiplier + j, tap after tap.

    image (n, c, od, oh, ow), weight (c, multiplier, kd, kh, kw), result (n, c * multiplier, d, h, w) zeroed
    by the caller.
    """
    multiplier = weight.shape[1]
    depth, height, width = result.shape[2:]
    out_d, out_h, out_w = table[4, 0], table[4, 1], table[4, 2]
    stride_w = table[1, 2]
    for n in range(image.shape[0]):
        for channel in range(result.shape[1]):
            source = image[n, channel // multiplier]
            target = result[n, channel]
            for kd in range(table[0, 0]):
                for kh in range(table[0, 1]):
                    for kw in range(table[0, 2]):
                        left = kw * table[2, 2] - table[3, 2]
                        low = min(max(0, (stride_w - 1 - left) // stride_w), out_w)
                        high = max(low, min(out_w, (width - left + stride_w - 1) // stride_w))
                        factor = weight[channel // multiplier, channel % multiplier, kd, kh, kw]
                        for od in range(out_d):
                            d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                            if d < 0 or d >= depth:
                                continue
                            for oh in range(out_h):
                                h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                                if h < 0 or h >= height:
                                    continue
                                piece = source[od, oh, low:high]
                                under = target[d, h, left + low * stride_w :]
                                if stride_w == 1:
                                    for w in range(piece.size):
                                        under[w] += factor * piece[w]
                                else:
                                    for w in range(piece.size):
                                        under[w * stride_w] += factor * piece[w]


def convolve_transposed(
    image: NDArray[Any], weight: NDArray[Any], window: Window, groups: int, size: tuple[int, int, int]
) -> NDArray[Any]:
    """The data gradient of a convolution: each input position spreads weight * value over the output.

    Args:
        image: (n, c, d, h, w), contiguous; (d, h, w) = `window.output`.
        weight: (c, cout / groups, kd, kh, kw), contiguous.
        window: Geometry of the forward convolution (from output volume to `image`).
        groups: Channel groups.
        size: (depth, height, width) of the output.

    Returns:
        (n, cout, *size) without bias.
    """
    batch, channels = image.shape[:2]
    per_group = weight.shape[1]
    if groups == channels > 1:
        alone = np.zeros((batch, groups * per_group, *size), image.dtype)
        _depthwise_transposed(image, weight, window.table(), alone)
        return alone
    result = np.empty((batch, groups * per_group, *size), image.dtype)
    matrices = weight.reshape(groups, channels // groups, math.prod(weight.shape[1:]))
    positions = int(np.prod(window.output))
    pixels = image.reshape(batch, groups, channels // groups, positions)
    flat = size[0] == window.output[0] == window.kernel[0] == 1 and window.before[0] == 0
    columns = matrices.shape[2] * positions * image.itemsize
    together = max(1, unfold.COLUMN_BYTES // max(1, columns)) if flat else 1
    for g in range(groups):
        for first in range(0, batch, together):
            some = images_as_volume(pixels[first : first + together, g])
            count = some.shape[1]
            spread = np.matmul(matrices[g].T, some.reshape(len(some), count * positions))
            if not window.is_pointwise(size):
                deep = stacked(window, count) if flat else window
                spread = fold(spread, deep, (per_group, count if flat else size[0], *size[1:]))
            made = spread.reshape(per_group, count, *size).swapaxes(0, 1)
            result[first : first + count, g * per_group : (g + 1) * per_group] = made
    return result


def stacked(window: Window, images: int) -> Window:
    """A window over flat images as one over the volume that has an image at each depth.

    Small maps make small products, which read their weights more often than they use them; several images in
    one product do not.
    """
    return window._replace(output=(images, *window.output[1:]), stride=(1, *window.stride[1:]))


def images_as_volume(images: NDArray[Any]) -> NDArray[Any]:
    """(n, c, ...) as (c, n, ...), contiguous."""
    return np.ascontiguousarray(images.swapaxes(0, 1))


def integer_convolve(
    image: NDArray[Any], weight: NDArray[Any], window: Window, groups: int
) -> NDArray[np.int32]:
    """Exact convolution of small integers (8 bit, zero points already taken off); shapes as in `convolve`.

    Channels are cut so that every partial sum is an integer that float32 holds exactly; where that is not
    possible (a group of a grouped convolution too deep) the sums run in float64.
    """
    limit = exact_terms(image, weight) // window.taps
    channels = weight.shape[1]
    if channels <= limit:
        return _as_int32(convolve(image.astype(np.float32), weight.astype(np.float32), window, groups))
    if groups > 1 or limit == 0:
        return _as_int32(convolve(image.astype(np.float64), weight.astype(np.float64), window, groups))
    total = np.zeros((image.shape[0], weight.shape[0], *window.output), np.int32)
    for start in range(0, channels, limit):
        part = slice(start, start + limit)
        total += _as_int32(
            convolve(
                image[:, part].astype(np.float32, order="C"),
                weight[:, part].astype(np.float32, order="C"),
                window,
                1,
            )
        )
    return total


def _as_int32(sums: NDArray[Any]) -> NDArray[np.int32]:
    """Whole numbers as int32, wrapping around as the accumulator does."""
    return sums.astype(np.int64).astype(np.int32)
