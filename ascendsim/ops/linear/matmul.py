"""MatMul and Gemm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Dim, Node, Shape, Tensor
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import (
    as_float32,
    broadcast_dims,
    broadcast_shapes,
    computing_type,
    finish,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.ops.shared.cube import cube_type
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Elements, Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import product
from ascendsim.opset.work import CubeWork, LowerContext, Over, Ref, Step, Stream, Work


def matmul_shape(context: InferContext, left: int = 0, right: int = 1) -> Shape | None:
    """Shape of the product of two inputs by NumPy's rules; None if a rank is unknown.

    Raises:
        GraphError: If the inner dimensions differ or the batch axes do not broadcast.
    """
    a, b = context.shape(left), context.shape(right)
    if a is None or b is None:
        return None
    if not a or not b:
        raise context.fail("needs operands of rank >= 1", f"shapes {a} and {b}")
    inner_a, inner_b = a[-1], b[-2] if len(b) > 1 else b[0]
    if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
        raise context.fail("needs equal inner dimensions", f"{inner_a} and {inner_b} (shapes {a} and {b})")
    try:
        batch = broadcast_shapes([a[:-2], b[:-2]]) or ()
    except GraphError as error:
        raise context.fail("needs batch axes that broadcast", f"shapes {a} and {b}") from error
    return (*batch, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def _infer_matmul(context: InferContext) -> None:
    context.set(0, context.dtype(0), matmul_shape(context))


def _compute_matmul(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: exact products of halves, float32 accumulation, one rounding."""
    return [finish(np.matmul(as_float32(inputs[0]), as_float32(inputs[1])), wanted[0])]


def matmul_work(left: Tensor, right: Tensor, output: Tensor, **more: Any) -> CubeWork:
    """The Cube's work for NumPy's matmul: batch axes broadcast, an operand without batch serves all products.

    The batch is not folded into m even where the right operand is shared: CANN does that by a graph pass.

    Args:
        left: (..., m, k) or (k,), which counts as one row.
        right: (..., k, n) or (k,), which counts as one column.
        output: The product.
        more: Further fields of `CubeWork`.
    """
    a, b = left.static_shape, right.static_shape
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    batch = output.elements // (m * n)
    return CubeWork(
        m=m,
        k=a[-1],
        n=n,
        a=Ref.of(left),
        b=Ref.of(right),
        out=Ref.of(output),
        batch=batch,
        a_shared=batch > 1 and math.prod(a[:-2]) == 1,
        b_shared=batch > 1 and math.prod(b[:-2]) == 1,
        dtype=cube_type(left.element_type),
        **more,
    )


def cube_runs(node: Node) -> bool:
    """Whether the Cube has the types: floats and 8-bit integers (wider integers go to the AI CPU)."""
    first = node.required(0).element_type
    return runs_on_ai_core(node) and (first.is_float or first.itemsize == 1)


def _lower_matmul(node: Node, context: LowerContext) -> Work:
    """One product a batch entry."""
    left, right, output = node.required(0), node.required(1), node.output
    if output.elements == 0 or left.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    if not cube_runs(node):
        return on_ai_cpu(node, float(left.static_shape[-1]))
    return matmul_work(left, right, output)


def matmul_type(node: Node) -> str:
    """CANN's type of a product, by the ranks of what it reads."""
    ranks = [tensor.shape for tensor in node.inputs if tensor is not None]
    return "MatMulV2" if all(shape is not None and len(shape) <= 2 for shape in ranks) else "BatchMatMulV2"


def _gemm_operand(context: InferContext, index: int, transposed: bool) -> tuple[Dim, Dim]:
    shape = context.shape(index)
    if shape is None:
        return (None, None)
    if len(shape) != 2:
        raise context.fail(f"needs a matrix as input {index}", f"shape {shape}")
    return (shape[1], shape[0]) if transposed else (shape[0], shape[1])


def _infer_gemm(context: InferContext) -> None:
    m, k = _gemm_operand(context, 0, bool(context.node.attr("transA", 0)))
    k2, n = _gemm_operand(context, 1, bool(context.node.attr("transB", 0)))
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        raise context.fail("needs equal inner dimensions", f"{k} and {k2}")
    third = context.shape(2) if context.has(2) else None
    if third is not None:
        if len(third) > 2:
            raise context.fail("needs input 2 of rank <= 2", f"shape {third}")
        for given, target in zip(reversed(third), (n, m), strict=False):
            if isinstance(given, int) and isinstance(target, int) and given not in (1, target):
                raise context.fail(f"needs input 2 to broadcast to ({m}, {n})", f"shape {third}")
        if len(third) == 2 and m is None:
            m = broadcast_dims([third[0], None])
    context.set(0, context.dtype(0), (m, n))


