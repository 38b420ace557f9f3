"""Negative log-likelihood and mean squared error, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, rank
from ascendsim.graph.ir import Tensor

_REDUCTIONS = ("none", "mean", "sum")


def nll_loss(
    call: Call, logs: Tensor, labels: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> list[Tensor]:
    """The loss and the weight of all labels that count; images too."""
    batch, given = _batched(call, logs, labels)
    options: dict[str, Any] = {"reduction": _REDUCTIONS[reduction], "ignore_index": int(ignored)}
    loss, total = call.chip("NLLLoss", batch, given, _weights(call, logs, weight), outputs=2, **options)
    return [call.reshaped(loss, call.shape(0)), total]


def nll_loss_gradient(
    call: Call,
    dy: Tensor,
    logs: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total: Tensor,
) -> Tensor:
    """Minus the loss's gradient at every label."""
    batch, given = _batched(call, logs, labels)
    options: dict[str, Any] = {"reduction": _REDUCTIONS[reduction], "ignore_index": int(ignored)}
    if reduction == 0:
        dy = call.reshaped(dy, given.static_shape)
    dx = call.chip("NLLLossGrad", batch, dy, given, _weights(call, logs, weight), total, **options)[0]
    return call.reshaped(dx, logs.static_shape)


def _batched(call: Call, logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of a single item as a batch of one; labels in the type that the Vector unit has."""
    labels = call.of_type(labels, DType.INT32)
    if rank(logs) > 1:
        return logs, labels
    return call.reshaped(logs, (1, *logs.static_shape)), call.reshaped(labels, (1,))


def _weights(call: Call, logs: Tensor, weight: Tensor | None) -> Tensor:
    if weight is not None:
        return weight
    classes = logs.static_shape[1 if rank(logs) > 1 else 0]
    return call.array(np.ones(classes), "class_weights", logs.element_type.numpy)


def squared_error(call: Call, x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    """mse_loss."""
    apart = call.op("Sub", x, y)
    squares = call.op("Mul", apart, apart)
    if reduction == 0:
        return squares
    return call.op("ReduceMean" if reduction == 1 else "ReduceSum", squares, _all(x), keepdims=0)


def squared_error_gradient(call: Call, dy: Tensor, x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    """2 (x - y) dy, over the count for a mean."""
    factor = 2.0 / x.elements if reduction == 1 else 2.0
    return call.op("Mul", call.op("Mul", call.op("Sub", x, y), factor), dy)


def _all(x: Tensor) -> Sequence[int]:
    return list(range(rank(x)))
