"""Reading by index: Gather, GatherElements, GatherND, Compress, ArrayFeatureExtractor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.bursts import (
    SCALAR_CYCLES_PER_ELEMENT,
    merged_permutation,
    row_gather_work,
    run_bytes,
    transpose_work,
    turned_copy,
    vector_dtype,
)
from ascendsim.ops.shared.common import on_ai_cpu
from ascendsim.ops.shared.dims import unknown_shape, wrapped_axis
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, AxisMap, Label, Labels, by_labels, rank_of, shape_of
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import along_axes, gathering, opaque
from ascendsim.opset.work import (
    LowerContext,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
)

Wanted = Sequence["np.dtype[Any]"]


def wrapped_indices(node: Node, indices: Array, size: int) -> Array:
    """Indices in [-size, size) as int64 counted from the front.

    Raises:
        GraphError: If one lies outside.
    """
    indices = indices.astype(np.int64)
    if indices.size and (indices.min() < -size or indices.max() >= size):
        worst = int(indices.min() if indices.min() < -size else indices.max())
        raise GraphError(f"node {node.name!r} ({node.op_type})", f"needs indices in [{-size}, {size})", worst)
    return np.where(indices < 0, indices + size, indices)


def _gather_infer(ctx: InferContext) -> None:
    source, indices = ctx.shape(0), ctx.shape(1)
    if source is None or indices is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), len(source))
    ctx.set(0, ctx.dtype(0), source[:axis] + indices + source[axis + 1 :])


def _gather(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, indices = inputs
    axis = int(node.attr("axis", 0))
    return [np.asarray(data.take(wrapped_indices(node, indices, data.shape[axis]), axis=axis))]


def _gather_lower(node: Node, ctx: LowerContext) -> Work:
    """Rows of an embedding table: one burst and one address computation a row."""
    source, indices, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    axis = int(node.attr("axis", 0)) % len(source.shape)
    run = run_bytes(source.shape, axis + 1, source.dtype.itemsize)
    work = row_gather_work(source, target, target.bytes // run, run, (indices,), ctx)
    either = isinstance(work, ScalarWork) and not ctx.register_moves
    return WorkChoice((work, on_ai_cpu(node))) if either else work


def need_indices_within(ctx: InferContext, source: Shape, indices: Shape | None) -> None:
    """Refuses indices of single elements that are not of the data's rank, or longer than the data along
    another axis than that which they count.
    """
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), len(source))
    if indices is None:
        return
    if len(indices) != len(source):
        raise ctx.fail("needs indices of the rank of its data", f"{len(indices)} and {len(source)}")
    for at, (size, count) in enumerate(zip(source, indices, strict=True)):
        if at != axis and isinstance(size, int) and isinstance(count, int) and count > size:
            rule = f"needs indices of at most {size} places along axis {at}, as its data have"
            raise ctx.fail(rule, f"shape {list(indices)}")


def _gather_elements_infer(ctx: InferContext) -> None:
    source, indices = ctx.shape(0), ctx.shape(1)
    if source is not None:
        need_indices_within(ctx, source, indices)
    ctx.set(0, ctx.dtype(0), indices if indices is not None or source is None else unknown_shape(len(source)))


def _gather_elements(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, indices = inputs
    axis = int(node.attr("axis", 0)) % data.ndim
    positions: list[Array] = list(np.indices(indices.shape, sparse=True))
    positions[axis] = wrapped_indices(node, indices, data.shape[axis])
    return [data[tuple(positions)]]


def _gather_elements_lower(node: Node, ctx: LowerContext) -> Work:
    """Rows in UB. CANN has two kernels, as profiles of 910B2 show: along the last axis, and for types that
    vgather does not take, the scalar unit picks element by element; along others GatherElementsV2 turns data
    and indices first, gathers by the vector unit, and turns the result back.
    """
    data, indices, output = node.required(0), node.required(1), node.output
    source, target = Ref.of(data), Ref.of(output)
    if target.bytes == 0:
        return NoTask()
    rank = len(source.shape)
    axis = int(node.attr("axis", 0)) % rank
    order = (*range(axis), *range(axis + 1, rank), axis)
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    picking = vector_dtype(source.dtype)
    moves = merged_permutation(source.shape, order)[1] != [0]
    chosen: ScalarWork | VectorWork
    elements = output.elements
    first, index = (turned_copy(ref) if moves else ref for ref in (source, Ref.of(indices)))
    result = turned_copy(target) if moves else target
    if moves and source.dtype.itemsize in (2, 4) and ctx.supports("vgather", picking):
        narrow = () if index.dtype is DType.INT32 else (Step("vconv", DType.INT32, count=2),)
        steps = (*narrow, Step("vmuls", DType.INT32), Step("vgather", picking))  # index to byte offset
        length = output.static_shape[axis]
        chosen = VectorWork(
            elements // length, length, steps, (Stream(first), Stream(index)), (Stream(result),)
        )
    else:
        chosen = ScalarWork(elements, SCALAR_CYCLES_PER_ELEMENT, (first, index), (result,))
    if not moves:
        return WorkChoice((chosen, on_ai_cpu(node)))
    parts = (
        transpose_work(source, first, source.shape, order, ctx),
        transpose_work(Ref.of(indices), index, indices.static_shape, order, ctx),
        chosen,
        transpose_work(result, target, [output.static_shape[at] for at in order], back, ctx),
    )
    work = SequenceWork(parts, workspace_bytes=source.bytes + index.bytes + target.bytes)
    return WorkChoice((work, on_ai_cpu(node)))


def _pick_lower(node: Node, ctx: LowerContext) -> Work:
    source, indices, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    itemsize = source.dtype.itemsize
    return row_gather_work(source, target, target.bytes // itemsize, itemsize, (indices,), ctx)


def _gather_nd_infer(ctx: InferContext) -> None:
    source, indices, batch = ctx.shape(0), ctx.shape(1), int(ctx.node.attr("batch_dims", 0))
    for port, shape in ((0, source), (1, indices)):
        if shape == ():
            raise ctx.fail(f"needs input {port} of rank 1 or more", "a scalar")
    depth = indices[-1] if indices else None
    if source is None or indices is None or not isinstance(depth, int):
        ctx.set(0, ctx.dtype(0), None)
        return
    if not 0 <= batch < len(indices) or batch + depth > len(source):
        raise ctx.fail(f"needs indices of at most {len(source) - batch} parts", depth)
    ctx.set(0, ctx.dtype(0), indices[:-1] + source[batch + depth :])


def gather_nd(node: Node, data: Array, indices: Array, batch: int) -> Array:
    """Slices of `data` at index tuples; the first `batch` axes go in step."""
    depth, batches = indices.shape[-1], math.prod(data.shape[:batch])
    tuples = indices.reshape(batches, math.prod(indices.shape[batch:-1]), depth)
    parts = [wrapped_indices(node, tuples[..., part], data.shape[batch + part]) for part in range(depth)]
    rows = data.reshape(batches, *data.shape[batch:])
    picked = (
        rows[(np.arange(batches)[:, None], *parts)]
        if depth
        else np.repeat(rows[:, None], tuples.shape[1], axis=1)
    )
    return np.ascontiguousarray(picked.reshape(indices.shape[:-1] + data.shape[batch + depth :]))


def _gather_nd(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [gather_nd(node, inputs[0], inputs[1], int(node.attr("batch_dims", 0)))]


def _gather_nd_lower(node: Node, ctx: LowerContext) -> Work:
    source, indices, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    run = run_bytes(source.shape, int(node.attr("batch_dims", 0)) + indices.shape[-1], source.dtype.itemsize)
    return row_gather_work(source, target, target.bytes // run, run, (indices,), ctx)


def _compress_infer(ctx: InferContext) -> None:
    source, condition, axis = ctx.shape(0), ctx.value(1), ctx.node.attr("axis")
    count = None if condition is None else int(np.count_nonzero(condition))
    if axis is None:
        ctx.set(0, ctx.dtype(0), (count,))
        return
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    at = wrapped_axis(ctx, int(axis), len(source))
    ctx.set(0, ctx.dtype(0), (*source[:at], count, *source[at + 1 :]))


def _compress(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    axis = node.attr("axis")
    data = inputs[0].reshape(-1) if axis is None else inputs[0]
    along = 0 if axis is None else int(axis)
    chosen = np.flatnonzero(inputs[1])
    return [data.take(wrapped_indices(node, chosen, data.shape[along]), axis=along)]


def _on_ai_cpu(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node)


def _features_infer(ctx: InferContext) -> None:
    source, indices = ctx.shape(0), ctx.shape(1)
    count = indices[-1] if indices else None
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
    else:
        ctx.set(0, ctx.dtype(0), (*(source[:-1] if len(source) > 1 else (1,)), count))


def _features(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data = inputs[0] if inputs[0].ndim > 1 else inputs[0].reshape(1, -1)
    return [data.take(wrapped_indices(node, inputs[1].reshape(-1), data.shape[-1]), axis=-1)]


def _element_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    labels[int(node.attr("axis", 0)) % rank] = "picked"
    return by_labels(node, {0: labels, 1: range(rank)}, {0: range(rank)}, {"picked": CHOSEN})


def _nd_links(node: Node) -> AxisMap:
    """The first axes go together, indices pick along those behind, whole slices are taken of the rest."""
    rank, indices = rank_of(node, 0), shape_of(node, 1)
    if rank is None or not indices or not isinstance(indices[-1], int):
        return NOTHING_SAID
    shared, depth = int(node.attr("batch_dims", 0)), indices[-1]
    common = [("shared", axis) for axis in range(shared)]
    picks = [("pick", axis) for axis in range(len(indices) - 1 - shared)]
    given = [("along", axis) for axis in range(depth)]
    rest = [("rest", axis) for axis in range(rank - shared - depth)]
    inputs: dict[int, Labels] = {0: [*common, *given, *rest], 1: [*common, *picks, "parts"]}
    return by_labels(node, inputs, {0: [*common, *picks, *rest]}, dict.fromkeys(given, CHOSEN))


def _compress_links(node: Node) -> AxisMap:
    axis = node.attr("axis")
    return (
        NOTHING_SAID
        if axis is None
        else along_axes(lambda node, rank: (int(axis) % rank,), chosen=True)(node)
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Gather",
        _gather_infer,
        _gather,
        _gather_lower,
        cann="GatherV2",
        most_inputs=2,
        facts=movement(gathering(lambda node: int(node.attr("axis", 0))), kept=(0,), indices=(1,)),
    ),
    OpDef(
        "GatherElements",
        _gather_elements_infer,
        _gather_elements,
        _gather_elements_lower,
        most_inputs=2,
        facts=movement(_element_links, kept=(0,), indices=(1,)),
    ),
    OpDef(
        "GatherND",
        _gather_nd_infer,
        _gather_nd,
        _gather_nd_lower,
        cann="GatherNd",
        most_inputs=2,
        facts=movement(_nd_links, kept=(0,)),
    ),
    OpDef(
        "Compress",
        _compress_infer,
        _compress,
        _on_ai_cpu,
        most_inputs=2,
        facts=movement(_compress_links, kept=(0,)),
    ),
    OpDef(
        "ArrayFeatureExtractor",
        _features_infer,
        _features,
        _pick_lower,
        domain="ai.onnx.ml",
        most_inputs=2,
        facts=movement(opaque(), kept=(0,)),
    ),
)
