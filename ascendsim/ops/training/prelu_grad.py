"""PReluGrad(grads, features, weights) -> dx, da (domain "ascend", CANN's prototype).

dx = dy where x > 0, else a dy; da = the sum of x dy where x is not positive, over all that shares a weight:
one for all, or one a channel (axis 1; the only axis of a list). Sums are float64, results are rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import (
    computing_type,
    converted,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Label, by_labels, rank_of, shape_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, Ref, SequenceWork, Stream, VectorWork, Work


def _channels(rank: int) -> int:
    return min(1, rank - 1)


def _infer(context: InferContext) -> None:
    shape, weights = context.shape(1), context.shape(2)
    need_shape(context, 0, shape)
    if shape is not None and weights is not None:
        wanted: list[Shape] = [(), (1,)] + ([(shape[_channels(len(shape))],)] if shape else [])
        if not any(may_equal(weights, one) for one in wanted):
            raise context.fail("needs one weight or one a channel", weights)
    context.set(0, context.dtype(0), shape)
    context.set(1, context.dtype(2), weights)


def _grad(_node: Node, dy: Array, x: Array, weights: Array) -> tuple[Array, Array]:
    axis = _channels(x.ndim)
    spread = weights
    if weights.size > 1:
        spread = weights.reshape([-1 if at == axis else 1 for at in range(x.ndim)])
    below = np.where(x > 0, 0, x.astype(np.float64) * dy)
    axes = tuple(at for at in range(x.ndim) if weights.size == 1 or at != axis)
    return np.where(x > 0, dy, dy * spread), np.sum(below, axis=axes).reshape(weights.shape)


def _lower(node: Node, context: LowerContext) -> Work:
    """One pass for dx and one for the sums, a row a channel of an item."""
    dy, x, weights = (node.required(port) for port in range(3))
    if not x.elements:
        return fill_work(Ref.of(node.outputs[1]))
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 3.0)
    shape, inside = x.static_shape, computing_type(x.element_type, context, wide=True)
    single = weights.elements == 1
    rows = 1 if single else math.prod(shape[: _channels(len(shape)) + 1])
    data = (Stream(Ref.of(dy)), Stream(Ref.of(x)))
    types = [dy.element_type, x.element_type]
    body = make_steps(["vmuls", "vcmp", "vsel"], inside)
    slopes = VectorWork(
        rows,
        x.elements // rows,
        converted(body, types, node.output.element_type, inside),
        (*data, Stream(Ref.of(weights), "one" if single else "row")),
        (Stream(Ref.of(node.output)),),
    )
    sums = VectorWork(
        rows,
        x.elements // rows,
        converted(make_steps(["vmins", "vmul", "vcadd"], inside), types, inside, inside),
        data,
        (Stream(Ref.of(node.outputs[1]), "row"),),
        reduces="cols",
    )
    return SequenceWork((slopes, sums))


def _links(node: Node) -> AxisMap:
    rank, weights = rank_of(node, 1), shape_of(node, 2)
    if not rank or weights is None:
        return NOTHING_SAID
    own: list[Label] = ["one"] if weights == (1,) else [_channels(rank)]
    labels = range(rank)
    kept = own if weights else []
    return by_labels(node, {0: labels, 1: labels, 2: kept}, {0: labels, 1: kept})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "PReluGrad",
        _infer,
        with_numpy(_grad),
        _lower,
        domain="ascend",
        most_inputs=3,
        facts=Facts(_links, Kind.REDUCTION, Precision.GRAY),
    ),
)
