"""Non-max suppression, region pooling and bilinear sampling for deformable convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.jit import kernel


@kernel
def _suppress(boxes: Any, order: Any, threshold: Any, limit: int, kept: Any) -> int:
    """Greedy suppression over boxes (low_y, low_x, high_y, high_x) in `order`; writes kept numbers, returns
    their count.
    """
    count = 0
    for number in order:
        if count >= limit:
            break
        area = (boxes[number, 2] - boxes[number, 0]) * (boxes[number, 3] - boxes[number, 1])
        keep = True
        for other in kept[:count]:
            high = min(boxes[number, 2], boxes[other, 2]) - max(boxes[number, 0], boxes[other, 0])
            wide = min(boxes[number, 3], boxes[other, 3]) - max(boxes[number, 1], boxes[other, 1])
            if high <= 0 or wide <= 0:
                continue
            common = high * wide
            union = area + (boxes[other, 2] - boxes[other, 0]) * (boxes[other, 3] - boxes[other, 1]) - common
            if union > 0 and common / union > threshold:
                keep = False
                break
        if keep:
            kept[count] = number
            count += 1
    return count


def suppress(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], threshold: float, limit: int
) -> NDArray[np.int64]:
    """Numbers of the boxes that survive greedy non-max suppression, best score first; equal scores by number.

    Args:
        boxes: (n, 4) corners (low_y, low_x, high_y, high_x).
        scores: (m,) scores of the candidates, -inf for boxes that do not take part.
        threshold: Largest intersection over union that two kept boxes may have.
        limit: Most boxes to keep.
    """
    candidates = np.flatnonzero(scores > -np.inf)
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    kept = np.empty(min(limit, order.size), np.int64)
    count = _suppress(boxes, order, boxes.dtype.type(threshold), kept.size, kept)
    return kept[:count]


@kernel
def _sample(plane: Any, y: Any, x: Any, maximum: bool) -> Any:
    """Bilinear value at (y, x) of a plane; 0 beyond one position outside. `maximum`: the largest weighted
    neighbour instead.
    """
    height, width = plane.shape
    if y < -1.0 or y > height or x < -1.0 or x > width:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    low_y, low_x = int(y), int(x)
    if low_y >= height - 1:
        low_y, high_y = height - 1, height - 1
        y = float(low_y)
    else:
        high_y = low_y + 1
    if low_x >= width - 1:
        low_x, high_x = width - 1, width - 1
        x = float(low_x)
    else:
        high_x = low_x + 1
    fy, fx = y - low_y, x - low_x
    a, b = (1 - fy) * (1 - fx) * plane[low_y, low_x], (1 - fy) * fx * plane[low_y, high_x]
    c, d = fy * (1 - fx) * plane[high_y, low_x], fy * fx * plane[high_y, high_x]
    if maximum:
        return max(max(a, b), max(c, d))
    return a + b + c + d


@kernel
def _roi_align(
    image: Any, rois: Any, batches: Any, scale: float, shift: float, sampling: int, maximum: bool, result: Any
) -> None:
    for r in range(rois.shape[0]):
        left, top = rois[r, 0] * scale - shift, rois[r, 1] * scale - shift
        wide, high = rois[r, 2] * scale - shift - left, rois[r, 3] * scale - shift - top
        if shift == 0.0:
            wide, high = max(wide, 1.0), max(high, 1.0)
        bin_h, bin_w = high / result.shape[2], wide / result.shape[3]
        grid_h = sampling if sampling > 0 else int(np.ceil(bin_h))
        grid_w = sampling if sampling > 0 else int(np.ceil(bin_w))
        for c in range(image.shape[1]):
            for ph in range(result.shape[2]):
                for pw in range(result.shape[3]):
                    total = 0.0
                    first = True
                    for iy in range(grid_h):
                        for ix in range(grid_w):
                            y = top + ph * bin_h + (iy + 0.5) * bin_h / grid_h
                            x = left + pw * bin_w + (ix + 0.5) * bin_w / grid_w
                            value = _sample(image[batches[r], c], y, x, maximum)
                            if not maximum:
                                total += value
                            elif first or value > total:
                                total = value
                            first = False
                    result[r, c, ph, pw] = total if maximum else total / max(grid_h * grid_w, 1)


def roi_align(
    image: NDArray[Any],
    rois: NDArray[Any],
    batches: NDArray[np.int64],
    size: tuple[int, int],
    *,
    scale: float,
    shift: float,
    sampling: int,
    maximum: bool,
) -> NDArray[Any]:
    """Regions of interest sampled bilinearly into bins of equal size.

    Args:
        image: (n, c, h, w).
        rois: (r, 4): x1, y1, x2, y2.
        batches: (r,) image of each region.
        size: Bins (height, width).
        scale: Factor from region coordinates to image positions.
        shift: 0.5 to treat positions as pixel centres, else 0 (then regions are at least one position large).
        sampling: Samples a bin and axis; 0 = one for each position that the bin spans.
        maximum: Maximum of weighted neighbours instead of the average of samples.

    Returns:
        (r, c, *size).
    """
    result = np.zeros((rois.shape[0], image.shape[1], *size), image.dtype)
    _roi_align(image, rois.astype(np.float64), batches, scale, shift, sampling, maximum, result)
    return result


@kernel
def _deform(plane: Any, offset: Any, mask: Any, table: Any, columns: Any) -> None:
    """columns[(kh, kw), (oh, ow)] = mask * bilinear sample at the tap moved by `offset` (taps, 2, oh, ow)."""
    height, width = plane.shape
    for kh in range(table[0, 1]):
        for kw in range(table[0, 2]):
            tap = kh * table[0, 2] + kw
            for oh in range(table[4, 1]):
                for ow in range(table[4, 2]):
                    y = oh * table[1, 1] + kh * table[2, 1] - table[3, 1] + offset[tap, 0, oh, ow]
                    x = ow * table[1, 2] + kw * table[2, 2] - table[3, 2] + offset[tap, 1, oh, ow]
                    low_y, low_x = int(np.floor(y)), int(np.floor(x))
                    fy, fx = y - low_y, x - low_x
                    value = 0.0
                    for dy in range(2):
                        for dx in range(2):
                            h, w = low_y + dy, low_x + dx
                            if 0 <= h < height and 0 <= w < width:
                                value += (fy if dy else 1 - fy) * (fx if dx else 1 - fx) * plane[h, w]
                    columns[tap, oh * table[4, 2] + ow] = value * mask[tap, oh, ow]


def deformed_columns(
    plane: NDArray[Any], offset: NDArray[Any], mask: NDArray[Any], table: NDArray[np.int64]
) -> NDArray[Any]:
    """Unfolded samples of one channel whose taps are moved by offsets.

    Args:
        plane: (h, w).
        offset: (taps, 2, oh, ow) in positions, y before x.
        mask: (taps, oh, ow) factors.
        table: `Window.table()`.

    Returns:
        (taps, oh * ow).
    """
    columns = np.empty((offset.shape[0], offset.shape[2] * offset.shape[3]), plane.dtype)
    _deform(plane, offset, mask, table, columns)
    return columns
