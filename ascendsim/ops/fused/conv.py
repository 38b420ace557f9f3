"""Operators that fusion makes of convolutions (domain "ascend"): FullyConnection.

The attribute `activation` = "relu" is a Relu that fusion took in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, align, c0
from ascendsim.graph.ir import Node
from ascendsim.ops.shared.common import as_float32, computing_type, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.cube import cube_type
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import CubeWork, LowerContext, NoTask, Ref, Step, Work

# ---------------------------------------------------------------------------------------------------- FullyCo


def _infer_fully(context: InferContext) -> None:
    x, w = context.shape(0), context.shape(1)
    if x is not None and w is not None and len(x) == len(w) and not may_equal(x[1:], w[1:]):
        raise context.fail("needs a filter as large as the input", f"{x} and {w}")
    if x is None or w is None:
        context.set(0, context.dtype(0), None)
        return
    need_shape(context, 2, (w[0],))
    context.set(0, context.dtype(0), (x[0], w[0], *(1,) * (len(x) - 2)))


def _compute_fully(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Product of the rows of x and w in float32, bias added in float32, one rounding."""
    x, w = as_float32(inputs[0]), as_float32(inputs[1])
    inner = math.prod(w.shape[1:])
    result = np.matmul(x.reshape(x.shape[0], inner), w.reshape(w.shape[0], inner).T)
    if len(inputs) > 2 and inputs[2] is not None:
        result = result + as_float32(inputs[2])
    if node.attr("activation") == "relu":
        result = np.maximum(result, result.dtype.type(0))
    return [finish(result.reshape(*result.shape, *(1,) * (x.ndim - 2)), wanted[0])]


def _lower_fully(node: Node, context: LowerContext) -> Work:
    """A matrix product: rows are whole images as they lie in memory, columns the filters in FRACTAL_Z."""
    x, w, output = node.required(0), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(math.prod(w.static_shape[1:])))
    dtype: DType = cube_type(x.element_type)
    images, channels, *space = x.static_shape
    blocked = x.format is Format.NC1HWC0
    stored = (align(channels, c0(dtype)) if blocked else channels) * math.prod(space)
    bias = node.input(2)
    return CubeWork(
        m=images,
        k=stored,
        n=w.static_shape[0],
        a=replace(Ref.of(x), shape=(images, stored), format=Format.ND),
        b=Ref.of(w),
        out=Ref.of(output),
        bias=None if bias is None else Ref.of(bias),
        transpose_b=True,
        epilogue=(Step("vrelu", computing_type(output.element_type, context)),)
        if node.attr("activation") == "relu"
        else (),
        dtype=dtype,
        useful_macs=images * channels * math.prod(space) * w.static_shape[0],
    )


def _links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    inside = [("k", axis) for axis in range(rank - 1)]
    return by_labels(
        node,
        {0: ("n", *inside), 1: ("o", *inside), 2: ("o",)},
        {0: ("n", "o", *(("one", axis) for axis in range(rank - 2)))},
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "FullyConnection",
        _infer_fully,
        _compute_fully,
        _lower_fully,
        Layout.FEATURE,
        domain="ascend",
        most_inputs=3,
        facts=Facts(_links, Kind.MATMUL, Precision.WHITE, pattern=OpPattern.MATMUL, operands=(0, 1)),
    ),
)
