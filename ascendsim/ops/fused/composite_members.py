"""Operators that graph-kernel composites have and ONNX has not: Rsqrt, Assign, and MatMul on matrices as the
file stores them.

`Assign(a, b)` overwrites the memory of a graph input with b; its output is the new value. `CompositeMatMul`
takes matrices of shape [M, N], or in FRACTAL_NZ as [N/16, M/16, 16, 16], batch axes in front, with transposes
and an output type of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import FRACTAL_ROWS, Format
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.linear.matmul import cube_runs
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import (
    as_float32,
    broadcast_shapes,
    elementwise_lower,
    finish,
    on_ai_cpu,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.cube import cube_type
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.structure import PARTIAL, elementwise, product
from ascendsim.opset.work import Copy, CubeWork, LowerContext, MoveWork, NoTask, Ref, Work

DOMAIN = "ascend"
TILED = Format.FRACTAL_NZ.value


def untiled(array: Array) -> Array:
    """A matrix [..., N1, M1, M0, N0] in row-major form [..., M, N]."""
    *batch, n1, m1, m0, n0 = array.shape
    axes = (*range(len(batch)), *(len(batch) + axis for axis in (1, 2, 0, 3)))
    return array.transpose(axes).reshape(*batch, m1 * m0, n1 * n0)


def tiled(array: Array, columns: int = FRACTAL_ROWS) -> Array:
    """A matrix [..., M, N] of whole fractals as [..., N1, M1, 16, columns]."""
    *batch, m, n = array.shape
    split = array.reshape(*batch, m // FRACTAL_ROWS, FRACTAL_ROWS, n // columns, columns)
    axes = (*range(len(batch)), *(len(batch) + axis for axis in (2, 0, 1, 3)))
    return np.ascontiguousarray(split.transpose(axes))


def _matrix(shape: Shape, format: str) -> tuple[Shape, Dim, Dim]:
    """Batch axes, rows and columns of a stored matrix."""
    if format != TILED:
        return shape[:-2], shape[-2], shape[-1]
    *batch, n1, m1, m0, n0 = shape
    rows = m1 * m0 if isinstance(m1, int) and isinstance(m0, int) else None
    columns = n1 * n0 if isinstance(n1, int) and isinstance(n0, int) else None
    return tuple(batch), rows, columns


def _formats(node: Node) -> tuple[str, str, str]:
    return (
        str(node.attr("format_a", "ND")),
        str(node.attr("format_b", "ND")),
        str(node.attr("format_out", "ND")),
    )


def _matmul_infer(context: InferContext) -> None:
    node = context.node
    a_format, b_format, out_format = _formats(node)
    a, b = context.shape(0), context.shape(1)
    to = node.attr("to")
    dtype = to if isinstance(to, DType) else context.dtype(0)
    if a is None or b is None:
        context.set(0, dtype, None)
        return
    for shape, format in ((a, a_format), (b, b_format)):
        if len(shape) < (4 if format == TILED else 2):
            raise context.fail(f"needs matrices in {format}", list(shape))
    batch_a, *left = _matrix(a, a_format)
    batch_b, *right = _matrix(b, b_format)
    (m, k), (k2, n) = (
        left[:: -1 if node.attr("transpose_a", 0) else 1],
        right[:: -1 if node.attr("transpose_b", 0) else 1],
    )
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        raise context.fail("needs equal inner dimensions", f"{k} and {k2}")
    try:
        batch = broadcast_shapes([batch_a, batch_b]) or ()
    except GraphError as error:
        raise context.fail("needs batch axes that broadcast", f"{batch_a} and {batch_b}") from error
    if out_format == TILED:
        ones = [None if not isinstance(dim, int) else dim // FRACTAL_ROWS for dim in (n, m)]
        if any(isinstance(dim, int) and dim % FRACTAL_ROWS for dim in (m, n)):
            raise context.fail(f"needs whole fractals of {FRACTAL_ROWS} rows and columns", f"{m} x {n}")
        context.set(0, dtype, (*batch, *ones, FRACTAL_ROWS, FRACTAL_ROWS))
    else:
        context.set(0, dtype, (*batch, m, n))


def _matmul_compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: exact products of halves, float32 accumulation, one rounding."""
    a_format, b_format, out_format = _formats(node)
    left, right = (
        untiled(as_float32(array)) if format == TILED else as_float32(array)
        for array, format in zip(inputs, (a_format, b_format), strict=False)
    )
    left = left.swapaxes(-1, -2) if node.attr("transpose_a", 0) else left
    right = right.swapaxes(-1, -2) if node.attr("transpose_b", 0) else right
    product = np.matmul(left, right)
    return [finish(tiled(product) if out_format == TILED else product, wanted[0])]


