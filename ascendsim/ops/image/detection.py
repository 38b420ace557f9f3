"""Object detection: NonMaxSuppression, RoiAlign, MaxRoiPool, DeformConv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Dim, Node, Shape
from ascendsim.ops.linear.conv import conv_axes, conv_shape
from ascendsim.ops.shared.common import as_float32, computing_type, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.cube import convolution_work
from ascendsim.ops.shared.windows import kernel_window, static_outputs, taps
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import CHOSEN, AxisMap, Labels, by_labels
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import (
    AiCpuWork,
    LowerContext,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

BLOCK_LANES = 16  # channels of a block of NC1HWC0


def _infer_nms(context: InferContext) -> None:
    """The count of selected boxes depends on values: unknown until the run."""
    boxes, scores = context.shape(0), context.shape(1)
    for port, shape in ((0, boxes), (1, scores)):
        if shape is not None and len(shape) != 3:
            raise context.fail(f"needs input {port} of rank 3", f"shape {shape}")
    if boxes is not None and isinstance(boxes[2], int) and boxes[2] != 4:
        raise context.fail("needs 4 numbers a box", boxes[2])
    if (
        boxes is not None
        and scores is not None
        and isinstance(boxes[1], int)
        and isinstance(scores[2], int)
        and boxes[1] != scores[2]
    ):
        raise context.fail("needs a score for every box", f"{boxes[1]} boxes and {scores[2]} scores")
    if (
        boxes is not None
        and scores is not None
        and isinstance(boxes[0], int)
        and isinstance(scores[0], int)
        and boxes[0] != scores[0]
    ):
        raise context.fail("needs boxes and scores of as many images", f"{boxes[0]} and {scores[0]}")
    for port in (2, 3, 4):
        limit = context.shape(port) if context.has(port) else None
        if limit is not None and any(isinstance(size, int) and size > 1 for size in limit):
            raise context.fail(f"needs one number as input {port}", f"shape {list(limit)}")
    context.set(0, DType.INT64, (None, 3))


def _number(array: Any, default: float) -> float:
    return default if array is None or np.size(array) == 0 else float(np.asarray(array).item())


def _compute_nms(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    from ascendsim_kernels.detection import suppress

    boxes, scores, limit, overlap, least = list(inputs) + [None] * (5 - len(inputs))
    corners = as_float32(boxes).astype(np.float32)
    if node.attr("center_point_box", 0):  # x, y of the centre, width, height
        x, y, w, h = (corners[..., i] for i in range(4))
        corners = np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], axis=-1)
    else:
        corners = np.concatenate(
            [np.minimum(corners[..., :2], corners[..., 2:]), np.maximum(corners[..., :2], corners[..., 2:])],
            axis=-1,
        )
    values = as_float32(scores).astype(np.float32)
    if least is not None and np.size(least):
        values = np.where(values > np.float32(_number(least, 0.0)), values, np.float32(-np.inf))
    count = max(0, int(_number(limit, 0)))
    chosen = [np.empty((0, 3), np.int64)]
    for batch in range(values.shape[0]):
        for group in range(values.shape[1]):
            kept = suppress(
                np.ascontiguousarray(corners[batch]), values[batch, group], _number(overlap, 0.0), count
            )
            chosen.append(np.stack([np.full_like(kept, batch), np.full_like(kept, group), kept], axis=1))
    return [np.concatenate(chosen)]


def _lower_nms(node: Node, context: LowerContext) -> Work:
    """AI CPU: sorting, then every candidate against those kept (bounded by max_output_boxes_per_class where
    that is constant).
    """
    boxes, scores = node.required(0), node.required(1)
    limit = node.input(2)
    count = scores.static_shape[2]
    kept = count
    if limit is not None and limit.constant is not None and limit.constant.available:
        kept = min(count, max(1, int(_number(limit.constant.array(), 0))))
    operations = math.log2(max(2, count)) + kept / 2  # comparisons of one candidate
    return AiCpuWork(scores.elements, operations, (Ref.of(boxes), Ref.of(scores)))


def _infer_roi(context: InferContext) -> None:
    x, rois = context.shape(0), context.shape(1)
    if x is not None and len(x) != 4:
        raise context.fail("needs an input of rank 4", f"shape {x}")
    pooled = context.node.attr("pooled_shape") or (
        context.node.attr("output_height", 1),
        context.node.attr("output_width", 1),
    )
    if len(pooled) != 2 or any(int(p) < 1 for p in pooled):
        raise context.fail("needs two positive output sizes", pooled)
    _check_rois(context, rois)
    channels: Dim = None if x is None else x[1]
    context.set(
        0, context.dtype(0), (None if rois is None else rois[0], channels, int(pooled[0]), int(pooled[1]))
    )


def _check_rois(context: InferContext, rois: Shape | None) -> None:
    """Regions have 4 numbers and an image each, or (MaxRoiPool) 5 with that of the image in front."""
    images = context.shape(2) if context.has(2) else None
    numbers = 4 if context.has(2) else 5
    if rois is not None and (len(rois) != 2 or (isinstance(rois[1], int) and rois[1] != numbers)):
        raise context.fail(f"needs {numbers} numbers a region", f"shape {rois}")
    if images is not None and len(images) != 1:
        raise context.fail("needs a vector of image numbers", f"shape {images}")
    if images and rois and isinstance(images[0], int) and isinstance(rois[0], int) and images[0] != rois[0]:
        raise context.fail("needs an image number for every region", f"{images[0]} for {rois[0]}")


def _compute_roi_align(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    from ascendsim_kernels.detection import roi_align

    image, rois, batches = (
        as_float32(inputs[0]),
        as_float32(inputs[1]),
        np.asarray(inputs[2]).astype(np.int64),
    )
    if batches.size and (batches.min() < 0 or batches.max() >= image.shape[0]):
        raise InferContext(node).fail(
            f"needs batch indices from 0 to {image.shape[0] - 1}", int(batches.max())
        )
    result = roi_align(
        np.ascontiguousarray(image),
        rois,
        batches,
        (int(node.attr("output_height", 1)), int(node.attr("output_width", 1))),
        scale=float(node.attr("spatial_scale", 1.0)),
        shift=0.5 if node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0,
        sampling=int(node.attr("sampling_ratio", 0)),
        maximum=node.attr("mode", "avg") == "max",
    )
    return [finish(result, wanted[0])]


def _compute_max_roi_pool(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    """Maximum of the positions of each bin; region corners rounded to positions, empty bins 0 (Fast R-CNN's
    pooling).
    """
    image, rois = as_float32(inputs[0]), as_float32(inputs[1])
    high, wide = (int(v) for v in node.attr("pooled_shape"))
    scale = np.float32(node.attr("spatial_scale", 1.0))
    height, width = image.shape[2:]
    result = np.zeros((rois.shape[0], image.shape[1], high, wide), image.dtype)
    for r, roi in enumerate(rois):
        batch = int(roi[0])
        if not 0 <= batch < image.shape[0]:
            raise InferContext(node).fail(f"needs batch indices from 0 to {image.shape[0] - 1}", batch)
        left, top, right, bottom = (int(np.floor(v * scale + np.float32(0.5))) for v in roi[1:5])
        bin_h, bin_w = (
            np.float32(max(bottom - top + 1, 1)) / np.float32(high),
            np.float32(max(right - left + 1, 1)) / np.float32(wide),
        )
        for ph in range(high):
            rows = _bin(ph, bin_h, top, height)
            for pw in range(wide):
                piece = image[batch, :, rows, _bin(pw, bin_w, left, width)]
                if piece.size:
                    result[r, :, ph, pw] = piece.max(axis=(1, 2))
    return [finish(result, wanted[0])]


def _bin(number: int, size: Any, start: int, limit: int) -> slice:
    low = int(np.floor(np.float32(number) * size)) + start
    high = int(np.ceil(np.float32(number + 1) * size)) + start
    return slice(min(max(low, 0), limit), min(max(high, 0), limit))


def _lower_roi(node: Node, context: LowerContext) -> Work:
    """A weighted sum of four neighbours for each sample (2 x 2 if regions decide).

    One instruction takes the two of a row and a block of channels: CANN's ROIAlign reads NC1HWC0, where they
    lie side by side, and computes in float32 (profiles of 910B2 show its TransData and Casts).
    """
    image, output = node.required(0), node.output
    if output.elements == 0:
        return NoTask()
    samples = 4 * (int(node.attr("sampling_ratio", 0)) or 2) ** 2
    if not image.element_type.is_float or image.element_type is DType.FLOAT64:
        return on_ai_cpu(node, float(samples))
    inside = computing_type(image.element_type, context, wide=True)
    steps = (
        Step("vaxpy", inside, count=samples, run=2 * BLOCK_LANES),
        Step("vmuls", inside),
    )
    shape = output.static_shape
    return VectorWork(
        shape[0],
        math.prod(shape[1:]),
        steps,
        (
            Stream(Ref.of(image)),
            *(Stream(Ref.of(tensor), "row") for tensor in node.inputs[1:] if tensor is not None),
        ),
        (Stream(Ref.of(output)),),
        gather_bytes=2 * BLOCK_LANES * image.element_type.itemsize,
    )


def _infer_deform(context: InferContext) -> None:
    shape = conv_shape(context, bias=3)
    if shape is not None and len(shape) != 4:
        raise context.fail("supports two spatial axes", len(shape) - 2)
    context.set(0, context.dtype(0), shape)


def _compute_deform(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: sampling rounds nothing before the product; float32 sums, bias, one rounding."""
    from ascendsim_kernels.detection import deformed_columns

    x, w, offset, b, mask = (
        None if a is None else as_float32(a) for a in [*inputs, *[None] * (5 - len(inputs))]
    )
    assert x is not None
    assert w is not None
    assert offset is not None
    axes = conv_axes(node, x.shape, w.shape)
    out, count, shifts = static_outputs(axes), taps(axes), int(node.attr("offset_group", 1))
    batch, channels = x.shape[:2]
    if offset.shape != (batch, shifts * count * 2, *out) or channels % shifts:
        raise InferContext(node).fail(
            f"needs offsets of shape {(batch, shifts * count * 2, *out)}", offset.shape
        )
    groups, outputs = int(node.attr("group", 1)), w.shape[0]
    moved = offset.reshape(batch, shifts, count, 2, *out)
    factors = (
        np.ones((batch, shifts, count, *out), x.dtype)
        if mask is None
        else mask.reshape(batch, shifts, count, *out)
    )
    table = kernel_window(axes).table()
    result = np.empty((batch, outputs, math.prod(out)), x.dtype)
    matrices = w.reshape(groups, outputs // groups, math.prod(w.shape[1:]))
    for n in range(batch):
        columns = np.empty((channels, count, math.prod(out)), x.dtype)
        for c in range(channels):
            shift = c * shifts // channels
            plane, move, factor = (
                np.ascontiguousarray(a) for a in (x[n, c], moved[n, shift], factors[n, shift])
            )
            columns[c] = deformed_columns(plane, move, factor, table)
        grouped = columns.reshape(groups, matrices.shape[2], math.prod(out))
        result[n] = np.matmul(matrices, grouped).reshape(outputs, math.prod(out))
    if b is not None:
        result += b.reshape(-1, 1)
    return [finish(result.reshape(batch, outputs, *out), wanted[0])]


def _lower_deform(node: Node, context: LowerContext) -> Work:
    """CANN's two parts in one task: DeformableOffsets gathers the samples on the vector unit, Conv2D
    multiplies them.
    """
    x, w, output = node.required(0), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(math.prod(w.static_shape[1:])))
    axes = conv_axes(node, x.static_shape, w.static_shape)
    inside = computing_type(x.element_type, context)
    positions = x.static_shape[0] * taps(axes) * math.prod(static_outputs(axes))
    sampling = VectorWork(
        positions,
        x.static_shape[1],
        (Step("vgather", inside, count=4), Step("vaxpy", inside, count=4)),
        (
            Stream(Ref.of(x)),
            *(
                Stream(Ref.of(tensor), "row")
                for tensor in (node.required(2), node.input(4))
                if tensor is not None
            ),
        ),
        (Stream(Ref.of(output)),),
        gather_bytes=x.element_type.itemsize,
    )
    return SequenceWork(
        (sampling, convolution_work(x, w, node.input(3), output, axes, int(node.attr("group", 1))))
    )


