"""Gradients of batch normalisation in training (domain "ascend"): BatchNormGrad and the two halves it comes
apart into.

y = (x - mean) h scale + offset by channel, with h = 1 / sqrt(variance + epsilon); mean and variance (biased)
are those of the batch, as the forward operator made them. With n = (x - mean) h and m elements in a channel:

    doffset = sum of dy,    dscale = sum of dy n                                BNTrainingUpdateGrad(dy, x,
                            mean, variance)
    dx = scale h (dy - doffset / m - n dscale / m)            BNTrainingReduceGrad(dy, x, dscale, doffset,
                                                              scale, mean, variance)

BatchNormGrad(dy, x, scale, mean, variance) -> dx, dscale, doffset does both. With `training_mode` 0 the
statistics are constants and dx = scale h dy, as in BNInferGrad(dy, scale, variance). Ports and names are
CANN's; sums are float64 and every result is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.normalise.normalisation_work import channel_split, maps_of, summing_type
from ascendsim.ops.shared.common import (
    StepSpec,
    check_channels,
    converted,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import opaque, per_channel
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, SequenceWork, Stream, VectorWork, Work

DOMAIN = "ascend"
_DEVIATION: tuple[StepSpec, ...] = ("vadds", "vsqrt", "vrec")  # h
# what a channel contributes: scale h, -h dscale / m, and the summand that mean and doffset make
_FACTORS: tuple[StepSpec, ...] = (*_DEVIATION, "vmul", ("vmuls", 2), ("vmul", 2), "vadd")
_EACH: tuple[StepSpec, ...] = ("vmul", ("vadd", 2), "vmul")
# the same with what channels contribute in all positions first
_SPREAD: tuple[StepSpec, ...] = (("vadds", 3), "vmadd", "vadd", "vmul")


def _by_channel(values: Array, like: Array) -> Array:
    return values.astype(np.float64).reshape((-1,) + (1,) * (like.ndim - 2))


def _deviation(node: Node, variance: Array) -> Array:
    return np.asarray(1 / np.sqrt(variance.astype(np.float64) + float(node.attr("epsilon", 1e-5))))


def _parameters(node: Node, dy: Array, x: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Gradients of scale and offset."""
    normal = (x.astype(np.float64) - _by_channel(mean, x)) * _by_channel(_deviation(node, variance), x)
    axes = (0, *range(2, x.ndim))
    wide = dy.astype(np.float64)
    return np.sum(wide * normal, axis=axes), np.sum(wide, axis=axes)


def _data(
    node: Node, dy: Array, x: Array, dscale: Array, doffset: Array, scale: Array, mean: Array, variance: Array
) -> Array:
    """Gradient of x from the sums."""
    inverse = _by_channel(_deviation(node, variance), x)
    count = x.shape[0] * math.prod(x.shape[2:])
    normal = (x.astype(np.float64) - _by_channel(mean, x)) * inverse
    centred = (
        dy.astype(np.float64) - _by_channel(doffset, x) / count - normal * _by_channel(dscale, x) / count
    )
    return np.asarray(_by_channel(scale, x) * inverse * centred, dtype=x.dtype)


def _gradient(
    node: Node, dy: Array, x: Array, scale: Array, mean: Array, variance: Array
) -> tuple[Array, ...]:
    dscale, doffset = _parameters(node, dy, x, mean, variance)
    if node.attr("training_mode", 1):
        return _data(node, dy, x, dscale, doffset, scale, mean, variance), dscale, doffset
    return _constant_statistics(node, dy, scale, variance), dscale, doffset


def _constant_statistics(node: Node, dy: Array, scale: Array, variance: Array) -> Array:
    factor = scale.astype(np.float64) * _deviation(node, variance)
    return np.asarray(dy * _by_channel(factor, dy), dtype=dy.dtype)


def _check(context: InferContext, parameters: Sequence[int]) -> None:
    gradient, data = context.shape(0), context.shape(1)
    if not may_equal(gradient, data):
        raise context.fail("needs a gradient of the shape of x", f"{gradient} for {data}")
    for port in parameters:
        shape = context.shape(port)
        if data is not None and not may_equal(shape, data[1:2]):
            raise context.fail("needs one value a channel in every parameter", f"{shape} for {data}")


def _infer_gradient(context: InferContext) -> None:
    _check(context, (2, 3, 4))
    context.set(0, context.dtype(0), context.shape(1))
    for index in (1, 2):
        context.set(index, context.dtype(2), context.shape(2))


def _infer_parameters(context: InferContext) -> None:
    _check(context, (2, 3))
    for index in (0, 1):
        context.set(index, DType.FLOAT32, context.shape(2))


def _infer_data(context: InferContext) -> None:
    _check(context, range(2, 7))
    same_as()(context)


