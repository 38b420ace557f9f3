"""Weight updates as single operators (domain "ascend"): Adam and LAMB steps, momentum with loss scale, and
parts of clipping.

Formulas follow the edges of CANN's built-in graph rules (`passes/fusion/data/json_rules.csv`), operator by
operator and in the same order, so that float32 results are those of the unfused graph bit by bit. float16
enters as float32 and every result is rounded once. Input order: Input0, Input1 ..., then the named constants.
Names are CANN's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    computing_type,
    converted,
    elementwise_lower,
    finish,
    infer_broadcast,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    split_broadcast,
    walking_shape,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Infer, Lower
from ascendsim.opset.structure import ELEMENTWISE, PARTIAL
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

DOMAIN = "ascend"
Arrays = tuple[Array, ...]


def _moments(
    g: Array, v: Array, m: Array, mul0: Array, mul1: Array, mul2: Array, mul3: Array
) -> tuple[Array, Array]:
    """New second and first moment: mul2 v + mul3 g^2, mul0 m + mul1 g."""
    return mul2 * v + mul3 * (g * g), mul0 * m + mul1 * g


def _adam(_node: Node, g: Array, v: Array, m: Array, w: Array, rate: Array, *constants: Array) -> Arrays:
    mul0, mul1, mul2, mul3, add2 = constants
    second, first = _moments(g, v, m, mul0, mul1, mul2, mul3)
    return second, first, w - rate * (first / (np.sqrt(second) + add2))


def _adam_decay(
    _node: Node, g: Array, v: Array, m: Array, w: Array, rate: Array, *constants: Array
) -> Arrays:
    mul0, mul1, mul2, mul3, mul4, add2 = constants
    second, first = _moments(g, v, m, mul0, mul1, mul2, mul3)
    return second, first, w - rate * (mul4 * w + first / (np.sqrt(second) + add2))


def _lamb_parts(inputs: Sequence[Array], constants: Sequence[Array]) -> tuple[Arrays, Array, Array, Array]:
    """Both moments, decay term, and the two ratios first / sqrt(second + e), first / (sqrt(second) + e)."""
    squares, v, v_correction, g, m, m_correction, w = inputs
    mul0, mul1, mul2, mul3, mul4, add2 = constants
    second, first = mul2 * v + mul3 * squares, mul0 * m + mul1 * g
    v_hat, m_hat = second / v_correction, first / m_correction
    root = np.reciprocal(np.sqrt(add2 + v_hat))
    return (first, second), mul4 * w, root * m_hat, m_hat / (np.sqrt(v_hat) + add2)


def _lamb_next(_node: Node, *tensors: Array) -> Arrays:
    (first, second), decay, outer, inner = _lamb_parts(tensors[:7], tensors[7:])
    return decay + outer, first, second, inner


def _lamb_next_decay(_node: Node, *tensors: Array) -> Arrays:
    (first, second), decay, outer, inner = _lamb_parts(tensors[:7], tensors[7:])
    return decay + outer, first, second, decay + inner


def _lamb_right(
    _node: Node, g: Array, v: Array, mul2: Array, mul3: Array, reciprocal: Array, add2: Array
) -> Arrays:
    second = mul2 * v + mul3 * (g * g)
    return second, np.sqrt(reciprocal * second) + add2


def _lamb_update(_node: Node, *tensors: Array) -> Array:
    g_norm, w_norm, divisor, rate, update, w, zero, other, most = tensors
    ratio = np.where(w_norm > zero, np.where(g_norm > zero, w_norm / divisor, other), other)
    return np.asarray(w - update * (np.maximum(np.minimum(ratio, most), zero) * rate))


def _lamb_update_v2(_node: Node, w_norm: Array, g_norm: Array, *others: Array) -> Array:
    rate, update, w, zero, other = others
    ratio = np.where(w_norm > zero, np.where(g_norm > zero, w_norm / g_norm, other), other)
    return np.asarray(w - rate * ratio * update)


def _clip_by_norm(_node: Node, x: Array, zero: Array, one: Array, least: Array) -> Array:
    positive = x > zero
    return np.asarray(np.maximum(np.where(positive, np.sqrt(np.where(positive, x, one)), x), least))


def _rsqrt_grad(_node: Node, y: Array, dy: Array) -> Array:
    """With y = 1 / sqrt(x): dx = -dy y^3 / 2."""
    return np.asarray(np.float32(-0.5) * dy * (y * y * y))


# ------------------------------------------------------------------------------------------------------------


def _momentum_infer(context: InferContext) -> None:
    for port in (3, 4):
        need_shape(context, port, context.shape(2))
    context.set(0, context.dtype(2), context.shape(2))
    context.set(1, context.dtype(4), context.shape(4))


def _momentum(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """ONNX's Momentum with gradient g scale: v' = alpha v + beta g', w' = w - r v' (nesterov: r (g' + alpha
    v')).
    """
    rate, step = float(inputs[0].item()), int(inputs[1].item())
    weight, gradient, velocity, scale = (as_float32(array) for array in inputs[2:])
    alpha, beta = node.attr("alpha"), node.attr("beta") if step > 0 else 1.0
    gradient = np.float32(node.attr("norm_coefficient", 0.0)) * weight + gradient * scale.reshape(())
    velocity = alpha * velocity + beta * gradient
    direction = gradient + alpha * velocity if node.attr("mode") == "nesterov" else velocity
    return [
        finish(array, dtype)
        for array, dtype in zip((weight - rate * direction, velocity), wanted, strict=False)
    ]


def _momentum_lower(node: Node, context: LowerContext) -> Work:
    return several(node, context, (("vmuls", 5), ("vadd", 3)), first=2)


# -----------------------------------------------------------------------------------------------------------


def several(
    node: Node, context: LowerContext, specs: Sequence[StepSpec], first: int = 0, wide: bool = True
) -> Work:
    """Elementwise work with several results of one size.

    Args:
        node: The node.
        context: The chip.
        specs: Vector instructions on every element.
        first: Inputs before it are read by the scalar unit.
        wide: Compute float16 in float32 where the chip can.
    """
    target = node.output
    if target.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node, ignored=range(first)):
        return on_ai_cpu(node, float(len(specs)))
    tensors = [tensor for tensor in node.inputs[first:] if tensor is not None]
    split = split_broadcast(walking_shape(target), [walking_shape(tensor, target) for tensor in tensors])
    inside = computing_type(target.element_type, context, wide)
    big = [tensor.element_type for tensor, over in zip(tensors, split.overs, strict=True) if over == "all"]
    steps = converted(make_steps(specs, inside), big, target.element_type, inside)
    streams = tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, split.overs, strict=True))
    return VectorWork(
        split.rows, split.cols, steps, streams, tuple(Stream(Ref.of(tensor)) for tensor in node.outputs)
    )


def _lower(specs: Sequence[StepSpec]) -> Lower:
    return lambda node, context: several(node, context, specs)


def _infer(outputs: int) -> Infer:
    """All results have the shape that all inputs broadcast to."""
    one = infer_broadcast()

    def infer(context: InferContext) -> None:
        one(context)
        for index in range(1, outputs):
            context.set(index, context.dtype(0), context.node.output.shape)

    return infer


def update_op(
    name: str,
    outputs: int,
    function: Callable[..., Any],
    specs: Sequence[StepSpec],
    cann: str = "",
    lower: Lower | None = None,
) -> OpDef:
    """An update of one weight: elementwise, all results of the shape that all inputs broadcast to.

    Args:
        name: Operator type.
        outputs: Number of results.
        function: (node, *arrays) -> array or tuple of arrays.
        specs: Vector instructions on every element.
        cann: What CANN's tools print, where that differs.
        lower: The work, where it is more than these instructions.
    """
    return OpDef(
        name,
        _infer(outputs),
        with_numpy(function),
        lower or _lower(specs),
        Layout.FOLLOW,
        cann,
        domain=DOMAIN,
        most_inputs=None,
        facts=ELEMENTWISE,
    )


_ADAM: tuple[StepSpec, ...] = (("vmul", 2), ("vmuls", 4), ("vadd", 2), "vsqrt", "vadds", "vdiv", "vsub")
_LAMB: tuple[StepSpec, ...] = (
    ("vmuls", 7),
    ("vadd", 2),
    ("vadds", 2),
    ("vsqrt", 2),
    "vrec",
    "vmul",
    "vdiv",
    "vadd",
)
_CHOICE: tuple[StepSpec, ...] = (("vcmp", 2), "vdiv", ("vsel", 2))

OPERATORS: tuple[OpDef, ...] = (
    update_op("AdamApplyOne", 3, _adam, _ADAM),
    update_op("AdamApplyOneWithDecay", 3, _adam_decay, (*_ADAM, "vmuls", "vadd")),
    update_op("LambNextMV", 4, _lamb_next, _LAMB),
    update_op("LambNextMVWithDecay", 4, _lamb_next_decay, (*_LAMB, "vadd")),
    update_op("LambNextRight", 2, _lamb_right, ("vmul", ("vmuls", 3), "vadd", "vsqrt", "vadds")),
    update_op("LambUpdateWithLr", 1, _lamb_update, (*_CHOICE, "vmins", "vmaxs", ("vmuls", 2), "vsub")),
    update_op("LambUpdateWithLrV2", 1, _lamb_update_v2, (*_CHOICE, ("vmuls", 2), "vsub")),
    update_op("ClipByNormNoDivSum", 1, _clip_by_norm, ("vcmp", ("vsel", 2), "vsqrt", "vmaxs")),
    OpDef(
        "RsqrtGrad",
        infer_broadcast(),
        with_numpy(_rsqrt_grad),
        elementwise_lower(["vmuls", ("vmul", 3)]),
        Layout.FOLLOW,
        domain=DOMAIN,
        most_inputs=2,
        facts=PARTIAL,
    ),
    OpDef(
        "FusedMulApplyMomentum",
        _momentum_infer,
        _momentum,
        _momentum_lower,
        domain=DOMAIN,
        most_inputs=None,
        facts=ELEMENTWISE,
    ),
)