def _nms_links(_node: Node) -> AxisMap:
    """Which boxes stay, and of which image, depends on all scores."""
    return AxisMap({(0, 0): (CHOSEN,) * 3, (1, 0): (CHOSEN,) * 3})


def _roi_links(node: Node) -> AxisMap:
    return by_labels(
        node,
        {0: ("image", "c", "h", "w"), 1: ("box", "corner"), 2: ("box",)},
        {0: ("box", "c", "y", "x")},
        {"image": CHOSEN},
    )


def _deform_links(node: Node) -> AxisMap:
    """Offsets and masks belong to positions of the result; which positions of the image they mean depends on
    their values.
    """
    inputs: dict[int, Labels] = {
        0: ("n", "i", "y", "x"),
        1: ("o", "of a group", "v", "u"),
        2: ("n", "offset", "h", "w"),
    }
    return by_labels(
        node,
        {**inputs, 3: ("o",), 4: ("n", "mask", "h", "w")},
        {0: ("n", "o", "h", "w")},
        {"y": CHOSEN, "x": CHOSEN},
    )


_FACTS = Facts(_roi_links, Kind.REDUCTION, Precision.GRAY)

OPERATORS = (
    OpDef(
        "NonMaxSuppression",
        _infer_nms,
        _compute_nms,
        _lower_nms,
        Layout.ND,
        "NonMaxSuppressionV3",
        most_inputs=5,
        facts=Facts(_nms_links, Kind.OTHER, Precision.GRAY, parameters=(2, 3, 4)),
    ),
    OpDef(
        "RoiAlign",
        _infer_roi,
        _compute_roi_align,
        _lower_roi,
        Layout.ND,
        "ROIAlign",
        most_inputs=3,
        facts=_FACTS,
    ),
    OpDef(
        "MaxRoiPool",
        _infer_roi,
        _compute_max_roi_pool,
        _lower_roi,
        Layout.ND,
        "ROIPooling",
        most_inputs=2,
        facts=_FACTS,
    ),
    OpDef(
        "DeformConv",
        _infer_deform,
        _compute_deform,
        _lower_deform,
        Layout.ND,
        "DeformableConv2D",
        most_inputs=5,
        facts=Facts(_deform_links, Kind.CONVOLUTION, Precision.GRAY),
    ),
)
