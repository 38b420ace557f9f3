"""RmsNorm (domain "ascend", CANN's prototype): root-mean-square normalisation that hands on its statistics.

    RmsNorm(x, gamma) -> x rstd gamma, rstd              rstd = 1 / sqrt(mean of x^2 + epsilon) by row

A row is what the axes of gamma span, which are x's last. rstd is float32 and keeps these axes with size 1;
RmsNormGrad takes it. ONNX's RMSNormalization gives the first output only. Sums are float64.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.normalise.normalisation_work import root_norm_kernel, row_statistics, rows_apart, rows_work
from ascendsim.ops.shared.common import on_ai_cpu, runs_on_ai_core, with_numpy
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import AxisMap
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along_axes
from ascendsim.opset.work import LowerContext, NoTask, Work


def _infer(context: InferContext) -> None:
    data, gamma = context.shape(0), context.shape(1)
    context.set(0, context.dtype(0), data)
    if data is None or gamma is None:
        context.set(1, DType.FLOAT32, None)
        return
    kept = len(data) - len(gamma)
    if not gamma or kept < 0 or not may_equal(data[kept:], gamma):
        raise context.fail("needs gamma of the shape of the last axes", f"{gamma} for {data}")
    context.set(1, DType.FLOAT32, (*data[:kept], *(1,) * len(gamma)))


def _compute(node: Node, x: Array, gamma: Array) -> tuple[Array, Array]:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    wide = x.astype(np.float64)
    mean = np.mean(wide * wide, axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(mean + float(node.attr("epsilon", 1e-6)))
    return wide * rstd * gamma, rstd


def _lower(node: Node, context: LowerContext) -> Work:
    data, gamma = node.required(0), node.required(1)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 8.0)
    cols = gamma.elements
    statistics = row_statistics(node, context, centred=False, by_number=rows_apart(cols))
    rows = math.prod(data.static_shape) // cols
    work = rows_work(node, context, rows, cols, statistics=statistics, tail=["vmul"], overs=("col",))
    return root_norm_kernel(work)


def _links(node: Node) -> AxisMap:
    gamma = node.required(1).shape
    inner = None if gamma is None else len(gamma)
    return along_axes(lambda _node, rank: None if inner is None else range(rank - inner, rank), scales=(1,))(
        node
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "RmsNorm",
        _infer,
        with_numpy(_compute),
        _lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK),
    ),
)
