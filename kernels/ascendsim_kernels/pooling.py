"""Sliding-window maximum, sum and position of the maximum over (planes, depth, height, width) volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.windows import Window


@kernel
def _pool(image: Any, table: Any, maximum: bool, result: Any) -> None:
    """Folds every tap into `result`, which holds the neutral element (lowest value, or 0)."""
    depth, height, width = image.shape[1:]
    out_d, out_h, out_w = result.shape[1:]
    stride_w = table[1, 2]
    for plane in range(image.shape[0]):
        for od in range(out_d):
            for oh in range(out_h):
                target = result[plane, od, oh]
                for kd in range(table[0, 0]):
                    d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                    if d < 0 or d >= depth:
                        continue
                    for kh in range(table[0, 1]):
                        h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                        if h < 0 or h >= height:
                            continue
                        source = image[plane, d, h]
                        for kw in range(table[0, 2]):
                            left = kw * table[2, 2] - table[3, 2]
                            low = min(max(0, (stride_w - 1 - left) // stride_w), out_w)
                            high = max(low, min(out_w, (width - left + stride_w - 1) // stride_w))
                            piece = target[low:high]
                            # indices from 0 on need no check for negative ones
                            seen = source[left + low * stride_w :]
                            if maximum:
                                for w in range(piece.size):
                                    piece[w] = max(piece[w], seen[w * stride_w])
                            else:
                                for w in range(piece.size):
                                    piece[w] += seen[w * stride_w]


@kernel
def _argmax(image: Any, table: Any, column_major: bool, result: Any, where: Any) -> None:
    """Maximum and its flat position; the first of equal ones, in row-major order of the window."""
    planes, depth, height, width = image.shape
    out_d, out_h, out_w = result.shape[1:]
    for plane in range(planes):
        for od in range(out_d):
            for oh in range(out_h):
                for ow in range(out_w):
                    best = result[plane, od, oh, ow]
                    place = -1
                    for kd in range(table[0, 0]):
                        d = od * table[1, 0] + kd * table[2, 0] - table[3, 0]
                        if d < 0 or d >= depth:
                            continue
                        for kh in range(table[0, 1]):
                            h = oh * table[1, 1] + kh * table[2, 1] - table[3, 1]
                            if h < 0 or h >= height:
                                continue
                            for kw in range(table[0, 2]):
                                w = ow * table[1, 2] + kw * table[2, 2] - table[3, 2]
                                if 0 <= w < width and (place < 0 or image[plane, d, h, w] > best):
                                    best = image[plane, d, h, w]
                                    place = (
                                        d + depth * (h + height * w)
                                        if column_major
                                        else w + width * (h + height * d)
                                    )
                    result[plane, od, oh, ow] = best
                    where[plane, od, oh, ow] = plane * depth * height * width + place


def window_max(image: NDArray[Any], window: Window) -> NDArray[Any]:
    """Maximum of every window; -inf where a window holds no input.

    Args:
        image: (planes, d, h, w), float32 or float64.
        window: Geometry.

    Returns:
        (planes, od, oh, ow) in the type of `image`.
    """
    result = np.full((image.shape[0], *window.output), -np.inf, image.dtype)
    _pool(image, window.table(), True, result)
    return result


def window_sum(image: NDArray[Any], window: Window) -> NDArray[Any]:
    """Sum of every window, taps in row-major order; shapes as in `window_max`."""
    result = np.zeros((image.shape[0], *window.output), image.dtype)
    _pool(image, window.table(), False, result)
    return result


def window_argmax(
    image: NDArray[Any], window: Window, column_major: bool = False
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Maximum of every window and its position in the flattened image.

    Args:
        image: (planes, d, h, w), float32 or float64.
        window: Geometry.
        column_major: Flatten the spatial axes of a plane with the first axis fastest (ONNX storage_order =
            1).

    Returns:
        Maxima and int64 positions (planes * plane size counted row by row), both (planes, od, oh, ow).
    """
    result = np.full((image.shape[0], *window.output), -np.inf, image.dtype)
    where = np.zeros(result.shape, np.int64)
    _argmax(image, window.table(), column_major, result, where)
    return result, where
