"""Gradients of pooling. Max pooling hands a mask of its maxima to its gradient, as CANN's training graphs
do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule

Grads = Sequence["Tensor | None"]


def _window(step: Backward) -> dict[str, Any]:
    rank = len(step.node.required(0).static_shape)
    if rank != 4:
        step.refuse("needs maps of rank 4", rank, "give maps over one axis a second one of size 1")
    return {key: value for key, value in step.node.attributes.items() if key != "storage_order"}


def _max_pool(step: Backward) -> Grads:
    x, window, grad = step.node.required(0), _window(step), step.grad
    if len(step.node.outputs) > 1 and step.node.outputs[1].uses:
        step.refuse("needs a MaxPool whose indices nobody reads")
    _, mask = step.in_place_of_forward("MaxPoolWithArgmax", 2, x, **window)
    return (step.op("MaxPoolGradWithArgmax", x, grad, mask, domain=ASCEND, **window),)


def _average_pool(step: Backward) -> Grads:
    shape = step.node.required(0).static_shape
    attributes = {**_window(step), "orig_input_shape": shape}
    return (step.op("AvgPoolV2Grad", step.grad, domain=ASCEND, **attributes),)


def _global_average(step: Backward) -> Grads:
    shape = step.node.required(0).static_shape
    share = step.op("Mul", step.grad, 1.0 / math.prod(shape[2:]))
    return (share if share.static_shape == shape else step.op("Expand", share, list(shape)),)


def _global_max(step: Backward) -> Grads:
    """Elements that share the maximum share the gradient."""
    x = step.node.required(0)
    hits = step.op("Cast", step.op("Equal", x, step.node.output), to=x.element_type)
    count = step.op("ReduceSum", hits, list(range(2, len(x.static_shape))), keepdims=1)
    return (step.op("Mul", hits, step.op("Div", step.grad, count)),)


RULES: dict[tuple[str, str], Rule] = {
    ("", "MaxPool"): _max_pool,
    ("", "AveragePool"): _average_pool,
    ("", "GlobalAveragePool"): _global_average,
    ("", "GlobalMaxPool"): _global_max,
}
