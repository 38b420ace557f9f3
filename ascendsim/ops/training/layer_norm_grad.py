"""Gradients of layer normalisation (domain "ascend"): LayerNormGrad, LayerNormXBackpropV2,
LayerNormBetaGammaBackpropV2.

y = (x - mean) inverse gamma + beta with inverse = 1 / sqrt(variance + epsilon), over the last axes, those
that gamma has. With n = (x - mean) inverse and h = dy gamma:

    dx = inverse (h - mean of h - n mean of (h n)),    dgamma = sum over rows of dy n,    dbeta = sum over
                                                       rows of dy

LayerNormGrad gives all three; the two others share the work: the first gives dx and n (float32), the second
reads n. The third input is `inverse`, as the edges of CANN's LayerNormGradFusionRule have it at that place.
Sums are float64, results are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    computing_type,
    converted,
    in_turn,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_shape, need_within
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, SequenceWork, Stream, VectorWork, Work

DOMAIN = "ascend"


def _check(context: InferContext, gamma: int) -> None:
    need_shape(context, 0, context.shape(1))
    for port in (2, 3):
        need_within(context, port, context.shape(1))
    data, scale = context.shape(1), context.shape(gamma)
    if (
        data is not None
        and scale is not None
        and not may_equal(data[max(0, len(data) - len(scale)) :], scale)
    ):
        raise context.fail("needs gamma of the shape of the last axes", f"{scale} for {data}")


def _grad_infer(context: InferContext) -> None:
    _check(context, 4)
    context.set(0, context.dtype(0), context.shape(1))
    for index in (1, 2):
        context.set(index, context.dtype(0), context.shape(4))


def _x_infer(context: InferContext) -> None:
    _check(context, 4)
    context.set(0, context.dtype(0), context.shape(1))
    context.set(1, DType.FLOAT32, context.shape(1))


def _parameters_infer(context: InferContext) -> None:
    need_shape(context, 1, context.shape(0))
    shape, rank = context.shape(0), len(context.node.attr("shape_gamma"))
    result = None if shape is None else shape[len(shape) - rank :]
    for index in (0, 1):
        context.set(index, context.dtype(0), result)


def _x_part(dy: Array, x: Array, inverse: Array, mean: Array, gamma: Array) -> tuple[Array, Array]:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    wide = [array.astype(np.float64) for array in (dy, x, inverse, mean, gamma)]
    normal = (wide[1] - wide[3]) * wide[2]
    h = wide[0] * wide[4]
    dx = wide[2] * (
        h - h.mean(axis=axes, keepdims=True) - normal * (h * normal).mean(axis=axes, keepdims=True)
    )
    return dx.astype(x.dtype), normal


def _parameter_part(dy: Array, normal: Array, rank: int) -> tuple[Array, Array]:
    rows, wide = tuple(range(dy.ndim - rank)), dy.astype(np.float64)
    return np.sum(wide * normal, axis=rows), np.sum(wide, axis=rows)


def _grad(_node: Node, dy: Array, x: Array, inverse: Array, mean: Array, gamma: Array) -> tuple[Array, ...]:
    dx, normal = _x_part(dy, x, inverse, mean, gamma)
    return (dx, *_parameter_part(dy, normal, gamma.ndim))


def _x_backprop(
    _node: Node, dy: Array, x: Array, inverse: Array, mean: Array, gamma: Array
) -> tuple[Array, ...]:
    return _x_part(dy, x, inverse, mean, gamma)


def _parameters(node: Node, dy: Array, normal: Array) -> tuple[Array, ...]:
    return _parameter_part(dy, normal.astype(np.float64), len(node.attr("shape_gamma")))


def _rows(data: Tensor, rank: int) -> tuple[int, int]:
    shape = data.static_shape
    return math.prod(shape[: len(shape) - rank]), math.prod(shape[len(shape) - rank :])


def _streams(tensors: Sequence[Tensor], overs: Sequence[Over]) -> tuple[Stream, ...]:
    return tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, overs, strict=True))


def _x_work(node: Node, context: LowerContext, outputs: Sequence[Tensor]) -> VectorWork:
    """Three row sums, as CANN's kernel has them: of what goes to the variance and twice of what goes to the
    mean; three reads of a row that does not fit into UB.
    """
    data = node.required(1)
    rows, cols = _rows(data, len(node.required(4).static_shape))
    inside = computing_type(data.element_type, context, wide=True)
    steps = converted(
        (
            *make_steps(
                ["vsub", "vmul", "vmul", "vmul", "vcadd"], inside
            ),  # x - mean, n, h; sum of h (x - mean)
            *make_steps(["vmul", "vcadd", "vmuls", "vcadd"], inside),  # sums of h and of x - mean
            *make_steps([("vmul", 4), "vadd"], inside, "row"),
            *make_steps([("vmul", 2), "vadd", "vadd"], inside),
        ),
        [node.required(0).element_type, data.element_type],
        outputs[0].element_type,
        inside,
    )
    inputs = _streams([node.required(port) for port in range(5)], ("all", "all", "row", "row", "col"))
    results = tuple(Stream(Ref.of(tensor)) for tensor in outputs)
    return VectorWork(
        rows, cols, steps, inputs, results, reduces="cols", sweeps=3, in_turn=in_turn(data, context)
    )


def _parameter_work(
    node: Node,
    context: LowerContext,
    sources: Sequence[Tensor],
    overs: Sequence[Over],
    outputs: Sequence[Tensor],
    again: bool,
) -> VectorWork:
    """Columns are added up over all rows; `again` makes the normalised rows a second time."""
    rows, cols = _rows(node.required(0), len(outputs[0].static_shape))
    inside = computing_type(node.required(0).element_type, context, wide=True)
    steps = make_steps([*(["vsub", "vmul"] if again else []), "vmul", ("vadd", 2)], inside)
    return VectorWork(
        rows, cols, steps, _streams(sources, overs), _streams(outputs, ("col", "col")), reduces="rows"
    )


def _lower_grad(node: Node, context: LowerContext) -> Work:
    """One task, both parts after another."""
    if node.required(0).elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 16.0)
    sources = [node.required(port) for port in range(4)]
    parts = (
        _x_work(node, context, node.outputs[:1]),
        _parameter_work(node, context, sources, ("all", "all", "row", "row"), node.outputs[1:3], again=True),
    )
    return SequenceWork(parts)


def _lower_x(node: Node, context: LowerContext) -> Work:
    if node.required(0).elements == 0:
        return NoTask()
    return _x_work(node, context, node.outputs) if runs_on_ai_core(node) else on_ai_cpu(node, 10.0)


def _lower_parameters(node: Node, context: LowerContext) -> Work:
    if node.required(0).elements == 0:
        return NoTask()
    sources: list[Tensor] = [node.required(0), node.required(1)]
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 3.0)
    return _parameter_work(node, context, sources, ("all", "all"), node.outputs, again=False)


def _op(name: str, infer: Any, function: Any, lower: Any) -> OpDef:
    return OpDef(
        name,
        infer,
        with_numpy(function),
        lower,
        domain=DOMAIN,
        most_inputs=None,
        facts=Facts(opaque(), Kind.REDUCTION, Precision.GRAY),
    )


OPERATORS: tuple[OpDef, ...] = (
    _op("LayerNormGrad", _grad_infer, _grad, _lower_grad),
    _op("LayerNormXBackpropV2", _x_infer, _x_backprop, _lower_x),
    _op("LayerNormBetaGammaBackpropV2", _parameters_infer, _parameters, _lower_parameters),
)
