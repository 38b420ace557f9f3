"""Losses of classifiers with their gradients, by CANN's prototypes (domain "ascend").

    NLLLoss(x, target, weight) -> y, total_weight        x (N, C, d...): logarithms of probabilities
    NLLLossGrad(x, y_grad, target, weight, total_weight) -> x_grad
    SoftmaxCrossEntropyWithLogits(features, labels) -> loss, backprop      both (N, C); labels sum to 1
    SparseSoftmaxCrossEntropyWithLogits(features, labels) -> loss, backprop       labels (N): classes
    SigmoidCrossEntropyWithLogits(predict, target) -> loss
    SigmoidCrossEntropyWithLogitsGrad(predict, target, dout) -> gradient
    SigmoidCrossEntropyWithLogitsV2(predict, target, weight, pos_weight) -> loss      reduced or not; both
        weights broadcast, pos_weight counts where the target is 1

`backprop` is softmax - labels: the gradient of the loss but for the factor of the loss's own gradient. CANN
runs the sparse form on the AI CPU; MindSpore writes OneHot and the dense form instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX, fill_work
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    elementwise_lower,
    on_ai_cpu,
    runs_on_ai_core,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_channels, need_shape
from ascendsim.ops.training.dense_loss import loss_by_rows
from ascendsim.ops.training.losses import factors_of, pick_work, picked, reduction_of
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, UNREAD, WHOLE, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.definition import Compute
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import SENSITIVE, elementwise
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

_IGNORED = -100  # what `ignore_index` is where it is left out


def _ignored(node: Node) -> int:
    return int(node.attr("ignore_index", _IGNORED))


def _check_classes(context: InferContext, target: int) -> None:
    shape = context.shape(0)
    if shape is not None and len(shape) < 2:
        raise context.fail("needs scores of shape (batch, classes, ...)", shape)
    need_shape(context, target, None if shape is None else (shape[0], *shape[2:]))
    need_channels(context, (target + 1,))
    if context.dtype(target) not in (DType.INT32, DType.INT64, DType.UINT8):
        raise context.fail("needs integer labels", context.dtype(target).value)


def _nll_infer(context: InferContext) -> None:
    _check_classes(context, 1)
    whole = reduction_of(context.node) == "none"
    context.set(0, context.dtype(0), context.shape(1) if whole else ())
    context.set(1, context.dtype(0), ())


def _nll(node: Node, logs: Array, labels: Array, weight: Array | None = None) -> tuple[Array, Array]:
    return picked(node, logs, labels, weight, _ignored(node))


def _nll_lower(node: Node, _context: LowerContext) -> Work:
    if not node.required(0).elements:
        return NoTask() if not node.output.elements else on_ai_cpu(node)
    return pick_work(node, 2) if runs_on_ai_core(node, (1,)) else on_ai_cpu(node)


def _nll_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    places: list[Label] = [0, *range(2, rank)]
    result = places if reduction_of(node) == "none" else []
    inputs: dict[int, Sequence[Label]] = {1: places, 2: ("weight",)}
    loss = by_labels(node, {0: range(rank), **inputs}, {0: result})
    total = by_labels(node, inputs, {1: ()})
    unread = {(0, 1): (UNREAD,) * rank} if len(node.outputs) > 1 else {}
    return AxisMap({**loss.links, **total.links, **unread})


# ------------------------------------------------------------------------------------------------------------


def _nll_grad_infer(context: InferContext) -> None:
    _check_classes(context, 2)
    shape = context.shape(0)
    whole = reduction_of(context.node) == "none"
    if shape is not None and not (not whole and context.shape(1) == (1,)):
        need_shape(context, 1, (shape[0], *shape[2:]) if whole else ())
    if not any(may_equal(context.shape(4), one) for one in ((), (1,))):
        raise context.fail("needs one total weight", context.shape(4))
    context.set(0, context.dtype(0), shape)


def _nll_grad(node: Node, x: Array, dy: Array, labels: Array, weight: Array, total: Array) -> Array:
    safe, factors = factors_of(node, labels, x.shape[1], weight, _ignored(node), x.dtype)
    reduction = reduction_of(node)
    scale = dy if reduction == "none" else dy.reshape(())
    if reduction == "mean":
        scale = scale / total.reshape(())
    result = np.zeros(x.shape, x.dtype)
    picks = np.where(factors != 0, -factors * scale, 0)[:, None]  # no label counts: total is 0, so is this
    np.put_along_axis(result, safe[:, None], picks.astype(x.dtype), axis=1)
    return result


def _nll_grad_lower(node: Node, _context: LowerContext) -> Work:
    """Zeros over the result, then the scalar unit stores one number a label."""
    target = Ref.of(node.output)
    fill = fill_work(target)
    if not isinstance(fill, VectorWork):
        return fill
    if not runs_on_ai_core(node, (2,)):
        return on_ai_cpu(node)
    inputs = tuple(Ref.of(node.required(port)) for port in range(1, 5))
    stores = ScalarWork(max(1, node.required(2).elements), SCALAR_CYCLES_PER_INDEX, inputs, (target,))
    return SequenceWork((fill, stores))


def _nll_grad_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    places: list[Label] = [0, *range(2, rank)]
    inputs: dict[int, Sequence[Label]] = {1: places, 2: places, 3: (1,)}
    links = by_labels(node, inputs, {0: range(rank)}).links
    return AxisMap({**links, (0, 0): (UNREAD,) * rank})


# ------------------------------------------------------------------------------------------------------------


def _check_matrix(context: InferContext) -> None:
    shape = context.shape(0)
    if shape is not None and len(shape) != 2:
        raise context.fail("needs scores of shape (batch, classes)", shape)
    context.set(0, context.dtype(0), (None if shape is None else shape[0],))
    context.set(1, context.dtype(0), shape)


def _dense_infer(context: InferContext) -> None:
    need_shape(context, 1, context.shape(0))
    _check_matrix(context)


def _sparse_infer(context: InferContext) -> None:
    shape = context.shape(0)
    need_shape(context, 1, None if shape is None else shape[:1])
    _check_matrix(context)


def _dense(_node: Node, scores: Array, labels: Array) -> tuple[Array, Array]:
    shifted = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    total = powers.sum(axis=1, keepdims=True)
    return (labels * (np.log(total) - shifted)).sum(axis=1), powers / total - labels


def _sparse(node: Node, scores: Array, labels: Array) -> tuple[Array, Array]:
    classes = scores.shape[1]
    safe, _ = factors_of(node, labels, classes, None, None, scores.dtype)
    shifted = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    total = powers.sum(axis=1, keepdims=True)
    hot = (safe[:, None] == np.arange(classes)).astype(scores.dtype)
    loss = np.log(total) - np.take_along_axis(shifted, safe[:, None], axis=1)
    return loss[:, 0], powers / total - hot


def _binary(_node: Node, x: Array, target: Array) -> Array:
    return np.asarray(np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x))))


def _binary_grad(_node: Node, x: Array, target: Array, dy: Array) -> Array:
    return np.asarray((1 / (1 + np.exp(-x)) - target) * dy)


def _weighted(
    node: Node, x: Array, target: Array, weight: Array | None = None, positive: Array | None = None
) -> Array:
    slope = 1 if positive is None else (positive - 1) * target + 1
    loss = (1 - target) * x + slope * (np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0))
    if weight is not None:
        loss = loss * weight
    reduction = reduction_of(node)
    return np.asarray(loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean())


def _weighted_infer(context: InferContext) -> None:
    shape = context.shape(0)
    if not context.dtype(0).is_float:
        raise context.fail("needs floating-point scores", context.dtype(0).value)
    need_shape(context, 1, shape)
    for port in (2, 3):
        held = context.shape(port) if context.has(port) else None
        if shape is not None and held is not None and len(held) > len(shape):
            raise context.fail(f"needs input {port} to broadcast to {shape}", held)
        for size, own in zip(reversed(held or ()), reversed(shape or ()), strict=False):
            if size != 1 and not may_equal((size,), (own,)):
                raise context.fail(f"needs input {port} to broadcast to {shape}", held)
    context.set(0, context.dtype(0), shape if reduction_of(context.node) == "none" else ())


def _weighted_lower(node: Node, context: LowerContext) -> Work:
    """One operator an element; the sum of all is CANN's ReduceSumD or ReduceMeanD behind it, which a pass
    splits off.
    """
    if reduction_of(node) != "none":
        return on_ai_cpu(node, 10.0)
    steps: list[StepSpec] = ["vabs", "vmuls", "vexp", "vadds", "vln", "vmaxs", "vadd", "vmul", "vsub"]
    steps += ["vmul"] * (node.input(2) is not None)
    steps += ["vsub", "vmul", "vadds", "vmul"] * (node.input(3) is not None)
    return elementwise_lower(steps, wide=True)(node, context)


def _weighted_links(node: Node) -> AxisMap:
    """Elements of the weights come from where they broadcast to."""
    if reduction_of(node) == "none":
        return elementwise()(node)
    rank = rank_of(node, 0)
    if rank is None:
        return NOTHING_SAID
    inputs = {
        port: range(rank - (rank_of(node, port) or 0), rank)
        for port in range(4)
        if node.input(port) is not None
    }
    return by_labels(node, inputs, {0: ()})


def _binary_check(context: InferContext) -> None:
    for port in range(1, 3):
        need_shape(context, port, context.shape(0))


_POWERS = ("vcmax", "vsub", "vexp", "vcadd")


def _dense_lower(node: Node, context: LowerContext) -> Work:
    """Largest score, powers and their sum; then loss and gradient of a row: three sweeps if it does not fit
    into UB.
    """
    scores, labels = node.required(0), node.required(1)
    if not node.output.elements:
        return NoTask()
    if not scores.elements or not runs_on_ai_core(node):
        return on_ai_cpu(node, 10.0)
    if context.register_moves:
        return loss_by_rows(node, context)
    inside = computing_type(scores.element_type, context, wide=True)
    if not context.supports("vexp", inside):
        inside = DType.FLOAT16
    rows, classes = scores.static_shape
    body = (
        *(Step(op, inside) for op in _POWERS),
        Step("vln", inside, "row"),
        *(Step(op, inside) for op in ("vsub", "vmul", "vcadd", "vdiv", "vsub")),
    )
    steps = converted(body, [scores.element_type, labels.element_type], node.outputs[1].element_type, inside)
    inputs = (Stream(Ref.of(scores)), Stream(Ref.of(labels)))
    outputs = (Stream(Ref.of(node.outputs[0]), "row"), Stream(Ref.of(node.outputs[1])))
    return VectorWork(rows, classes, steps, inputs, outputs, reduces="cols", sweeps=3)


def _sparse_lower(node: Node, _context: LowerContext) -> Work:
    return on_ai_cpu(node, 10.0) if node.output.elements else NoTask()


def _dense_links(node: Node) -> AxisMap:
    rows = by_labels(node, {0: (0, 1), 1: (0, 1)}, {0: (0,)})
    own = by_labels(node, {1: (0, 1)}, {1: (0, 1)})
    whole = by_labels(node, {0: (0, 1)}, {1: (0, 1)}, {1: WHOLE})
    return AxisMap({**rows.links, **own.links, **whole.links})


def _sparse_links(node: Node) -> AxisMap:
    rows = by_labels(node, {0: (0, 1), 1: (0,)}, {0: (0,)})
    whole = by_labels(node, {0: (0, 1), 1: (0,)}, {1: (0, 1)}, {1: WHOLE})
    return AxisMap({**rows.links, **whole.links})


def _binary_op(name: str, compute: Compute, steps: Sequence[StepSpec], inputs: int) -> OpDef:
    return OpDef(
        name,
        same_as(check=_binary_check),
        compute,
        elementwise_lower(steps, wide=True),
        Layout.FOLLOW,
        domain="ascend",
        most_inputs=inputs,
        facts=SENSITIVE,
    )


OPERATORS: tuple[OpDef, ...] = (
    _binary_op(
        "SigmoidCrossEntropyWithLogits",
        with_numpy(_binary),
        ("vmaxs", "vmul", "vsub", "vabs", "vmuls", "vexp", "vadds", "vln", "vadd"),
        2,
    ),
    _binary_op(
        "SigmoidCrossEntropyWithLogitsGrad",
        with_numpy(_binary_grad),
        (*SIGMOID_STEPS, "vsub", "vmul"),
        3,
    ),
    OpDef(
        "SigmoidCrossEntropyWithLogitsV2",
        _weighted_infer,
        with_numpy(_weighted),
        _weighted_lower,
        domain="ascend",
        most_inputs=4,
        facts=Facts(_weighted_links, Kind.ELEMENTWISE, Precision.GRAY),
    ),
    OpDef(
        "NLLLoss",
        _nll_infer,
        with_numpy(_nll),
        _nll_lower,
        domain="ascend",
        most_inputs=3,
        facts=Facts(_nll_links, Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "NLLLossGrad",
        _nll_grad_infer,
        with_numpy(_nll_grad),
        _nll_grad_lower,
        domain="ascend",
        most_inputs=5,
        facts=Facts(_nll_grad_links, Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "SoftmaxCrossEntropyWithLogits",
        _dense_infer,
        with_numpy(_dense),
        _dense_lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_dense_links, Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "SparseSoftmaxCrossEntropyWithLogits",
        _sparse_infer,
        with_numpy(_sparse),
        _sparse_lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_sparse_links, Kind.REDUCTION, Precision.BLACK),
    ),
)
