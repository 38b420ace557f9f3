"""Forms of batch normalisation that exist on the chip's side alone (domain "ascend").

BNInference(x, mean, variance, scale, offset)                         the inference form
BNInferenceD(x, alpha, beta) = x * alpha + beta                       its constants joined on the host
Scale(x, alpha, beta)                                                 the same, as Caffe calls it; beta may be
                                                                      left out
BNTrainingReduce(x) -> sum, square_sum                                first half of training: one value a
                                                                      channel, float32
BNTrainingUpdate(x, sum, square_sum, scale, offset, mean, variance) -> y, mean, variance, batch_mean,
                                                                      batch_variance; second half
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.normalise.normalisation_work import channel_split, maps_of, summing_type
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    check_channels,
    computing_type,
    converted,
    finish,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Labels, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import per_channel
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
_JITTED = (np.float16, np.float32)


def _affine(x: Array, mean: Array, factor: Array, offset: Array, wanted: np.dtype[Any]) -> Array:
    """(x - mean) * factor + offset by channel, one rounding."""
    if x.dtype in _JITTED:
        from ascendsim_kernels.normalisation import affine_channels

        return finish(
            affine_channels(x if x.dtype == wanted else as_float32(x), mean, factor, offset), wanted
        )
    along = (-1,) + (1,) * (x.ndim - 2)
    wide = as_float32(x)
    return finish((wide - mean.reshape(along)) * factor.reshape(along) + offset.reshape(along), wanted)


def _epsilon(node: Node) -> float:
    return float(node.attr("epsilon", 1e-5))


def _wide(array: Any) -> Array:
    return as_float32(array).astype(np.float64)


def _inference(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    x, mean, variance, scale, offset = inputs
    return [
        _affine(
            x, _wide(mean), _wide(scale) / np.sqrt(_wide(variance) + _epsilon(node)), _wide(offset), wanted[0]
        )
    ]


def _scaled(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    x, alpha, beta = (*inputs, None)[:3]
    factor = _wide(alpha)
    return [
        _affine(
            x,
            np.zeros_like(factor),
            factor,
            np.zeros_like(factor) if beta is None else _wide(beta),
            wanted[0],
        )
    ]


def _infer_sums(context: InferContext) -> None:
    shape = context.shape(0)
    if shape is not None and len(shape) < 2:
        raise context.fail("needs an input of rank 2 or more", list(shape))
    for index in (0, 1):
        context.set(index, DType.FLOAT32, None if shape is None else (shape[1],))


def _sums(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """Sums over everything but the channel, accumulated in float64 and rounded once."""
    wide = _wide(inputs[0])
    axes = (0, *range(2, wide.ndim))
    return [finish(wide.sum(axis=axes), wanted[0]), finish(np.square(wide).sum(axis=axes), wanted[1])]


def _infer_scaled(context: InferContext) -> None:
    check_channels(context)
    context.set(0, context.dtype(0), context.shape(0))


def _infer_update(context: InferContext) -> None:
    check_channels(context)
    context.set(0, context.dtype(0), context.shape(0))
    for index in range(1, 5):
        context.set(index, context.dtype(5), context.shape(5))


def _update(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """Mean and variance from the sums, normalisation with them, running values as ONNX has them (with
    `unbiased` as PyTorch has them), and both of the batch for the gradient.
    """
    x = inputs[0]
    total, squares, scale, offset, mean, variance = (_wide(array) for array in inputs[1:])
    count = x.size // x.shape[1]
    batch_mean = total / count
    batch_variance = np.maximum(squares / count - np.square(batch_mean), 0)
    keep = float(node.attr("momentum", 0.9))
    result = _affine(x, batch_mean, scale / np.sqrt(batch_variance + _epsilon(node)), offset, wanted[0])
    known = batch_variance
    if node.attr("unbiased", 0):
        known = batch_variance * (count / max(1, count - 1))
    running = (mean * keep + batch_mean * (1 - keep), variance * keep + known * (1 - keep))
    others = (*running, batch_mean, batch_variance)
    return [result, *(finish(array, dtype) for array, dtype in zip(others, wanted[1:], strict=False))]


def _lower(factors: Sequence[StepSpec], wide: bool = False) -> Callable[[Node, LowerContext], Work]:
    """Instructions on one value a channel, then one multiply and one add on every element.

    Args:
        factors: What is done once a channel.
        wide: Whether parameters and all arithmetic are float32, in a kernel for training.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        data, target = node.required(0), node.output
        if data.elements == 0:
            return NoTask()
        if not runs_on_ai_core(node):
            return on_ai_cpu(node, 2.0)
        rows, cols, over = channel_split(data)
        inside = (summing_type if wide else computing_type)(data.element_type, context)
        each: list[StepSpec] = ["vmul", "vadd"] if node.input_count > 2 else ["vmul"]
        if wide and over == "col" and context.spreads_channels:
            each = [("vadds", 2), "vmadd"]  # factor and summand go to all positions first
        steps = converted(
            make_steps(factors, inside, over) + make_steps(each, inside),
            [data.element_type],
            target.element_type,
            inside,
        )
        parameters = tuple(Stream(Ref.of(tensor), over) for tensor in node.inputs[1:] if tensor is not None)
        outputs = (Stream(Ref.of(target)), *(Stream(Ref.of(tensor), over) for tensor in node.outputs[1:]))
        maps = maps_of(data, "images or blocks") if wide else None
        return VectorWork(rows, cols, steps, (Stream(Ref.of(data)), *parameters), outputs, maps=maps)

    return lower