def _streams(tensors: Sequence[Tensor], over: Over) -> tuple[Stream, ...]:
    return tuple(Stream(Ref.of(tensor), over) for tensor in tensors)


def _parameter_work(
    node: Node, context: LowerContext, parameters: Sequence[Tensor], outputs: Sequence[Tensor]
) -> VectorWork:
    """One sweep over dy and x: x is normalised, products and gradients are added up.

    In blocked storage TBE's kernel first spreads what a channel has over the map (canndev,
    bn_training_update_grad.py: two broadcasts).
    """
    big = [node.required(0), node.required(1)]
    rows, cols, over = channel_split(big[1])
    inside = summing_type(big[1].element_type, context)
    fold = "vadd" if over == "col" else "vcadd"
    spread = make_steps([("vadds", 2)] if over == "col" else [], inside)  # mean and h, to all positions
    each = make_steps(["vsub", "vmul", "vmul", (fold, 2)], inside)
    steps = make_steps(_DEVIATION, inside, over) + spread + each
    inputs = _streams(big, "all") + _streams(parameters, over)
    steps = converted(steps, [tensor.element_type for tensor in big], inside, inside)
    return VectorWork(
        rows,
        cols,
        steps,
        inputs,
        _streams(outputs, over),
        reduces="rows" if over == "col" else "cols",
        maps=maps_of(big[1], "sums"),
    )


def _data_work(
    node: Node, context: LowerContext, parameters: Sequence[Tensor], output: Tensor, training: bool
) -> VectorWork:
    """Factors by channel from the parameters, then a few instructions on every element."""
    big = [node.required(0), node.required(1)] if training else [node.required(0)]
    rows, cols, over = channel_split(output)
    inside = summing_type(output.element_type, context)  # that of the parameters
    whole = _SPREAD if over == "col" and context.spreads_channels else _EACH
    factors, each = (_FACTORS, whole) if training else ((*_DEVIATION, "vmul"), ("vmul",))
    steps = make_steps(factors, inside, over) + make_steps(each, inside)
    steps = converted(steps, [tensor.element_type for tensor in big], output.element_type, inside)
    return VectorWork(
        rows,
        cols,
        steps,
        _streams(big, "all") + _streams(parameters, over),
        _streams([output], "all"),
        maps=maps_of(output, "images"),
    )


def _lower_gradient(node: Node, context: LowerContext) -> Work:
    """One task, both halves after another."""
    if node.required(1).elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 16.0)
    scale, mean, variance = (node.required(port) for port in (2, 3, 4))
    dx, sums, training = node.output, node.outputs[1:3], bool(node.attr("training_mode", 1))
    read = [*sums, scale, mean, variance] if training else [scale, variance]
    return SequenceWork(
        (
            _parameter_work(node, context, [mean, variance], sums),
            _data_work(node, context, read, dx, training),
        )
    )


def _lower_parameters(node: Node, context: LowerContext) -> Work:
    if node.required(1).elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 6.0)
    return _parameter_work(node, context, [node.required(2), node.required(3)], node.outputs)


def _lower_data(node: Node, context: LowerContext) -> Work:
    if node.required(1).elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 10.0)
    return _data_work(
        node, context, [node.required(port) for port in range(2, 7)], node.output, training=True
    )


def _infer_constant(context: InferContext) -> None:
    check_channels(context)
    context.set(0, context.dtype(0), context.shape(0))


def _lower_constant(node: Node, context: LowerContext) -> Work:
    if node.required(0).elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 2.0)
    return _data_work(node, context, [node.required(1), node.required(2)], node.output, training=False)


def _facts(*parameters: int, precision: Precision = Precision.STATISTICS) -> Facts:
    return Facts(
        opaque(),
        Kind.REDUCTION,
        precision,
        pattern=OpPattern.OPAQUE,
        parameters=parameters,
        maps=(0, 1),
    )


def _op(name: str, infer: Any, function: Any, lower: Any, facts: Facts) -> OpDef:
    return OpDef(
        name,
        infer,
        with_numpy(function),
        lower,
        Layout.FEATURE,
        domain=DOMAIN,
        most_inputs=max(facts.parameters) + 1,
        facts=facts,
    )


OPERATORS: tuple[OpDef, ...] = (
    _op("BatchNormGrad", _infer_gradient, _gradient, _lower_gradient, _facts(2, 3, 4)),
    _op(
        "BNTrainingUpdateGrad",
        _infer_parameters,
        _parameters,
        _lower_parameters,
        _facts(2, 3, precision=Precision.SUMS),
    ),
    _op("BNTrainingReduceGrad", _infer_data, _data, _lower_data, _facts(2, 3, 4, 5, 6)),
    _op(
        "BNInferGrad",
        _infer_constant,
        _constant_statistics,
        _lower_constant,
        Facts(per_channel(1, 2), Kind.REDUCTION, Precision.BLACK, parameters=(1, 2)),
    ),
)