def _matrix_ref(tensor: Tensor, format: str) -> Ref:
    """The tensor as a matrix: logical shape and its format."""
    ref = Ref.of(tensor)
    if format != TILED:
        return ref
    batch, rows, columns = _matrix(tensor.static_shape, format)
    return replace(ref, shape=(*batch, rows, columns), format=Format.FRACTAL_NZ)  # type: ignore[arg-type]


def _matmul_lower(node: Node, _context: LowerContext) -> Work:
    """One product a batch entry."""
    left, right, output = node.required(0), node.required(1), node.output
    if output.elements == 0 or left.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    formats = _formats(node)
    a, b, out = (
        _matrix_ref(tensor, format) for tensor, format in zip((left, right, output), formats, strict=True)
    )
    transpose_a, transpose_b = bool(node.attr("transpose_a", 0)), bool(node.attr("transpose_b", 0))
    k = a.shape[-2] if transpose_a else a.shape[-1]
    if not cube_runs(node):
        return on_ai_cpu(node, float(k))
    batch = math.prod(out.shape[:-2])
    return CubeWork(
        m=out.shape[-2],
        k=k,
        n=out.shape[-1],
        a=a,
        b=b,
        out=out,
        batch=batch,
        a_shared=batch > 1 and math.prod(a.shape[:-2]) == 1,
        b_shared=batch > 1 and math.prod(b.shape[:-2]) == 1,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        dtype=cube_type(left.element_type),
    )


def _rsqrt(_node: Node, x: Array) -> Array:
    return np.asarray(np.reciprocal(np.sqrt(x)))


def _assign_infer(context: InferContext) -> None:
    target, value = context.shape(0), context.shape(1)
    if target is not None and value is not None and not may_equal(target, value):
        raise context.fail("needs a value of the target's shape", f"{list(target)} and {list(value)}")
    context.set(0, context.dtype(1), value)


def _assign(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return [finish(as_float32(inputs[1]), wanted[0])]


def _assign_lower(node: Node, _context: LowerContext) -> Work:
    """A copy of the value into the target's memory (its new value has a name of its own here)."""
    source, target = Ref.of(node.required(1)), Ref.of(node.output)
    return (
        MoveWork((Copy(source, target, source.bytes, source.bytes, target.bytes),))
        if target.bytes
        else NoTask()
    )


_PRODUCT = product(flipped=("transpose_a", "transpose_b"))


def _matmul_links(node: Node) -> AxisMap:
    """Those of a product of matrices; of tiled ones, whose axes are blocks of two, nothing is said."""
    return NOTHING_SAID if TILED in _formats(node) else _PRODUCT(node)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Rsqrt",
        same_as(),
        with_numpy(_rsqrt),
        elementwise_lower(["vrsqrt"]),
        Layout.FOLLOW,
        domain=DOMAIN,
        facts=PARTIAL,
    ),
    OpDef(
        "Assign",
        _assign_infer,
        _assign,
        _assign_lower,
        Layout.ND,
        domain=DOMAIN,
        foldable=False,
        most_inputs=2,
        facts=movement(elementwise()),
    ),
    OpDef(
        "CompositeMatMul",
        _matmul_infer,
        _matmul_compute,
        _matmul_lower,
        Layout.ND,
        "MatMulV2",
        domain=DOMAIN,
        most_inputs=3,
        facts=Facts(_matmul_links, Kind.MATMUL, Precision.GRAY),
    ),
)
