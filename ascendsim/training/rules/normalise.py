"""Gradients of normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule, without

Grads = Sequence["Tensor | None"]


def _softmax(step: Backward) -> Grads:
    axis = int(step.node.attr("axis", -1))
    return (step.op("SoftmaxGrad", step.node.output, step.grad, axis=axis, domain=ASCEND),)


def _log_softmax(step: Backward) -> Grads:
    axis = int(step.node.attr("axis", -1))
    return (step.op("LogSoftmaxGrad", step.grad, step.node.output, axis=axis, domain=ASCEND),)


def _layer_norm(step: Backward) -> Grads:
    """The forward operator gives its statistics, which it has anyway."""
    node, x = step.node, step.node.required(0)
    rank = len(x.static_shape)
    axis = int(node.attr("axis", -1)) % rank
    _, mean, inverse = step.extra_outputs(3)
    gamma, inner = node.required(1), x.static_shape[axis:]
    full = gamma if gamma.static_shape == inner else step.op("Expand", gamma, list(inner))
    made = step.ops("LayerNormGrad", 3, step.grad, x, inverse, mean, full, domain=ASCEND)
    offset = made[2] if node.input(2) is not None else None
    return made[0], _small(step, made[1], 1), None if offset is None else _small(step, offset, 2)


def _small(step: Backward, grad: Tensor, port: int) -> Tensor | None:
    """Gradient of a scale or offset that may have been repeated."""
    return step.fitted(grad, step.node.required(port).static_shape) if step.needs(port) else None


@without(3, 4)
def _batch_norm(step: Backward) -> Grads:
    """In training the mean and variance of the batch count, which follow from its sums."""
    node = step.node
    x, scale, training = node.required(0), node.required(1), int(node.attr("training_mode", 0))
    statistics = (node.required(3), node.required(4))
    if training:
        share = 1.0 / (x.elements // x.static_shape[1])
        mean, moment = (
            step.op("Mul", total, share) for total in step.ops("BNTrainingReduce", 2, x, domain=ASCEND)
        )
        statistics = (mean, step.op("Sub", moment, step.op("Mul", mean, mean)))
    own = {"epsilon": float(node.attr("epsilon", 1e-5)), "training_mode": training}
    return step.ops("BatchNormGrad", 3, step.grad, x, scale, *statistics, domain=ASCEND, **own)


@without(5, 6)
def _batch_norm_update(step: Backward) -> Grads:
    """The sums of BNTrainingReduce are functions of x too: all that comes through them is in dx."""
    x, scale = step.node.required(0), step.node.required(3)
    mean, variance = step.extra_outputs(5)[3:]
    epsilon = float(step.node.attr("epsilon", 1e-5))
    made = step.ops("BatchNormGrad", 3, step.grad, x, scale, mean, variance, domain=ASCEND, epsilon=epsilon)
    return made[0], None, None, made[1], made[2]


def _rms_norm(step: Backward) -> Grads:
    """With r = 1 / sqrt(mean of x^2 + e) by row."""
    node, x = step.node, step.node.required(0)
    rank = len(x.static_shape)
    axes = list(range(int(node.attr("axis", -1)) % rank, rank))
    gamma, inner = node.required(1), x.static_shape[axes[0] :]
    full = gamma if gamma.static_shape == inner else step.op("Expand", gamma, list(inner))
    mean = step.op("ReduceMean", step.op("Mul", x, x), axes, keepdims=1)
    root = step.op("Sqrt", step.op("Add", mean, float(node.attr("epsilon", 1e-5))))
    inverse = step.op("Reciprocal", root)
    made = step.ops("RmsNormGrad", 2, step.grad, x, inverse, full, domain=ASCEND)
    return made[0], _small(step, made[1], 1)


def _by_groups(step: Backward, groups: int) -> Grads:
    """Mean and inverse deviation of each group of channels, then CANN's gradient."""
    node, x = step.node, step.node.required(0)
    shape = x.static_shape
    channels, gamma = shape[1], node.required(1)
    if gamma.static_shape != (channels,):
        step.refuse("needs one scale a channel", gamma.static_shape)
    rows = step.reshaped(x, (shape[0], groups, x.elements // (shape[0] * groups)))
    mean = step.op("ReduceMean", rows, [2], keepdims=1)
    apart = step.op("Sub", rows, mean)
    spread = step.op("ReduceMean", step.op("Mul", apart, apart), [2], keepdims=0)
    root = step.op("Sqrt", step.op("Add", spread, float(node.attr("epsilon", 1e-5))))
    inputs = (step.grad, step.reshaped(mean, (shape[0], groups)), step.op("Reciprocal", root), x, gamma)
    return step.ops("GroupNormGrad", 3, *inputs, domain=ASCEND, num_groups=groups)


RULES: dict[tuple[str, str], Rule] = {
    ("", "Softmax"): _softmax,
    ("", "LogSoftmax"): _log_softmax,
    ("", "LayerNormalization"): _layer_norm,
    ("", "BatchNormalization"): _batch_norm,
    ("", "RMSNormalization"): _rms_norm,
    ("", "GroupNormalization"): lambda step: _by_groups(step, int(step.node.attr("num_groups"))),
    ("", "InstanceNormalization"): lambda step: _by_groups(step, step.node.required(0).static_shape[1]),
    (ASCEND, "BNTrainingReduce"): lambda _step: (),  # BNTrainingUpdate answers for it
    (ASCEND, "BNTrainingUpdate"): _batch_norm_update,
}
