"""Quantisation as CANN's graph has it (domain "ascend"); the formulas are those of the vendor's quantisation
guide.

    AscendQuant(x)              sat(round(x * scale + offset)) to int8, ties to even; scale is 1 / step
    AscendDequant(acc, deq)     acc * deq, deq = step of the data * step of the weights, one value or one a
                                channel; relu_flag: max(., 0)
    AscendRequant(acc, req)     sat(round(acc * req + offset)) to int8; relu_flag: max(acc * req, 0) before
                                the offset
    AscendWeightQuant(w, o)     w - o in int8
    QuantConv(x, w, bias, deq)  int8 convolution: conv(x - offset_x, w) + bias; offset_in_bias: the bias holds
                                -offset_x * sum(w)
                                already, the Cube multiplies x as it is and pads with offset_x. The result is
                                int32, or with deq (and relu_flag) what AscendDequant makes of it on the way
                                out, and with quant_scale (and quant_offset) what AscendQuant makes of that
    QuantMatMul(x, w, bias)     int8 product of rows and a matrix, (x - offset_x) w + bias in int32;
                                transA and transB as Gemm has them
    AscendAntiQuant(x)          (x + offset) * scale, from int8

Prepared scales are uint64: the chip's parameter registers hold the float32 bits in their low half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.linear.conv import conv_axes, conv_pattern, conv_shape, conv_windows
from ascendsim.ops.normalise.normalisation_work import channel_split
from ascendsim.ops.quant.checks import check_offset
from ascendsim.ops.quant.quantised import integer_rows, product_of_rows, rows_shape
from ascendsim.ops.quant.quantize import repacks, saturated
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    computing_type,
    finish,
    make_steps,
    on_ai_cpu,
    same_as,
)
from ascendsim.ops.shared.cube import convolution_work
from ascendsim.ops.shared.dims import need_within
from ascendsim.ops.shared.windows import as_volume, kernel_window
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import ELEMENTWISE, convolution, elementwise, per_channel, product
from ascendsim.opset.work import SCALED, LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]


def scale_values(scale: Array) -> Array:
    """A scale in float32, from plain floats or from prepared uint64 registers.

    >>> scale_values(np.array([0x3F000000], np.uint64))
    array([0.5], dtype=float32)
    """
    if scale.dtype == np.uint64:
        return scale.astype(np.uint32).view(np.float32)
    return as_float32(scale).astype(np.float32)


def _along_channels(scale: Array, rank: int) -> Array:
    values = scale_values(scale).reshape(-1)
    if values.size == 1:
        return values.reshape(())  # so that a single sum stays one without axes
    return values if rank < 2 else values.reshape((-1,) + (1,) * (rank - 2))


def _quant(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    scaled = as_float32(inputs[0]) * np.float32(node.attr("scale", 1.0)) + np.float32(
        node.attr("offset", 0.0)
    )
    return [saturated(np.rint(scaled), wanted[0])]


def _dequant(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    acc, scale = inputs
    result = acc.astype(np.float32) * _along_channels(scale, acc.ndim)
    return [finish(np.maximum(result, np.float32(0)) if node.attr("relu_flag", 0) else result, wanted[0])]


def _requant(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    acc, scale = inputs
    result = acc.astype(np.float32) * _along_channels(scale, acc.ndim)
    if node.attr("relu_flag", 0):
        result = np.maximum(result, np.float32(0))
    return [saturated(np.rint(result + np.float32(node.attr("offset", 0.0))), wanted[0])]


def _anti_quant(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    shifted = inputs[0].astype(np.float32) + np.float32(node.attr("offset", 0.0))
    return [finish(shifted * np.float32(node.attr("scale", 1.0)), wanted[0])]


def _infer_from_bytes(context: InferContext) -> None:
    if context.dtype(0) is not DType.INT8:
        raise context.fail("needs int8", context.dtype(0).value)
    kind = context.node.attr("dtype", DType.FLOAT32)
    context.set(0, kind if isinstance(kind, DType) else DType.FLOAT32, context.shape(0))


def _infer_product(context: InferContext) -> None:
    for port in (0, 1):
        if context.dtype(port) is not DType.INT8:
            raise context.fail(f"needs int8 as input {port}", context.dtype(port).value)
    context.set(0, DType.INT32, rows_shape(context, 1, 2))


def _product(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    x, w, bias = (*inputs, None)[:3]
    return [integer_rows(node, x.astype(np.int32) - int(node.attr("offset_x", 0)), w, None, bias)]


def _lower_product(node: Node, _context: LowerContext) -> Work:
    """The host puts the data's offset into the bias, so it costs nothing."""
    return product_of_rows(node, node.required(0), node.required(1), node.input(2))


