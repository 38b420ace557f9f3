"""SwiGlu, its gradient and GeGluV2 (domain "ascend", CANN's prototypes): one tensor, half of which is a gate.

    SwiGlu(x) -> a sigmoid(a) b            a, b = the halves of x along `dim`, the last axis by default
    SwiGluGrad(dy, x) -> dx                of the shape of x
    GeGluV2(x) -> a gelu(b), gelu(b)       gelu(a) b with activate_left; by tanh, with approximate = 0 by erf

ONNX's SwiGLU takes the halves as two tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS, gelu_exact, gelu_steps, gelu_tanh
from ascendsim.ops.elementwise.arithmetic import ERF_STEPS
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    runs_on_ai_core,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

_GATE: tuple[StepSpec, ...] = (*SIGMOID_STEPS, ("vmul", 2))
_BY_ERF: tuple[StepSpec, ...] = (
    "vmuls",
    *ERF_STEPS,
    "vadds",
    "vmul",
    "vmuls",
)  # x / 2 (1 + erf(x / sqrt(2)))
# s = sigmoid(a): db = dy a s, da = dy b s (1 + a (1 - s))
_GRADIENT: tuple[StepSpec, ...] = (
    *SIGMOID_STEPS,
    ("vmul", 2),
    "vmuls",
    "vadds",
    "vmul",
    "vadds",
    ("vmul", 3),
)


def _axis(node: Node, rank: int) -> int:
    return normalise_axis(int(node.attr("dim", -1)), rank, f"dim of node {node.name!r} ({node.op_type})")


def _half(context: InferContext, shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    axis = _axis(context.node, len(shape))
    size = shape[axis]
    if isinstance(size, int) and size % 2:
        raise context.fail("needs an even size along dim", size)
    return (*shape[:axis], size // 2 if isinstance(size, int) else None, *shape[axis + 1 :])


def _infer(context: InferContext) -> None:
    context.set(0, context.dtype(0), _half(context, context.shape(0)))


def _infer_gelu(context: InferContext) -> None:
    if context.node.attr("approximate", 1) not in (0, 1):
        raise context.fail("needs approximate 0 (erf) or 1 (tanh)", context.node.attr("approximate"))
    for number in range(2):
        context.set(number, context.dtype(0), _half(context, context.shape(0)))


def _infer_gradient(context: InferContext) -> None:
    need_shape(context, 0, _half(context, context.shape(1)))
    context.set(0, context.dtype(1), context.shape(1))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gated(node: Node, x: Array) -> Array:
    gate, other = np.split(x, 2, axis=_axis(node, x.ndim))
    return np.asarray(gate * _sigmoid(gate) * other)


def _gelu_gated(node: Node, x: Array) -> tuple[Array, Array]:
    first, second = np.split(x, 2, axis=_axis(node, x.ndim))
    gate, other = (first, second) if node.attr("activate_left", 0) else (second, first)
    made = (gelu_tanh if node.attr("approximate", 1) else gelu_exact)(gate).astype(x.dtype)
    return made * other, made


def _gradient(node: Node, dy: Array, x: Array) -> Array:
    axis = _axis(node, x.ndim)
    gate, other = np.split(x, 2, axis=axis)
    share = _sigmoid(gate)
    return np.concatenate([dy * other * share * (1 + gate * (1 - share)), dy * gate * share], axis=axis)


def _work(node: Node, context: LowerContext, specs: Sequence[StepSpec], small: Tensor, large: Tensor) -> Work:
    """Both halves of the large tensor pass by with each element of the small one, in pieces of half a row."""
    if small.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(len(specs)))
    dtype, inputs = small.element_type, [node.required(port) for port in range(node.input_count)]
    shape, axis = small.static_shape, _axis(node, len(small.static_shape))
    cols = math.prod(shape[axis:])
    inside = computing_type(dtype, context, wide=True)
    halves = sum(2 if tensor is large else 1 for tensor in inputs)
    steps = converted(make_steps(specs, inside), [dtype] * halves, dtype, inside)
    stored = sum(tensor.elements for tensor in node.outputs) // small.elements
    if stored > 1 and inside is not dtype:
        steps = (*steps, steps[-1])  # two results an element
    return VectorWork(
        math.prod(shape[:axis]),
        cols,
        steps,
        tuple(Stream(Ref.of(tensor)) for tensor in inputs),
        tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
        gather_bytes=cols * dtype.itemsize,
    )


def _lower(node: Node, context: LowerContext) -> Work:
    return _work(node, context, _GATE, node.output, node.required(0))


def _lower_gelu(node: Node, context: LowerContext) -> Work:
    steps = gelu_steps(context) if node.attr("approximate", 1) else _BY_ERF
    return _work(node, context, (*steps, "vmul"), node.output, node.required(0))


def _lower_gradient(node: Node, context: LowerContext) -> Work:
    return _work(node, context, _GRADIENT, node.required(0), node.required(1))


_FACTS = Facts(along("dim", ports=()), Kind.ELEMENTWISE, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef("SwiGlu", _infer, with_numpy(_gated), _lower, domain="ascend", facts=_FACTS),
    OpDef(
        "GeGluV2",
        _infer_gelu,
        with_numpy(_gelu_gated),
        _lower_gelu,
        domain="ascend",
        facts=replace(_FACTS, versioned=True),
    ),
    OpDef(
        "SwiGluGrad",
        _infer_gradient,
        with_numpy(_gradient),
        _lower_gradient,
        domain="ascend",
        most_inputs=2,
        facts=_FACTS,
    ),
)
