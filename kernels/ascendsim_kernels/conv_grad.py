"""Gradient of a convolution's filters: products over all positions of all images, in the operands' type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.conv import images_as_volume
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.unfold import unfolded
from ascendsim_kernels.windows import Window


@kernel
def _depthwise(image: Any, gradient: Any, table: Any, sums: Any, result: Any) -> None:
    """result[c * multiplier + j, tap] = sum over images and positions of gradient * image channel c.

    image (n, c, d, h, w), gradient (n, c * multiplier, od, oh, ow), result (c * multiplier, kd, kh, kw);
    `sums` has a place for every output column: rows are added column by column, columns at the end.
    """
    depth, height, width = image.shape[2:]
    multiplier = gradient.shape[1] // image.shape[1]
    out_d, out_h, out_w = gradient.shape[2:]
    stride_w = table[1, 2]
    for channel in range(gradient.shape[1]):
        for kd in range(table[0, 0]):
            for kh in range(table[0, 1]):
                for kw in range(table[0, 2]):
                    left = kw * table[2, 2] - table[3, 2]
                    low = min(max(0, (stride_w - 1 - left) // stride_w), out_w)
                    high = max(low, min(out_w, (width - left + stride_w - 1) // stride_w))
                    sums[:] = 0
                    total = sums[low:high]
                    for n in range(image.shape[0]):
                        for od in range(out_d):
                            d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                            if d < 0 or d >= depth:
                                continue
                            for oh in range(out_h):
                                h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                                if h < 0 or h >= height:
                                    continue
                                seen = image[n, channel // multiplier, d, h, left + low * stride_w :]
                                piece = gradient[n, channel, od, oh, low:high]
                                if stride_w == 1:
                                    for w in range(piece.size):
                                        total[w] += piece[w] * seen[w]
                                else:
                                    for w in range(piece.size):
                                        total[w] += piece[w] * seen[w * stride_w]
                    result[channel, kd, kh, kw] = sums.sum()


def filter_gradient(image: NDArray[Any], gradient: NDArray[Any], window: Window, groups: int) -> NDArray[Any]:
    """The gradient times the unfolded maps of all images, block after block.

    Args:
        image: (n, c, d, h, w), float32 or float64, contiguous.
        gradient: (n, cout, od, oh, ow), same type, contiguous; the last three are those of `window.output`.
        window: Geometry of the convolution.
        groups: Channel groups; divides c and cout.

    Returns:
        (cout, c / groups, kd, kh, kw), in the type of `image`.
    """
    batch, channels, outputs = len(image), image.shape[1] // groups, gradient.shape[1] // groups
    shape = (groups * outputs, channels, *window.kernel)
    if channels == 1 and groups > 1:
        alone = np.empty((groups * outputs, *window.kernel), image.dtype)
        _depthwise(image, gradient, window.table(), np.empty(window.output[2], image.dtype), alone)
        return alone.reshape(shape)
    positions = batch * math.prod(gradient.shape[2:])
    made = images_as_volume(gradient).reshape(groups, outputs, positions)
    grouped = image.reshape(batch, groups, channels, *image.shape[2:])
    if window.is_pointwise((image.shape[2], image.shape[3], image.shape[4])):
        maps = grouped.swapaxes(0, 1).swapaxes(1, 2).reshape(groups, channels, positions)
        return np.asarray(np.matmul(made, maps.swapaxes(1, 2)).reshape(shape))
    result = np.zeros((groups, outputs, channels * window.taps), image.dtype)
    for own, dy, seen in zip(result, made, grouped.swapaxes(0, 1), strict=True):
        for start, stop, columns in unfolded(seen, window):
            if start == 0:
                np.matmul(dy[:, :stop], columns.T, out=own)
            else:
                own += np.matmul(dy[:, start:stop], columns.T)
    return result.reshape(shape)
