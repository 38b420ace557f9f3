"""Weight updates (domain "ai.onnx.preview.training"): Momentum, Adagrad, Adam. Formulas: the ONNX operator
pages.

Inputs are the learning rate R, the update count T, then all weights, all gradients, then all of each state;
outputs are all new weights, then all of each new state. Arithmetic is float32 inside the operator; each
result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.common import as_float32, finish, make_steps, on_ai_cpu
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.definition import Compute, Infer, Lower
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Ref, SequenceWork, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
Update = Callable[[Node, float, int, Sequence[Array]], tuple[Array, ...]]
_VECTOR_TYPES = (DType.FLOAT16, DType.FLOAT32)
DOMAIN = "ai.onnx.preview.training"


def _infer(states: int) -> Infer:
    def infer(ctx: InferContext) -> None:
        kinds = 2 + states
        given = ctx.node.input_count - 2
        if given < kinds or given % kinds:
            raise ctx.fail(f"needs a rate, a count and groups of {kinds} tensors", ctx.node.input_count)
        count = given // kinds
        if len(ctx.node.outputs) != (1 + states) * count:
            raise ctx.fail(f"gives {(1 + states) * count} tensors", len(ctx.node.outputs))
        for number in range(count):
            need_shape(ctx, 2 + count + number, ctx.shape(2 + number))
            ctx.set(number, ctx.dtype(2 + number), ctx.shape(2 + number))
            for state in range(states):
                source = 2 + (2 + state) * count + number
                need_shape(ctx, source, ctx.shape(2 + number))
                ctx.set((1 + state) * count + number, ctx.dtype(source), ctx.shape(source))

    return infer


def _compute(update: Update, states: int) -> Compute:
    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
        rate, step = float(inputs[0].item()), int(inputs[1].item())
        tensors = [as_float32(array) for array in inputs[2:]]
        count = len(tensors) // (2 + states)
        with np.errstate(all="ignore"):
            groups = [update(node, rate, step, tensors[number::count]) for number in range(count)]
        results = [group[kind] for kind in range(1 + states) for group in groups]
        return [finish(array, dtype) for array, dtype in zip(results, wanted, strict=True)]

    return compute


def _regularised(node: Node, weight: Array, gradient: Array) -> Array:
    return np.asarray(np.float32(node.attr("norm_coefficient", 0.0)) * weight + gradient)


def _momentum(node: Node, rate: float, step: int, tensors: Sequence[Array]) -> tuple[Array, ...]:
    weight, gradient, velocity = tensors
    gradient = _regularised(node, weight, gradient)
    alpha, beta = node.attr("alpha"), node.attr("beta") if step > 0 else 1.0
    velocity = alpha * velocity + beta * gradient
    direction = gradient + alpha * velocity if node.attr("mode") == "nesterov" else velocity
    return weight - rate * direction, velocity


def _adagrad(node: Node, rate: float, step: int, tensors: Sequence[Array]) -> tuple[Array, ...]:
    weight, gradient, squares = tensors
    gradient = _regularised(node, weight, gradient)
    squares = squares + gradient * gradient
    rate /= 1 + step * node.attr("decay_factor", 0.0)
    return weight - rate * gradient / (np.sqrt(squares) + node.attr("epsilon", 1e-6)), squares


def _adam(node: Node, rate: float, step: int, tensors: Sequence[Array]) -> tuple[Array, ...]:
    weight, gradient, mean, squares = tensors
    gradient = _regularised(node, weight, gradient)
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * gradient * gradient
    if step > 0:
        rate *= np.sqrt(1 - beta**step) / (1 - alpha**step)
    moved = weight - rate * mean / (np.sqrt(squares) + node.attr("epsilon", 1e-6))
    return (1 - node.attr("norm_coefficient_post", 0.0)) * moved, mean, squares


def _lower(specs: Sequence[str | tuple[str, int]], states: int) -> Lower:
    """One elementwise program a weight: each of its tensors is read and each of its results written once."""

    def lower(node: Node, _ctx: LowerContext) -> Work:
        tensors = [tensor for tensor in node.inputs[2:] if tensor is not None]
        count = len(tensors) // (2 + states)
        if any(tensor.element_type not in _VECTOR_TYPES for tensor in tensors):
            return on_ai_cpu(node, len(specs))
        parts = []
        for number in range(count):
            group = [Ref.of(tensor) for tensor in tensors[number::count]]
            results = tuple(Stream(Ref.of(tensor)) for tensor in node.outputs[number::count])
            elements = node.outputs[number].elements
            steps = make_steps(specs, group[0].dtype)
            if elements:
                parts.append(VectorWork(1, elements, steps, tuple(Stream(ref) for ref in group), results))
        return SequenceWork(tuple(parts)) if parts else NoTask()

    return lower


_STEPS_MOMENTUM = (("vmuls", 4), ("vadd", 3))
_STEPS_ADAGRAD = ("vmul", ("vmuls", 2), ("vadd", 3), "vsqrt", "vadds", "vdiv")
_STEPS_ADAM = ("vmul", ("vmuls", 7), ("vadd", 4), "vsqrt", "vadds", "vdiv")

_FACTS = Facts(opaque(), Kind.ELEMENTWISE, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Momentum",
        _infer(1),
        _compute(_momentum, 1),
        _lower(_STEPS_MOMENTUM, 1),
        cann="ApplyMomentumD",
        domain=DOMAIN,
        most_inputs=None,
        facts=_FACTS,
    ),
    OpDef(
        "Adagrad",
        _infer(1),
        _compute(_adagrad, 1),
        _lower(_STEPS_ADAGRAD, 1),
        cann="ApplyAdagradD",
        domain=DOMAIN,
        most_inputs=None,
        facts=_FACTS,
    ),
    OpDef(
        "Adam",
        _infer(2),
        _compute(_adam, 2),
        _lower(_STEPS_ADAM, 2),
        cann="ApplyAdamD",
        domain=DOMAIN,
        most_inputs=None,
        facts=_FACTS,
    ),
)
