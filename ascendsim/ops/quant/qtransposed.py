"""Transposed convolution of integers (domain "ascend"): CANN's Conv2DTranspose in int8.

    QuantConvTranspose(x, sx, zx, w, sw, zw, sy, zy, bias)      ports and values as QLinearConv has them

Neither ONNX nor onnxruntime has such an operator; the compiler makes it of a pair around ConvTranspose. What
stands between the data's elements and around them is 0, so on the Cube it holds the zero point, as padding of
a convolution does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.ops.linear.conv_transpose import forward_axes, spread, spreading_work, transposed_shape
from ascendsim.ops.quant.checks import check_single, check_slices
from ascendsim.ops.quant.quantised import (
    along_axis,
    need_bytes,
    requantise_steps,
    requantised,
    result_type,
    scale_of,
    shifted,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import convolution
from ascendsim.opset.work import LowerContext, Work


def _infer(context: InferContext) -> None:
    need_bytes(context, (0, 3))
    shape, filters = transposed_shape(context, 0, 3, 8), context.shape(3)
    check_single(context, (1, 2, 6, 7))
    check_slices(context, 4, None if shape is None else shape[1], "channel of the result")
    if int(context.node.attr("group", 1)) == 1:
        check_slices(context, 5, None if filters is None else filters[1], "channel of the result")
    else:
        check_single(context, (5,))
    context.set(0, result_type(context), shape)


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Exact sums: float64 holds every one of them."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = (*inputs, *(None,) * 3)[:9]
    image, weight = (shifted(array, zero, 1).astype(np.float64) for array, zero in ((x, x_zero), (w, w_zero)))
    axes, sizes = forward_axes(node, image.shape[2:], weight.shape[2:])
    made = tuple(int(size) for size in sizes if isinstance(size, int))
    total = spread(image, weight, axes, int(node.attr("group", 1)), made).astype(np.int32)
    if bias is not None:
        total = total + bias.reshape(-1, *(1,) * len(made))
    scale = scale_of(x_scale).reshape(()) * along_axis(scale_of(w_scale), total.ndim, 1)
    return [requantised(node, total, scale, y_scale, y_zero, wanted[0])]


def _lower(node: Node, _context: LowerContext) -> Work:
    image, weight, bias = node.required(0), node.required(3), node.input(8)
    forward = forward_axes(node, image.static_shape[2:], weight.static_shape[2:])[0]
    epilogue, streams = requantise_steps(node, 4, 7, bias)
    return spreading_work(
        node,
        image,
        weight,
        bias,
        forward,
        int(node.attr("group", 1)),
        epilogue=epilogue,
        epilogue_inputs=streams,
    )


OPERATORS = (
    OpDef(
        "QuantConvTranspose",
        _infer,
        _compute,
        _lower,
        Layout.FEATURE,
        "Conv2DTranspose",
        domain="ascend",
        most_inputs=9,
        facts=Facts(
            convolution(0, 3, (8,), flipped=True),
            Kind.CONVOLUTION,
            Precision.GRAY,
            pattern=OpPattern.CONV_BACKPROP,
            operands=(0, 3),
            parameters=(1, 2, 4, 5, 6, 7),
        ),
    ),
)
