"""Gradients of losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule, without

Grads = Sequence["Tensor | None"]


@without(1)
def _softmax_cross_entropy(step: Backward) -> Grads:
    """The operator has its own gradient as second output; each row takes the factor of its loss."""
    rows = step.grad.static_shape[0]
    slope = step.extra_outputs(2)[1]
    return (step.op("Mul", slope, step.reshaped(step.grad, (rows, 1))),)


def _log_likelihood(step: Backward, logs: Tensor) -> Tensor:
    """Gradient of the logarithms of probabilities."""
    node = step.node
    labels, weight = node.required(1), node.input(2)
    if weight is None:
        weight = step.constant(np.ones(logs.static_shape[1]), logs)
    own = {"reduction": str(node.attr("reduction", "mean")), "ignore_index": node.attr("ignore_index")}
    total = step.ops("NLLLoss", 2, logs, labels, weight, domain=ASCEND, **own)[1]
    return step.op("NLLLossGrad", logs, step.grad, labels, weight, total, domain=ASCEND, **own)


@without(2)
def _nll(step: Backward) -> Grads:
    return (_log_likelihood(step, step.node.required(0)),)


@without(2)
def _cross_entropy(step: Backward) -> Grads:
    logs = step.extra_outputs(2)[1]
    grad, further = _log_likelihood(step, logs), step.grad_of(1)
    if further is not None:
        grad = step.op("Add", grad, further)
    return (step.op("LogSoftmaxGrad", grad, logs, axis=1, domain=ASCEND),)


RULES: dict[tuple[str, str], Rule] = {
    ("", "NegativeLogLikelihoodLoss"): _nll,
    ("", "SoftmaxCrossEntropyLoss"): _cross_entropy,
    (ASCEND, "SoftmaxCrossEntropyWithLogits"): _softmax_cross_entropy,
}
