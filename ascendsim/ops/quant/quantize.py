"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: per tensor, per axis and in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, c0
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.normalise.softmax import walking_axis
from ascendsim.ops.quant.checks import check_blocks, check_step
from ascendsim.ops.shared.common import (
    AI_CORE_TYPES,
    as_float32,
    computing_type,
    finish,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    split_broadcast,
    walking_shape,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import (
    LowerContext,
    NoTask,
    Over,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
    workspace_of,
)


def _axis(node: Node, rank: int) -> int:
    return normalise_axis(int(node.attr("axis", 1)), rank, f"axis of node {node.name!r} ({node.op_type})")


def spread(node: Node, parameter: Array, shape: tuple[int, ...]) -> Array:
    """A scale or zero point in a form that broadcasts over a tensor of shape `shape`.

    A scalar stays one; a vector lies along the node's axis; a tensor of the same rank is repeated along the
    axis by its block size.
    """
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis = _axis(node, len(shape))
    if parameter.ndim == 1:
        return parameter.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    block = int(node.attr("block_size", 0)) or -(-shape[axis] // parameter.shape[axis])
    repeated = np.repeat(parameter, block, axis=axis)
    return repeated[tuple(slice(0, size) for size in shape)]


def _quantize_infer(context: InferContext) -> None:
    wanted = context.node.attr("output_dtype")
    dtype = context.dtype(2) if context.has(2) else wanted if isinstance(wanted, DType) else DType.UINT8
    if context.has(2) and isinstance(wanted, DType) and wanted is not dtype:
        rule = "needs zero points of the type that output_dtype says"
        raise context.fail(rule, f"{dtype.value} and {wanted.value}", "leave output_dtype out")
    if not dtype.is_integer or dtype.itemsize > 2:
        raise context.fail("needs an integer type of at most 16 bits to quantize to", dtype.value)
    _check(context, dtype)
    context.set(0, dtype, context.shape(0))


def _check(context: InferContext, kind: DType) -> None:
    blocks = context.node.attr("block_size", 0)
    shape = None if blocks else context.shape(0)
    axis = int(context.node.attr("axis", 1))
    check_step(context, 1, 2, kind, shape, axis)
    check_blocks(context, 1, axis, int(blocks))


def _dequantize_infer(context: InferContext) -> None:
    _check(context, context.dtype(0))
    wanted = context.node.attr("output_dtype")
    context.set(0, wanted if isinstance(wanted, DType) else context.dtype(1), context.shape(0))


def saturated(array: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded numbers cut to the range of an integer type; NaN becomes 0."""
    limits = np.iinfo(dtype)
    finite = np.nan_to_num(array, posinf=limits.max, neginf=limits.min)
    return np.asarray(np.clip(finite, limits.min, limits.max)).astype(dtype)


def _quantize(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """saturate(round(x / scale) + zero point), ties to even."""
    x, scale, zero = (*inputs, None)[:3]
    with np.errstate(all="ignore"):
        quotient = np.rint(as_float32(x) / spread(node, as_float32(scale), x.shape)).astype(np.float64)
    if zero is not None:
        quotient += spread(node, zero, x.shape)
    return [saturated(quotient, wanted[0])]


def _dequantize(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """(x - zero point) * scale."""
    x, scale, zero = (*inputs, None)[:3]
    shifted = x.astype(np.int64)
    if zero is not None:
        shifted -= spread(node, zero, x.shape)
    with np.errstate(all="ignore"):
        return [finish(shifted.astype(np.float32) * spread(node, as_float32(scale), x.shape), wanted[0])]


def _dynamic_infer(context: InferContext) -> None:
    context.set(0, DType.UINT8, context.shape(0))
    context.set(1, DType.FLOAT32, ())
    context.set(2, DType.UINT8, ())


def _dynamic(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """The range, widened to hold 0, is mapped to 0 .. 255."""
    x = as_float32(inputs[0])
    low, high = np.min(x, initial=np.float32(0)), np.max(x, initial=np.float32(0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    with np.errstate(all="ignore"):
        zero = saturated(np.rint(-low / scale), np.dtype(np.uint8)) if scale else np.uint8(0)
        quotient = np.rint(x / scale) if scale else np.zeros_like(x)
    results = (saturated(quotient + np.float32(zero), np.dtype(np.uint8)), scale, zero)
    return [np.asarray(result).astype(dtype) for result, dtype in zip(results, wanted, strict=False)]


def _overs(node: Node, data: Tensor) -> tuple[int, int, tuple[Over, ...]]:
    """Rows, columns and how scale and zero point lie in them."""
    shape = walking_shape(data)
    parameters = [tensor for tensor in (node.input(1), node.input(2)) if tensor is not None]
    views = []
    for tensor in parameters:
        form = tensor.static_shape
        if len(form) == 1 and form[0] > 1 and len(shape) > 0:
            axis = walking_axis(data, int(node.attr("axis", 1)) % len(data.static_shape))
            form = (shape[axis],) + (1,) * (len(shape) - axis - 1)
        views.append(form)
    split = split_broadcast(shape, views)
    return split.rows, split.cols, split.overs


def _lower(scale_op: str, specs: Sequence[str], wide_from: int) -> Callable[[Node, LowerContext], Work]:
    """Elementwise work with one scale for the tensor, a channel or a block.

    Args:
        scale_op: Instruction on the scales alone, first; empty = none.
        specs: Instructions on every element, between the conversions.
        wide_from: Input whose type the instructions compute in (the floating-point side).
    """

    def lower(node: Node, context: LowerContext) -> Work:
        data, target = node.required(0), node.output
        if target.elements == 0:
            return NoTask()
        tensors = [tensor for tensor in node.inputs if tensor is not None]
        if not AI_CORE_TYPES.issuperset(tensor.element_type for tensor in (*tensors, target)):
            return on_ai_cpu(node, 3.0)
        inside = computing_type(node.required(wide_from).element_type, context)
        rows, cols, overs = _overs(node, data)
        scaling = make_steps([scale_op] if scale_op else [], inside, overs[0])
        steps = (*scaling, Step("vconv", inside), *make_steps(specs, inside), Step("vconv", inside))
        streams = (
            Stream(Ref.of(data)),
            *(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors[1:], overs, strict=True)),
        )
        return VectorWork(rows, cols, steps, streams, (Stream(Ref.of(target)),))

    return lower


def _dynamic_lower(node: Node, context: LowerContext) -> Work:
    """Largest and smallest element, then quantization in a second sweep: on one core, or on all, which tell
    each other what they have found through global memory.
    """
    data = node.required(0)
    if data.elements == 0 or data.element_type not in AI_CORE_TYPES:
        return on_ai_cpu(node, 4.0)
    inside = computing_type(data.element_type, context)
    ends = make_steps(["vcmax", "vcmin"], inside)
    quantising = (
        *make_steps(["vsub", "vmuls", "vrec"], inside, "one"),
        *make_steps(["vmuls", "vconv", "vadds", "vconv"], inside),
    )
    overs: tuple[Over, ...] = ("all", "one", "one")
    outputs = tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(node.outputs, overs, strict=False))
    source, count = Stream(Ref.of(data)), data.elements
    alone = VectorWork(1, count, (*ends, *quantising), (source,), outputs, reduces="cols", sweeps=2)
    found = Ref(workspace_of(data.name), (2,), inside, Format.ND, 2 * inside.itemsize)
    together = SequenceWork(
        (
            VectorWork(1, count, ends, (source,), (Stream(found, "row"),), reduces="cols"),
            VectorWork(1, count, quantising, (source, Stream(found, "one")), outputs),
        ),
        workspace_bytes=found.bytes,
    )
    return WorkChoice((alone, together))


def _links(node: Node) -> AxisMap:
    """Element by element; a vector of scales lies along an axis. Scales of blocks are not followed."""
    rank, scales = rank_of(node, 0), rank_of(node, 1)
    if rank is None or scales is None or scales > 1:
        return NOTHING_SAID
    vector = (_axis(node, rank),) if scales and node.required(1).shape != (1,) else ("one",) * scales
    return by_labels(node, {0: range(rank), 1: vector, 2: vector}, {0: range(rank)})


def repacks(node: Node, format: Format) -> bool:
    """Whether an operator between floats and bytes can work in blocks, which change their size.

    Feature maps are repacked as they are stored; matrices where their columns fill the largest blocks, those
    of int8.
    """
    shape = node.output.static_shape
    if format is Format.FRACTAL_NZ:
        return len(shape) == 2 and shape[1] % c0(DType.INT8) == 0
    return format is Format.NC1HWC0 and len(shape) == 4


def _handed_out_alone(node: Node) -> bool:
    """Whether only the caller reads the floats, while others read the bytes: it is the bytes, which are
    fewer, that then change their format, and not the floats.
    """
    graph, floats = node.graph, node.output
    handed = graph is not None and floats in graph.outputs and not floats.consumers
    return handed and floats.element_type.is_float and len(node.required(0).consumers) > 1


def _repacks_numbers(node: Node, format: Format) -> bool:
    """The same with one scale; scales along an axis lie row-major."""
    if node.required(1).elements != 1 or _handed_out_alone(node):
        return False
    shape = node.output.static_shape
    wide = format is Format.FRACTAL_NZ and len(shape) > 2 and shape[-1] % c0(DType.INT8) == 0
    return wide or repacks(node, format)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "QuantizeLinear",
        _quantize_infer,
        _quantize,
        _lower("vrec", ["vmul", "vadds"], 0),
        Layout.FOLLOW,
        "AscendQuant",
        foldable=False,  # weights stay integers for the operator that multiplies them
        in_blocks=_repacks_numbers,
        most_inputs=3,
        facts=Facts(_links, Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.QUANT, parameters=(1, 2)),
    ),
    OpDef(
        "DequantizeLinear",
        _dequantize_infer,
        _dequantize,
        _lower("", ["vsub", "vmul"], 1),
        Layout.FOLLOW,
        "AscendDequant",
        foldable=False,  # weights stay integers for the operator that multiplies them
        in_blocks=_repacks_numbers,
        most_inputs=3,
        facts=Facts(_links, Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.DEQUANT, parameters=(1, 2)),
    ),
    OpDef(
        "DynamicQuantizeLinear",
        _dynamic_infer,
        _dynamic,
        _dynamic_lower,
        Layout.ND,
        "DynamicQuant",
        facts=Facts(
            opaque(), Kind.REDUCTION, Precision.SUMS
        ),  # the scale is float32, as CANN's DynamicQuant has it
    ),
)