def _compute_gemm(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Computes alpha * A' @ B' + beta * C in float32, one rounding at the end (C is in L0C or an epilogue of
    the same kernel).
    """
    left, right = as_float32(inputs[0]), as_float32(inputs[1])
    result = np.matmul(
        left.T if node.attr("transA", 0) else left, right.T if node.attr("transB", 0) else right
    )
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    if alpha != 1.0:
        result = _scaled(result, alpha)
    if len(inputs) > 2 and inputs[2] is not None:
        third = as_float32(inputs[2])
        result = result + (third if beta == 1.0 else _scaled(third, beta))
    return [finish(result, wanted[0])]


def _scaled(array: Any, factor: float) -> Any:
    """The product with a number in the array's float type (integers become float64)."""
    return array * (array.dtype.type(factor) if np.issubdtype(array.dtype, np.floating) else factor)


def _lower_gemm(node: Node, context: LowerContext) -> Work:
    """MatMulV2 with C as bias in L0C where it is one value a column and alpha = beta = 1; else vector steps
    on the way out.
    """
    left, right, third, output = node.required(0), node.required(1), node.input(2), node.output
    transpose_a, transpose_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    rows, columns = left.static_shape
    m, k = (columns, rows) if transpose_a else (rows, columns)
    n = output.static_shape[1]
    if output.elements == 0 or left.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    if not cube_runs(node):
        return on_ai_cpu(node, float(k))
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    inside = computing_type(output.element_type, context)
    epilogue: list[Step] = [Step("vmuls", inside)] if alpha != 1.0 else []
    streams: tuple[Stream, ...] = ()
    bias: Ref | None = None
    if third is not None:
        over = _over(third.static_shape, m, n)
        if over == "col" and alpha == 1.0 and beta == 1.0:
            bias = Ref.of(third)
        else:
            if beta != 1.0:
                epilogue.append(Step("vmuls", inside, over))
            epilogue.append(Step("vadds" if over == "one" else "vadd", inside))
            streams = (Stream(Ref.of(third), over),)
    return CubeWork(
        m=m,
        k=k,
        n=n,
        a=Ref.of(left),
        b=Ref.of(right),
        out=Ref.of(output),
        bias=bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        dtype=cube_type(left.element_type),
        epilogue=tuple(epilogue),
        epilogue_inputs=streams,
    )


def _over(shape: tuple[int, ...], m: int, n: int) -> Over:
    """How a summand that broadcasts to (m, n) lies in it."""
    height, width = ((1,) * (2 - len(shape)) + shape)[-2:]
    if height == m and width == n and m > 1:
        return "all" if n > 1 else "row"
    if width == n and n > 1:
        return "col"
    return "row" if height == m and m > 1 else "one"


def matmul_pattern(node: Node) -> OpPattern:
    """The class that UB fusion has for a product: by its rank, as CANN's type."""
    return OpPattern.BATCH_MATMUL if matmul_type(node).startswith("BatchMatMul") else OpPattern.MATMUL


OPERATORS = (
    OpDef(
        "MatMul",
        _infer_matmul,
        _compute_matmul,
        _lower_matmul,
        Layout.MATMUL,
        cann="BatchMatMulV2",
        cann_of=matmul_type,
        most_inputs=2,
        facts=Facts(
            product(),
            Kind.MATMUL,
            Precision.WHITE,
            pattern=matmul_pattern,
            operands=(0, 1),
            elements=Elements.REAL,
        ),
    ),
    OpDef(
        "Gemm",
        _infer_gemm,
        _compute_gemm,
        _lower_gemm,
        Layout.MATMUL,
        cann="MatMulV2",
        most_inputs=3,
        facts=Facts(
            product(added=(2,), flipped=("transA", "transB")),
            Kind.MATMUL,
            Precision.WHITE,
            pattern=OpPattern.GEMM,
            operands=(0, 1),
            elements=Elements.REAL,
        ),
    ),
)
