"""Gradients of reductions: what became one number is handed back to all that went into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ascendsim.graph.ir import Tensor
from ascendsim.opset.structure import constant_ints
from ascendsim.training.backward import Backward, Rule

Grads = Sequence["Tensor | None"]


def _axes(step: Backward) -> tuple[int, ...]:
    node = step.node
    rank, given = len(node.required(0).static_shape), constant_ints(node.input(1))
    if given is None and node.input(1) is not None:
        step.refuse("needs axes that are known", remedy="make them a constant")
    if not given:
        return () if node.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(axis % rank for axis in given)


def _kept(step: Backward, tensor: Tensor) -> Tensor:
    """A tensor of the result's shape with axes of size 1 where it was reduced."""
    shape, axes = step.node.required(0).static_shape, _axes(step)
    return step.reshaped(tensor, [1 if axis in axes else size for axis, size in enumerate(shape)])


def _spread(step: Backward, tensor: Tensor) -> Tensor:
    shape = step.node.required(0).static_shape
    return tensor if tensor.static_shape == shape else step.op("Expand", tensor, list(shape))


def _sum(step: Backward) -> Grads:
    return (_spread(step, _kept(step, step.grad)),)


def _mean(step: Backward) -> Grads:
    shape = step.node.required(0).static_shape
    count = math.prod(shape[axis] for axis in _axes(step))
    return (_spread(step, step.op("Mul", _kept(step, step.grad), 1.0 / count)),)


def _sum_square(step: Backward) -> Grads:
    return (step.op("Mul", step.node.required(0), step.op("Mul", _kept(step, step.grad), 2.0)),)


def _norm(step: Backward) -> Grads:
    """Dx = dy x / |x|."""
    share = step.op("Div", step.grad, step.node.output)
    return (step.op("Mul", step.node.required(0), _kept(step, share)),)


def _absolute(step: Backward) -> Grads:
    return (step.op("Mul", step.op("Sign", step.node.required(0)), _kept(step, step.grad)),)


def _log_sum_exp(step: Backward) -> Grads:
    share = step.op("Exp", step.op("Sub", step.node.required(0), _kept(step, step.node.output)))
    return (step.op("Mul", share, _kept(step, step.grad)),)


def _extreme(step: Backward) -> Grads:
    """Elements that share the extreme value share the gradient."""
    x = step.node.required(0)
    hits = step.op("Cast", step.op("Equal", x, _kept(step, step.node.output)), to=x.element_type)
    axes = _axes(step)
    if not axes:
        return (step.grad,)
    share = step.op("Div", _kept(step, step.grad), step.op("ReduceSum", hits, list(axes), keepdims=1))
    return (step.op("Mul", hits, share),)


def _cumulative(step: Backward) -> Grads:
    """What comes later in the sum, summed from the other end."""
    node = step.node
    backwards: dict[str, Any] = {
        "reverse": 1 - int(node.attr("reverse", 0)),
        "exclusive": int(node.attr("exclusive", 0)),
    }
    return (step.op("CumSum", step.grad, node.required(1), **backwards),)


RULES: dict[tuple[str, str], Rule] = {
    ("", "ReduceSum"): _sum,
    ("", "ReduceMean"): _mean,
    ("", "ReduceSumSquare"): _sum_square,
    ("", "ReduceL2"): _norm,
    ("", "ReduceL1"): _absolute,
    ("", "ReduceLogSumExp"): _log_sum_exp,
    ("", "ReduceMax"): _extreme,
    ("", "ReduceMin"): _extreme,
    ("", "CumSum"): _cumulative,
}
