"""Routers of mixtures of experts (domain "ascend", CANN's prototypes): scores of experts, and a token's best.

    MoeGatingTopKSoftmax(x, finished) -> y, expert_idx, row_idx
        the k largest of softmax(x); tokens that are finished get the expert after the last one; row_idx
        counts the pairs, all tokens' first choices before all second ones
    MoeGatingTopK(x, bias) -> y, expert_idx, out
        n = softmax(x) (norm_type 0) or sigmoid(x) (1); n + bias says who is chosen: of group_count groups the
        k_group best ones (by their largest, or with group_select_mode 1 by the sum of their two largest), of
        their experts the k best. y = n of these, divided by their sum + eps (norm_type 1, or renorm 1), times
        routed_scaling_factor; out = n with out_flag, else empty

Equal scores go to the expert of the lower index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.reduce.sorting import descending_order, sorting_steps
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    computing_type,
    finish,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, Label, Labels, Link, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
_SOFTMAX, _SIGMOID = 0, 1


def _chosen(context: InferContext, experts: Dim) -> int:
    """How many experts a token gets."""
    count = int(context.node.attr("k", 1))
    if count < 1 or (isinstance(experts, int) and count > experts):
        raise context.fail(f"needs k from 1 to {experts}", count)
    return count


def _infer_softmax(context: InferContext) -> None:
    data = context.shape(0)
    if data is not None and len(data) not in (2, 3):
        raise context.fail("needs scores of rank 2 or 3", list(data))
    count = _chosen(context, None if data is None else data[-1])
    shape = None if data is None else (*data[:-1], count)
    if data is not None:
        need_shape(context, 1, data[:-1])
    for number, kind in enumerate((context.dtype(0), DType.INT32, DType.INT32)):
        context.set(number, kind, shape)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return np.asarray(powers / np.sum(powers, axis=-1, keepdims=True))


def _best(scores: Array, count: int) -> Array:
    return descending_order(scores, scores.ndim - 1)[..., :count]


def _compute_softmax(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    x, finished = (*inputs, None)[:2]
    count = int(node.attr("k", 1))
    with np.errstate(all="ignore"):
        shares = _softmax(as_float32(x))
    experts = _best(shares, count)
    values = np.take_along_axis(shares, experts, axis=-1)
    if finished is not None:
        experts = np.where(finished[..., None], x.shape[-1], experts)
    tokens = int(np.prod(x.shape[:-1], dtype=np.int64))
    rows = np.arange(tokens * count).reshape(count, tokens).T.reshape(experts.shape)
    return [finish(array, kind) for array, kind in zip((values, experts, rows), wanted, strict=False)]


def _infer_grouped(context: InferContext) -> None:
    node, data = context.node, context.shape(0)
    if data is not None and len(data) != 2:
        raise context.fail("needs scores [tokens, experts]", list(data))
    experts = None if data is None else data[-1]
    count = _chosen(context, experts)
    groups, kept = int(node.attr("group_count", 1)), int(node.attr("k_group", 1))
    if not 1 <= kept <= groups:
        raise context.fail(f"needs k_group from 1 to {groups}, the groups", kept)
    if isinstance(experts, int) and (experts % groups or experts // groups * kept < count):
        raise context.fail(
            f"needs equal groups, {kept} of which hold k = {count} experts",
            f"{experts} experts, {groups} groups",
        )
    for name, known in (
        ("norm_type", (_SOFTMAX, _SIGMOID)),
        ("group_select_mode", (0, 1)),
        ("renorm", (0, 1)),
    ):
        if node.attr(name, 0) not in known:
            raise context.fail(f"needs {name} 0 or 1", node.attr(name))
    if data is not None:
        need_shape(context, 1, (experts,))
    shape = None if data is None else (data[0], count)
    context.set(0, context.dtype(0), shape)
    context.set(1, DType.INT32, shape)
    context.set(2, DType.FLOAT32, data if node.attr("out_flag", 0) else (0,))


def _compute_grouped(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    x, bias = (*inputs, None)[:2]
    wide = as_float32(x)
    sigmoid = node.attr("norm_type", _SOFTMAX) == _SIGMOID
    with np.errstate(all="ignore"):
        shares = 1 / (1 + np.exp(-wide)) if sigmoid else _softmax(wide)
    scores = shares if bias is None else shares + as_float32(bias)
    groups = int(node.attr("group_count", 1))
    if groups > 1:
        parts = scores.reshape(len(x), groups, x.shape[1] // groups)
        best = -np.sort(-parts, axis=-1)
        strength = best[..., :2].sum(-1) if node.attr("group_select_mode", 0) else best[..., 0]
        kept = np.zeros(strength.shape, bool)
        np.put_along_axis(kept, _best(strength, int(node.attr("k_group", 1))), True, axis=-1)
        scores = np.where(kept[..., None], parts, -np.inf).reshape(scores.shape)
    experts = _best(scores, int(node.attr("k", 1)))
    values = np.take_along_axis(shares, experts, axis=-1)
    if sigmoid or node.attr("renorm", 0):
        values = values / (values.sum(-1, keepdims=True) + np.float32(node.attr("eps", 1e-20)))
    values = values * np.float32(node.attr("routed_scaling_factor", 1.0))
    out = shares if node.attr("out_flag", 0) else np.zeros(0, np.float32)
    return [finish(array, kind) for array, kind in zip((values, experts, out), wanted, strict=False)]


# max, x - max, e^, sum, quotient; sigmoid; what groups and factors add
_SOFTMAX_STEPS: tuple[StepSpec, ...] = ("vcmax", "vsub", "vexp", "vcadd", "vdiv")
_SIGMOID_STEPS: tuple[StepSpec, ...] = ("vmuls", "vexp", "vadds", "vrec")


def _lower(node: Node, context: LowerContext) -> Work:
    """A row of scores is in UB as a whole: shares, then runs of 32 sorted with their indices and merged."""
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    experts = data.static_shape[-1]
    inside = computing_type(data.element_type, context, wide=True)
    count = node.output.static_shape[-1]
    ordering = sorting_steps(context, inside, experts, count)
    if ordering is None or not runs_on_ai_core(node):
        return on_ai_cpu(node, 10.0)
    sigmoid = node.op_type == "MoeGatingTopK" and node.attr("norm_type", _SOFTMAX) == _SIGMOID
    steps = [Step("vconv", inside)] if inside is not data.element_type else []
    steps += make_steps(_SIGMOID_STEPS if sigmoid else _SOFTMAX_STEPS, inside)
    if node.op_type == "MoeGatingTopK":
        steps += make_steps(["vadd"] if node.input(1) is not None else [], inside)
        if int(node.attr("group_count", 1)) > 1:  # groups are sorted, the strongest kept, others masked
            steps += [*ordering, *make_steps(["vadd", "vsel"], inside, "row")]
        steps += make_steps(["vcadd", "vdiv", "vmuls"], inside, "row")
    steps += [Step("vadds", DType.INT32, run=experts), *ordering]
    inputs = [Stream(Ref.of(data))]
    second = node.input(1)
    if second is not None:
        inputs.append(Stream(Ref.of(second), "col" if node.op_type == "MoeGatingTopK" else "row"))
    outputs = tuple(Stream(Ref.of(tensor)) for tensor in node.outputs if tensor.elements)
    return VectorWork(
        data.elements // experts,
        experts,
        tuple(steps),
        tuple(inputs),
        outputs,
        reduces="cols",
        sweeps=3,
        cores="shares",
    )


def _links(node: Node) -> AxisMap:
    """Tokens are independent of one another; the numbers of pairs depend on how many there are."""
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    inputs: dict[int, Labels] = {0: labels}
    second = rank_of(node, 1)
    if second is not None:
        inputs[1] = labels[-1:] if node.op_type == "MoeGatingTopK" else labels[:-1]
    whole: dict[Label, Link] = {labels[-1]: WHOLE}
    links = dict(by_labels(node, inputs, {0: labels, 1: labels}, whole).links)
    if node.op_type == "MoeGatingTopK" and node.attr("out_flag", 0):
        alone = node.attr("norm_type", _SOFTMAX) == _SIGMOID
        links |= by_labels(node, {0: labels}, {2: labels}, None if alone else whole).links
    return AxisMap(links)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "MoeGatingTopKSoftmax",
        _infer_softmax,
        _compute_softmax,
        _lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "MoeGatingTopK",
        _infer_grouped,
        _compute_grouped,
        _lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK),
    ),
)
