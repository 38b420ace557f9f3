"""Sort (domain "ascend", CANN's prototype): all elements of an axis in order, with their indices.

    Sort(x) -> y1, y2          along `axis`, rising, or falling with `descending`; y2 is int32

Equal values keep their order, NaN counts as the largest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, ceil_div
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.reduce.sorting import descending_order, sorting_steps
from ascendsim.ops.shared.bursts import transpose_work, turned_copy
from ascendsim.ops.shared.common import as_float32, on_ai_cpu
from ascendsim.ops.shared.dims import wrapped_axis
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along
from ascendsim.opset.work import (
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    workspace_of,
)

# Elements that are sorted in UB at once: values, indices and pairs of both, the latter twice, since a merge
# has another place for its result, in three quarters of 192 KiB
SORTED_AT_ONCE = 4096
_PAIR_BYTES = 8  # a value in float32 and its index
_LISTS = 4  # that one instruction merges


def _infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None:
        wrapped_axis(ctx, int(ctx.node.attr("axis", -1)), len(source))
    ctx.set(0, ctx.dtype(0), source)
    ctx.set(1, DType.INT32, source)


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    data = inputs[0]
    axis = int(node.attr("axis", -1)) % data.ndim
    wide = as_float32(data)
    order = (
        descending_order(wide, axis)
        if node.attr("descending", 0)
        else np.argsort(wide, axis=axis, kind="stable")
    )
    return [np.take_along_axis(data, order, axis), order.astype(np.int32)]


@dataclass(frozen=True, slots=True)
class Sorting:
    """How rows are sorted.

    Attributes:
        parts: One after the other.
        room: Bytes of scratch memory.
    """

    parts: tuple[VectorWork, ...]
    room: int


def sorted_rows(
    rows: int, length: int, source: Ref, targets: Sequence[Ref], context: LowerContext
) -> Sorting | None:
    """Rows sorted with their indices; None where the chip has no instructions for it.

    Rows that do not fit into UB are sorted in pieces, by all cores, whose pairs of value and index meet in
    global memory: of each four lists one core makes one, until there is one a row. The chip sorts from the
    largest value down; signs are changed for the other way, which costs no more.

    Args:
        rows, length: Of what is sorted.
        source: Values.
        targets: What of values and indices is wanted.
        context: The chip.
    """
    inside = DType.FLOAT32 if context.supports("vbitsort32", DType.FLOAT32) else DType.FLOAT16
    pieces = ceil_div(length, SORTED_AT_ONCE)
    cols = ceil_div(length, pieces)
    ordering = sorting_steps(context, inside, cols, cols)
    if ordering is None or source.dtype.itemsize > 4:
        return None
    first = (
        *((Step("vconv", inside),) if inside is not source.dtype else ()),
        Step("vadds", DType.INT32, run=cols),
        *ordering,
    )
    wanted = tuple(Stream(ref) for ref in targets)
    if pieces == 1:
        return Sorting((VectorWork(rows, length, first, (Stream(source),), wanted, reduces="cols"),), 0)
    merge = next(step.op for step in reversed(ordering) if step.op.startswith("vmrgsort"))
    size = rows * length * _PAIR_BYTES
    pairs = [
        Ref(workspace_of(f"{source.region}/pairs{n}"), (rows, length), DType.FLOAT32, Format.ND, size)
        for n in range(2)
    ]
    parts = [VectorWork(rows * pieces, cols, first, (Stream(source),), (Stream(pairs[0]),), reduces="cols")]
    while pieces > 1:
        pieces = ceil_div(pieces, _LISTS)
        cols = ceil_div(length, pieces)
        joined = (Step(merge, inside, count=2),)  # a pair has two elements
        streams = (Stream(pairs[0]),), (Stream(pairs[1]),)
        parts.append(VectorWork(rows * pieces, cols, joined, *streams, reduces="cols"))
        pairs.reverse()
    apart = tuple(Step("vreducev2", inside) for _ in targets)
    parts.append(VectorWork(1, rows * length, apart, (Stream(pairs[0]),), wanted))
    return Sorting(tuple(parts), 2 * size)


def _lower(node: Node, context: LowerContext) -> Work:
    """Rows along another axis than the last are turned before and after."""
    source, targets = Ref.of(node.required(0)), [Ref.of(tensor) for tensor in node.outputs]
    if source.bytes == 0:
        return NoTask()
    rank = len(source.shape)
    axis = int(node.attr("axis", -1)) % rank
    length = source.shape[axis]
    rows = node.required(0).elements // length
    if axis == rank - 1:
        sorting = sorted_rows(rows, length, source, targets, context)
        return on_ai_cpu(node, 8.0) if sorting is None else _sequence(sorting)
    order = (*range(axis), *range(axis + 1, rank), axis)
    back = tuple([order.index(place) for place in range(rank)])
    first, results = turned_copy(source), [turned_copy(ref) for ref in targets]
    sorting = sorted_rows(rows, length, first, results, context)
    if sorting is None:
        return on_ai_cpu(node, 8.0)
    turned = [source.shape[at] for at in order]
    parts: tuple[MoveWork | VectorWork, ...] = (
        transpose_work(source, first, source.shape, order, context),
        *sorting.parts,
        *(
            transpose_work(result, target, turned, back, context)
            for result, target in zip(results, targets, strict=True)
        ),
    )
    room = sorting.room + source.bytes + sum(ref.bytes for ref in targets)
    return SequenceWork(parts, workspace_bytes=room)


def _sequence(sorting: Sorting) -> Work:
    if len(sorting.parts) == 1:
        return sorting.parts[0]
    return SequenceWork(sorting.parts, workspace_bytes=sorting.room)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Sort",
        _infer,
        _compute,
        _lower,
        domain="ascend",
        facts=Facts(along(), Kind.REDUCTION, Precision.GRAY),
    ),
)
