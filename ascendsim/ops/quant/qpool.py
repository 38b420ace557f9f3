"""Averages of quantised tensors, as onnxruntime has them (domain "com.microsoft"): QLinearAveragePool,
QLinearGlobalAveragePool and QLinearReduceMean (defined in its operator set, though its CPU has no kernel).

    result = sat(round((mean(q) - zero point) * scale / scale of the result) + zero point of the result)

Padding that counts stands for 0, so it holds the zero point. Inputs: x, scale, zero point, scale and zero
point of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.ops.quant.qlinear import DOMAIN, infer_bytes, is_zero, quantised, real_values
from ascendsim.ops.reduce.pooling import (
    compute_average,
    compute_global,
    infer_global,
    infer_pool,
    lower_window,
    pool_windows,
)
from ascendsim.ops.reduce.reduction import reduced_axes, reduction_work
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Compute, Infer
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import pooling, reduction
from ascendsim.opset.work import LowerContext, Step, VectorWork, Work

_PARAMETERS = (1, 2, 3, 4)


def _inferred(shapes: Infer) -> Infer:
    def infer(context: InferContext) -> None:
        infer_bytes(context, (0,))
        if context.node.attr("channels_last", 0):
            raise context.fail("takes channels as the second axis", "channels_last = 1")
        shapes(context)

    return infer


def _computed(mean: Compute) -> Compute:
    """The mean of the real values in float32, quantised."""

    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        x, scale, zero, y_scale, y_zero = (*inputs, None, None)[:5]
        (real,) = mean(node, [real_values(x, scale, zero)], [np.dtype(np.float32)])
        return [quantised(node, real, y_scale, y_zero, wanted[0])]

    return compute


def _lower_window(node: Node, context: LowerContext) -> Work:
    """The float operator's work in float16: its factor holds the scales, one more step adds zero points."""
    work = lower_window("average")(node, context)
    if not isinstance(work, VectorWork) or all(is_zero(node.input(port)) for port in (2, 4)):
        return work
    factor = work.steps[-2]
    return replace(work, steps=(*work.steps[:-1], Step("vadds", factor.dtype), work.steps[-1]))


def _lower_global(node: Node, context: LowerContext) -> Work:
    """The mean over positions as ReduceMean has it: scaled first, so that float16 sums stay in range; the
    zero points are added to the result.
    """
    return _reduced(node, context, tuple(range(2, len(node.required(0).static_shape))))


def _reduced(node: Node, context: LowerContext, axes: tuple[int, ...]) -> Work:
    shift = () if all(is_zero(node.input(port)) for port in (2, 4)) else ("vadds",)
    return reduction_work(
        node, context, axes, before=("vmuls",), across="vcadd", along="vadd", after=shift, halves=True
    )


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    given = node.attr("axes")
    return reduced_axes(node, None if given is None else np.asarray(given), rank)


def _infer_mean(context: InferContext) -> None:
    kind = infer_bytes(context, (0,))
    shape, keep = context.shape(0), bool(context.node.attr("keepdims", 1))
    if shape is None:
        context.set(0, kind, None)
        return
    folded = _axes(context.node, len(shape))
    result = (1 if axis in folded else dim for axis, dim in enumerate(shape) if keep or axis not in folded)
    context.set(0, kind, tuple(result))


def _mean(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    axes, keep = _axes(node, inputs[0].ndim), bool(node.attr("keepdims", 1))
    return [inputs[0].astype(np.float64).mean(axes, keepdims=keep).astype(wanted[0])]


def _lower_mean(node: Node, context: LowerContext) -> Work:
    return _reduced(node, context, _axes(node, len(node.required(0).static_shape)))


OPERATORS = (
    OpDef(
        "QLinearAveragePool",
        _inferred(infer_pool),
        _computed(compute_average),
        _lower_window,
        Layout.FEATURE,
        "AvgPool",
        domain=DOMAIN,
        most_inputs=5,
        facts=Facts(
            pooling(pool_windows), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.POOL2D,
            parameters=_PARAMETERS,
        ),
    ),
    OpDef(
        "QLinearGlobalAveragePool",
        _inferred(infer_global),
        _computed(compute_global("average")),
        _lower_global,
        Layout.FEATURE,
        "GlobalAveragePool",
        domain=DOMAIN,
        most_inputs=5,
        facts=Facts(pooling(), Kind.REDUCTION, Precision.GRAY, parameters=_PARAMETERS),
    ),
    OpDef(
        "QLinearReduceMean",
        _infer_mean,
        _computed(_mean),
        _lower_mean,
        Layout.ND,
        "ReduceMean",
        domain=DOMAIN,
        most_inputs=5,
        facts=Facts(reduction(_axes), Kind.REDUCTION, Precision.GRAY, parameters=_PARAMETERS),
    ),
)  # fmt: skip
