"""Integer products: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, and onnxruntime's QGemm.

Values are exact in int32; the QLinear forms scale the sum in float32, round to nearest even, add the zero
point and saturate (within the bounds `low` and `high`, in which a Relu or Clip behind them has gone up).

On the chip the Cube multiplies int8 (unsigned tensors lie in memory lower by 128), accumulates in int32, and
the sums are scaled as they leave L0C. A zero point of the data is folded into the bias, -z * sum(w), when the
host prepares the constants; a convolution then pads with the zero point, so that borders are exact too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.linear.conv import conv_axes, conv_pattern, conv_shape, conv_type, conv_windows
from ascendsim.ops.linear.matmul import matmul_pattern, matmul_shape, matmul_work
from ascendsim.ops.quant.checks import (
    check_filters,
    check_rows_and_columns,
    check_single,
    check_slices,
    check_step,
    check_steps,
)
from ascendsim.ops.quant.qlinear import DOMAIN, bound_steps, bounded, infer_bytes, is_zero
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import StepSpec, as_float32, finish, make_steps
from ascendsim.ops.shared.cube import convolution_work, cube_type
from ascendsim.ops.shared.windows import as_volume, kernel_window
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Lower
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import convolution, product
from ascendsim.opset.work import SCALED, CubeWork, LowerContext, NoTask, Ref, Step, Stream, Work


def need_bytes(context: InferContext, ports: tuple[int, ...]) -> None:
    """Refuses operands of more than 8 bits."""
    for port in ports:
        if context.dtype(port).itemsize != 1:
            raise context.fail(f"needs int8 or uint8 as input {port}", context.dtype(port).value)


def _infer_matmul_integer(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    shape = matmul_shape(context)
    check_rows_and_columns(context, (0, 1), (2,), (3,))
    context.set(0, DType.INT32, shape)


def _infer_conv_integer(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    shape = conv_shape(context, bias=None)
    check_filters(context, 1, (2,), (3,))
    context.set(0, DType.INT32, shape)


def result_type(context: InferContext) -> DType:
    """Type of the result: bytes; floats where the compiler left out the scale for it."""
    if not context.has(6):
        return DType.FLOAT32
    return context.dtype(7) if context.has(7) else context.dtype(0)


def _infer_qlinear_matmul(context: InferContext) -> None:
    need_bytes(context, (0, 3))
    check_steps(context, (1, 4, 6))
    shape = matmul_shape(context, 0, 3)
    check_rows_and_columns(context, (0, 3), (1, 2), (4, 5))
    check_single(context, (6, 7))
    context.set(0, result_type(context), shape)


def _infer_qlinear_conv(context: InferContext) -> None:
    need_bytes(context, (0, 3))
    check_steps(context, (1, 6))
    check_step(context, 4, 5, context.dtype(3), context.shape(3), 0)
    shape = conv_shape(context, 0, 3, 8)
    check_filters(context, 3, (1, 2, 6, 7), (4, 5))
    context.set(0, result_type(context), shape)


def shifted(array: Array, zero_point: Any, axis: int | None) -> Array:
    """The array minus its zero point as int32; a vector of zero points runs along `axis` (or has the array's
    rank already).
    """
    values = array.astype(np.int32)
    if zero_point is None:
        return values
    return values - along_axis(np.asarray(zero_point).astype(np.int32), values.ndim, axis)


def along_axis(parameter: Array, rank: int, axis: int | None) -> Array:
    """A scalar or vector parameter shaped so that it broadcasts along one axis of a tensor of that rank."""
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1 and axis is not None:
        shape = [1] * rank
        shape[axis] = parameter.size
        return parameter.reshape(shape)
    return parameter


def requantised(
    node: Node, total: Array, scale: Any, y_scale: Any, zero_point: Any, dtype: np.dtype[Any]
) -> Array:
    """Sums times their scale, as bytes with the scale of the result; as floats if it has none."""
    factor = np.asarray(scale, np.float32)
    if y_scale is None:
        return finish(total.astype(np.float32) * factor, dtype)
    scale = np.asarray(factor / scale_of(y_scale).reshape(()))
    rounded = np.rint(total.astype(np.float32) * scale.astype(np.float32))
    shift = 0.0 if zero_point is None else as_float32(np.asarray(zero_point)).astype(np.float32).reshape(())
    return bounded(node, rounded + shift, dtype)


def scale_of(array: Any) -> Array:
    """A scale in float32."""
    return as_float32(np.asarray(array)).astype(np.float32)


def compute_matmul_integer(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    """Exact sums of a product of matrices."""
    from ascendsim_kernels.gemm import integer_matmul

    a, b, a_zero, b_zero = list(inputs) + [None] * (4 - len(inputs))
    return [integer_matmul(shifted(a, a_zero, a.ndim - 2), shifted(b, b_zero, b.ndim - 1))]


def _compute_qlinear_matmul(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    from ascendsim_kernels.gemm import integer_matmul

    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (*inputs, None, None)[:8]
    total = integer_matmul(shifted(a, a_zero, a.ndim - 2), shifted(b, b_zero, b.ndim - 1))
    rank = total.ndim
    left = along_axis(scale_of(a_scale), rank, rank - 2 if rank > 1 else None)
    scale = left * along_axis(scale_of(b_scale), rank, rank - 1)
    return [requantised(node, total, scale, y_scale, y_zero, wanted[0])]


def _integer_conv(node: Node, image: Array, weight: Array) -> Array:
    """Exact int32 convolution of shifted operands."""
    from ascendsim_kernels.conv import integer_convolve

    axes = conv_axes(node, image.shape, weight.shape)
    result = integer_convolve(
        np.ascontiguousarray(as_volume(image, 2)),
        np.ascontiguousarray(as_volume(weight, 2)),
        kernel_window(axes),
        int(node.attr("group", 1)),
    )
    return result.reshape(result.shape[:2] + result.shape[5 - len(axes) :])


def compute_conv_integer(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Exact sums of a convolution."""
    x, w, x_zero, w_zero = list(inputs) + [None] * (4 - len(inputs))
    return [_integer_conv(node, shifted(x, x_zero, None), shifted(w, w_zero, 0))]