def _lower_sums(node: Node, context: LowerContext) -> Work:
    """One sweep: x and x^2 are added up in float32 (16-bit inputs are converted on the way)."""
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 3.0)
    rows, cols, over = channel_split(data)
    inside = summing_type(data.element_type, context)
    fold = "vadd" if over == "col" else "vcadd"
    convert = (Step("vconv", inside),) if inside is not data.element_type else ()
    steps = (*convert, *make_steps([fold, "vmul", fold], inside))
    outputs = tuple(Stream(Ref.of(tensor), over) for tensor in node.outputs)
    return VectorWork(
        rows,
        cols,
        steps,
        (Stream(Ref.of(data)),),
        outputs,
        reduces="rows" if over == "col" else "cols",
        maps=maps_of(data, "sums"),
    )


_JOINED = ["vadds", "vsqrt", "vdiv", "vmul", "vsub"]  # factor and offset from four parameters
_FROM_SUMS = ["vmuls", "vmuls", "vmul", "vsub", *_JOINED]  # mean and variance first


def _sum_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    return NOTHING_SAID if rank is None else by_labels(node, {0: range(rank)}, {0: (1,), 1: (1,)})


def _update_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None:
        return NOTHING_SAID
    outputs: dict[int, Labels] = {0: range(rank), **{number: (1,) for number in range(1, len(node.outputs))}}
    return by_labels(node, {0: range(rank), **{port: (1,) for port in range(1, node.input_count)}}, outputs)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "BNInference",
        _infer_scaled,
        _inference,
        _lower(_JOINED),
        Layout.FEATURE,
        domain="ascend",
        most_inputs=5,
        facts=Facts(per_channel(1, 2, 3, 4), Kind.REDUCTION, Precision.BLACK, pattern=OpPattern.BROADCAST),
    ),
    OpDef(
        "BNInferenceD",
        _infer_scaled,
        _scaled,
        _lower(()),
        Layout.FEATURE,
        domain="ascend",
        most_inputs=3,
        facts=Facts(per_channel(1, 2), Kind.REDUCTION, Precision.BLACK, pattern=OpPattern.BROADCAST),
    ),
    OpDef(
        "Scale",
        _infer_scaled,
        _scaled,
        _lower(()),
        Layout.FEATURE,
        domain="ascend",
        most_inputs=3,
        facts=Facts(per_channel(1, 2), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.BROADCAST),
    ),
    OpDef(
        "BNTrainingReduce",
        _infer_sums,
        _sums,
        _lower_sums,
        Layout.FEATURE,
        domain="ascend",
        facts=Facts(_sum_links, Kind.REDUCTION, Precision.SUMS, pattern=OpPattern.BN_REDUCE),
    ),
    OpDef(
        "BNTrainingUpdate",
        _infer_update,
        _update,
        _lower(_FROM_SUMS, wide=True),
        Layout.FEATURE,
        domain="ascend",
        most_inputs=7,
        facts=Facts(
            _update_links,
            Kind.REDUCTION,
            Precision.STATISTICS,
            pattern=OpPattern.BN_UPDATE,
            parameters=(1, 2, 3, 4, 5, 6),
        ),
    ),
)
