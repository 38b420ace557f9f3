"""Blocks and sequences rearranged: DepthToSpace, SpaceToDepth, ReverseSequence, Trilu, Col2Im."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.shared.bursts import (
    SCALAR_CYCLES_PER_INDEX,
    filling,
    repacking,
    run_bytes,
    transpose_work,
    vector_dtype,
)
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.ops.shared.dims import (
    known_ints,
    need_channels,
    need_numbers,
    need_rank,
    need_vectors,
    vector_length,
)
from ascendsim.ops.shared.windows import spatial_ints
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.structure import along_axes
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Step, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]


def _block(ctx: InferContext) -> int:
    size = int(ctx.node.attr("blocksize", 0))
    if size < 1:
        raise ctx.fail("needs a blocksize of at least 1", size)
    return size


def _divided(ctx: InferContext, dim: Dim, by: int) -> Dim:
    if isinstance(dim, int) and dim % by:
        raise ctx.fail(f"needs dimensions that are multiples of {by}", dim)
    return dim // by if isinstance(dim, int) else dim if by == 1 else None


def _times(dim: Dim, by: int) -> Dim:
    return dim * by if isinstance(dim, int) else dim if by == 1 else None


def _feature_shape(ctx: InferContext) -> Shape | None:
    source = ctx.shape(0)
    if source is not None and len(source) != 4:
        raise ctx.fail("needs a tensor of rank 4", list(source))
    return source


def _depth_to_space_infer(ctx: InferContext) -> None:
    source, block = _feature_shape(ctx), _block(ctx)
    if source is None:
        ctx.set(0, ctx.dtype(0), (None,) * 4)
        return
    n, c, h, w = source
    ctx.set(0, ctx.dtype(0), (n, _divided(ctx, c, block * block), _times(h, block), _times(w, block)))


def _depth_to_space_view(node: Node, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The six axes that DepthToSpace sees in its input and their new order."""
    n, c, h, w = shape
    block = int(node.attr("blocksize"))
    depth = c // (block * block)
    if node.attr("mode", "DCR") == "CRD":
        return (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)


