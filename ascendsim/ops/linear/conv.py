"""Conv: 1-d to 3-d, groups, dilation, auto_pad.

The attribute `activation` = "relu", which no model has, is a Relu that fusion took into the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import as_float32, computing_type, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.cube import convolution_work
from ascendsim.ops.shared.windows import Axis, as_volume, kernel_window, outputs, slide, window_links
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import Link, shape_of
from ascendsim.opset.facts import Elements, Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import convolution
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Work


def conv_shape(
    context: InferContext,
    image: int = 0,
    weight: int = 1,
    bias: int | None = 2,
    seen: tuple[Any, ...] | None = None,
) -> tuple[Any, ...] | None:
    """Output shape of a convolution whose operands are at these input ports; None if a rank is unknown.

    Args:
        context: The node.
        image, weight, bias: Input ports.
        seen: Shape of the image as the convolution sees it, if it is not the input's.

    Raises:
        GraphError: If ranks, channels, groups or the bias do not fit.
    """
    x, w = seen or context.shape(image), context.shape(weight)
    groups = int(context.node.attr("group", 1))
    if groups < 1:
        raise context.fail("needs a positive group", groups)
    if x is not None and len(x) < 3:
        raise context.fail("needs an input of shape (batch, channels, spatial ...)", x)
    if x is not None and w is not None:
        if len(x) != len(w):
            raise context.fail("needs input and weight of equal rank", f"{len(x)} and {len(w)}")
        channels, per_group = x[1], w[1]
        if isinstance(channels, int) and isinstance(per_group, int) and channels != per_group * groups:
            raise context.fail(
                f"needs {per_group} x {groups} input channels (weight channels x group)",
                channels,
                "check the weight or group",
            )
    if w is not None and isinstance(w[0], int) and w[0] % groups:
        raise context.fail(f"needs output channels that are a multiple of group {groups}", w[0])
    if bias is not None and context.has(bias) and w is not None:
        b = context.shape(bias)
        if b is not None and isinstance(w[0], int) and b != (w[0],) and all(isinstance(d, int) for d in b):
            raise context.fail(f"needs a bias of shape ({w[0]},)", b)
    if x is None:
        return None
    kernel = conv_kernel(context.node, w)
    if kernel is None:
        return (x[0], None if w is None else w[0], *(None for _ in x[2:]))
    return (x[0], None if w is None else w[0], *outputs(slide(context.node, x[2:], kernel)))


def conv_kernel(node: Node, weight_shape: tuple[Any, ...] | None) -> tuple[int, ...] | None:
    """Kernel size from the weight, or from kernel_shape if the weight's is unknown; None if neither is known.

    Raises:
        GraphError: If the two differ.
    """
    stated = tuple(int(k) for k in node.attr("kernel_shape", ()) or ())
    spatial = None if weight_shape is None else tuple(weight_shape[2:])
    if spatial is None or not all(isinstance(k, int) for k in spatial):
        return stated or None
    if stated and stated != spatial:
        raise InferContext(node).fail(f"needs kernel_shape {spatial} as its weight has it", stated)
    return spatial


def _infer(context: InferContext) -> None:
    context.set(0, context.dtype(0), conv_shape(context))


def conv_axes(node: Node, image_shape: tuple[int, ...], weight_shape: tuple[int, ...]) -> tuple[Axis, ...]:
    """Windows of a convolution over an input of known shape."""
    return slide(node, image_shape[2:], weight_shape[2:])


def convolve_arrays(node: Node, image: Any, weight: Any) -> Any:
    """Convolution of two float32 or float64 arrays without bias; (N, cout, *out)."""
    from ascendsim_kernels.conv import convolve

    axes = conv_axes(node, image.shape, weight.shape)
    image5, weight5 = (np.ascontiguousarray(as_volume(array, 2)) for array in (image, weight))
    result = convolve(image5, weight5, kernel_window(axes), int(node.attr("group", 1)))
    return result.reshape(result.shape[:2] + result.shape[5 - len(axes) :])


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: exact products of halves, float32 accumulation, bias added in float32 (L0C), one
    rounding.
    """
    result = convolve_arrays(node, as_float32(inputs[0]), as_float32(inputs[1]))
    if len(inputs) > 2 and inputs[2] is not None:
        result += as_float32(inputs[2]).reshape(-1, *(1,) * (result.ndim - 2))
    if node.attr("activation") == "relu":
        result = np.maximum(result, result.dtype.type(0))
    return [finish(result, wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    """Cube work; groups are packed as TBE's FRACTAL_Z group form does (`enlarged_groups`), bias is preloaded
    in L0C.

    A 3-d convolution multiplies its depth taps one after the other (`kernel_d`); its output depth counts as
    batch.
    """
    image, weight, output = node.required(0), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    if image.elements == 0 or weight.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(math.prod(weight.static_shape[1:])))
    axes = conv_axes(node, image.static_shape, weight.static_shape)
    epilogue = (
        (Step("vrelu", computing_type(output.element_type, context)),)
        if node.attr("activation") == "relu"
        else ()
    )
    return convolution_work(
        image, weight, node.input(2), output, axes, int(node.attr("group", 1)), epilogue=epilogue
    )


def conv_type(node: Node, weight: int = 1) -> str:
    """Conv3D for volumes, DepthwiseConv2D if every group has one input channel, else Conv2D (1-d too: height
    1). The weight is at an input port.
    """
    shape, filters = node.required(0).shape, node.required(weight).shape
    if shape is not None and len(shape) == 5:
        return "Conv3D"
    groups = int(node.attr("group", 1))
    return "DepthwiseConv2D" if groups > 1 and filters is not None and filters[1] == 1 else "Conv2D"


def conv_windows(node: Node, weight: int = 1) -> tuple[Link, ...]:
    """Links of the positions of a convolution whose weight is at an input port; none where sizes are not
    known.
    """
    shape = shape_of(node, 0)
    kernel = None if shape is None else conv_kernel(node, shape_of(node, weight))
    return () if shape is None or kernel is None else window_links(node, slide(node, shape[2:], kernel))


def conv_pattern(node: Node, weight: int = 1) -> OpPattern:
    """The class that UB fusion has for a convolution whose weight is at an input port."""
    return {"DepthwiseConv2D": OpPattern.DEPTHWISE, "Conv3D": OpPattern.CONV3D}.get(
        conv_type(node, weight), OpPattern.CONVOLUTION
    )


OPERATORS = (
    OpDef(
        "Conv",
        _infer,
        _compute,
        _lower,
        Layout.FEATURE,
        cann="Conv2D",
        mindspore="Conv2D",
        cann_of=conv_type,
        most_inputs=3,
        facts=Facts(
            convolution(windows=conv_windows),
            Kind.CONVOLUTION,
            Precision.WHITE,
            pattern=conv_pattern,
            operands=(0, 1),
            elements=Elements.REAL,
        ),
    ),
)
