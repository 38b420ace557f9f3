"""Aipp and AippConv (domain "ascend"): image conversion in front of a network, alone or on the way into the
first convolution.

Values, in CANN's order, for a pixel of channels x0, x1, x2 (bytes; YUV420SP: the U and V of its 2x2 square):

    crop     the window of the image
    swap     x0 <-> x2 of RGB, x1 <-> x2 of YUV (rbuv_swap_switch)
    csc      y = (M (x - input_bias)) >> 8, plus output_bias, cut to 0..255 (matrix M in 1/256)
    norm     z = (y - mean - min) * var_reci                            in float32, rounded once to the
             result's type
    border   rows and columns of one value around it

Time: AIPP is a part of MTE2's way from global memory into L1: bytes of the image come in, blocks of C0
channels a pixel go out. It is taken to keep pace with whichever side is slower (assumed: no rate of the unit
itself is published). An Aipp that no convolution takes along runs as a task that carries the image through
the core and writes NC1HWC0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.linear.conv import conv_axes, conv_pattern, conv_shape, convolve_arrays
from ascendsim.ops.shared.common import as_float32, computing_type, finish, own_type, rounded_within
from ascendsim.ops.shared.cube import convolution_work
from ascendsim.ops.shared.dims import need_rank
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision, movement
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, RawImage, Ref, Step, Work
from ascendsim.passes.aipp.settings import AippSettings

Wanted = Sequence["np.dtype[Any]"]


def _infer(context: InferContext) -> None:
    """The result's type is that of the input which the image replaced; the pass that inserts the node sets
    it.
    """
    settings = AippSettings.of(context.node)
    need_rank(context, 0, 1)
    shape = context.shape(0)
    kind = context.node.output.origin_dtype
    if kind is None:
        raise context.fail("needs the type of its result to be set")
    context.set(0, kind, None if shape is None else (shape[0], settings.channels, *settings.result))


def convert(settings: AippSettings, images: Array) -> Array:
    """Images as AIPP hands them to the network: float32 [N, C, H, W], not yet rounded to the device's type.

    Args:
        settings: With `source` filled in.
        images: uint8, of `settings.raw_shape(N)`.
    """
    top, left, height, width = settings.window
    pixels = _pixels(settings, images)[:, :, top : top + height, left : left + width].astype(np.int32)
    if settings.swap:
        pixels = pixels[:, [2, 1, 0] if settings.input_format == "RGB888_U8" else [0, 2, 1]]
    if settings.matrix:
        matrix = np.array(settings.matrix, np.int32).reshape(3, 3)
        centred = pixels - np.array(settings.input_bias, np.int32).reshape(1, 3, 1, 1)
        mixed = np.einsum("rc,nchw->nrhw", matrix, centred) >> 8
        pixels = np.clip(mixed + np.array(settings.output_bias, np.int32).reshape(1, 3, 1, 1), 0, 255)
    count = settings.channels
    offset = np.array([m + n for m, n in zip(settings.mean, settings.minimum, strict=True)], np.float32)[
        :count
    ].reshape(1, -1, 1, 1)
    scale = np.array(settings.scale, np.float32)[:count].reshape(1, -1, 1, 1)
    result = (pixels.astype(np.float32) - offset) * scale
    above, before, below, behind = settings.border
    wide = ((0, 0), (0, 0), (above, below), (before, behind))
    return np.pad(result, wide, constant_values=np.float32(settings.border_value))


def _pixels(settings: AippSettings, images: Array) -> Array:
    """uint8 [N, C, H, W] of the whole image; chroma of YUV420SP repeated for its 2x2 pixels."""
    if settings.input_format == "RGB888_U8":
        return images.transpose(0, 3, 1, 2)
    if settings.input_format == "YUV400_U8":
        return images[:, None]
    height, width = settings.source
    luma, chroma = images[:, :height], images[:, height:].reshape(-1, height // 2, width // 2, 2)
    both = chroma.transpose(0, 3, 1, 2).repeat(2, axis=2).repeat(2, axis=3)
    return np.concatenate([luma[:, None], both], axis=1)


def _compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [finish(convert(AippSettings.of(node), inputs[0]), wanted[0])]


def raw_image(settings: AippSettings) -> RawImage:
    """How the images lie in memory."""
    top, left, _, width = settings.window
    row = settings.row_bytes
    pixel = row // settings.source[1]
    halved = settings.input_format == "YUV420SP_U8"
    rows = settings.source[0] * 3 // 2 if halved else settings.source[0]
    return RawImage(row, width * pixel, top * row + left * pixel, rows * row, *((3, 2) if halved else (1, 1)))


def _lower(node: Node, _context: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    settings = AippSettings.of(node)
    image = raw_image(settings)
    _, _, height, _ = settings.window
    read = node.output.static_shape[0] * image.used_bytes * height * image.rows // image.per
    copy = Copy(source, target, read, image.used_bytes, target.bytes, write_bytes=target.bytes)
    return MoveWork((copy,))


def _infer_conv(context: InferContext) -> None:
    settings = AippSettings.of(context.node)
    need_rank(context, 0, 1)
    images, weight = context.shape(0), context.shape(1)
    if images is None or weight is None:
        context.set(0, context.dtype(1), None)
        return
    context.set(
        0, context.dtype(1), conv_shape(context, seen=(images[0], settings.channels, *settings.result))
    )


def _compute_conv(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    """The image is rounded to the weight's type, as L1 holds it; then as for Conv."""
    image = rounded_within(convert(AippSettings.of(node), inputs[0]), own_type(inputs[1], wanted))
    result = convolve_arrays(node, as_float32(image), as_float32(inputs[1]))
    if len(inputs) > 2 and inputs[2] is not None:
        result += as_float32(inputs[2]).reshape(-1, *(1,) * (result.ndim - 2))
    if node.attr("activation") == "relu":
        result = np.maximum(result, result.dtype.type(0))
    return [finish(result, wanted[0])]


