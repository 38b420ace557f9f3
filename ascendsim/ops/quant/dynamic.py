"""Activations made int8 on the way to a product of a language model (domain "ascend", CANN's prototypes).

    DynamicQuant(x, smooth_scales) -> y, scale      scale = largest |x| of a row / 127, y = round(x / scale)
    AscendQuantV2(x, scale, offset) -> y            round(x scale + offset); sqrt_mode: scale twice;
                                                    round_mode: round (ties to even), floor, ceil, trunc

A row is the last axis; smooth_scales has one factor a column, by which x is multiplied first. scale of
AscendQuantV2 is one number, or one for each index of `axis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.quant.quantize import saturated
from ascendsim.ops.shared.common import (
    as_float32,
    computing_type,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    runs_on_ai_core,
    split_broadcast,
)
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

LARGEST = 127  # of int8; the range is symmetric
_INT8 = 2  # GE's number of the type (ge::DataType)
_ROUNDING: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
)


# ---- what others make int8 by too


def check_int8(context: InferContext) -> None:
    """Refuses results of another type than int8.

    Raises:
        GraphError: If `dst_type` names one.
    """
    wanted = context.node.attr("dst_type", _INT8)
    if wanted not in (_INT8, DType.INT8):
        raise context.fail(f"can give int8 (dst_type {_INT8})", wanted)


def statistics_shape(data: Shape | None, inner: int | None = 1) -> Shape | None:
    """Shape of one value a row of some last axes."""
    return None if data is None or inner is None else data[: len(data) - inner]


def per_row(x: Array, smooth: Array | None, axes: int = 1) -> tuple[Array, Array]:
    """Rows over the last `axes` axes as int8, and the scale of each; zeros stay zeros, with scale 0."""
    wide = x if smooth is None else x * as_float32(smooth)
    inner = tuple(range(wide.ndim - axes, wide.ndim))
    top = np.max(np.abs(wide), axis=inner, keepdims=True, initial=0)
    scale = (top / np.float32(LARGEST)).astype(np.float32)
    with np.errstate(all="ignore"):
        quotient = np.where(scale > 0, wide / np.where(scale > 0, scale, np.float32(1)), np.float32(0))
    return saturated(np.rint(quotient), np.dtype(np.int8)), scale.reshape(wide.shape[: wide.ndim - axes])


def scaled_bytes(x: Array, scale: Array, zero: Array | None, divides: bool) -> Array:
    """round(x scale + zero point), or x / scale, in int8."""
    with np.errstate(all="ignore"):
        result = x / scale if divides else x * scale
        result = result if zero is None else result + as_float32(zero)
    return saturated(np.rint(result), np.dtype(np.int8))


def to_bytes(inside: DType) -> tuple[Step, ...]:
    """The way to int8 by float16, which alone has a conversion to it: float32, int32, float16, int8."""
    return make_steps([("vconv", 3 if inside is DType.FLOAT32 else 1)], inside)


def dynamic_steps(inside: DType, smooth: bool) -> tuple[Step, ...]:
    """Largest absolute value of a row, its scale, the quotients."""
    return (
        *make_steps(["vmul"] if smooth else [], inside),
        *make_steps(["vabs", "vcmax"], inside),
        *make_steps(["vmuls", "vdiv"], inside, "row"),
        *make_steps(["vmul"], inside),
        *to_bytes(inside),
    )


def rounded_steps(inside: DType, offset: bool) -> tuple[Step, ...]:
    """Scale, zero point, rounding."""
    return (*make_steps(["vmul", "vadd"] if offset else ["vmul"], inside), *to_bytes(inside))


# ---- DynamicQuant


def _infer_dynamic(context: InferContext) -> None:
    data = context.shape(0)
    check_int8(context)
    if data is not None and not data:
        raise context.fail("needs a tensor with rows", list(data))
    if data is not None:
        need_shape(context, 1, data[-1:])
    context.set(0, DType.INT8, data)
    context.set(1, DType.FLOAT32, statistics_shape(data))


def _dynamic(_node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    x, smooth = (*inputs, None)[:2]
    return per_row(as_float32(x), smooth)


def _lower_dynamic(node: Node, context: LowerContext) -> Work:
    """A row is in UB as a whole between its largest value and its quotients."""
    data, smooth = node.required(0), node.input(1)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 4.0)
    cols = data.static_shape[-1]
    inside = computing_type(data.element_type, context, wide=True)
    steps = dynamic_steps(inside, smooth is not None)
    if inside is not data.element_type:
        steps = (*make_steps(["vconv"], inside), *steps)
    factors = () if smooth is None else (Stream(Ref.of(smooth), "col"),)
    results = [Stream(Ref.of(node.output))]
    results += [Stream(Ref.of(tensor), "row") for tensor in node.outputs[1:]]
    return VectorWork(
        data.elements // cols,
        cols,
        steps,
        (Stream(Ref.of(data)), *factors),
        tuple(results),
        reduces="cols",
        sweeps=2,
    )


def rows_and_scales(node: Node, factors: Sequence[int] = (1,)) -> AxisMap:
    """Rows are independent of one another, output 1 has one value a row, and factors of columns take part in
    every row's scale.
    """
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    inputs = {0: labels} | dict.fromkeys(factors, labels[-1:])
    return by_labels(node, inputs, {0: labels, 1: labels[:-1]}, {labels[-1]: WHOLE})


# ---- AscendQuantV2


def _axis(node: Node, rank: int) -> int:
    return normalise_axis(int(node.attr("axis", -1)), rank, f"axis of node {node.name!r} ({node.op_type})")


def _infer_quant(context: InferContext) -> None:
    data = context.shape(0)
    check_int8(context)
    mode = context.node.attr("round_mode", "round")
    if mode not in _ROUNDING:
        raise context.fail(f"needs a round_mode out of {', '.join(_ROUNDING)}", repr(mode))
    if data is not None:
        if not data:
            raise context.fail("needs a tensor with axes", list(data))
        size = data[_axis(context.node, len(data))]
        for port in (1, 2):
            if context.has(port) and context.shape(port) != (1,):
                need_shape(context, port, (size,))
    context.set(0, DType.INT8, data)


def _spread(node: Node, values: Array, rank: int) -> Array:
    """One number for all, or one for each index of the axis."""
    behind = rank - 1 - _axis(node, rank)
    return as_float32(values).reshape((-1,) + (1,) * behind)


def _quant(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    x, scale, offset = (*inputs, None)[:3]
    factor = _spread(node, scale, x.ndim)
    with np.errstate(all="ignore"):
        result = as_float32(x) * (factor * factor if node.attr("sqrt_mode", 0) else factor)
        if offset is not None:
            result = result + _spread(node, offset, x.ndim)
        return [saturated(_ROUNDING[str(node.attr("round_mode", "round"))](result), wanted[0])]


def _lower_quant(node: Node, context: LowerContext) -> Work:
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 3.0)
    shape = data.static_shape
    parameters = [tensor for tensor in node.inputs[1:3] if tensor is not None]
    behind = (1,) * (len(shape) - 1 - _axis(node, len(shape)))
    split = split_broadcast(shape, [(*tensor.static_shape, *behind) for tensor in parameters])
    inside = computing_type(data.element_type, context, wide=True)
    first = ["vconv"] if inside is not data.element_type else []
    first += ["vmul"] if node.attr("sqrt_mode", 0) else []
    steps = (*make_steps(first, inside), *rounded_steps(inside, node.input(2) is not None))
    streams = [Stream(Ref.of(tensor), over) for tensor, over in zip(parameters, split.overs, strict=True)]
    return VectorWork(
        split.rows, split.cols, steps, (Stream(Ref.of(data)), *streams), (Stream(Ref.of(node.output)),)
    )


def _quant_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    inputs: dict[int, Sequence[Label]] = {0: range(rank)}
    for port in (1, 2):
        tensor = node.input(port)
        if tensor is not None:
            inputs[port] = ("one",) if tensor.shape == (1,) else (_axis(node, rank),)
    return by_labels(node, inputs, {0: range(rank)})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "DynamicQuant",
        _infer_dynamic,
        _dynamic,
        _lower_dynamic,
        domain="ascend",
        most_inputs=2,
        facts=Facts(rows_and_scales, Kind.REDUCTION, Precision.SUMS, parameters=(1,)),
    ),
    OpDef(
        "AscendQuantV2",
        _infer_quant,
        _quant,
        _lower_quant,
        domain="ascend",
        most_inputs=3,
        facts=Facts(
            _quant_links, Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.OPAQUE, parameters=(1, 2)
        ),
    ),
)
