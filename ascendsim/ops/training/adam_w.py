"""ApplyAdamWV2 (domain "ascend", CANN's prototype; PyTorch's fused AdamW): one weight's step in place.

    ApplyAdamWV2(var, m, v, grad, step, max_grad_norm) -> var, m, v, max_grad_norm

The rates are attributes, step (t, counted from 1) is a tensor of one element. max_grad_norm and the last
output are there with `amsgrad`: the largest corrected v so far, which then stands under the root. The
outputs are the new values of what CANN changes in place. The gradient and max_grad_norm may be narrower than
the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    walking_shape,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import elementwise
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

_STEP, _TOP = 4, 5  # ports
_RATE = 0.1  # the prototype's default of every rate
_STEPS: tuple[StepSpec, ...] = ("vmul", ("vmuls", 7), ("vadd", 2), "vsqrt", "vadds", "vdiv", "vsub")


def _infer(context: InferContext) -> None:
    for port in (1, 2, 3, *((_TOP,) if context.has(_TOP) else ())):
        need_shape(context, port, context.shape(0))
    count = context.shape(_STEP)
    if count is not None and any(isinstance(size, int) and size != 1 for size in count):
        raise context.fail("needs one number of the step", list(count))
    if bool(context.node.attr("amsgrad", 0)) is not context.has(_TOP):
        raise context.fail("needs max_grad_norm with amsgrad, and only then", int(context.has(_TOP)))
    for output, port in enumerate((0, 1, 2, _TOP)[: 4 if context.has(_TOP) else 3]):
        context.set(output, context.dtype(port), context.shape(0))


def _compute(node: Node, w: Array, *tensors: Array) -> tuple[Array, ...]:
    m, v, g, step = tensors[:4]
    top = tensors[4] if len(tensors) > 4 else None
    one, count = w.dtype.type(1), float(step.reshape(()))
    names = ("lr", "beta1", "beta2", "weight_decay", "eps")
    rate, beta1, beta2, decay, epsilon = (w.dtype.type(node.attr(name, _RATE)) for name in names)
    g = (-g if node.attr("maximize", 0) else g).astype(w.dtype)
    m = beta1 * m + (one - beta1) * g
    v = beta2 * v + (one - beta2) * (g * g)
    corrected = v / w.dtype.type(1 - float(beta2) ** count)
    if top is not None:
        corrected = top = np.maximum(top.astype(w.dtype), corrected)
    ratio = m / w.dtype.type(1 - float(beta1) ** count) / (np.sqrt(corrected) + epsilon)
    made = (w - rate * ratio - rate * decay * w, m, v)
    return made if top is None else (*made, top)


def _lower(node: Node, context: LowerContext) -> Work:
    """Elementwise on all tensors at once; corrections by the step are numbers of the scalar unit."""
    target = node.output
    if target.elements == 0:
        return NoTask()
    steps: Sequence[StepSpec] = _STEPS if node.input(_TOP) is None else (*_STEPS, "vmax")
    if not runs_on_ai_core(node, ignored=(_STEP,)):
        return on_ai_cpu(node, float(len(steps)))
    ports = [port for port in range(_TOP + 1) if port != _STEP and node.input(port) is not None]
    tensors = [node.required(port) for port in ports]
    inside = computing_type(target.element_type, context, wide=True)
    body = converted(make_steps(steps, inside), [tensor.element_type for tensor in tensors], inside, inside)
    narrowed = sum(tensor.element_type is not inside for tensor in node.outputs)
    cols = int(np.prod(walking_shape(target), dtype=np.int64))
    return VectorWork(
        1,
        cols,
        (*body, *make_steps(["vconv"] * narrowed, inside)),
        tuple(Stream(Ref.of(tensor)) for tensor in tensors),
        tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ApplyAdamWV2",
        _infer,
        with_numpy(_compute),
        _lower,
        Layout.FOLLOW,
        domain="ascend",
        in_place=True,
        most_inputs=6,
        facts=Facts(elementwise(0, 1, 2, 3, 5), Kind.ELEMENTWISE, Precision.GRAY),
    ),
)
