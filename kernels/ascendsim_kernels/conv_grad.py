"""Gradient of a convolution's filters."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim_kernels.windows import Window


def filter_gradient(image: NDArray[Any], gradient: NDArray[Any], window: Window, groups: int) -> NDArray[Any]:
    """For every tap of the kernel the product of the result's gradient with the map that the tap sees.

    Args:
        image: (n, c, d, h, w), float64.
        gradient: (n, cout, od, oh, ow), float64; (od, oh, ow) = `window.output`.
        window: Geometry of the convolution.
        groups: Channel groups; divides c and cout.

    Returns:
        (cout, c / groups, kd, kh, kw), float64.
    """
    batch, channels, outputs = len(image), image.shape[1] // groups, gradient.shape[1] // groups
    result = np.zeros((groups * outputs, channels, *window.kernel))
    for tap in product(*(range(size) for size in window.kernel)):
        seen, under = [slice(None)] * 2, [slice(None)] * 2
        for axis, place in enumerate(tap):
            stride = window.stride[axis]
            start = place * window.dilation[axis] - window.before[axis]  # input position of output position 0
            low = max(0, -(start // stride))
            high = max(low, min(window.output[axis], (image.shape[2 + axis] - 1 - start) // stride + 1))
            under.append(slice(low, high))
            seen.append(slice(start + low * stride, start + high * stride, stride))
        left = gradient[tuple(under)].reshape(batch, groups, outputs, -1).transpose(1, 2, 0, 3)
        right = image[tuple(seen)].reshape(batch, groups, channels, -1).transpose(1, 0, 3, 2)
        total = np.matmul(left.reshape(groups, outputs, -1), right.reshape(groups, -1, channels))
        result[:, :, tap[0], tap[1], tap[2]] = total.reshape(groups * outputs, channels)
    return result
