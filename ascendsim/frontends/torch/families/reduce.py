"""Sums, means, extremes, cumulative sums, sorting and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, Converter, axis_of, rank
from ascendsim.frontends.torch.families.linear import each
from ascendsim.graph.ir import Tensor

Axes = Sequence[int] | int | None


def reduction(op_type: str) -> Converter:
    """A reduction over some axes, or over all."""

    def convert(call: Call, x: Tensor, axes: Axes = None, keepdim: bool = False, **_options: Any) -> Tensor:
        return call.op(op_type, call.of_type(x), axes_of(x, axes), keepdims=int(keepdim))

    return convert


def axes_of(x: Tensor, axes: Axes) -> list[int]:
    """Axes from the front; none given means all."""
    given = [axes] if isinstance(axes, int) else list(axes or range(rank(x)))
    return sorted(axis_of(x, axis) for axis in given) if rank(x) else []


def extremes(op_type: str, position: str) -> Converter:
    """Values and indices along an axis: max.dim and min.dim."""

    def convert(call: Call, x: Tensor, axis: int, keepdim: bool = False) -> list[Tensor]:
        axis = axis_of(x, axis)
        values = call.op(op_type, x, [axis], keepdims=int(keepdim))
        return [values, call.op(position, x, axis=axis, keepdims=int(keepdim))]

    return convert


def position(op_type: str) -> Converter:
    """Argmax and argmin, over all elements if no axis is given."""

    def convert(call: Call, x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
        if axis is None:
            flat = call.op(op_type, call.op("Reshape", x, [-1]), axis=0, keepdims=0)
            return call.reshaped(flat, call.shape())
        return call.op(op_type, x, axis=axis_of(x, axis), keepdims=int(keepdim))

    return convert


def truth(op_type: str) -> Converter:
    """`any` (ReduceMax) and `all` (ReduceMin) by numbers 0 and 1."""

    def convert(call: Call, x: Tensor, axes: Axes = None, keepdim: bool = False) -> Tensor:
        numbers = call.of_type(call.of_type(x, DType.BOOL), DType.FLOAT32)
        return call.of_type(call.op(op_type, numbers, axes_of(x, axes), keepdims=int(keepdim)))

    return convert


def variance(
    call: Call, x: Tensor, axes: Axes = None, *, correction: float = 1, keepdim: bool = False
) -> Tensor:
    """The mean of squared distances, with Bessel's correction or another."""
    over = axes_of(x, axes)
    count = int(np.prod([x.static_shape[axis] for axis in over]))
    centred = call.op("Sub", x, call.op("ReduceMean", x, over, keepdims=1))
    total = call.op("ReduceSum", call.op("Mul", centred, centred), over, keepdims=int(keepdim))
    return call.op("Div", total, float(max(0, count - correction)))


def cumulative(call: Call, x: Tensor, axis: int, **_options: Any) -> Tensor:
    """Cumsum."""
    return call.op("CumSum", call.of_type(x), call.array(axis_of(x, axis), "axis"))


def top(
    call: Call, x: Tensor, count: int, axis: int = -1, largest: bool = True, order: bool = True
) -> list[Tensor]:
    """The largest or smallest along an axis, and where they are."""
    options = {"axis": axis_of(x, axis), "largest": int(largest), "sorted": int(order)}
    return call.ops("TopK", x, [int(count)], outputs=2, **options)


# ---------------------------------------------------------------------------------------------------- pooling


def windows(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> dict[str, Any]:
    """Attributes of a pooling; without a stride windows lie side by side."""
    axes = rank(x) - 2
    sizes, pads = each(kernel, axes), each(padding, axes)
    return {
        "kernel_shape": sizes,
        "strides": each(stride, axes) if stride else sizes,
        "pads": (*pads, *pads),
        "ceil_mode": int(ceil_mode),
    }


def max_pool(
    call: Call,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Tensor:
    """The largest value of each window."""
    options = windows(x, kernel, stride, padding, ceil_mode)
    return call.op("MaxPool", x, dilations=each(dilation, rank(x) - 2), **options)


def average_pool(
    call: Call,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    """The mean of each window."""
    options = windows(x, kernel, stride, padding, ceil_mode)
    y = call.op("AveragePool", x, count_include_pad=int(count_include_pad), **options)
    if divisor is None:
        return y
    if any(options["pads"]) or ceil_mode:
        raise call.unsupported("needs no divisor_override beside padding", divisor)
    return call.op("Mul", y, float(np.prod(options["kernel_shape"])) / divisor)


def adaptive_windows(size: int, count: int) -> tuple[int, int] | None:
    """Window and step of adaptive pooling, if all windows are equal.

    >>> adaptive_windows(7, 7), adaptive_windows(12, 4), adaptive_windows(7, 2)
    ((1, 1), (3, 3), None)
    """
    return (size // count, size // count) if size % count == 0 else None


def adaptive_average_pool(call: Call, x: Tensor, sizes: Sequence[int]) -> Tensor:
    """The mean of as many windows as the result has places."""
    axes = rank(x) - 2
    wanted = each(sizes, axes)
    if all(size == 1 for size in wanted):
        return call.op("GlobalAveragePool", x)
    parts = [adaptive_windows(own, size) for own, size in zip(x.static_shape[2:], wanted, strict=True)]
    if None in parts:
        for axis, size in enumerate(wanted):
            x = _uneven_means(call, x, axis + 2, size)
        return x
    kernel = [window[0] for window in parts if window is not None]
    return x if kernel == [1] * axes else average_pool(call, x, kernel, kernel)


def _uneven_means(call: Call, x: Tensor, axis: int, count: int) -> Tensor:
    """Means of overlapping windows along one axis, as a product with their weights."""
    size = x.static_shape[axis]
    weights = np.zeros((size, count), x.element_type.numpy)
    for place in range(count):
        first, last = place * size // count, -(-(place + 1) * size // count)
        weights[first:last, place] = 1 / (last - first)
    order = [*(each for each in range(rank(x)) if each != axis), axis]
    moved = call.op(
        "MatMul", call.op("Transpose", x, perm=order), call.array(weights, "means", weights.dtype)
    )
    return call.op("Transpose", moved, perm=[int(place) for place in np.argsort(order)])