def _compute_qlinear_conv(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (*inputs, None, None)[:8]
    total = _integer_conv(node, shifted(x, x_zero, None), shifted(w, w_zero, 0))
    if len(inputs) > 8 and inputs[8] is not None:
        total = total + np.asarray(inputs[8]).astype(np.int32).reshape(-1, *(1,) * (total.ndim - 2))
    scale = scale_of(x_scale).reshape(()) * along_axis(scale_of(w_scale), total.ndim, 1)
    return [requantised(node, total, scale, y_scale, y_zero, wanted[0])]


def requantise_steps(
    node: Node, scale_port: int, zero_port: int, bias: Tensor | None
) -> tuple[tuple[Step, ...], tuple[Stream, ...]]:
    """int32 -> float16 by a scale as the sums leave L0C, then bounds, -> int8; and what the steps read.

    The zero point of the result is a number that the host can add to the bias (in units of the sums, finer by
    far than a step); without a bias the vector unit adds it, and where a Relu must come first.
    """
    scale, zero, half = node.required(scale_port), node.input(zero_port), DType.FLOAT16
    relu = node.attr("low") is not None and node.attr("high") is None and node.attr("low") == _number(zero)
    ops: list[StepSpec] = [SCALED, *(["vrelu"] if relu else [])]
    if not node.output.element_type.is_float:
        added = not is_zero(zero) and (relu or bias is None)
        ops += [*(["vadds"] if added else []), *([] if relu else bound_steps(node)), "vconv"]
    return make_steps(ops, half), (Stream(Ref.of(scale), "col"),) if scale.elements > 1 else ()


def _number(zero: Tensor | None) -> int | None:
    """A zero point that is known."""
    if zero is None:
        return 0
    constant = zero.constant
    return int(constant.array().reshape(-1)[0]) if constant is not None and constant.available else None


def lower_matmul(left: int, right: int, requantises: bool) -> Lower:
    """Work of a product of matrices in the ports `left` and `right`."""

    def lower(node: Node, context: LowerContext) -> Work:
        """int8 product; corrections for zero points are column sums of constants and go into the bias at
        compile time.
        """
        if node.output.elements == 0 or node.required(left).elements == 0:
            return fill_work(Ref.of(node.output))  # a sum of nothing is 0
        epilogue, streams = requantise_steps(node, 4, 7, None) if requantises else ((), ())
        return matmul_work(
            node.required(left), node.required(right), node.output, epilogue=epilogue, epilogue_inputs=streams
        )

    return lower


def lower_conv(image: int, weight: int, requantises: bool) -> Lower:
    """Work of a convolution of the ports `image` and `weight`."""

    def lower(node: Node, context: LowerContext) -> Work:
        """int8 convolution with int32 bias in L0C; zero points as in the matrix product."""
        x, w = node.required(image), node.required(weight)
        if node.output.elements == 0 or math.prod(x.static_shape) == 0:
            return NoTask()
        axes = conv_axes(node, x.static_shape, w.static_shape)
        bias = node.input(8) if requantises else None
        epilogue, streams = requantise_steps(node, 4, 7, bias) if requantises else ((), ())
        groups = int(node.attr("group", 1))
        return convolution_work(
            x, w, bias, node.output, axes, groups, epilogue=epilogue, epilogue_inputs=streams
        )

    return lower


def _infer_gemm(context: InferContext) -> None:
    """The product of rows and a matrix; quantised again where there is a scale for the result, else float32.

    The left operand may have batch axes, which the compiler makes use of; files have matrices.
    """
    infer_bytes(context, (0,))
    need_bytes(context, (3,))
    check_steps(context, (1, 4, 7))
    kind = context.dtype(8) if context.has(8) else context.dtype(0) if context.has(7) else DType.FLOAT32
    shape = rows_shape(context, 3, 6)
    check_single(context, (1, 2, 7, 8))
    for port in (4, 5):
        check_slices(context, port, None if shape is None else shape[-1], "column")
    context.set(0, kind, shape)


def rows_shape(context: InferContext, right: int, bias: int) -> Shape | None:
    """Shape of a product of rows and a matrix.

    Args:
        context: The node; input 0 holds the rows.
        right, bias: Ports of the matrix and of one int32 a column.

    Raises:
        GraphError: If they do not fit.
    """
    shapes = [context.shape(port) for port in (0, right)]
    flips = [bool(context.node.attr(name, 0)) for name in ("transA", "transB")]
    if any(
        shape is not None and len(shape) != 2 and (port or flips[0] or len(shape) < 2)
        for port, shape in enumerate(shapes)
    ):
        raise context.fail("needs two matrices", " and ".join(str(shape) for shape in shapes))
    left, (k2, n) = (
        (None, None) if shape is None else shape[::-1] if flip else shape
        for shape, flip in zip(shapes, flips, strict=True)
    )
    k = left[-1]
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        raise context.fail("needs equal inner dimensions", f"{k} and {k2}")
    added = context.shape(bias) if context.has(bias) else None
    known = added is not None and all(isinstance(size, int) for size in (n, *added))
    if known and added not in ((n,), (1, n)):
        raise context.fail(f"needs one int32 a column ({n}) as input {bias}", f"shape {added}")
    return None if shapes[0] is None else (*left[:-1], n)


def integer_rows(node: Node, left: Array, right: Array, zero: Any, bias: Any) -> Array:
    """Exact sums of rows (without their zero point) times a matrix and a bias, in int32."""
    from ascendsim_kernels.gemm import integer_matmul

    flips = [bool(node.attr(name, 0)) for name in ("transA", "transB")]
    left = left.T if flips[0] else left
    matrix = shifted(right.T if flips[1] else right, zero, 1)
    rows = np.ascontiguousarray(left).reshape(math.prod(left.shape[:-1]), matrix.shape[0])
    total = integer_matmul(rows, np.ascontiguousarray(matrix)).reshape(*left.shape[:-1], matrix.shape[1])
    return np.asarray(total if bias is None else total + bias.reshape(-1))


def _compute_gemm(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = (*inputs, None, None, None)[:9]
    total = integer_rows(node, shifted(a, a_zero, None), b, b_zero, bias)
    alpha = np.float32(node.attr("alpha", 1.0))
    scale = alpha * scale_of(a_scale).reshape(()) * along_axis(scale_of(b_scale), 1, 0)
    return [requantised(node, total, scale, y_scale, y_zero, wanted[0])]


def _lower_gemm(node: Node, _context: LowerContext) -> Work:
    """As the float operator, with the scale on the way out; a batch as MatMul has it."""
    bias = node.input(6)
    epilogue, streams = requantise_steps(node, 4, 8, bias)
    return product_of_rows(
        node, node.required(0), node.required(3), bias, epilogue=epilogue, epilogue_inputs=streams
    )


def product_of_rows(node: Node, left: Tensor, right: Tensor, bias: Tensor | None, **more: Any) -> Work:
    """The Cube's work for rows times a matrix, which attributes may say to be transposed.

    Args:
        node: Whose output it makes.
        left, right, bias: The operands.
        more: Further fields of `CubeWork`.
    """
    output = node.output
    if output.elements == 0 or left.elements == 0:
        return fill_work(Ref.of(output))  # a sum of nothing is 0
    flip_a, flip_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    rows, columns = left.static_shape[-2:]
    batch = math.prod(left.static_shape[:-2])
    return CubeWork(
        m=columns if flip_a else rows,
        k=rows if flip_a else columns,
        n=output.static_shape[-1],
        a=Ref.of(left),
        b=Ref.of(right),
        out=Ref.of(output),
        bias=None if bias is None else Ref.of(bias),
        batch=batch,
        b_shared=batch > 1,
        transpose_a=flip_a,
        transpose_b=flip_b,
        dtype=cube_type(left.element_type),
        **more,
    )


OPERATORS = (
    OpDef(
        "QGemm",
        _infer_gemm,
        _compute_gemm,
        _lower_gemm,
        Layout.MATMUL,
        "MatMulV2",
        domain=DOMAIN,
        most_inputs=9,
        facts=Facts(
            product(0, 3, flipped=("transA", "transB")),
            Kind.MATMUL,
            Precision.GRAY,
            pattern=OpPattern.GEMM,
            operands=(0, 3),
            parameters=(1, 2, 4, 5, 7, 8),
        ),
    ),
    OpDef(
        "MatMulInteger",
        _infer_matmul_integer,
        compute_matmul_integer,
        lower_matmul(0, 1, False),
        Layout.MATMUL,
        "BatchMatMulV2",
        most_inputs=4,
        facts=Facts(
            product(), Kind.MATMUL, Precision.GRAY, pattern=matmul_pattern, operands=(0, 1), parameters=(2, 3)
        ),
    ),
    OpDef(
        "QLinearMatMul",
        _infer_qlinear_matmul,
        _compute_qlinear_matmul,
        lower_matmul(0, 3, True),
        Layout.MATMUL,
        "BatchMatMulV2",
        most_inputs=8,
        facts=Facts(
            product(0, 3),
            Kind.MATMUL,
            Precision.GRAY,
            pattern=matmul_pattern,
            operands=(0, 3),
            parameters=(1, 2, 4, 5, 6, 7),
        ),
    ),
    OpDef(
        "ConvInteger",
        _infer_conv_integer,
        compute_conv_integer,
        lower_conv(0, 1, False),
        Layout.FEATURE,
        "Conv2D",
        most_inputs=4,
        facts=Facts(
            convolution(bias=(), windows=conv_windows),
            Kind.CONVOLUTION,
            Precision.GRAY,
            pattern=conv_pattern,
            operands=(0, 1),
            parameters=(2, 3),
        ),
    ),
    OpDef(
        "QLinearConv",
        _infer_qlinear_conv,
        _compute_qlinear_conv,
        lower_conv(0, 3, True),
        Layout.FEATURE,
        "Conv2D",
        cann_of=partial(conv_type, weight=3),
        most_inputs=9,
        facts=Facts(
            convolution(0, 3, (8,), lambda node: conv_windows(node, 3)),
            Kind.CONVOLUTION,
            Precision.GRAY,
            pattern=partial(conv_pattern, weight=3),
            operands=(0, 3),
            parameters=(1, 2, 4, 5, 6, 7),
        ),
    ),
)
