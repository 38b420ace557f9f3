"""LpNormV2 (domain "ascend", CANN's prototype; torch.linalg.vector_norm): (sum of |x|^p)^(1/p).

p = inf and -inf give the largest and the smallest |x|, p = 0 the number of elements that are not 0. `axes`
are all by default. epsilon, which the prototype has for divisions by the result, does not enter here. Sums
are float64, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.reduce.reduction import reduction_work
from ascendsim.ops.shared.common import StepSpec, normalise_axes, with_numpy
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision, Sign
from ascendsim.opset.work import LowerContext, Work


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    given = tuple(node.attr("axes", ()))
    return normalise_axes(given or range(rank), rank, f"axes of node {node.name!r} (LpNormV2)")


def _p(node: Node) -> float:
    return float(node.attr("p", 2.0))


def _infer(context: InferContext) -> None:
    shape, node = context.shape(0), context.node
    if shape is None:
        whole = not tuple(node.attr("axes", ())) and not node.attr("keepdim", 0)
        context.set(0, context.dtype(0), () if whole else None)
        return
    if math.isnan(_p(node)):
        raise context.fail("needs a number p", _p(node))
    axes, keep = _axes(node, len(shape)), bool(node.attr("keepdim", 0))
    if (_p(node) < 0 or math.isinf(_p(node))) and any(shape[axis] == 0 for axis in axes):
        raise context.fail(f"has no value of p = {_p(node)} for no elements", list(shape))
    dims = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes]
    context.set(0, context.dtype(0), tuple(dims))


def _norm(node: Node, x: Array) -> Array:
    axes, keep, p = _axes(node, x.ndim), bool(node.attr("keepdim", 0)), _p(node)
    size = np.abs(x.astype(np.float64))
    if math.isinf(p):
        return np.asarray((np.max if p > 0 else np.min)(size, axis=axes, keepdims=keep))
    if p == 0:
        return np.asarray(np.count_nonzero(x, axis=axes, keepdims=keep), np.float64)
    total = np.sum(size**p, axis=axes, keepdims=keep)
    return np.asarray(np.sqrt(total) if p == 2 else total ** (1 / p))


_POWER: tuple[StepSpec, ...] = ("vln", "vmuls", "vexp")


def _lower(node: Node, context: LowerContext) -> Work:
    p = _p(node)
    across, along = ("vcmax", "vmax") if p > 0 else ("vcmin", "vmin")
    before: Sequence[StepSpec] = ["vabs"]
    after: Sequence[StepSpec] = []
    if not math.isinf(p):
        across, along = "vcadd", "vadd"
        if p == 0:
            before = ["vcmp", "vsel"]
        elif p == 2:
            before, after = ["vmul"], ["vsqrt"]
        elif p != 1:
            before, after = ["vabs", *_POWER], _POWER
    axes = _axes(node, len(node.required(0).static_shape))
    return reduction_work(
        node, context, axes, before=before, across=across, along=along, after=after, open_shapes=False
    )


def _links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None:
        return NOTHING_SAID
    axes, keep = _axes(node, rank), bool(node.attr("keepdim", 0))
    result: list[Label] = [
        ("one", axis) if axis in axes else axis for axis in range(rank) if keep or axis not in axes
    ]
    return by_labels(node, {0: range(rank)}, {0: result})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "LpNormV2",
        _infer,
        with_numpy(_norm),
        _lower,
        domain="ascend",
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK, OpPattern.COMM_REDUCE, Sign.NEVER_NEGATIVE),
    ),
)
