"""Losses on the output of a graph: cross entropy and mean squared error.

Cross entropy is what MindSpore's graphs have: OneHot of the labels and CANN's SoftmaxCrossEntropyWithLogits,
which gives losses and gradients at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Pen

LABELS = "labels"  # name of the graph input


def _cross_entropy(pen: Pen, scores: Tensor) -> Tensor:
    """Mean over all items. Classes are the last axis of scores of rank 2 and 3 and axis 1 of maps."""
    shape = scores.static_shape
    rank = len(shape)
    if rank < 2:
        rule = "needs scores of shape (batch, classes) or more axes"
        raise GraphError(f"loss cross_entropy of {scores.name!r}", rule, shape)
    flat = scores
    if rank > 3:
        flat = pen.op("Transpose", scores, perm=[0, *range(2, rank), 1])
    places, classes = flat.static_shape[:-1], flat.static_shape[-1]
    labels = pen.graph.add_input(LABELS, DType.INT32, places)
    count = math.prod(places)
    if rank > 2:
        flat = pen.op("Reshape", flat, [count, classes])
        labels = pen.op("Reshape", labels, [count])
    kind = (scores.origin_dtype or scores.element_type).numpy
    hot = pen.op("OneHot", labels, [classes], pen.constant(kind.type([0, 1])))
    losses = pen.op("SoftmaxCrossEntropyWithLogits", flat, hot, domain=ASCEND)
    return pen.op("ReduceMean", losses, keepdims=0)


def _squares(pen: Pen, result: Tensor) -> Tensor:
    """Mean over all elements."""
    wanted = pen.graph.add_input(LABELS, result.element_type, result.static_shape)
    apart = pen.op("Sub", result, wanted)
    return pen.op("ReduceMean", pen.op("Mul", apart, apart), keepdims=0)


LOSSES: Mapping[str, Callable[[Pen, Tensor], Tensor]] = {"cross_entropy": _cross_entropy, "mse": _squares}
