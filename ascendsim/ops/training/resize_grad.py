"""Gradients of resizing images (domain "ascend"), in two dimensions.

    ResizeNearestNeighborV2Grad(dy) -> dx       every point of dy goes where its value came from
    ResizeBilinearV2Grad(dy) -> dx              the same, shared out by the weights of the points around

The shape of x is `orig_input_shape`; -1 as its first number is the batch of dy. Positions are found as in the
forward operator (`ops.image.resize`), by its attributes of the same names; `scales` are those of height and
width, without them the ratios of the sizes count. Sums are float64 with one rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import ceil_div
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.image.resize import ROUNDINGS, TRANSFORMS, plan_of
from ascendsim.ops.reduce.pooling import plane_bytes, rows_and_lanes
from ascendsim.ops.shared.bursts import DUPLICATE
from ascendsim.ops.shared.common import on_ai_cpu, runs_on_ai_core, with_numpy
from ascendsim.ops.shared.dims import may_equal
from ascendsim.ops.training.pooling_grad import original_shape, spread_links
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

_MODES = {"ResizeNearestNeighborV2Grad": "nearest", "ResizeBilinearV2Grad": "linear"}


_WORDS = {
    "coordinate_transformation_mode": tuple(word for word in TRANSFORMS if word != "tf_crop_and_resize"),
    "nearest_mode": tuple(ROUNDINGS),
}


def _shares(node: Node, place: int, size: int, made: int) -> Array:
    """What each point along an axis of dy (rows) gives to each one of dx; `place` 0 is the height."""
    scales = node.attr("scales")
    scale = float(scales[place]) if scales else made / max(1, size)
    plan, result = plan_of(node, _MODES[node.op_type], size, made, scale), np.zeros((made, size))
    np.add.at(result, (np.arange(made)[:, None], plan.taps), plan.weights)
    return result


def _values(node: Node, dy: Array) -> Array:
    result = dy.astype(np.float64)
    for place, (axis, size) in enumerate(zip((2, 3), node.attr("orig_input_shape")[2:], strict=True)):
        shares = _shares(node, place, int(size), dy.shape[axis])
        result = np.moveaxis(np.tensordot(result, shares, axes=(axis, 0)), -1, axis)
    return result


def _infer(context: InferContext) -> None:
    shape, gradient = original_shape(context), context.shape(0)
    if not may_equal(gradient, (*shape[:2], None, None)):
        raise context.fail(f"needs a gradient of shape {(*shape[:2], None, None)}", gradient)
    scales: Any = context.node.attr("scales")
    if scales and (len(scales) != 2 or min(scales) <= 0):
        raise context.fail("needs two positive scales", scales)
    for name, known in _WORDS.items():
        word = context.node.attr(name)
        if word is not None and word not in known:
            raise context.fail(f"needs a {name} out of {', '.join(known)}", word)
    context.set(0, context.dtype(0), shape)


def _lower(node: Node, context: LowerContext) -> Work:
    """The points of dy one after the other, one axis after the other: their shares are added in float32 to
    the map in UB, which is set to zero first and rounded at the end. Along the width the targets of
    neighbours are apart.
    """
    gradient, result = node.required(0), node.output
    if result.elements == 0:
        return NoTask()
    taps = 1 if _MODES[node.op_type] == "nearest" else 2
    if gradient.elements == 0 or not runs_on_ai_core(node):
        return on_ai_cpu(node, float(taps * taps))
    wide = DType.FLOAT32 if context.supports("vadd", DType.FLOAT32) else gradient.element_type
    rows, lanes = rows_and_lanes(gradient)
    ratio = ceil_div(result.elements, gradient.elements)
    steps = [Step(DUPLICATE, wide, count=ratio)]
    if wide is not gradient.element_type:
        steps.append(Step("vconv", wide))
    for run in (0, lanes):
        if taps > 1:
            steps.append(Step("vmuls", wide, count=taps, run=run))
        steps.append(Step("vadd", wide, count=taps, run=run))
    if wide is not result.element_type:
        steps.append(Step("vconv", wide, count=ratio))
    return VectorWork(
        rows,
        lanes,
        tuple(steps),
        (Stream(Ref.of(gradient)),),
        (Stream(Ref.of(result)),),
        gather_bytes=plane_bytes(gradient),
        live_bytes=wide.itemsize * ratio,
    )


OPERATORS: tuple[OpDef, ...] = tuple(
    OpDef(
        name,
        _infer,
        with_numpy(_values),
        _lower,
        Layout.FEATURE,
        domain="ascend",
        facts=Facts(spread_links(0), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.OPAQUE),
    )
    for name in _MODES
)
