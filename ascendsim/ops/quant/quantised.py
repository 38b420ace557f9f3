"""Integer products: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.

Values are exact in int32; the QLinear forms scale the sum in float32, round to nearest even, add the zero
point and saturate. On the chip the Cube multiplies int8 (unsigned operands are shifted by their zero point
when they are stored), accumulates in int32, and the vector unit requantises on the way out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.linear.conv import conv_axes, conv_pattern, conv_shape, conv_windows
from ascendsim.ops.linear.matmul import matmul_pattern, matmul_shape, matmul_work
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import as_float32
from ascendsim.ops.shared.cube import convolution_work
from ascendsim.ops.shared.windows import as_volume, kernel_window
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Lower
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import convolution, product
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, Work


def need_bytes(context: InferContext, ports: tuple[int, ...]) -> None:
    """Refuses operands of more than 8 bits."""
    for port in ports:
        if context.dtype(port).itemsize != 1:
            raise context.fail(f"needs int8 or uint8 as input {port}", context.dtype(port).value)


def _infer_matmul_integer(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    context.set(0, DType.INT32, matmul_shape(context))


def _infer_conv_integer(context: InferContext) -> None:
    need_bytes(context, (0, 1))
    context.set(0, DType.INT32, conv_shape(context, bias=None))


def _result_type(context: InferContext) -> DType:
    return context.dtype(7) if context.has(7) else context.dtype(0)


def _infer_qlinear_matmul(context: InferContext) -> None:
    need_bytes(context, (0, 3))
    context.set(0, _result_type(context), matmul_shape(context, 0, 3))


def _infer_qlinear_conv(context: InferContext) -> None:
    need_bytes(context, (0, 3))
    context.set(0, _result_type(context), conv_shape(context, 0, 3, 8))


def _shifted(array: Array, zero_point: Any, axis: int | None) -> Array:
    """The array minus its zero point as int32; a vector of zero points runs along `axis` (or has the array's
    rank already).
    """
    values = array.astype(np.int32)
    if zero_point is None:
        return values
    return values - _along(np.asarray(zero_point).astype(np.int32), values.ndim, axis)


def _along(parameter: Array, rank: int, axis: int | None) -> Array:
    """A scalar or vector parameter shaped so that it broadcasts along one axis of a tensor of that rank."""
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1 and axis is not None:
        shape = [1] * rank
        shape[axis] = parameter.size
        return parameter.reshape(shape)
    return parameter


def _requantised(total: Array, scale: Array, zero_point: Any, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    rounded = np.rint(total.astype(np.float32) * scale.astype(np.float32))
    shift = 0.0 if zero_point is None else as_float32(np.asarray(zero_point)).astype(np.float32).reshape(())
    return np.clip(rounded + shift, limits.min, limits.max).astype(dtype)


def _scale(array: Any) -> Array:
    return as_float32(np.asarray(array)).astype(np.float32)


def compute_matmul_integer(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    """Exact sums of a product of matrices."""
    from ascendsim_kernels.gemm import integer_matmul

    a, b, a_zero, b_zero = list(inputs) + [None] * (4 - len(inputs))
    return [integer_matmul(_shifted(a, a_zero, a.ndim - 2), _shifted(b, b_zero, b.ndim - 1))]


def _compute_qlinear_matmul(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    from ascendsim_kernels.gemm import integer_matmul

    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs[:8]
    total = integer_matmul(_shifted(a, a_zero, a.ndim - 2), _shifted(b, b_zero, b.ndim - 1))
    rank = total.ndim
    left = _along(_scale(a_scale), rank, rank - 2 if rank > 1 else None)
    scale = left * _along(_scale(b_scale), rank, rank - 1) / _scale(y_scale).reshape(())
    return [_requantised(total, np.asarray(scale), y_zero, wanted[0])]


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
    return [_integer_conv(node, _shifted(x, x_zero, None), _shifted(w, w_zero, 0))]


def _compute_qlinear_conv(
    node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]
) -> Sequence[Any]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    total = _integer_conv(node, _shifted(x, x_zero, None), _shifted(w, w_zero, 0))
    if len(inputs) > 8 and inputs[8] is not None:
        total = total + np.asarray(inputs[8]).astype(np.int32).reshape(-1, *(1,) * (total.ndim - 2))
    scale = _scale(x_scale).reshape(()) * _along(_scale(w_scale), total.ndim, 1) / _scale(y_scale).reshape(())
    return [_requantised(total, np.asarray(scale), y_zero, wanted[0])]


def _requantise(node: Node, scale_port: int) -> tuple[tuple[Step, ...], tuple[Stream, ...]]:
    """int32 -> float16 (vdeq), scale by column or as a whole, zero point, -> int8; what the steps read."""
    scale = node.required(scale_port)
    by_column = scale.elements > 1
    half = DType.FLOAT16
    steps = [Step("vconv", DType.INT32), Step("vmul" if by_column else "vmuls", half)]
    if node.input(7) is not None:
        steps.append(Step("vadds", half))
    steps.append(Step("vconv", half))
    return tuple(steps), (Stream(Ref.of(scale), "col"),) if by_column else ()


def lower_matmul(left: int, right: int, requantises: bool) -> Lower:
    """Work of a product of matrices in the ports `left` and `right`."""

    def lower(node: Node, context: LowerContext) -> Work:
        """int8 product; corrections for zero points are column sums of constants and go into the bias at
        compile time.
        """
        if node.output.elements == 0 or node.required(left).elements == 0:
            return fill_work(Ref.of(node.output))  # a sum of nothing is 0
        epilogue, streams = _requantise(node, 4) if requantises else ((), ())
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
        epilogue, streams = _requantise(node, 4) if requantises else ((), ())
        axes = conv_axes(node, x.static_shape, w.static_shape)
        bias = node.input(8) if requantises else None
        groups = int(node.attr("group", 1))
        return convolution_work(
            x, w, bias, node.output, axes, groups, epilogue=epilogue, epilogue_inputs=streams
        )

    return lower


OPERATORS = (
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
            product(0, 3), Kind.MATMUL, Precision.GRAY, operands=(0, 3), parameters=(1, 2, 4, 5, 6, 7)
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
        most_inputs=9,
        facts=Facts(
            convolution(0, 3, (8,), lambda node: conv_windows(node, 3)),
            Kind.CONVOLUTION,
            Precision.GRAY,
            operands=(0, 3),
            parameters=(1, 2, 4, 5, 6, 7),
        ),
    ),
)
