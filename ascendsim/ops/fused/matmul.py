"""BatchMatMul of the chip (domain "ascend"): operands may be transposed in their last two axes, and a bias
may start in L0C.

ONNX's MatMul knows neither; its Gemm knows both for matrices. Graph fusion makes this operator from MatMul,
Transpose and Add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Node, Shape
from ascendsim.ops.linear.matmul import cube_runs
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import as_float32, broadcast_shapes, finish, on_ai_cpu
from ascendsim.ops.shared.cube import cube_type
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import product
from ascendsim.opset.work import CubeWork, LowerContext, Ref, Work


def _transposed(node: Node, port: int) -> bool:
    return bool(node.attr(f"adj_x{port + 1}", 0))


def _infer(context: InferContext) -> None:
    left, right = context.shape(0), context.shape(1)
    if left is None or right is None:
        context.set(0, context.dtype(0), None)
        return
    if len(left) < 2 or len(right) < 2:
        raise context.fail("needs operands of rank >= 2", f"shapes {left} and {right}")
    (m, k), (k2, n) = (_matrix(context.node, port, shape) for port, shape in ((0, left), (1, right)))
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        raise context.fail("needs equal inner dimensions", f"{k} and {k2}")
    try:
        batch = broadcast_shapes([left[:-2], right[:-2]]) or ()
    except GraphError as error:
        raise context.fail("needs batch axes that broadcast", f"shapes {left} and {right}") from error
    if context.has(2) and not may_equal(context.shape(2), (n,)):
        raise context.fail(f"needs a bias of shape ({n},)", context.shape(2))
    context.set(0, context.dtype(0), (*batch, m, n))


def _matrix(node: Node, port: int, shape: Shape) -> Shape:
    return (shape[-1], shape[-2]) if _transposed(node, port) else shape[-2:]


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Exact products of halves, float32 sums that start at the bias, one rounding."""
    operands = [
        as_float32(array).swapaxes(-1, -2) if _transposed(node, port) else as_float32(array)
        for port, array in enumerate(inputs[:2])
    ]
    product = np.matmul(*operands)
    if len(inputs) > 2 and inputs[2] is not None:
        product = product + as_float32(inputs[2])
    return [finish(product, wanted[0])]


def _lower(node: Node, _context: LowerContext) -> Work:
    """One product a batch entry; an operand without batch serves all of them."""
    left, right, bias, output = node.required(0), node.required(1), node.input(2), node.output
    a, b = left.static_shape, right.static_shape
    m, n = output.static_shape[-2:]
    k = a[-2] if _transposed(node, 0) else a[-1]
    if output.elements == 0 or left.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    if not cube_runs(node):
        return on_ai_cpu(node, float(k))
    batch = output.elements // (m * n)
    return CubeWork(
        m=m,
        k=k,
        n=n,
        a=Ref.of(left),
        b=Ref.of(right),
        out=Ref.of(output),
        batch=batch,
        bias=None if bias is None else Ref.of(bias),
        a_shared=batch > 1 and math.prod(a[:-2]) == 1,
        b_shared=batch > 1 and math.prod(b[:-2]) == 1,
        transpose_a=_transposed(node, 0),
        transpose_b=_transposed(node, 1),
        dtype=cube_type(left.element_type),
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "BatchMatMul",
        _infer,
        _compute,
        _lower,
        Layout.MATMUL,
        "BatchMatMulV2",
        "ascend",
        most_inputs=3,
        facts=Facts(
            product(added=(2,), flipped=("adj_x1", "adj_x2")),
            Kind.MATMUL,
            Precision.WHITE,
            pattern=OpPattern.BATCH_MATMUL,
            operands=(0, 1),
        ),
    ),
)