def _weight_quant(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    weight, offset = inputs
    return [saturated(weight.astype(np.int32) - offset.astype(np.int32), wanted[0])]


def _infer_integers(context: InferContext) -> None:
    check_offset(context)
    kind = context.node.attr("dtype", DType.INT8)
    context.set(0, kind if isinstance(kind, DType) else DType.INT8, context.shape(0))


def _infer_floats(context: InferContext) -> None:
    kind = context.node.attr("dtype", DType.FLOAT32)
    if context.dtype(0) is not DType.INT32:
        raise context.fail("needs int32 sums", context.dtype(0).value)
    context.set(0, kind if isinstance(kind, DType) else DType.FLOAT32, context.shape(0))


def _infer_conv(context: InferContext) -> None:
    for port in (0, 1):
        if context.dtype(port) is not DType.INT8:
            raise context.fail(f"needs int8 as input {port}", context.dtype(port).value)
    kind = context.node.attr("dtype", DType.FLOAT32) if context.has(3) else DType.INT32
    context.set(0, kind if isinstance(kind, DType) else DType.FLOAT32, conv_shape(context))


def _conv(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """Exact sums of x - offset_x; where the bias holds the correction, what it took off is put back first."""
    from ascendsim_kernels.conv import integer_convolve

    x, w, bias, scale = (*inputs, None, None)[:4]
    offset = int(node.attr("offset_x", 0))
    image, weight = x.astype(np.int32) - offset, w.astype(np.int32)
    axes = conv_axes(node, image.shape, weight.shape)
    volume, filters = (np.ascontiguousarray(as_volume(array, 2)) for array in (image, weight))
    total = integer_convolve(volume, filters, kernel_window(axes), int(node.attr("group", 1)))
    total = total.reshape(total.shape[:2] + total.shape[5 - len(axes) :])
    along = (-1,) + (1,) * (total.ndim - 2)
    if node.attr("offset_in_bias", 0):
        total = total + offset * weight.reshape(weight.shape[0], -1).sum(axis=1, dtype=np.int32).reshape(
            along
        )
    if bias is not None:
        total = total + bias.reshape(along)
    total = total.astype(np.int32)
    if scale is None:
        return [total]
    if node.attr("quant_scale") is None:
        return _dequant(node, [total, scale], wanted)
    (real,) = _dequant(node, [total, scale], [np.dtype(np.float32)])
    stored = real * np.float32(node.attr("quant_scale")) + np.float32(node.attr("quant_offset", 0.0))
    return [saturated(np.rint(stored), wanted[0])]


def _lower_conv(node: Node, _context: LowerContext) -> Work:
    """int8 convolution, bias in L0C; a correction that is not in the bias is one more vector step on the way
    out.

    FIXPIPE multiplies by the scale and cuts at zero as it stores.
    """
    x, w, output = node.required(0), node.required(1), node.output
    if output.elements == 0 or math.prod(x.static_shape) == 0:
        return NoTask()
    correction = node.attr("offset_x", 0) and not node.attr("offset_in_bias", 0)
    epilogue: tuple[Step, ...] = (Step("vsub", DType.INT32),) if correction else ()
    stored = node.attr("quant_scale") is not None
    relu: tuple[StepSpec, ...] = ("vrelu",) if node.attr("relu_flag", 0) else ()
    epilogue += make_steps([SCALED, *relu, "vconv"] if stored else relu, DType.FLOAT16)
    axes = conv_axes(node, x.static_shape, w.static_shape)
    return convolution_work(x, w, node.input(2), output, axes, int(node.attr("group", 1)), epilogue=epilogue)


def _lower(
    steps: Callable[[Node, DType, Over], tuple[Step, ...]], float_side: int
) -> Callable[[Node, LowerContext], Work]:
    """Elementwise work with conversions at both ends.

    Args:
        steps: Node, computing type and place of the scale -> steps between the conversions.
        float_side: 0 if the input is the floating-point side, 1 if the output is, 2 if neither is (float16
            inside).
    """

    def lower(node: Node, context: LowerContext) -> Work:
        data, target = node.required(0), node.output
        if target.elements == 0:
            return NoTask()
        if len(target.static_shape) < 2:
            return on_ai_cpu(node, 3.0)
        inside = (
            DType.FLOAT16
            if float_side == 2
            else computing_type((data, target)[float_side].element_type, context)
        )
        rows, cols, by_channel = channel_split(target)
        scale = node.input(1)
        over: Over = "one" if scale is None or scale.elements == 1 else by_channel
        streams = (Stream(Ref.of(data)), *(() if scale is None else (Stream(Ref.of(scale), over),)))
        convert = (Step("vconv", inside),)
        body = steps(node, inside, over)
        return VectorWork(
            rows,
            cols,
            (*convert, *body, *(convert if float_side != 1 else ())),
            streams,
            (Stream(Ref.of(target)),),
        )

    return lower


def _quant_steps(_node: Node, inside: DType, _over: Over) -> tuple[Step, ...]:
    return make_steps(["vmuls", "vadds"], inside)


def _dequant_steps(node: Node, inside: DType, over: Over) -> tuple[Step, ...]:
    return make_steps(
        ["vmuls" if over == "one" else "vmul", *(["vrelu"] if node.attr("relu_flag", 0) else [])], inside
    )


def _requant_steps(node: Node, inside: DType, over: Over) -> tuple[Step, ...]:
    return (*_dequant_steps(node, inside, over), *make_steps(["vadds"], inside))


def _anti_steps(_node: Node, inside: DType, _over: Over) -> tuple[Step, ...]:
    return make_steps(["vadds", "vmuls"], inside)


def _weight_steps(_node: Node, inside: DType, over: Over) -> tuple[Step, ...]:
    return make_steps(["vadds" if over == "one" else "vsub"], inside)


_FOLLOW = Layout.FOLLOW
OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "AscendQuant",
        _infer_integers,
        _quant,
        _lower(_quant_steps, 0),
        _FOLLOW,
        domain="ascend",
        in_blocks=repacks,
        facts=Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.QUANT),
    ),
    OpDef(
        "AscendDequant",
        _infer_floats,
        _dequant,
        _lower(_dequant_steps, 1),
        _FOLLOW,
        domain="ascend",
        in_blocks=repacks,
        most_inputs=2,
        facts=Facts(
            per_channel(1), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.DEQUANT, parameters=(1,)
        ),
    ),
    OpDef(
        "AscendRequant",
        _infer_integers,
        _requant,
        _lower(_requant_steps, 2),
        _FOLLOW,
        domain="ascend",
        in_blocks=repacks,
        most_inputs=2,
        facts=Facts(
            per_channel(1), Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.REQUANT, parameters=(1,)
        ),
    ),
    OpDef(
        "AscendWeightQuant",
        same_as(check=lambda context: need_within(context, 1, context.shape(0))),
        _weight_quant,
        _lower(_weight_steps, 2),
        Layout.ND,
        domain="ascend",
        most_inputs=2,
        facts=replace(ELEMENTWISE, elements=None),
    ),
    OpDef(
        "AscendAntiQuant",
        _infer_from_bytes,
        _anti_quant,
        _lower(_anti_steps, 1),
        _FOLLOW,
        domain="ascend",
        in_blocks=repacks,
        facts=Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY),
    ),
    OpDef(
        "QuantMatMul",
        _infer_product,
        _product,
        _lower_product,
        Layout.MATMUL,
        "MatMulV2",
        domain="ascend",
        most_inputs=3,
        facts=Facts(
            product(0, 1, (2,), flipped=("transA", "transB")),
            Kind.MATMUL,
            Precision.GRAY,
            pattern=OpPattern.GEMM,
            operands=(0, 1),
        ),
    ),
    OpDef(
        "QuantConv",
        _infer_conv,
        _conv,
        _lower_conv,
        Layout.FEATURE,
        "Conv2D",
        domain="ascend",
        most_inputs=4,
        facts=Facts(
            convolution(bias=(2, 3), windows=conv_windows),
            Kind.CONVOLUTION,
            Precision.GRAY,
            pattern=conv_pattern,
            operands=(0, 1),
        ),
    ),
)
