"""Softmax and Where on quantised tensors as onnxruntime has them (domain "com.microsoft"), and x * sigmoid(x)
in one step (domain "ascend").

    QLinearSoftmax(x, sx, zx, sy, zy)                   softmax of the real values, quantised
    QLinearWhere(condition, x, sx, zx, y, sy, zy, sz, zz)
    QuantSwish(x, sx, zx, sy, zy)                       what QLinearSigmoid and QLinearMul make, without the
                                                        rounding between them

The zero point of x changes no softmax, and the row's factor holds the scale of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS
from ascendsim.ops.normalise.softmax import axis_work, softmax_in_blocks
from ascendsim.ops.quant.qlinear import (
    DOMAIN,
    INSIDE,
    Wanted,
    by_real_values,
    infer_bytes,
    is_zero,
    lower_real_values,
    quantised,
    real_values,
)
from ascendsim.ops.shared.common import (
    AI_CORE_TYPES,
    StepSpec,
    broadcast_shapes,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    split_broadcast,
    walking_shape,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along, elementwise
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

NEW_SOFTMAX = 13  # since this opset Softmax works along one axis


def _infer_softmax(context: InferContext) -> None:
    node, shape = context.node, context.shape(0)
    kind = infer_bytes(context, (0,))
    if shape is not None:
        axis = normalise_axis(int(node.attr("axis", -1)), len(shape), f"axis of node {node.name!r}")
        if int(node.attr("opset", NEW_SOFTMAX)) < NEW_SOFTMAX and axis != len(shape) - 1:
            raise context.fail("takes the last axis where opset is below 13", f"axis {axis}")
    context.set(0, kind, shape)


def _softmax(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    from ascendsim_kernels.softmax import softmax

    x, scale, zero, y_scale, y_zero = (*inputs, None)[:5]
    real = real_values(x, scale, zero)
    powers = softmax(real, int(node.attr("axis", -1)), False) if real.size else real
    return [quantised(node, powers, y_scale, y_zero, wanted[0])]


def _lower_softmax(node: Node, context: LowerContext) -> Work:
    """Maximum; subtract, scale, exp; sum; one factor a row, and the zero point."""
    shift = () if is_zero(node.input(4)) else ("vadds",)
    stages = ((), ("vsub", "vmuls", "vexp"), ("vmul", *shift))
    return axis_work(node, context, (("vcmax", "vmax"), ("vcadd", "vadd")), stages, sweeps=3)


def _infer_where(context: InferContext) -> None:
    kind = infer_bytes(context, (1, 4))
    try:
        shape = broadcast_shapes([context.shape(port) for port in (0, 1, 4)])
    except GraphError as error:
        shapes = ", ".join(str(context.shape(port)) for port in (0, 1, 4))
        raise context.fail("needs inputs that broadcast", shapes) from error
    context.set(0, kind, shape)


def _where(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    condition, x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = (*inputs, None)[:9]
    sides = [real_values(*side) for side in ((x, x_scale, x_zero), (y, y_scale, y_zero))]
    return [quantised(node, np.where(condition, *sides), scale, zero, wanted[0])]


def _lower_where(node: Node, _context: LowerContext) -> Work:
    """Both sides to the scale of the result, then the choice."""
    output, read = node.output, [node.required(port) for port in (0, 1, 4)]
    if output.elements == 0:
        return NoTask()
    if any(tensor.element_type not in AI_CORE_TYPES for tensor in (*read, output)):
        return on_ai_cpu(node, 4.0)
    split = split_broadcast(walking_shape(output), [walking_shape(tensor, output) for tensor in read])
    steps = make_steps([("vconv", 2), ("vmuls", 2), ("vadds", 2), "vcmp", "vsel", "vconv"], INSIDE)
    streams = tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(read, split.overs, strict=True))
    return VectorWork(split.rows, split.cols, steps, streams, (Stream(Ref.of(output)),))


def _swish(_node: Node, x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _swish_steps(node: Node, _context: LowerContext) -> list[StepSpec]:
    # the scale of x joins the sigmoid's first factor; the product's factor holds both scales
    before, after = (["vadds"] if not is_zero(node.input(port)) else [] for port in (2, 4))
    return [*before, *SIGMOID_STEPS, "vmul", "vmuls", *after]


def _infer_swish(context: InferContext) -> None:
    context.set(0, infer_bytes(context, (0,)), context.shape(0))


_NUMBERS = (1, 2, 3, 4)
OPERATORS = (
    OpDef(
        "QLinearSoftmax", _infer_softmax, _softmax, _lower_softmax, Layout.FOLLOW, "SoftmaxV2",
        domain=DOMAIN, in_blocks=softmax_in_blocks, most_inputs=5,
        facts=Facts(along(), Kind.REDUCTION, Precision.GRAY, parameters=_NUMBERS),
    ),
    OpDef(
        "QLinearWhere", _infer_where, _where, _lower_where, Layout.FOLLOW, "SelectV2",
        domain=DOMAIN, most_inputs=9,
        facts=Facts(
            elementwise(0, 1, 4), Kind.ELEMENTWISE, Precision.GRAY, parameters=(2, 3, 5, 6, 7, 8)
        ),
    ),
    OpDef(
        "QuantSwish", _infer_swish, by_real_values((0,), _swish), lower_real_values((0,), _swish_steps),
        Layout.FOLLOW, "Swish", domain="ascend", most_inputs=5,
        facts=Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY, parameters=_NUMBERS),
    ),
)  # fmt: skip
