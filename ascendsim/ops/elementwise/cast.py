"""Cast, CastLike and BitCast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import AI_CORE_TYPES, as_float32, finish, on_ai_cpu, walking_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.structure import elementwise, opaque
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Step, Stream, VectorWork, Work

_EIGHT_BITS = frozenset({DType.INT8, DType.UINT8, DType.BOOL})


def _target(context: InferContext) -> DType:
    value = context.node.attr("to")
    if not isinstance(value, DType):
        raise context.fail("needs a supported element type in 'to'", value)
    return value


def _cast_infer(context: InferContext) -> None:
    context.set(0, _target(context), context.shape(0))


def _cast_like_infer(context: InferContext) -> None:
    context.set(0, context.dtype(1), context.shape(0))


def _cast(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return [converted_values(inputs[0], wanted[0])]


def converted_values(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array in another type: floats round to nearest even, or are cut off towards zero for integers."""
    if array.dtype == dtype:
        return array.copy()
    if dtype == np.bool_:
        return np.asarray(as_float32(array) != 0)
    if dtype.name == "bfloat16" and array.dtype != np.float32:
        with np.errstate(all="ignore"):
            return array.astype(np.float32).astype(dtype)
    return finish(as_float32(array), dtype)


def _same_bytes(source: Tensor, target: Tensor) -> bool:
    """Whether neither the device nor the user's model sees a change of type."""
    return (
        source.element_type is target.element_type
        and source.origin_dtype is target.origin_dtype
        and source.format is target.format
    )


def _cast_lower(node: Node, context: LowerContext) -> Work:
    """One vconv; 8-bit types and wide ones meet in float16, so they take two; int64 meets 32-bit types where
    the chip has it.
    """
    source, target = node.required(0), node.output
    if target.elements == 0:
        return NoTask()
    if _same_bytes(source, target):
        return NoTask(((target.name, source.name),))
    types = (source.element_type, target.element_type)
    long = DType.INT64 in types and context.supports("vconv", DType.INT64)
    if not AI_CORE_TYPES.issuperset(dtype for dtype in types if not (long and dtype is DType.INT64)):
        return on_ai_cpu(node)
    small, large = sorted(types, key=lambda dtype: dtype.itemsize)
    steps = _conversions(small, large, long)
    if target.element_type is DType.BOOL:
        steps += [Step("vcmp", DType.FLOAT16), Step("vsel", DType.FLOAT16)]
    elements = math.prod(walking_shape(target))
    return VectorWork(1, elements, tuple(steps), (Stream(Ref.of(source)),), (Stream(Ref.of(target)),))


def _conversions(small: DType, large: DType, long: bool) -> list[Step]:
    """The vconv instructions between two types; int64 converts from and to 32-bit types alone."""
    steps = [Step("vconv", DType.INT64)] if long else []
    if long:
        if small.itemsize >= DType.FLOAT32.itemsize:
            return steps
        large = DType.FLOAT32
    steps.append(Step("vconv", DType.FLOAT16 if large in _EIGHT_BITS else large))
    if small in _EIGHT_BITS and large is not DType.FLOAT16:
        steps.append(Step("vconv", DType.FLOAT16))
    return steps


def _bit_cast(_node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    return [np.ascontiguousarray(inputs[0]).view(wanted[0]).reshape(inputs[0].shape)]


def _bit_cast_infer(context: InferContext) -> None:
    target = _target(context)
    if target.itemsize != context.dtype(0).itemsize:
        raise context.fail(
            f"needs types of one width, {context.dtype(0).value} has {context.dtype(0).itemsize} bytes",
            target.value,
        )
    context.set(0, target, context.shape(0))


def _bit_cast_lower(node: Node, _context: LowerContext) -> Work:
    """A copy: the two names differ in type, so they keep their own memory."""
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    return (
        MoveWork((Copy(source, target, target.bytes, target.bytes, target.bytes),))
        if target.bytes
        else NoTask()
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef("Cast", _cast_infer, _cast, _cast_lower, Layout.FOLLOW, facts=movement(elementwise())),
    OpDef(
        "CastLike",
        _cast_like_infer,
        _cast,
        _cast_lower,
        Layout.FOLLOW,
        "Cast",
        most_inputs=2,
        facts=movement(elementwise(0)),
    ),
    OpDef(
        "BitCast",
        _bit_cast_infer,
        _bit_cast,
        _bit_cast_lower,
        Layout.ND,
        "Bitcast",
        facts=Facts(opaque(), Kind.MOVEMENT, Precision.BITS),
    ),
)
