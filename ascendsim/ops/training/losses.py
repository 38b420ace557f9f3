"""Classification losses: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.dims import need_channels, need_shape, unknown_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, UNREAD, WHOLE, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import (
    LowerContext,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]
_REDUCTIONS = ("none", "mean", "sum")


def reduction_of(node: Node) -> str:
    """How the losses of single items become one.

    Raises:
        GraphError: If the node names none that is known.
    """
    name = str(node.attr("reduction", "mean"))
    if name not in _REDUCTIONS:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"needs a reduction out of {', '.join(_REDUCTIONS)}",
            repr(name),
        )
    return name


def _loss_infer(ctx: InferContext) -> None:
    scores, labels = ctx.shape(0), ctx.shape(1)
    if scores is not None and len(scores) < 2:
        raise ctx.fail("needs scores of shape (batch, classes, ...)", scores)
    need_shape(ctx, 1, None if scores is None else (scores[0], *scores[2:]))
    need_channels(ctx, (2,))
    rank = None if scores is None else len(scores) - 1
    unreduced = labels if labels is not None else unknown_shape(rank)
    ctx.set(0, ctx.dtype(0), unreduced if reduction_of(ctx.node) == "none" else ())
    ctx.set(1, ctx.dtype(0), scores)


def factors_of(
    node: Node, labels: Array, classes: int, weight: Array | None, ignored: int | None, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Labels with 0 for those that are ignored, and what each counts: its class's weight, or nothing.

    Raises:
        GraphError: If a label is no class.
    """
    keep = np.ones(labels.shape, np.bool_) if ignored is None else labels != ignored
    safe = np.where(keep, labels, 0).astype(np.int64)
    if safe.size and (safe.min() < 0 or safe.max() >= classes):
        raise GraphError(
            f"node {node.name!r} ({node.op_type})", f"needs labels from 0 to {classes - 1}", int(safe.max())
        )
    return safe, np.asarray((np.ones(classes, dtype) if weight is None else weight)[safe] * keep)


def picked(
    node: Node, logs: Array, labels: Array, weight: Array | None, ignored: int | None
) -> tuple[Array, Array]:
    """The loss of log-probabilities (N, C, d...) at labels (N, d...), reduced as the node says, and the sum
    of the weights that count.
    """
    safe, factors = factors_of(node, labels, logs.shape[1], weight, ignored, logs.dtype)
    losses = -np.take_along_axis(logs, safe[:, None], axis=1)[:, 0] * factors
    reduction = reduction_of(node)
    total = np.asarray(factors.sum())
    if reduction == "none":
        return np.asarray(losses), total
    return np.asarray(losses.sum() if reduction == "sum" else losses.sum() / total), total


def _nll(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    logs, labels, weight = (*inputs, None)[:3]
    with np.errstate(all="ignore"):
        weight = None if weight is None else as_float32(weight)
        loss, _ = picked(node, as_float32(logs), labels, weight, node.attr("ignore_index"))
    return [finish(loss, wanted[0])]


def _cross_entropy(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    scores, labels, weight = (*inputs, None)[:3]
    wide = as_float32(scores)
    with np.errstate(all="ignore"):
        shifted = wide - wide.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        weight = None if weight is None else as_float32(weight)
        loss, _ = picked(node, logs, labels, weight, node.attr("ignore_index"))
    return [finish(array, dtype) for array, dtype in zip((loss, logs), wanted, strict=False)]


def _classes_rows(node: Node) -> tuple[int, int]:
    shape = node.required(0).static_shape
    return math.prod(shape) // max(1, shape[1]), shape[1]


def pick_work(node: Node, outputs: int = 1) -> ScalarWork:
    """One indexed read a label (and one weight), by the scalar unit; `outputs` of the results come of it."""
    inputs = tuple(Ref.of(tensor) for tensor in node.inputs if tensor is not None)
    results = tuple(Ref.of(tensor) for tensor in node.outputs[:outputs])
    return ScalarWork(max(1, math.prod(inputs[1].shape)), SCALAR_CYCLES_PER_INDEX, inputs, results)


def _nll_lower(node: Node, _ctx: LowerContext) -> Work:
    return NoTask() if node.required(0).elements == 0 else pick_work(node)


def _cross_entropy_lower(node: Node, ctx: LowerContext) -> Work:
    """Log-softmax over the classes, then the indexed reads; on the AI CPU for types that the vector unit
    lacks.
    """
    scores = Ref.of(node.required(0))
    if scores.bytes == 0:
        return NoTask()
    floats = all(
        tensor is None or tensor.element_type.is_integer or tensor.element_type in _VECTOR_FLOATS
        for tensor in node.inputs
    )
    if not (floats and (scores.dtype in _VECTOR_FLOATS or runs_on_ai_core(node))):
        return on_ai_cpu(node, 10)
    inside = scores.dtype if ctx.supports("vexp", scores.dtype) else DType.FLOAT16
    rows, classes = _classes_rows(node)
    spread = [Step("vcmax", inside), Step("vsub", inside), Step("vexp", inside), Step("vcadd", inside)]
    steps = (*spread, Step("vln", inside, "row"), Step("vsub", inside))
    logs = tuple(Stream(Ref.of(tensor)) for tensor in node.outputs[1:]) or (
        Stream(Ref.of(node.output), "one"),
    )
    softmax = VectorWork(rows, classes, steps, (Stream(scores),), logs, reduces="cols", sweeps=3)
    return SequenceWork((softmax, pick_work(node)))


_VECTOR_FLOATS = frozenset({DType.FLOAT16, DType.FLOAT32})


def _links(node: Node) -> AxisMap:
    """Losses of single items keep all axes but the classes; a sum or mean of them keeps none."""
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    places = [0, *range(2, rank)]
    result = places if reduction_of(node) == "none" else ()
    loss = by_labels(node, {0: range(rank), 1: places, 2: ("weight",)}, {0: result})
    logs = by_labels(node, {0: range(rank)}, {1: range(rank)}, {1: WHOLE})
    others = {1: rank - 1, 2: 1} if len(node.outputs) > 1 else {}
    unread = {(port, 1): (UNREAD,) * own for port, own in others.items() if node.input(port) is not None}
    return AxisMap({**loss.links, **logs.links, **unread})


_FACTS = Facts(_links, Kind.REDUCTION, Precision.BLACK)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "NegativeLogLikelihoodLoss",
        _loss_infer,
        _nll,
        _nll_lower,
        cann="NLLLoss",
        most_inputs=3,
        facts=_FACTS,
    ),
    OpDef(
        "SoftmaxCrossEntropyLoss",
        _loss_infer,
        _cross_entropy,
        _cross_entropy_lower,
        cann="SoftmaxCrossEntropyWithLogits",
        most_inputs=3,
        facts=_FACTS,
    ),
)
