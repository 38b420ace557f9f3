"""Ordering and searching: TopK, ArgMax, ArgMin, NonZero, Unique.

Ties follow the ONNX rules: TopK prefers the lower index, ArgMax and ArgMin the first or (select_last_index)
the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import REPEAT_BYTES
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import transpose_work, turned_copy
from ascendsim.ops.shared.common import as_float32, on_ai_cpu
from ascendsim.ops.shared.dims import known_ints, need_numbers, unknown_shape, wrapped_axis
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.definition import Compute, Lower
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along, opaque, reduction
from ascendsim.opset.work import (
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    Search,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]
SORT_RUN = 32  # elements that one sort instruction orders; merges go four lists at a time


def _topk_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (1,))
    source, count = ctx.shape(0), known_ints(ctx, 1)
    if source is None:
        shape = None
    else:
        axis = wrapped_axis(ctx, int(ctx.node.attr("axis", -1)), len(source))
        if count is not None and len(count) != 1:
            raise ctx.fail("needs one number K", count)
        size, kept = source[axis], None if count is None else count[0]
        if kept is not None and (kept < 0 or (isinstance(size, int) and kept > size)):
            raise ctx.fail(f"needs K between 0 and {size}", kept)
        shape = (*source[:axis], kept, *source[axis + 1 :])
    ctx.set(0, ctx.dtype(0), shape)
    ctx.set(1, DType.INT64, shape)


def descending_order(data: Array, axis: int) -> Array:
    """Indices that sort along an axis from the largest value down, equal values by rising index, NaN
    first.
    """
    flipped = np.flip(data, axis)
    # reversing twice keeps ties in index order
    order = np.flip(np.argsort(flipped, axis=axis, kind="stable"), axis)
    return np.asarray(data.shape[axis] - 1 - order)


def _topk(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, count = inputs[0], int(inputs[1].item())
    axis = int(node.attr("axis", -1)) % data.ndim
    if not 0 <= count <= data.shape[axis]:
        raise GraphError(f"node {node.name!r} (TopK)", f"needs K between 0 and {data.shape[axis]}", count)
    comparable = as_float32(data)
    order = (
        descending_order(comparable, axis)
        if node.attr("largest", 1)
        else np.argsort(comparable, axis=axis, kind="stable")
    )
    indices = np.ascontiguousarray(order.take(np.arange(count), axis=axis)).astype(np.int64)
    return [np.take_along_axis(data, indices, axis), indices]


def _rows_along(shape: Sequence[int], axis: int) -> tuple[int, int]:
    return math.prod(shape) // max(1, shape[axis]), shape[axis]


def merged_share(length: int, kept: int) -> float:
    """How often an element is merged, on average: of every four lists only `kept` elements go on.

    >>> merged_share(32, 32), merged_share(128, 128), merged_share(512, 32)
    (0.0, 1.0, 1.25)
    """
    lists, size, merged = -(-length // SORT_RUN), SORT_RUN, 0
    while lists > 1:
        merged += lists * size
        lists, size = -(-lists // 4), min(4 * size, -(-kept // SORT_RUN) * SORT_RUN)
    return merged / max(1, length)


def sorting_steps(ctx: LowerContext, inside: DType, length: int, kept: int) -> tuple[Step, ...] | None:
    """Instructions that sort rows of values and keep the best, a row by instructions of its own; None where
    the chip has no sorting instructions for the type.
    """
    sort = next((op for op in ("vbitsort32", "vbitsort") if ctx.supports(op, inside)), None)
    merge = next((op for op in ("vmrgsort4v2", "vmrgsort4") if ctx.supports(op, inside)), None)
    if sort is None or merge is None:
        return None
    merges = math.ceil(2 * merged_share(length, kept))
    ordered = Step(sort, inside, run=length)
    return (ordered, Step(merge, inside, count=merges, run=length)) if merges else (ordered,)


def _topk_lower(node: Node, ctx: LowerContext) -> Work:
    """Sort runs of 32 with their indices, then merge four sorted lists at a time; on the AI CPU without these
    instructions.

    Values travel with their index as pairs (two elements each), as vmrgsort4 takes them.
    """
    source = Ref.of(node.required(0))
    if math.prod(source.shape) == 0:
        return NoTask()
    axis = int(node.attr("axis", -1)) % len(source.shape)
    rows, length = _rows_along(source.shape, axis)
    inside = DType.FLOAT32 if source.dtype is DType.BFLOAT16 else source.dtype
    ordering = sorting_steps(ctx, inside, length, node.outputs[0].static_shape[axis])
    if ordering is None:
        # introsort's comparisons, a quarter of an operation each: 14 ms for 2048 x 2048, 172 ms for
        # 8192 x 8192 integers on 910B2
        return on_ai_cpu(node, max(1.0, math.log2(max(2, length)) / 2))
    wide = () if inside is source.dtype else (Step("vconv", inside),)
    steps = (*wide, Step("vadds", DType.INT32, run=length), *ordering)
    targets = [Ref.of(tensor) for tensor in node.outputs]
    rank = len(source.shape)
    if axis == rank - 1:
        return _sorted_rows(rows, length, steps, source, targets)
    order = (*range(axis), *range(axis + 1, rank), axis)
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    first, results = turned_copy(source), [turned_copy(ref) for ref in targets]
    turned = [targets[0].shape[at] for at in order]
    parts: tuple[MoveWork | VectorWork, ...] = (
        transpose_work(source, first, source.shape, order, ctx),
        _sorted_rows(rows, length, steps, first, results),
        *(
            transpose_work(result, target, turned, back, ctx)
            for result, target in zip(results, targets, strict=True)
        ),
    )
    return SequenceWork(parts, workspace_bytes=source.bytes + sum(ref.bytes for ref in targets))


def _sorted_rows(
    rows: int, length: int, steps: tuple[Step, ...], source: Ref, targets: Sequence[Ref]
) -> VectorWork:
    outputs = tuple(Stream(ref, "row") for ref in targets)
    return VectorWork(rows, length, steps, (Stream(source),), outputs, reduces="cols")


def _arg_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is None:
        ctx.set(0, DType.INT64, None)
        return
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), len(source))
    if source and source[axis] == 0:
        rule = f"needs at least one element to search along axis {axis}"
        raise ctx.fail(rule, f"shape {list(source)}", "leave the operator out")
    kept: tuple[Dim, ...] = (1,) if ctx.node.attr("keepdims", 1) else ()
    ctx.set(0, DType.INT64, (*source[:axis], *kept, *source[axis + 1 :]))


def _arg_compute(search: Callable[..., Any]) -> Compute:
    def compute(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
        data = as_float32(inputs[0])
        axis = int(node.attr("axis", 0)) % data.ndim
        if data.shape[axis] == 0:
            raise GraphError(
                f"node {node.name!r} ({node.op_type})", "needs at least one element to search", data.shape
            )
        keep = bool(node.attr("keepdims", 1))
        if node.attr("select_last_index", 0):
            found = data.shape[axis] - 1 - search(np.flip(data, axis), axis=axis, keepdims=keep)
        else:
            found = search(data, axis=axis, keepdims=keep)
        return [np.asarray(found, np.int64)]

    return compute


# Elements that come at a time, of float16 three times as many (canndev, tbe/impl/dynamic/arg_max_v2.py)
_PIECE = 8192


def _search_work(node: Node, ctx: LowerContext, reduce: str) -> Work:
    """Of split cores; `lower.templates.searching` says how the kernel goes about it. A row in one piece has
    one buffer, and rows of other axes follow each other in one as well: along the first axis of 8192 x 8192,
    1009 x 1021 and 2 x 511 x 2049 elements a row takes 0.39 to 0.41 us on Ascend910B2.
    """
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    axis = int(node.attr("axis", 0)) % len(source.shape)
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    half = source.dtype is DType.FLOAT16
    inside = source.dtype if half else DType.FLOAT32
    search = Search(outer, source.shape[axis], inner, _PIECE * (3 if half and inner == 1 else 1))
    cast = () if inside is source.dtype else (Step("vconv", inside),)
    fold, better = {"vcmax": ("vmax", "vcmpv_lt"), "vcmin": ("vmin", "vcmpv_gt")}[reduce]
    run = REPEAT_BYTES // inside.itemsize
    steps: tuple[Step, ...]
    if inner > 1 and half:  # places are counted in float16 and taken by masks, repeat by repeat
        steps = (Step("vadds", inside, "one"), Step(better, inside, run=run), Step("vsel", inside, run=run))
        steps = (*steps, Step(fold, inside))
    elif inner > 1:
        steps = (Step(better, inside, indexed=True), Step(fold, inside))
    elif half:
        steps = (Step(reduce, inside, indexed=True),)
    else:
        steps = (Step(fold, inside), Step("vcmpv_eq", inside, indexed=True))
    return VectorWork(
        outer if inner == 1 else outer * search.length,
        search.length if inner == 1 else inner,
        (*cast, *steps),
        (Stream(source),),
        (Stream(target, "row" if inner == 1 else "col"),),
        reduces="cols" if inner == 1 else "rows",
        search=search,
        overlaps=inner == 1 and search.length > search.piece,
    )


def _arg_lower(reduce: str, compare: str) -> Lower:
    """One vcmax or vcmin gives value and index of a repeat; wide rows fold repeats by compare and select
    first (both on axis 0).
    """

    def lower(node: Node, ctx: LowerContext) -> Work:
        source, target = Ref.of(node.required(0)), Ref.of(node.output)
        if math.prod(source.shape) == 0:
            return NoTask()
        if ctx.split_cores and source.shape and source.dtype.itemsize <= 4:
            return _search_work(node, ctx, reduce)
        axis = int(node.attr("axis", 0)) % len(source.shape)
        inside = next(
            (dtype for dtype in (source.dtype, DType.FLOAT16, DType.FLOAT32) if ctx.supports(reduce, dtype)),
            None,
        )
        if inside is None or source.dtype.itemsize > 4:
            return on_ai_cpu(node)
        cast = () if inside is source.dtype else (Step("vconv", inside),)
        inner = math.prod(source.shape[axis + 1 :])
        if inner == 1:
            rows, length = _rows_along(source.shape, axis)
            steps = (*cast, Step(reduce, inside), Step(reduce, inside, "row"))
            return VectorWork(
                rows,
                length,
                steps,
                (Stream(source),),
                (Stream(target, "row"),),
                reduces="cols",
            )
        # keep the better value and its index
        steps = (*cast, Step(compare, inside), Step("vsel", inside, count=2))
        return VectorWork(
            math.prod(source.shape) // inner,
            inner,
            steps,
            (Stream(source),),
            (Stream(target, "col"),),
            reduces="rows",
        )

    return lower


def _nonzero_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    rank = None if source is None else max(1, len(source))
    kind = ctx.node.attr("dtype", DType.INT64)  # CANN's operator can give int32 as well
    if kind not in (DType.INT64, DType.INT32):
        raise ctx.fail("gives int64 or int32", kind)
    ctx.set(0, DType(kind), (rank, None))


def _nonzero(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [np.stack(np.nonzero(np.atleast_1d(inputs[0]))).astype(wanted[0])]


def _unique_infer(ctx: InferContext) -> None:
    source, axis = ctx.shape(0), ctx.node.attr("axis")
    if axis is None:
        ctx.set(0, ctx.dtype(0), (None,))
    elif source is None:
        ctx.set(0, ctx.dtype(0), None)
    else:
        at = wrapped_axis(ctx, int(axis), len(source))
        ctx.set(0, ctx.dtype(0), (*source[:at], None, *source[at + 1 :]))
    for index in (1, 2, 3):
        ctx.set(index, DType.INT64, unknown_shape(1))


def _unique(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    axis = node.attr("axis")
    data = inputs[0].reshape(-1) if axis is None else inputs[0]
    along = 0 if axis is None else int(axis)
    values, first, inverse, counts = np.unique(
        data, return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    inverse = inverse.reshape(-1)
    if not node.attr("sorted", 1):
        order = np.argsort(first, kind="stable")  # order of first appearance
        values, first, counts = values.take(order, axis=along), first[order], counts[order]
        inverse = np.argsort(order, kind="stable")[inverse]
    return [np.ascontiguousarray(values), *(array.astype(np.int64) for array in (first, inverse, counts))]


def _sorting_on_ai_cpu(node: Node, _ctx: LowerContext) -> Work:
    elements = math.prod(Ref.of(node.required(0)).shape)
    return on_ai_cpu(node, 2 * math.log2(max(2, elements)))


def _scan_on_ai_cpu(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node, 2)


def _arg_axis(node: Node, rank: int) -> tuple[int, ...]:
    return (int(node.attr("axis", 0)) % rank,) if rank else ()


_ARGUMENT = Facts(reduction(_arg_axis), Kind.REDUCTION, Precision.GRAY, by_order=True)
_BY_VALUE = Facts(opaque(), Kind.OTHER, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "TopK",
        _topk_infer,
        _topk,
        _topk_lower,
        cann="TopKD",
        most_inputs=2,
        facts=Facts(along(), Kind.REDUCTION, Precision.GRAY, parameters=(1,), by_order=True),
    ),
    OpDef(
        "ArgMax",
        _arg_infer,
        _arg_compute(np.argmax),
        _arg_lower("vcmax", "vcmpv_gt"),
        cann="ArgMaxD",
        facts=_ARGUMENT,
    ),
    OpDef(
        "ArgMin",
        _arg_infer,
        _arg_compute(np.argmin),
        _arg_lower("vcmin", "vcmpv_lt"),
        cann="ArgMinD",
        facts=_ARGUMENT,
    ),
    OpDef("NonZero", _nonzero_infer, _nonzero, _scan_on_ai_cpu, facts=_BY_VALUE),
    OpDef("Unique", _unique_infer, _unique, _sorting_on_ai_cpu, facts=_BY_VALUE),
)
