"""Operators that add or cut borders: Pad (constant, reflect, edge, wrap), CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import filling, moving, repacking
from ascendsim.ops.shared.dims import known_ints, need_vectors, unknown_shape, vector_length, wrapped_axes
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import shape_of
from ascendsim.opset.facts import OpPattern, movement
from ascendsim.opset.structure import along_axes, constant_ints
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Work

Wanted = Sequence["np.dtype[Any]"]
_MODES = ("constant", "reflect", "edge", "wrap")


def _pad_infer(ctx: InferContext) -> None:
    source, pads, axes = ctx.shape(0), known_ints(ctx, 1), known_ints(ctx, 3)
    mode = ctx.node.attr("mode", "constant")
    if mode not in _MODES:
        raise ctx.fail(f"needs a mode out of {', '.join(_MODES)}", repr(mode))
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    if pads is None or (ctx.has(3) and axes is None):
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source)))
        return
    named = wrapped_axes(ctx, axes if axes is not None else range(len(source)), len(source))
    if len(pads) != 2 * len(named):
        raise ctx.fail(f"needs {2 * len(named)} pads, two an axis", pads)
    dims: list[Dim] = list(source)
    for number, axis in enumerate(named):
        grown, dim = pads[number] + pads[number + len(named)], source[axis]
        if grown:
            dims[axis] = dim + grown if isinstance(dim, int) else None
        if isinstance(dim, int) and dim + grown < 0:
            raise ctx.fail("cannot cut more than there is", f"{grown} of {dim} on axis {axis}")
    ctx.set(0, ctx.dtype(0), tuple(dims))


def pad_array(data: Array, widths: Sequence[tuple[int, int]], mode: str, fill: Any) -> Array:
    """Pads `data` by `widths` (before, after) an axis; negative widths cut."""
    cut = tuple(
        slice(max(0, -before), size - max(0, -after))
        for size, (before, after) in zip(data.shape, widths, strict=True)
    )
    grown = [(max(0, before), max(0, after)) for before, after in widths]
    if mode == "constant":
        return np.pad(data[cut], grown, mode="constant", constant_values=fill)
    return np.pad(data[cut], grown, mode=mode)  # type: ignore[call-overload, no-any-return]


def _pad(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, pads, fill, axes = (*inputs, None, None)[:4]
    named = range(data.ndim) if axes is None else [int(axis) % data.ndim for axis in axes]
    widths = [(0, 0)] * data.ndim
    for number, axis in enumerate(named):
        widths[axis] = (int(pads[number]), int(pads[number + len(named)]))
    value = wanted[0].type(0) if fill is None else np.asarray(fill).item()
    try:
        return [pad_array(data, widths, node.attr("mode", "constant"), value)]
    except ValueError as error:
        raise GraphError(f"node {node.name!r} (Pad)", "cannot be padded so", str(error)) from None


def _pad_lower(node: Node, _ctx: LowerContext) -> Work:
    """Rows are read into a tile of fill values and leave as one contiguous piece; other modes copy borders
    inside UB.
    """
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    blocked = source.format is Format.NC1HWC0  # a position is a block there, so rows never break one
    row = 0 if blocked else (source.shape[-1] if source.shape else 1) * source.dtype.itemsize
    first = (
        (filling(source.dtype),) if node.attr("mode", "constant") == "constant" else (moving(source.dtype),)
    )
    same_rows = bool(source.shape) and source.shape[-1] == target.shape[-1]
    copy = Copy(source, target, source.bytes, source.bytes, target.bytes, write_bytes=target.bytes)
    return MoveWork((copy,), first if same_rows else (*first, *repacking(row, source.dtype)))


def _in_blocks(node: Node, format: Format) -> bool:
    """Feature maps keep their blocks if nothing is added to the channels."""
    before, after = node.required(0).static_shape, node.output.static_shape
    return format is Format.NC1HWC0 and len(before) == 4 and before[1] == after[1]


def _pad_type(node: Node) -> str:
    return "MirrorPad" if node.attr("mode", "constant") == "reflect" else "PadD"


def _crop_targets(ctx: InferContext, rank: int) -> tuple[int, ...]:
    axes = ctx.node.attr("axes")
    return wrapped_axes(ctx, range(rank) if axes is None else axes, rank)


def _crop_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1,))
    source, target = ctx.shape(0), known_ints(ctx, 1)
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    named = _crop_targets(ctx, len(source))
    if target is not None and len(target) != len(named):
        raise ctx.fail(f"needs {len(named)} sizes, one an axis", target)
    if target is not None and min(target, default=0) < 0:
        raise ctx.fail("needs sizes that are not negative", target)
    count = vector_length(ctx, 1)
    if count not in (None, len(named)):
        raise ctx.fail(f"needs {len(named)} sizes, one an axis", count)
    dims: list[Dim] = list(source)
    for number, axis in enumerate(named):
        dims[axis] = None if target is None else target[number]
    ctx.set(0, ctx.dtype(0), tuple(dims))


def _crop(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, target = inputs
    axes = node.attr("axes")
    widths = [(0, 0)] * data.ndim
    for axis, size in zip(range(data.ndim) if axes is None else axes, target, strict=True):
        grown = int(size) - data.shape[axis]
        # the odd element goes to the end in both directions
        before = grown // 2 if grown > 0 else -(-grown // 2)
        widths[axis] = (before, grown - before)
    return [pad_array(data, widths, "constant", 0)]


def _padded_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    pads, axes = constant_ints(node.input(1)), node.input(3)
    named = range(rank) if axes is None else constant_ints(axes)
    if pads is None or named is None or len(pads) != 2 * len(named):
        return None
    return tuple(
        [axis % rank for number, axis in enumerate(named) if pads[number] or pads[number + len(named)]]
    )


def _cropped_axes(node: Node, rank: int) -> tuple[int, ...]:
    before, after = shape_of(node, 0) or (), node.output.shape or ()
    same = [isinstance(a, int) and a == b for a, b in zip(before, after, strict=False)]
    return tuple([axis for axis in range(rank) if axis >= len(same) or not same[axis]])


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Pad",
        _pad_infer,
        _pad,
        _pad_lower,
        Layout.FOLLOW,
        cann_of=_pad_type,
        in_blocks=_in_blocks,
        most_inputs=4,
        facts=movement(along_axes(_padded_axes), OpPattern.OPAQUE, parameters=(1, 3), kept=(0, 2)),
    ),
    OpDef(
        "CenterCropPad",
        _crop_infer,
        _crop,
        _pad_lower,
        most_inputs=2,
        facts=movement(along_axes(_cropped_axes), parameters=(1,), kept=(0,)),
    ),
)
