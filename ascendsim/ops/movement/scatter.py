"""Writing by index: ScatterElements, ScatterND, TensorScatter, CANN's Scatter (in place), MaxUnpool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.movement.indexing import need_indices_within, wrapped_indices
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX, run_bytes
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.ops.shared.dims import need_rank, need_shape, wrapped_axis
from ascendsim.ops.shared.windows import spatial_ints
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, AxisMap, Label, by_labels, rank_of, shape_of
from ascendsim.opset.facts import OpPattern, movement
from ascendsim.opset.structure import along_axes, opaque
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, ScalarWork, SequenceWork, Work

Wanted = Sequence["np.dtype[Any]"]
_REDUCTIONS: dict[str, Callable[..., None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _reduction(node: Node) -> str:
    name = str(node.attr("reduction", "none"))
    if name != "none" and name not in _REDUCTIONS:
        raise GraphError(
            f"node {node.name!r} ({node.op_type})",
            f"needs a reduction out of none, {', '.join(_REDUCTIONS)}",
            repr(name),
        )
    return name


def _like_data(ctx: InferContext) -> None:
    _reduction(ctx.node)
    ctx.set(0, ctx.dtype(0), ctx.shape(0))


def _scatter_elements_infer(ctx: InferContext) -> None:
    source, indices = ctx.shape(0), ctx.shape(1)
    if source is not None:
        need_indices_within(ctx, source, indices)
    need_shape(ctx, 2, indices)
    _like_data(ctx)


def write_at(data: Array, positions: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy of `data` with `updates` stored (the last one of several wins) or combined at `positions`.

    16-bit floats are combined in float32 and rounded once.
    """
    if reduction == "none":
        result = data.copy()
        result[positions] = updates
        return result
    wide = as_float32(data)
    wide = wide.copy() if wide is data else wide
    with np.errstate(all="ignore"):
        _REDUCTIONS[reduction](wide, positions, as_float32(updates))
    return finish(wide, data.dtype)


