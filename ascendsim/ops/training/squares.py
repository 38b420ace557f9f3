"""Sums of squares for clipping and weight decay (domain "ascend", CANN's prototypes).

    SquareSumV2(x) -> sum of x^2 along `axis`, x^2
    L2Loss(x) -> half of the sum of all x^2

SquareSumV1, the sum alone, is ONNX's ReduceSumSquare. Sums are float64, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.reduce.reduction import reduction_work
from ascendsim.ops.shared.common import normalise_axes, with_numpy
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision, Sign
from ascendsim.opset.work import LowerContext, Ref, Stream, VectorWork, Work


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    if node.op_type == "L2Loss":
        return tuple(range(rank))
    given = node.attr("axis")
    if given is None:
        raise GraphError(f"node {node.name!r} (SquareSumV2)", "needs the attribute axis")
    return normalise_axes(given or range(rank), rank, f"axis of node {node.name!r}")


def _infer(context: InferContext) -> None:
    shape, node = context.shape(0), context.node
    context.set(1, context.dtype(0), shape)
    if shape is None:
        context.set(0, context.dtype(0), () if node.op_type == "L2Loss" else None)
        return
    axes, keep = _axes(node, len(shape)), bool(node.attr("keep_dims", 0))
    dims = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    context.set(0, context.dtype(0), tuple(dims))


def _sum(node: Node, x: Array) -> Array:
    keep = bool(node.attr("keep_dims", 0))
    wide = x.astype(np.float64)
    return np.asarray(np.sum(wide * wide, axis=_axes(node, x.ndim), keepdims=keep))


def _square_sum(node: Node, x: Array) -> tuple[Array, Array]:
    return _sum(node, x), x * x


def _half_sum(node: Node, x: Array) -> Array:
    return _sum(node, x) / 2


def _lower(node: Node, context: LowerContext) -> Work:
    """A reduction that squares first; SquareSumV2 writes the squares as well.

    They do not wait for the sum: where all is summed, every core goes over its share once and adds up as it
    goes.
    """
    after: Sequence[str] = ["vmuls"] if node.op_type == "L2Loss" else []
    source, target = node.required(0), node.output
    axes = _axes(node, len(source.static_shape))
    work = reduction_work(node, context, axes, before=["vmul"], across="vcadd", along="vadd", after=after)
    if not isinstance(work, VectorWork) or len(node.outputs) < 2:
        return work
    squares = Stream(Ref.of(node.outputs[1]))
    if target.elements > 1:
        return replace(work, outputs=(*work.outputs, squares))
    steps = tuple(replace(step, op="vadd") if step.op == "vcadd" else step for step in work.steps)
    outputs = (Stream(Ref.of(target), "one"), squares)
    flat = tuple(replace(step, over="one") if step.over != "all" else step for step in steps)
    return VectorWork(1, source.elements, flat, work.inputs, outputs)


def _links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None:
        return NOTHING_SAID
    axes, keep = _axes(node, rank), bool(node.attr("keep_dims", 0))
    result: list[Label] = [
        ("one", axis) if axis in axes else axis for axis in range(rank) if keep or axis not in axes
    ]
    squares = by_labels(node, {0: range(rank)}, {1: range(rank)})
    return AxisMap({**by_labels(node, {0: range(rank)}, {0: result}).links, **squares.links})


_FACTS = Facts(_links, Kind.REDUCTION, Precision.BLACK, OpPattern.COMM_REDUCE, Sign.NEVER_NEGATIVE)

OPERATORS: tuple[OpDef, ...] = (
    OpDef("SquareSumV2", _infer, with_numpy(_square_sum), _lower, domain="ascend", facts=_FACTS),
    OpDef("L2Loss", _infer, with_numpy(_half_sum), _lower, domain="ascend", facts=_FACTS),
)