def _depth_to_space(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    n, c, h, w = inputs[0].shape
    block = int(node.attr("blocksize"))
    view, order = _depth_to_space_view(node, inputs[0].shape)
    return [
        np.ascontiguousarray(inputs[0].reshape(view).transpose(order)).reshape(
            n, c // (block * block), h * block, w * block
        )
    ]


def _depth_to_space_lower(node: Node, ctx: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    return transpose_work(source, Ref.of(node.output), *_depth_to_space_view(node, source.shape), ctx)


def _space_to_depth_infer(ctx: InferContext) -> None:
    source, block = _feature_shape(ctx), _block(ctx)
    if source is None:
        ctx.set(0, ctx.dtype(0), (None,) * 4)
        return
    n, c, h, w = source
    ctx.set(0, ctx.dtype(0), (n, _times(c, block * block), _divided(ctx, h, block), _divided(ctx, w, block)))


def _space_to_depth_view(node: Node, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The six axes that SpaceToDepth sees in its input and their new order (CRD keeps channels outermost)."""
    n, c, h, w = shape
    block = int(node.attr("blocksize"))
    view = (n, c, h // block, block, w // block, block)
    return view, ((0, 1, 3, 5, 2, 4) if node.attr("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4))


def _space_to_depth(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    n, c, h, w = inputs[0].shape
    block = int(node.attr("blocksize"))
    view, order = _space_to_depth_view(node, inputs[0].shape)
    return [
        np.ascontiguousarray(inputs[0].reshape(view).transpose(order)).reshape(
            n, c * block * block, h // block, w // block
        )
    ]


def _space_to_depth_lower(node: Node, ctx: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    return transpose_work(source, Ref.of(node.output), *_space_to_depth_view(node, source.shape), ctx)


def _same(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), ctx.shape(0))


def _sequence_axes(node: Node) -> tuple[int, int]:
    batch, time = int(node.attr("batch_axis", 1)), int(node.attr("time_axis", 0))
    if {batch, time} != {0, 1}:
        raise GraphError(
            f"node {node.name!r} (ReverseSequence)",
            "needs batch_axis and time_axis to be 0 and 1",
            (batch, time),
        )
    return batch, time


def _reverse_infer(ctx: InferContext) -> None:
    batch, _ = _sequence_axes(ctx.node)
    need_rank(ctx, 0, 2)
    need_channels(ctx, (1,), axis=batch)
    _same(ctx)


def _reverse(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, lengths = inputs
    batch, time = _sequence_axes(node)
    if lengths.size and (lengths.min() < 0 or lengths.max() > data.shape[time]):
        raise GraphError(
            f"node {node.name!r} (ReverseSequence)",
            f"needs lengths from 0 to {data.shape[time]}",
            lengths.tolist(),
        )
    result = data.copy()
    source, target = np.moveaxis(data, (batch, time), (0, 1)), np.moveaxis(result, (batch, time), (0, 1))
    for number, length in enumerate(lengths):
        target[number, :length] = source[number, :length][::-1]
    return [result]


def _reverse_lower(node: Node, _ctx: LowerContext) -> Work:
    source, lengths, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    run = run_bytes(source.shape, 2, source.dtype.itemsize)
    copy = Copy(source, target, source.bytes, run, run)
    return MoveWork((copy,), repacking(run, source.dtype), SCALAR_CYCLES_PER_INDEX, (lengths,))


def _trilu(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, diagonal = (*inputs, None)[:2]
    k = 0 if diagonal is None else int(diagonal.item())
    rows, cols = data.shape[-2:]
    distance = np.arange(cols)[None, :] - np.arange(rows)[:, None]
    keep = distance >= k if node.attr("upper", 1) else distance <= k
    return [np.where(keep, data, data.dtype.type(0))]


def _trilu_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (1,))
    source = ctx.shape(0)
    if source is not None and len(source) < 2:
        raise ctx.fail("needs a tensor of rank 2 or more", list(source))
    _same(ctx)


def _trilu_type(node: Node) -> str:
    return "Triu" if node.attr("upper", 1) else "Tril"


def _trilu_lower(node: Node, _ctx: LowerContext) -> Work:
    """Rows pass through UB, the tail or head of each is overwritten with zeros."""
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    return MoveWork(
        (Copy(source, target, source.bytes, source.bytes, target.bytes),), (filling(source.dtype),)
    )


def _taps(node: Node, image: Sequence[int], block: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Strides, dilations, pads before, and window counts per axis of Col2Im."""
    count = len(image)
    strides = spatial_ints(node, "strides", count, 1, 1)
    dilations = spatial_ints(node, "dilations", count, 1, 1)
    pads = spatial_ints(node, "pads", count, 0, 0, 2 * count)
    windows = tuple(
        (image[axis] + pads[axis] + pads[axis + count] - dilations[axis] * (block[axis] - 1) - 1)
        // strides[axis]
        + 1
        for axis in range(count)
    )
    return strides, dilations, pads, windows


def _col2im_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1, 2))
    count = vector_length(ctx, 2)
    if count is not None:
        for name, numbers in (("strides", count), ("dilations", count), ("pads", 2 * count)):
            spatial_ints(ctx.node, name, count, 1, 0 if name == "pads" else 1, numbers)
    source, image, block = ctx.shape(0), known_ints(ctx, 1), known_ints(ctx, 2)
    if source is None or image is None or block is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    if len(image) != len(block) or len(source) != 3:
        raise ctx.fail(
            "needs columns of rank 3, and an image and a block of one rank", (list(source), image, block)
        )
    if min((*image, *block)) < 1:
        raise ctx.fail("needs positive sizes of image and block", (image, block))
    windows, taps = math.prod(_taps(ctx.node, image, block)[3]), math.prod(block)
    channels = _divided(ctx, source[1], taps)
    if isinstance(source[2], int) and source[2] != windows:
        raise ctx.fail(f"needs {windows} columns, one a window", source[2])
    ctx.set(0, ctx.dtype(0), (source[0], channels, *image))


def _col2im(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    columns = as_float32(inputs[0])
    image, block = [int(dim) for dim in inputs[1]], [int(dim) for dim in inputs[2]]
    strides, dilations, pads, windows = _taps(node, image, block)
    count, taps = len(image), math.prod(block)
    columns = columns.reshape(columns.shape[0], columns.shape[1] // taps, *block, *windows)
    padded = [image[axis] + pads[axis] + pads[axis + count] for axis in range(count)]
    result = np.zeros((*columns.shape[:2], *padded), columns.dtype)
    for tap in product(*map(range, block)):
        first = [tap[axis] * dilations[axis] for axis in range(count)]
        places = tuple(
            slice(first[axis], first[axis] + (windows[axis] - 1) * strides[axis] + 1, strides[axis])
            for axis in range(count)
        )
        chosen: tuple[Any, ...] = (slice(None), slice(None), *tap)
        result[(slice(None), slice(None), *places)] += columns[chosen]
    inside = tuple(slice(pads[axis], pads[axis] + image[axis]) for axis in range(count))
    return [finish(np.ascontiguousarray(result[:, :, *inside]), wanted[0])]


def _col2im_lower(node: Node, _ctx: LowerContext) -> Work:
    """Every column element is added to its place: one vadd an element of the columns, rows of windows at a
    time.
    """
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if math.prod(source.shape) == 0:
        return NoTask()
    cols = source.shape[-1]
    inside = DType.FLOAT32 if vector_dtype(source.dtype) is DType.FLOAT32 else DType.FLOAT16
    return VectorWork(
        math.prod(source.shape) // cols, cols, (Step("vadd", inside),), (Stream(source),), (Stream(target),)
    )


def _reverse_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    batch, time = _sequence_axes(node)
    return by_labels(node, {0: range(rank), 1: (batch,)}, {0: range(rank)}, {time: WHOLE})


def _col2im_links(node: Node) -> AxisMap:
    result = node.output.shape
    return (
        NOTHING_SAID
        if result is None
        else by_labels(node, {0: ("n", "column", "at")}, {0: ("n", *range(len(result) - 1))})
    )


_FACTS = movement(along_axes(lambda _node, rank: range(1, rank)), kept=(0,))

OPERATORS: tuple[OpDef, ...] = (
    OpDef("DepthToSpace", _depth_to_space_infer, _depth_to_space, _depth_to_space_lower, facts=_FACTS),
    OpDef("SpaceToDepth", _space_to_depth_infer, _space_to_depth, _space_to_depth_lower, facts=_FACTS),
    OpDef(
        "ReverseSequence",
        _reverse_infer,
        _reverse,
        _reverse_lower,
        most_inputs=2,
        facts=movement(_reverse_links, kept=(0,)),
    ),
    OpDef(
        "Trilu",
        _trilu_infer,
        _trilu,
        _trilu_lower,
        cann_of=_trilu_type,
        most_inputs=2,
        facts=Facts(
            along_axes(lambda _node, rank: (rank - 2, rank - 1)),
            Kind.ELEMENTWISE,
            Precision.GRAY,
            parameters=(1,),
        ),
    ),
    OpDef(
        "Col2Im",
        _col2im_infer,
        _col2im,
        _col2im_lower,
        cann="Col2im",
        most_inputs=3,
        facts=movement(_col2im_links, parameters=(1, 2)),
    ),
)