def _scatter_elements(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, indices, updates = inputs
    axis = int(node.attr("axis", 0)) % data.ndim
    positions: list[Array] = list(np.indices(indices.shape, sparse=True))
    positions[axis] = wrapped_indices(node, indices, data.shape[axis])
    return [write_at(data, tuple(np.broadcast_arrays(*positions)), updates, _reduction(node))]


def _scatter_work(data: Ref, indices: Ref, updates: Ref, target: Ref, run: int) -> Work:
    """The data are copied, then every indexed piece of `run` bytes is written; pieces below 32 B go through
    the scalar unit.
    """
    if target.bytes == 0:
        return NoTask()
    copying = MoveWork((Copy(data, target, data.bytes, data.bytes, target.bytes),))
    if updates.bytes == 0:
        return copying
    if run < 32:
        elements = max(1, math.prod(updates.shape))
        return SequenceWork(
            (copying, ScalarWork(elements, SCALAR_CYCLES_PER_INDEX, (updates, indices), (target,)))
        )
    writing = Copy(updates, target, updates.bytes, run, run)
    return SequenceWork(
        (copying, MoveWork((writing,), scalar_per_burst=SCALAR_CYCLES_PER_INDEX, extra_inputs=(indices,)))
    )


def _scatter_elements_lower(node: Node, _ctx: LowerContext) -> Work:
    data, indices, updates = (Ref.of(node.required(index)) for index in range(3))
    return _scatter_work(data, indices, updates, Ref.of(node.output), data.dtype.itemsize)


def _scatter_nd(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, indices, updates = inputs
    depth = indices.shape[-1]
    if depth == 0:
        return [write_at(data, (np.array(...),), updates, _reduction(node))]
    positions = tuple(wrapped_indices(node, indices[..., part], data.shape[part]) for part in range(depth))
    return [write_at(data, positions, updates, _reduction(node))]


def _scatter_nd_infer(ctx: InferContext) -> None:
    for port in (0, 1):
        need_rank(ctx, port, 1)
    source, indices = ctx.shape(0), ctx.shape(1)
    depth = indices[-1] if indices else None
    if source is not None and isinstance(depth, int) and not 0 < depth <= len(source):
        raise ctx.fail(f"needs indices of 1 to {len(source)} parts", depth)
    if indices and source is not None and isinstance(depth, int):
        need_shape(ctx, 2, (*indices[:-1], *source[depth:]))
    _like_data(ctx)


def _scatter_nd_lower(node: Node, _ctx: LowerContext) -> Work:
    data, indices, updates = (Ref.of(node.required(index)) for index in range(3))
    run = run_bytes(data.shape, indices.shape[-1], data.dtype.itemsize)
    return _scatter_work(data, indices, updates, Ref.of(node.output), run)


def _cache_axis(node: Node, rank: int) -> int:
    axis = int(node.attr("axis", -2))
    if not -rank <= axis < rank or axis % rank == 0:
        raise GraphError(
            f"node {node.name!r} (TensorScatter)", "needs an axis other than the batch axis", axis
        )
    return axis % rank


def _tensor_scatter_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None:
        axis, update = _cache_axis(ctx.node, len(source)), ctx.shape(1)
        need_shape(ctx, 1, tuple(None if at == axis else dim for at, dim in enumerate(source)))
        most, given = source[axis], None if update is None else update[axis]
        if isinstance(most, int) and isinstance(given, int) and given > most:
            raise ctx.fail(f"needs at most {most} new entries", given)
        need_shape(ctx, 2, (source[0],))
    if ctx.node.attr("mode", "linear") not in ("linear", "circular"):
        raise ctx.fail("needs mode linear or circular", repr(ctx.node.attr("mode")))
    ctx.set(0, ctx.dtype(0), source)


def _tensor_scatter(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    cache, update, starts = (*inputs, None)[:3]
    axis, result = _cache_axis(node, cache.ndim), cache.copy()
    length, steps = cache.shape[axis], update.shape[axis]
    for batch in range(cache.shape[0]):
        rows = np.arange(steps) + (0 if starts is None else int(starts[batch]))
        if node.attr("mode", "linear") == "circular":
            rows %= length
        rows = wrapped_indices(node, rows, length)
        np.moveaxis(result[batch], axis - 1, 0)[rows] = np.moveaxis(update[batch], axis - 1, 0)
    return [result]


def _tensor_scatter_lower(node: Node, _ctx: LowerContext) -> Work:
    cache, update, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    starts = node.input(2)
    axis = _cache_axis(node, len(cache.shape))
    run = run_bytes(update.shape, axis, update.dtype.itemsize)
    copying = MoveWork((Copy(cache, target, cache.bytes, cache.bytes, target.bytes),))
    writing = MoveWork(
        (Copy(update, target, update.bytes, update.bytes, run),),
        extra_inputs=() if starts is None else (Ref.of(starts),),
    )
    return SequenceWork((copying, writing))


def _slots_infer(ctx: InferContext) -> None:
    source, fresh = ctx.shape(0), ctx.shape(2)
    if source is not None:
        axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), len(source))
        if axis == 0:
            raise ctx.fail("needs an axis other than that of the batch", axis)
        need_shape(ctx, 2, tuple(None if at == axis else dim for at, dim in enumerate(source)))
        most, given = source[axis], None if fresh is None else fresh[axis]
        if isinstance(most, int) and isinstance(given, int) and given > most:
            raise ctx.fail(f"needs at most {most} new entries", given)
        need_shape(ctx, 1, (source[0],))
    if str(ctx.node.attr("reduce", "update")) != "update":
        raise ctx.fail("needs reduce update", repr(ctx.node.attr("reduce")))
    ctx.set(0, ctx.dtype(0), source)


def _slots_axis(node: Node, rank: int) -> int:
    """The axis of the entries; that of the batch, which is the default, has been refused."""
    return int(node.attr("axis")) % rank


def _slots(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    cache, starts, fresh = inputs
    axis, result = _slots_axis(node, cache.ndim), cache.copy()
    for batch, start in enumerate(starts.reshape(-1).tolist()):
        rows = wrapped_indices(node, np.arange(fresh.shape[axis]) + start, cache.shape[axis])
        np.moveaxis(result[batch], axis - 1, 0)[rows] = np.moveaxis(fresh[batch], axis - 1, 0)
    return [result]


def _slots_lower(node: Node, _ctx: LowerContext) -> Work:
    """New entries alone; nothing else of the result moves, which is the cache."""
    starts, fresh, target = (Ref.of(tensor) for tensor in (*map(node.required, (1, 2)), node.output))
    if not fresh.bytes or not target.bytes:
        return NoTask()
    run = run_bytes(fresh.shape, _slots_axis(node, len(fresh.shape)), fresh.dtype.itemsize)
    copy = Copy(fresh, target, fresh.bytes, fresh.bytes, run)
    return MoveWork((copy,), scalar_per_burst=SCALAR_CYCLES_PER_INDEX, extra_inputs=(starts,))


def _max_unpool_shape(node: Node, source: Sequence[int]) -> tuple[int, ...]:
    """Spatial sizes that MaxUnpool infers from its attributes: (size - 1) * stride + kernel - pads."""
    kernel = node.attr("kernel_shape", ())
    count = len(kernel)
    strides = spatial_ints(node, "strides", count, 1, 1)
    pads = spatial_ints(node, "pads", count, 0, 0, 2 * count)
    spatial = [
        (source[2 + axis] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + count]
        for axis in range(count)
    ]
    return (*source[:2], *spatial)


def _max_unpool_infer(ctx: InferContext) -> None:
    source, wanted = ctx.shape(0), ctx.value(2)
    need_shape(ctx, 1, source)
    axes = len(ctx.node.attr("kernel_shape", ()))
    for name, count in (("kernel_shape", axes), ("strides", axes), ("pads", 2 * axes)):
        spatial_ints(ctx.node, name, axes, 1, 0 if name == "pads" else 1, count)
    if source is not None and len(source) != 2 + axes:
        raise ctx.fail(f"needs an input of rank {2 + axes}", list(source))
    if ctx.has(2):
        rank = None if source is None else len(source)
        need_shape(ctx, 2, (rank,))
        shape = (
            tuple(int(dim) for dim in wanted)
            if wanted is not None
            else (None,) * rank
            if rank is not None
            else None
        )
        ctx.set(0, ctx.dtype(0), shape)
    elif source is not None and all(isinstance(dim, int) for dim in source):
        ctx.set(
            0, ctx.dtype(0), _max_unpool_shape(ctx.node, [int(dim) for dim in source if isinstance(dim, int)])
        )
    else:
        ctx.set(0, ctx.dtype(0), None if source is None else (*source[:2], *(None,) * (len(source) - 2)))


def _max_unpool(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    """Values go to the flat positions that MaxPool gave, in the shape without `output_shape`; that then grows
    at its ends.
    """
    data, indices, wanted = (*inputs, None)[:3]
    inferred = _max_unpool_shape(node, data.shape)
    flat = np.zeros(math.prod(inferred), data.dtype)
    flat[wrapped_indices(node, indices.reshape(-1), flat.size)] = data.reshape(-1)
    result = flat.reshape(inferred)
    if wanted is None:
        return [result]
    grown = np.zeros([int(dim) for dim in wanted], data.dtype)
    grown[tuple(slice(0, size) for size in inferred)] = result
    return [grown]


def _max_unpool_lower(node: Node, _ctx: LowerContext) -> Work:
    data, indices, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    return ScalarWork(max(1, math.prod(data.shape)), SCALAR_CYCLES_PER_INDEX, (data, indices), (target,))


def _element_links(node: Node) -> AxisMap:
    """Updates land in their own slices along all axes but one, along which indices say where."""
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    labels[int(node.attr("axis", 0)) % rank] = "picked"
    return by_labels(node, {0: labels, 1: labels, 2: labels}, {0: labels}, {"picked": CHOSEN})


def _tensor_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    labels[int(node.attr("axis", -2)) % rank] = "picked"
    return by_labels(node, {0: labels, 1: labels, 2: (0,)}, {0: labels}, {"picked": CHOSEN})


def _indexed_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    indices = shape_of(node, 1)
    return tuple(range(min(rank, indices[-1]))) if indices and isinstance(indices[-1], int) else None


def _pattern(node: Node) -> OpPattern:
    return OpPattern.SEGMENT if _reduction(node) == "add" else OpPattern.OPAQUE


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ScatterElements",
        _scatter_elements_infer,
        _scatter_elements,
        _scatter_elements_lower,
        most_inputs=3,
        facts=movement(_element_links, pattern=_pattern, indices=(1,)),
    ),
    OpDef(
        "ScatterND",
        _scatter_nd_infer,
        _scatter_nd,
        _scatter_nd_lower,
        cann="ScatterNdUpdate",
        most_inputs=3,
        facts=movement(along_axes(_indexed_axes, chosen=True), pattern=_pattern),
    ),
    OpDef(
        "TensorScatter",
        _tensor_scatter_infer,
        _tensor_scatter,
        _tensor_scatter_lower,
        most_inputs=3,
        facts=movement(_tensor_links, kept=(0, 1)),
    ),
    # CANN's kernel of InplaceScatterUpdate: a cache of keys or values with new ones from an index on
    OpDef(
        "Scatter",
        _slots_infer,
        _slots,
        _slots_lower,
        domain="ascend",
        most_inputs=3,
        facts=movement(opaque(), parameters=(1,), kept=(0, 2), indices=(1,)),
    ),
    OpDef(
        "MaxUnpool",
        _max_unpool_infer,
        _max_unpool,
        _max_unpool_lower,
        most_inputs=3,
        facts=movement(opaque(), parameters=(2,), kept=(0,)),
    ),
)
