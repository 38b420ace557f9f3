"""ConvTranspose: the data gradient of a convolution.

Before: y = ConvTranspose(x, w). On the Cube: z = x with stride - 1 zeros between neighbours; y = Conv(z, w
turned by 180 degrees), stride 1, pads = span - 1 - pads. That is what TBE's conv2d_backprop_input does (it
dilates dy on the way into L1). Splitting into stride_h * stride_w dense phase convolutions would spare the
products with zeros, but is not what the general TBE schedule runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.formats import ceil_div
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.linear.conv import conv_kernel
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.cube import by_rank, convolution_work
from ascendsim.ops.shared.windows import MAX_SPATIAL_AXES, Axis, as_volume, kernel_window, spatial_ints
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import convolution
from ascendsim.opset.work import LowerContext, NoTask, Work


def forward_axes(
    node: Node, sizes: tuple[Dim, ...], kernel: tuple[int, ...]
) -> tuple[tuple[Axis, ...], tuple[Dim, ...]]:
    """Windows of the forward convolution (whose outputs are `sizes`) and the sizes of the volume that it ran
    over.

    Size without output_shape: stride * (in - 1) + output_padding + span - pads. With output_shape, or
    auto_pad SAME (size = in * stride), the total padding follows from it and its odd part goes behind
    (SAME_UPPER) or in front (else).
    """
    axes = len(sizes)
    context = InferContext(node)
    if not 1 <= axes <= MAX_SPATIAL_AXES:
        raise context.fail(f"supports 1 to {MAX_SPATIAL_AXES} spatial axes", axes)
    strides = spatial_ints(node, "strides", axes, 1, 1)
    dilations = spatial_ints(node, "dilations", axes, 1, 1)
    extra = spatial_ints(node, "output_padding", axes, 0, 0)
    for more, stride, dilation in zip(extra, strides, dilations, strict=True):
        if more >= max(stride, dilation):
            raise context.fail("needs output_padding below stride or dilation", more)
    pads = spatial_ints(node, "pads", axes, 0, 0, 2 * axes)
    mode = node.attr("auto_pad", "NOTSET")
    stated = tuple(int(v) for v in node.attr("output_shape", ()) or ())
    if stated and len(stated) not in (axes, axes + 2):
        raise context.fail(f"needs {axes} numbers in output_shape", len(stated))
    stated = stated[-axes:]
    windows: list[Axis] = []
    made: list[Dim] = []
    for axis, size in enumerate(sizes):
        span = dilations[axis] * (kernel[axis] - 1) + 1
        before, after = (pads[axis], pads[axes + axis]) if mode == "NOTSET" else (0, 0)
        output: Dim = None
        if isinstance(size, int):
            full = strides[axis] * (size - 1) + extra[axis] + span
            output = full - before - after
            if stated or mode in ("SAME_UPPER", "SAME_LOWER"):
                output = stated[axis] if stated else size * strides[axis]
                total = max(0, full - output)
                before = total // 2 if mode == "SAME_UPPER" else ceil_div(total, 2)
                after = total - before
            if output < 1:
                raise context.fail(
                    f"needs pads smaller than the output along spatial axis {axis}", before + after
                )
        windows.append(
            Axis(
                kernel[axis],
                strides[axis],
                dilations[axis],
                before,
                after,
                size if isinstance(size, int) else None,
            )
        )
        made.append(output)
    return tuple(windows), tuple(made)


def _infer(context: InferContext) -> None:
    context.set(0, context.dtype(0), transposed_shape(context))


def transposed_shape(context: InferContext, image: int = 0, weight: int = 1, bias: int = 2) -> Shape | None:
    """Shape of the result, from the operands in these ports.

    Raises:
        GraphError: If they do not fit.
    """
    x, w = context.shape(image), context.shape(weight)
    groups = int(context.node.attr("group", 1))
    if groups < 1:
        raise context.fail("needs a positive group", groups)
    if x is not None and w is not None:
        if len(x) < 3 or len(x) != len(w):
            raise context.fail("needs input and weight of equal rank >= 3", f"{len(x)} and {len(w)}")
        if isinstance(x[1], int) and isinstance(w[0], int) and x[1] != w[0]:
            raise context.fail(f"needs {w[0]} input channels (first axis of the weight)", x[1])
        if isinstance(w[0], int) and w[0] % groups:
            raise context.fail(f"needs input channels that are a multiple of group {groups}", w[0])
    if x is None:
        return None
    channels: Dim = w[1] * groups if w is not None and isinstance(w[1], int) else None
    given = context.shape(bias) if context.has(bias) else None
    if (
        given is not None
        and isinstance(channels, int)
        and given != (channels,)
        and all(isinstance(d, int) for d in given)
    ):
        raise context.fail(f"needs a bias of shape ({channels},)", given)
    kernel = conv_kernel(context.node, w)
    spatial = (None,) * len(x[2:]) if kernel is None else forward_axes(context.node, x[2:], kernel)[1]
    return (x[0], channels, *spatial)


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule as for Conv: float32 accumulation, bias before the one rounding."""
    image, weight = as_float32(inputs[0]), as_float32(inputs[1])
    axes, sizes = forward_axes(node, image.shape[2:], weight.shape[2:])
    made = tuple(int(s) for s in sizes if isinstance(s, int))
    result = spread(image, weight, axes, int(node.attr("group", 1)), made)
    if len(inputs) > 2 and inputs[2] is not None:
        result += as_float32(inputs[2]).reshape(-1, *(1,) * len(made))
    return [finish(result, wanted[0])]


