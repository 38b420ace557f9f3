"""Integer products whose sums are scaled on the way out (domain "ascend"), for dynamic quantisation.

    DequantMatMul(a, b, a_zero, b_zero, scale, more)    (a - a_zero) (b - b_zero) in int32, times both scales
    DequantConv(x, w, x_zero, w_zero, scale, more)      the convolution likewise

Each of the two scales is one number, or one a column or channel; the second may be absent.

Sums stay int32 until the unit that moves them out of L0C multiplies them, as with QuantConv: there is never a
float16 of a sum. The scale is a number of the run (the step of the data times that of the weights), so it is
an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.ops.linear.conv import conv_pattern, conv_shape, conv_windows
from ascendsim.ops.linear.matmul import matmul_pattern, matmul_shape
from ascendsim.ops.quant.checks import check_filters, check_rows_and_columns, check_slices
from ascendsim.ops.quant.quantised import (
    compute_conv_integer,
    compute_matmul_integer,
    lower_conv,
    lower_matmul,
    need_bytes,
)
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Compute
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import convolution, product


def _infer_matmul(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    shape = matmul_shape(context)
    check_rows_and_columns(context, (0, 1), (2,), (3,))
    second = context.shape(1)
    columns = None if second is None else second[-1] if len(second) > 1 else 1
    for port in (4, 5):
        check_slices(context, port, columns, "column")
    context.set(0, DType.FLOAT32, shape)


def _infer_conv(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    shape, filters = conv_shape(context, bias=None), context.shape(1)
    check_filters(context, 1, (2,), (3,))
    if filters is not None:
        for port in (4, 5):
            check_slices(context, port, filters[0], "filter", (1, None, *(1,) * (len(filters) - 2)))
    context.set(0, DType.FLOAT32, shape)


def _scaled(total: Compute, of_channels: bool) -> Compute:
    """The sums times their scale, in float32, rounded once."""

    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        (sums,) = total(node, inputs[:4], [np.dtype(np.int32)])
        scale = as_float32(inputs[4]).astype(np.float32).reshape(-1)
        if len(inputs) > 5:
            scale = scale * as_float32(inputs[5]).astype(np.float32).reshape(-1)
        along = (1,) * (sums.ndim - 2) if of_channels and scale.size > 1 else ()
        with np.errstate(all="ignore"):
            return [finish(sums.astype(np.float32) * scale.reshape(-1, *along), wanted[0])]

    return compute


OPERATORS = (
    OpDef(
        "DequantMatMul",
        _infer_matmul,
        _scaled(compute_matmul_integer, False),
        lower_matmul(0, 1, False),
        Layout.MATMUL,
        "BatchMatMulV2",
        domain="ascend",
        most_inputs=6,
        facts=Facts(
            product(), Kind.MATMUL, Precision.GRAY, pattern=matmul_pattern, operands=(0, 1),
            parameters=(2, 3, 4, 5),
        ),
    ),
    OpDef(
        "DequantConv",
        _infer_conv,
        _scaled(compute_conv_integer, True),
        lower_conv(0, 1, False),
        Layout.FEATURE,
        "Conv2D",
        domain="ascend",
        most_inputs=6,
        facts=Facts(
            convolution(bias=(), windows=conv_windows), Kind.CONVOLUTION, Precision.GRAY,
            pattern=conv_pattern, operands=(0, 1), parameters=(2, 3, 4, 5),
        ),
    ),
)  # fmt: skip
