"""Gradients of reading by index: sums of rows that go to one place (domain "ascend", CANN's prototypes).

    EmbeddingDenseGrad(grad, indices) -> y                  y[i] = sum of the rows of grad with index i
    UnsortedSegmentSum(x, segment_ids, num_segments) -> y   the same; negative ids are dropped
    InplaceIndexAdd(var, indices, updates, alpha) -> var    along the axis `axis`

Sums of 16-bit floats are float32, rounded once. The chip clears the result and adds row by row with the
atomic addition of its DMA.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import fill_work, run_bytes, scattering
from ascendsim.ops.shared.common import on_ai_cpu, runs_on_ai_core, with_numpy
from ascendsim.ops.shared.dims import known_ints, may_equal, need_rank, need_shape, wrapped_axis
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    SequenceWork,
    VectorWork,
    Work,
)

_INDICES = (DType.INT32, DType.INT64)


def _check_indices(context: InferContext, port: int) -> None:
    if context.dtype(port) not in _INDICES:
        raise context.fail("needs indices of int32 or int64", context.dtype(port).value)


def sums_of_rows(rows: Array, places: Array, count: int) -> Array:
    """Rows added up by the place that each goes to, 0 to `count` - 1; in order, so that sums are
    reproducible.
    """
    result = np.zeros((count, *rows.shape[1:]), rows.dtype)
    if places.size and rows.size:
        order = np.argsort(places, kind="stable")
        found, starts = np.unique(places[order], return_index=True)
        result[found] = np.add.reduceat(rows[order], starts, axis=0)
    return result


def _in_range(node: Node, indices: Array, size: int) -> Array:
    indices = indices.astype(np.int64)
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise GraphError(f"node {node.name!r} ({node.op_type})", f"needs indices in [0, {size})", worst)
    return indices


def _cleared_sum(node: Node, run: int, context: LowerContext) -> Work:
    updates, indices, target = Ref.of(node.required(0)), Ref.of(node.required(1)), Ref.of(node.output)
    clear = fill_work(target)
    if not isinstance(clear, VectorWork) or not updates.bytes:
        return clear
    if not runs_on_ai_core(node, range(1, 3)):
        return on_ai_cpu(node)
    adding = scattering(updates, target, run, (indices,), singly=context.register_moves)
    return SequenceWork((clear, adding))


# ------------------------------------------------------------------------------------------------------------


def _weights(node: Node) -> int:
    count = node.attr("num_weights")
    if not isinstance(count, int) or count < 0:
        rule = "needs the attribute num_weights, a number that is not negative"
        raise GraphError(f"node {node.name!r} (EmbeddingDenseGrad)", rule, count)
    return count


def _embedding_infer(context: InferContext) -> None:
    _check_indices(context, 1)
    need_rank(context, 0, 1)
    grad, indices = context.shape(0), context.shape(1)
    if grad is not None and indices is not None and not may_equal(grad[:-1], indices):
        raise context.fail(f"needs indices of shape {grad[:-1]}", indices)
    context.set(0, context.dtype(0), (_weights(context.node), grad[-1] if grad else None))


def _embedding(node: Node, grad: Array, indices: Array) -> Array:
    count = _weights(node)
    rows, places = grad.reshape(indices.size, grad.shape[-1]), indices.reshape(-1).astype(np.int64)
    keep = places != int(node.attr("padding_idx", -1))
    rows, places = rows[keep], _in_range(node, places[keep], count)
    if node.attr("scale_grad_by_freq", 0):
        rows = rows / np.bincount(places, minlength=count)[places, None].astype(rows.dtype)
    return sums_of_rows(rows, places, count)


def _embedding_lower(node: Node, context: LowerContext) -> Work:
    row = node.required(0).static_shape[-1] * node.required(0).element_type.itemsize
    return _cleared_sum(node, row, context)


def _embedding_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = [*(("row", axis) for axis in range(rank - 1)), "column"]
    return by_labels(node, {0: labels, 1: labels[:-1]}, {0: ("word", "column")})


# ------------------------------------------------------------------------------------------------------------


def _segment_infer(context: InferContext) -> None:
    _check_indices(context, 1)
    data, ids, count = context.shape(0), context.shape(1), known_ints(context, 2)
    if count is not None and (len(count) != 1 or count[0] < 0):
        raise context.fail("needs one number of segments that is not negative", count)
    if data is None or ids is None:
        context.set(0, context.dtype(0), None)
        return
    if not may_equal(data[: len(ids)], ids):
        raise context.fail(f"needs ids of a shape that {data} begins with", ids)
    size: Dim = None if count is None else count[0]
    context.set(0, context.dtype(0), (size, *data[len(ids) :]))


def _segment_sum(node: Node, data: Array, ids: Array, count: Array) -> Array:
    size = int(np.asarray(count).item())
    rows, places = data.reshape(ids.size, *data.shape[ids.ndim :]), ids.reshape(-1)
    keep = places >= 0
    return sums_of_rows(rows[keep], _in_range(node, places[keep], size), size)


def _segment_lower(node: Node, context: LowerContext) -> Work:
    data = node.required(0)
    depth = len(node.required(1).static_shape)
    return _cleared_sum(node, run_bytes(data.static_shape, depth, data.element_type.itemsize), context)


def _segment_links(node: Node) -> AxisMap:
    rank, depth = rank_of(node, 0), rank_of(node, 1)
    if rank is None or depth is None:
        return NOTHING_SAID
    labels: list[Label] = [*(("row", axis) for axis in range(depth)), *range(depth, rank)]
    return by_labels(node, {0: labels, 1: labels[:depth]}, {0: ("segment", *range(depth, rank))})


# ------------------------------------------------------------------------------------------------------------


def _axis_of(node: Node) -> int:
    axis = node.attr("axis")
    if not isinstance(axis, int):
        raise GraphError(f"node {node.name!r} (InplaceIndexAdd)", "needs the attribute axis", axis)
    return axis


def _index_add_infer(context: InferContext) -> None:
    _check_indices(context, 1)
    data, indices = context.shape(0), context.shape(1)
    if indices is not None and len(indices) != 1:
        raise context.fail("needs a list of indices", indices)
    axis = _axis_of(context.node)
    if data is not None:
        at = wrapped_axis(context, axis, len(data))
        count: Dim = None if indices is None else indices[0]
        need_shape(context, 2, (*data[:at], count, *data[at + 1 :]))
    if context.has(3) and not any(may_equal(context.shape(3), one) for one in ((), (1,))):
        raise context.fail("needs one factor", context.shape(3))
    context.set(0, context.dtype(0), data)


def _index_add(node: Node, data: Array, indices: Array, updates: Array, alpha: Array | None = None) -> Array:
    axis = _axis_of(node) % data.ndim
    if alpha is not None:
        updates = updates * alpha.reshape(()).astype(updates.dtype)
    rows = np.moveaxis(updates, axis, 0)
    sums = sums_of_rows(rows, _in_range(node, indices, data.shape[axis]), data.shape[axis])
    return np.asarray(data + np.moveaxis(sums, 0, axis))


def _index_add_lower(node: Node, _context: LowerContext) -> Work:
    """A copy of the data, and the rows added over it."""
    data, indices, updates = (Ref.of(node.required(port)) for port in range(3))
    target = Ref.of(node.output)
    if not target.bytes:
        return NoTask()
    if not runs_on_ai_core(node, (1,)):
        return on_ai_cpu(node)
    copying = MoveWork((Copy(data, target, data.bytes, data.bytes, target.bytes),))
    if not updates.bytes:
        return copying
    alpha = node.input(3)
    numbers = () if alpha is None else (Ref.of(alpha),)
    run = run_bytes(data.shape, _axis_of(node) % len(data.shape) + 1, data.dtype.itemsize)
    return SequenceWork((copying, scattering(updates, target, run, (indices, *numbers))))


def _index_add_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    own = by_labels(node, {0: labels}, {0: labels})
    axis = _axis_of(node) % rank
    rows = by_labels(node, {2: labels}, {0: labels}, {axis: CHOSEN})
    return AxisMap({**own.links, **rows.links})


_SUMS = Facts(_embedding_links, Kind.REDUCTION, Precision.BLACK, OpPattern.OPAQUE)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "EmbeddingDenseGrad",
        _embedding_infer,
        with_numpy(_embedding),
        _embedding_lower,
        domain="ascend",
        most_inputs=2,
        facts=_SUMS,
    ),
    OpDef(
        "UnsortedSegmentSum",
        _segment_infer,
        with_numpy(_segment_sum),
        _segment_lower,
        domain="ascend",
        most_inputs=3,
        facts=replace(_SUMS, axes=_segment_links, pattern=OpPattern.SEGMENT, parameters=(2,)),
    ),
    OpDef(
        "InplaceIndexAdd",
        _index_add_infer,
        with_numpy(_index_add),
        _index_add_lower,
        domain="ascend",
        most_inputs=4,
        facts=replace(_SUMS, axes=_index_add_links),
    ),
)