def spread(image: Array, weight: Array, axes: tuple[Axis, ...], groups: int, made: tuple[int, ...]) -> Array:
    """The transposed convolution of two float32 or float64 arrays without bias.

    Args:
        image: (N, channels, *positions).
        weight: (channels, outputs of a group, *kernel).
        axes: Windows of the forward convolution, from `made` to the positions.
        groups: Channel groups.
        made: Spatial sizes of the result.
    """
    from ascendsim_kernels.conv import convolve_transposed

    volume = (1,) * (3 - len(made)) + made
    image5, weight5 = (np.ascontiguousarray(as_volume(array, 2)) for array in (image, weight))
    result = convolve_transposed(
        image5, weight5, kernel_window(axes), groups, (volume[0], volume[1], volume[2])
    )
    return np.asarray(result.reshape(result.shape[:2] + made))


def _lower(node: Node, context: LowerContext) -> Work:
    image, weight = node.required(0), node.required(1)
    forward = forward_axes(node, image.static_shape[2:], weight.static_shape[2:])[0]
    return spreading_work(node, image, weight, node.input(2), forward, int(node.attr("group", 1)))


def spreading_work(
    node: Node,
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    forward: tuple[Axis, ...],
    groups: int,
    **more: Any,
) -> Work:
    """One stride-1 convolution over the stride-expanded input; useful products are those with real input
    elements.

    Padding of the expanded input may be negative (pads larger than the kernel reaches): then the input is
    cropped.

    Args:
        node: Whose output it makes.
        image, weight, bias: As ConvTranspose has them.
        forward: Windows of the forward convolution over the output.
        groups: Channel groups.
        more: Further arguments of `convolution_work`.
    """
    output = node.output
    if output.elements == 0:
        return NoTask()
    shape = image.static_shape
    macs = math.prod(shape) * math.prod(weight.static_shape[1:])
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, macs / output.elements)
    axes: list[Axis] = []
    expanded: list[int] = []
    for axis, size, made in zip(forward, shape[2:], output.static_shape[2:], strict=True):
        before = axis.span - 1 - axis.before
        length = (size - 1) * axis.stride + 1
        after = made - 1 + axis.span - before - length  # stride 1: made = before + length + after - span + 1
        expanded.append(length + min(0, before) + min(0, after))
        axes.append(Axis(axis.kernel, 1, axis.dilation, max(0, before), max(0, after), made))
    work = convolution_work(
        image,
        weight,
        bias,
        output,
        tuple(axes),
        groups,
        shape=(*shape[:2], *expanded),
        useful_macs=macs,
        **more,
    )
    return replace(work, transposed=True)


OPERATORS = (
    OpDef(
        "ConvTranspose",
        _infer,
        _compute,
        _lower,
        Layout.FEATURE,
        cann="Conv2DTranspose",
        cann_of=by_rank("Conv2DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        most_inputs=3,
        facts=Facts(
            convolution(flipped=True),
            Kind.CONVOLUTION,
            Precision.WHITE,
            pattern=OpPattern.CONV_BACKPROP,
            operands=(0, 1),
        ),
    ),
)
