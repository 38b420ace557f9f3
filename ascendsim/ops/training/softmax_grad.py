"""Gradients of softmax as one operator each (domain "ascend"): SoftmaxGrad, SoftmaxGradExt,
ConfusionSoftmaxGrad and LogSoftmaxGrad.

    ConfusionSoftmaxGrad(grad, x)    = grad - sum(grad x)
    SoftmaxGrad(softmax, grad)       = (grad - sum(grad softmax)) softmax
    SoftmaxGradExt(grad, softmax, z) = (grad - sum(grad softmax)) softmax z, with one number z
    LogSoftmaxGrad(grad, logsoftmax) = grad - sum(grad) e^logsoftmax

The sum goes along `axis` (the last one by default). Sums are float32 or wider, with one rounding at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.normalise.softmax import rows_in_blocks, walking_axis
from ascendsim.ops.reduce.reduction import fold
from ascendsim.ops.shared.bursts import DUPLICATE
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    in_turn,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    runs_on_ai_core,
    walking_shape,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Lower
from ascendsim.opset.expansion import Writer
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.steps import SCALAR
from ascendsim.opset.structure import along, along_axes
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work


def _infer(context: InferContext) -> None:
    shape = context.shape(0)
    if shape is not None:
        normalise_axis(int(context.node.attr("axis", -1)), len(shape), f"axis of node {context.node.name!r}")
    if not may_equal(shape, context.shape(1)):
        raise context.fail("needs inputs of one shape", f"{shape} and {context.shape(1)}")
    context.set(0, context.dtype(0), shape)


def _infer_scaled(context: InferContext) -> None:
    _infer(context)
    scale = context.shape(2)
    if scale is not None and any(isinstance(size, int) and size != 1 for size in scale):
        raise context.fail("needs a factor of one number", list(scale))


def _total(node: Node, x: Array) -> Array:
    """The sum along the axis; of float32 that of ReduceSum, so that the formula has the same bits."""
    axis = int(node.attr("axis", -1)) % x.ndim
    if x.dtype == np.float32 and x.size:
        return fold("SUM", x, (axis,))
    return np.sum(x, axis=axis, keepdims=True, dtype=np.float64).astype(x.dtype)


def _centred(node: Node, grad: Array, x: Array) -> Array:
    return np.asarray(grad - _total(node, grad * x))


def _softmax_grad(node: Node, softmax: Array, grad: Array) -> Array:
    return np.asarray(_centred(node, grad, softmax) * softmax)


def _scaled_softmax_grad(node: Node, grad: Array, softmax: Array, scale: Array) -> Array:
    return np.asarray(_softmax_grad(node, softmax, grad) * scale.reshape(()))


def _log_softmax_grad(node: Node, grad: Array, logs: Array) -> Array:
    return np.asarray(grad - _total(node, grad) * np.exp(logs))


def _lower(before: Sequence[StepSpec], after: Sequence[StepSpec]) -> Lower:
    """What comes before the sum of a row, the sum, and what comes after; two sweeps over both inputs if a row
    does not fit. A third input is one number.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        first, target = node.required(0), node.output
        if first.elements == 0:
            return NoTask()
        if not runs_on_ai_core(node):
            return on_ai_cpu(node, 1.0 + len(before) + len(after))
        shape = walking_shape(first)
        axis = walking_axis(first, int(node.attr("axis", -1)) % len(first.static_shape))
        behind, elements = math.prod(shape[axis + 1 :]), math.prod(shape)
        inside = computing_type(first.element_type, context, wide=True)
        fold = Step("vcadd" if behind == 1 else "vadd", inside)
        body = (*make_steps(before, inside), fold, *make_steps(after, inside))
        steps = converted(
            body,
            [tensor.element_type for tensor in node.inputs[:2] if tensor is not None],
            target.element_type,
            inside,
        )
        length = shape[axis]
        if context.register_moves and behind == 1 and not in_turn(target, context):
            steps = _spread(steps, fold, length)
        rows, cols = (elements // length, length) if behind == 1 else (length, elements // length)
        piece = behind * first.element_type.itemsize if behind > 1 and behind != elements // length else 0
        inputs = tuple(Stream(Ref.of(node.required(port))) for port in (0, 1))
        if node.input_count > 2:
            inputs += (Stream(Ref.of(node.required(2)), "one"),)
        work = VectorWork(
            rows,
            cols,
            steps,
            inputs,
            (Stream(Ref.of(target)),),
            reduces="cols",
            sweeps=2,
            gather_bytes=piece,
            in_turn=in_turn(target, context),
        )
        return work if behind == 1 else replace(work, reduces="rows")

    return lower


def _spread(steps: tuple[Step, ...], fold: Step, length: int) -> tuple[Step, ...]:
    """The steps with what each row has become spread over it again, on chips whose vector unit reads it from
    no other place: the scalar unit reads a number, an instruction duplicates it (opp,
    confusion_softmax_grad.py: broadcasts along the last axis).
    """
    at = steps.index(fold) + 1
    spread = Step(DUPLICATE, fold.dtype, run=length, overruns=True)
    return (*steps[:at], Step(SCALAR, fold.dtype, "row"), spread, *steps[at:])


def _in_blocks(node: Node, format: Format) -> bool:
    same = node.required(0).shape == node.required(1).shape and not any(
        t is not None and t.is_constant for t in node.inputs
    )
    return same and rows_in_blocks(node, format)


_FACTS = Facts(along(ports=(0, 1)), Kind.REDUCTION, Precision.GRAY)
_SUMMED = along_axes(lambda node, rank: (int(node.attr("axis", -1)) % rank,), ports=(0,), scales=(1,))
_SCALED = along_axes(lambda node, rank: (int(node.attr("axis", -1)) % rank,), ports=(0, 1), scales=(2,))
_EXPONENTIAL = Facts(_SUMMED, Kind.REDUCTION, Precision.BLACK)


def _written_out(w: Writer) -> Tensor | None:
    """The gradient y (dy - sum(dy y)) of y = softmax(x); inputs y and dy in CANN's order."""
    axis = w.axis()
    if axis is None:
        return None
    y, dy = w.wide(w(0)), w.wide(w(1))
    total = w.op("ReduceSum", w.op("Mul", dy, y), [axis], keepdims=1)
    return w.like_output(w.op("Mul", y, w.op("Sub", dy, total)))


def _scaled_written_out(w: Writer) -> Tensor | None:
    """The same times a factor; inputs dy, y and the factor."""
    axis = w.axis()
    if axis is None:
        return None
    dy, y, scale = (w.wide(w(port)) for port in range(3))
    total = w.op("ReduceSum", w.op("Mul", dy, y), [axis], keepdims=1)
    return w.like_output(w.op("Mul", w.op("Mul", y, w.op("Sub", dy, total)), scale))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ConfusionSoftmaxGrad",
        _infer,
        with_numpy(_centred),
        _lower(["vmul"], ["vsub"]),
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        most_inputs=2,
        facts=_FACTS,
    ),
    OpDef(
        "SoftmaxGrad",
        _infer,
        with_numpy(_softmax_grad),
        _lower(["vmul"], ["vsub", "vmul"]),
        Layout.FOLLOW,
        mindspore="SoftmaxGradExt",
        expand=_written_out,
        domain="ascend",
        in_blocks=_in_blocks,
        most_inputs=2,
        facts=_FACTS,
    ),
    OpDef(
        "SoftmaxGradExt",
        _infer_scaled,
        with_numpy(_scaled_softmax_grad),
        _lower(["vmul"], ["vsub", "vmul", "vmuls"]),
        Layout.FOLLOW,
        expand=_scaled_written_out,
        domain="ascend",
        in_blocks=_in_blocks,
        most_inputs=3,
        facts=Facts(_SCALED, Kind.REDUCTION, Precision.GRAY),
    ),
    OpDef(
        "LogSoftmaxGrad",
        _infer,
        with_numpy(_log_softmax_grad),
        _lower(["vexp"], ["vmul", "vsub"]),
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        most_inputs=2,
        facts=_EXPONENTIAL,
    ),
)
