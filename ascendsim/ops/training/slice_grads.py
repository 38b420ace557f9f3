"""Gradients of slicing and padding (domain "ascend", CANN's prototypes): StridedSliceGrad, PadV3Grad.

    StridedSliceGrad(shape, begin, end, strides, dy)    zeros of `shape`, and dy where the slice was taken
    PadV3Grad(x, paddings)       what was padded away from; borders that `mode` copied are added to where
                                 they came from

Masks are those of TensorFlow's strided_slice: bit i speaks of the i-th entry of begin, end and strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import fill_work, filling, moving, repacking, vector_dtype
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, runs_on_ai_core
from ascendsim.ops.shared.dims import known_ints, need_shape, unknown_shape, vector_length
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, Label, Link, by_labels, shape_of
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.structure import along_axes, constant_ints
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Step, Work

Wanted = Sequence["np.dtype[Any]"]
_MODES = ("reflect", "edge")


def _bit(node: Node, name: str, entry: int) -> bool:
    return bool(int(node.attr(name, 0)) >> entry & 1)


def _slices(node: Node, begin: Sequence[int], end: Sequence[int], strides: Sequence[int]) -> tuple[Any, ...]:
    """The slice as NumPy writes it."""
    parts: list[Any] = []
    for entry, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if _bit(node, "ellipsis_mask", entry):
            parts.append(Ellipsis)
        elif _bit(node, "new_axis_mask", entry):
            parts.append(None)
        elif _bit(node, "shrink_axis_mask", entry):
            parts.append(first)
        else:
            start, stop = (_bit(node, name, entry) for name in ("begin_mask", "end_mask"))
            parts.append(slice(None if start else first, None if stop else last, stride))
    return tuple(parts)


def _slice_infer(context: InferContext) -> None:
    shape = known_ints(context, 0)
    given = [known_ints(context, port) for port in range(1, 4)]
    begin, end, strides = given
    if shape is not None and begin is not None and end is not None and strides is not None:
        if not len(begin) == len(end) == len(strides):
            raise context.fail("needs as many begins, ends and strides", [len(part or ()) for part in given])
        if min(shape, default=0) < 0 or 0 in strides:
            raise context.fail("needs sizes that are not negative and strides other than 0", [shape, strides])
        try:
            piece = np.broadcast_to(np.int8(0), shape)[_slices(context.node, begin, end, strides)]
        except IndexError as error:
            raise context.fail(f"needs a slice of {shape}", str(error)) from None
        need_shape(context, 4, piece.shape)
    result = unknown_shape(vector_length(context, 0)) if shape is None else shape
    context.set(0, context.dtype(4), result)


def _slice_grad(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    shape, begin, end, strides = ([int(value) for value in array.reshape(-1)] for array in inputs[:4])
    result = np.zeros(shape, wanted[0])
    result[_slices(node, begin, end, strides)] = inputs[4]
    return [result]


def _slice_lower(node: Node, _context: LowerContext) -> Work:
    """Rows are read into tiles of zeros, which leave as one contiguous piece."""
    source, target = Ref.of(node.required(4)), Ref.of(node.output)
    if not source.bytes or not target.bytes:
        return fill_work(target)
    row = (source.shape[-1] if source.shape else 1) * source.dtype.itemsize
    copy = Copy(source, target, source.bytes, source.bytes, target.bytes, write_bytes=target.bytes)
    return MoveWork((copy,), (filling(source.dtype), *repacking(row, source.dtype)))


def _slice_links(node: Node) -> AxisMap:
    """An axis that is taken whole is parallel; the gradient lacks those that a single index took away."""
    whole, part, strides = node.output.shape, shape_of(node, 4), constant_ints(node.input(3))
    if whole is None or part is None or strides is None:
        return NOTHING_SAID
    ends = [entry for entry in range(len(strides)) if _bit(node, "ellipsis_mask", entry)]
    named = sum(not _bit(node, "new_axis_mask", entry) for entry in range(len(strides))) - len(ends)
    labels: list[Label] = []
    special: dict[Label, Link] = {}
    axis = 0
    for entry in (*range(len(strides)), None):
        if entry is None or entry in ends:
            rest = 0 if entry is None and ends else len(whole) - named
            labels += range(axis, axis + rest)
            axis += rest
        elif _bit(node, "new_axis_mask", entry):
            labels.append(("new", entry))
        else:
            if not _bit(node, "shrink_axis_mask", entry):
                labels.append(axis)
                taken = part[len(labels) - 1] if len(labels) <= len(part) else None
                if strides[entry] != 1 or not isinstance(taken, int) or taken != whole[axis]:
                    special[axis] = WHOLE
            axis += 1
    return by_labels(node, {4: labels}, {0: range(len(whole))}, special)


# ------------------------------------------------------------------------------------------------------------


def _pairs(node: Node, pads: Sequence[int]) -> list[tuple[int, int]]:
    half = len(pads) // 2
    if node.attr("paddings_contiguous", 1):
        return list(zip(pads[::2], pads[1::2], strict=True))
    return list(zip(pads[:half], pads[half:], strict=True))


def _pad_infer(context: InferContext) -> None:
    mode, shape, pads = str(context.node.attr("mode", "reflect")), context.shape(0), known_ints(context, 1)
    if mode not in _MODES:
        raise context.fail(f"needs a mode out of {', '.join(_MODES)}", repr(mode))
    if shape is None or pads is None:
        context.set(0, context.dtype(0), unknown_shape(None if shape is None else len(shape)))
        return
    if len(pads) != 2 * len(shape):
        raise context.fail(f"needs {2 * len(shape)} paddings, two an axis", pads)
    dims: list[Dim] = []
    for dim, (before, after) in zip(shape, _pairs(context.node, pads), strict=True):
        kept = dim - before - after if isinstance(dim, int) else dim if before == after == 0 else None
        least = 1 + (max(before, after) if mode == "reflect" else 0) if before or after else 0
        if before < 0 or after < 0 or (isinstance(kept, int) and kept < least):
            raise context.fail("needs paddings that the axes can have", f"{before} and {after} of {dim}")
        dims.append(kept)
    context.set(0, context.dtype(0), tuple(dims))


def _pad_grad(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    result = as_float32(inputs[0])
    mode = str(node.attr("mode", "reflect"))
    for axis, (before, after) in enumerate(_pairs(node, [int(value) for value in inputs[1].reshape(-1)])):
        if before or after:
            kept = np.arange(result.shape[axis] - before - after)
            places = np.pad(kept, (before, after), mode="reflect" if mode == "reflect" else "edge")
            rows = np.moveaxis(result, axis, 0)
            sums = np.zeros((kept.size, *rows.shape[1:]), result.dtype)
            np.add.at(sums, places, rows)
            result = np.moveaxis(sums, 0, axis)
    return [finish(np.array(result, order="C"), wanted[0])]


def _pad_lower(node: Node, _context: LowerContext) -> Work:
    """Tiles are read with their borders, which are added inside UB, and the middle is written."""
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if not target.bytes:
        return NoTask()
    if not runs_on_ai_core(node, (1,)):
        return on_ai_cpu(node)
    copy = Copy(source, target, source.bytes, source.bytes, target.bytes, write_bytes=target.bytes)
    return MoveWork((copy,), (moving(source.dtype), Step("vadd", vector_dtype(source.dtype))))


def _padded_axes(node: Node, rank: int) -> Sequence[int] | None:
    pads = constant_ints(node.input(1))
    if pads is None or len(pads) != 2 * rank:
        return None
    return [axis for axis, pair in enumerate(_pairs(node, pads)) if any(pair)]


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "StridedSliceGrad",
        _slice_infer,
        _slice_grad,
        _slice_lower,
        domain="ascend",
        most_inputs=5,
        facts=movement(_slice_links, parameters=(0, 1, 2, 3), shape_port=0, kept=(4,)),
    ),
    OpDef(
        "PadV3Grad",
        _pad_infer,
        _pad_grad,
        _pad_lower,
        domain="ascend",
        most_inputs=2,
        facts=Facts(along_axes(_padded_axes, ports=(0,)), Kind.REDUCTION, Precision.GRAY, parameters=(1,)),
    ),
)