def _lower_conv(node: Node, context: LowerContext) -> Work:
    """The convolution's work on the converted image, whose bytes in global memory are those of the raw
    one.
    """
    settings, weight, output = AippSettings.of(node), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    source = node.required(0)
    seen = (source.static_shape[0], settings.channels, *settings.result)
    image = Tensor(source.name, weight.dtype, seen, Format.NC1HWC0)
    epilogue = (
        (Step("vrelu", computing_type(output.element_type, context)),)
        if node.attr("activation") == "relu"
        else ()
    )
    work = convolution_work(
        image, weight, node.input(2), output, conv_axes(node, seen, weight.static_shape), 1, epilogue=epilogue
    )
    return replace(work, a=Ref.of(source), image=raw_image(settings))


def _links(node: Node) -> AxisMap:
    """Images are converted one by one; where their pixels come to lie depends on the format."""
    rank, result = rank_of(node, 0), node.output.shape
    if rank is None or result is None:
        return NOTHING_SAID
    return by_labels(
        node, {0: ("n", *range(rank - 1))}, {0: ("n", *(("result", axis) for axis in range(len(result) - 1)))}
    )


def _conv_links(node: Node) -> AxisMap:
    """As those of the image, and output channels are those of filters and bias: all images share them."""
    image, filters = _links(node), rank_of(node, 1)
    if filters is None or not image.links:
        return NOTHING_SAID
    taps = [("tap", axis) for axis in range(filters - 1)]
    places = [("at", axis) for axis in range(filters - 2)]
    shared = by_labels(node, {1: ("o", *taps), 2: ("o",)}, {0: ("n", "o", *places)})
    return AxisMap({**shared.links, **image.links})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Aipp",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        foldable=False,
        most_inputs=None,
        facts=movement(_links, pattern=OpPattern.AIPP, makes_maps=True),
    ),
    OpDef(
        "AippConv",
        _infer_conv,
        _compute_conv,
        _lower_conv,
        Layout.ND,
        cann="Conv2D",
        domain="ascend",
        foldable=False,
        most_inputs=None,
        facts=Facts(_conv_links, Kind.CONVOLUTION, Precision.GRAY, pattern=conv_pattern),
    ),
)
