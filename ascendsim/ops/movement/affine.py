"""Transpose and Slice: every element at most once, at a place that is affine in its index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import (
    repacking,
    run_bytes,
    sorted_in_lanes,
    static_transpose_work,
    vector_dtype,
)
from ascendsim.ops.shared.dims import (
    known_ints,
    unknown_shape,
    vector_length,
    wrapped_axes,
)
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import shape_of
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import along_axes, constant_ints, permutation
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    Step,
    Work,
    WorkChoice,
)

Wanted = Sequence["np.dtype[Any]"]


def _permutation(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(node.attr("perm", tuple(reversed(range(rank)))))


def _transpose_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is None:
        ctx.set(
            0,
            ctx.dtype(0),
            unknown_shape(len(ctx.node.attr("perm"))) if "perm" in ctx.node.attributes else None,
        )
        return
    permutation = _permutation(ctx.node, len(source))
    if sorted(permutation) != list(range(len(source))):
        raise ctx.fail(f"needs perm to be an order of the {len(source)} axes", permutation)
    ctx.set(0, ctx.dtype(0), tuple(source[axis] for axis in permutation))


def _transpose(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [inputs[0].transpose(_permutation(node, inputs[0].ndim)).copy(order="C")]


def _transpose_lower(node: Node, ctx: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    return static_transpose_work(
        source, Ref.of(node.output), source.shape, _permutation(node, len(source.shape)), ctx
    )


def _slices(
    node: Node, shape: Sequence[int], starts: Any, ends: Any, axes: Any, steps: Any
) -> tuple[slice, ...]:
    """Python slices, one an axis, with ONNX's clamping."""
    result = [slice(0, dim, 1) for dim in shape]
    names = range(len(starts)) if axes is None else [int(axis) for axis in axes]
    for number, axis in enumerate(names):
        size, step = shape[axis], 1 if steps is None else int(steps[number])
        if step == 0:
            raise GraphError(f"node {node.name!r} (Slice)", "needs steps other than 0")
        start, end = int(starts[number]), int(ends[number])
        start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
        if step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
            result[axis] = slice(start, max(start, end), step)
        else:
            start, end = min(max(start, -1), size - 1), min(max(end, -1), size - 1)
            result[axis] = slice(start, None if end < 0 else end, step) if start >= 0 else slice(0, 0, 1)
    return tuple(result)


def _slice_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    for port in range(1, 5):
        shape = ctx.shape(port) if ctx.has(port) else None
        if shape is not None and len(shape) != 1:
            raise ctx.fail(f"needs input {port} of rank 1", list(shape))
    starts, ends = known_ints(ctx, 1), known_ints(ctx, 2)
    axes, steps = known_ints(ctx, 3), known_ints(ctx, 4)
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    if ctx.has(3) and axes is None:
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source)))
        return
    if axes is None:
        count = len(starts) if starts is not None else vector_length(ctx, 1)
        axes = tuple(range(count if count is not None else len(source)))
    if starts is not None and any(
        values is not None and len(values) != len(starts) for values in (ends, axes, steps)
    ):
        raise ctx.fail("needs as many ends, axes and steps as starts", len(starts))
    dims: list[Dim] = list(source)
    for number, axis in enumerate(wrapped_axes(ctx, axes, len(source))):
        if starts is None or ends is None or (ctx.has(4) and steps is None):
            dims[axis] = None
            continue
        dims[axis] = _sliced(
            ctx, source[axis], starts[number], ends[number], 1 if steps is None else steps[number]
        )
    ctx.set(0, ctx.dtype(0), tuple(dims))


def _sliced(ctx: InferContext, dim: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(dim, int):
        return len(range(dim)[_slices(ctx.node, (dim,), (start,), (end,), None, (step,))[0]])
    if step == 1 and start == 0 and end >= 2**31 - 1:
        return dim
    return None


def _slice(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, starts, ends, axes, steps = (*inputs, None, None)[:5]
    return [data[_slices(node, data.shape, starts, ends, axes, steps)].copy(order="C")]


def _slice_lower(node: Node, ctx: LowerContext) -> Work:
    """Rows of the selected box; a step on the last axis reads whole spans and picks elements in UB."""
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    values = [
        tensor.constant.array()
        if tensor is not None and tensor.constant is not None and tensor.constant.available
        else None
        for tensor in node.inputs[1:]
    ]
    starts, ends, axes, steps = (*values, None, None)[:4]
    if starts is None or ends is None:
        run = run_bytes(target.shape, len(target.shape) - 1, target.dtype.itemsize)
        return MoveWork(
            (Copy(source, target, target.bytes, run, target.bytes),), repacking(run, target.dtype)
        )
    slices = _slices(node, source.shape, starts, ends, axes, steps)
    run, inner = target.dtype.itemsize, len(slices) - 1
    step = abs(slices[inner].step) if slices else 1
    if slices and slices[inner].step != 1:
        span = (target.shape[inner] - 1) * step * run + run
        rows = math.prod(target.shape[:inner])
        picking = vector_dtype(target.dtype)
        picks: tuple[Step, ...]
        if ctx.supports("vreducev2", picking) or ctx.supports("vreduce", picking):
            picks = (Step("vreducev2", picking),)
        elif ctx.supports("vgather", picking):
            picks = (Step("vgather", picking),)
        else:  # the first generation drops whole blocks of sixteen rows' elements
            turn, move, back = sorted_in_lanes(target.dtype, ctx)
            picks = (turn, replace(move, run=move.run * step), back)
        return MoveWork(
            (Copy(source, target, rows * span, span, target.bytes, write_bytes=target.bytes),), picks
        )
    for axis in range(inner, -1, -1):
        if slices[axis].step != 1:  # what is taken along it lies apart
            break
        run *= target.shape[axis]
        if target.shape[axis] != source.shape[axis]:
            break
    work = MoveWork(
        (Copy(source, target, target.bytes, run, target.bytes),),
        repacking(run, target.dtype) if run < target.bytes else (),
    )
    columns = source.shape[:-1] == target.shape[:-1]
    if not (ctx.register_moves and columns and run < BLOCK_BYTES):
        return work
    # whole rows come, and what is kept goes to its place through a register (opp, slice_d.py)
    kept = ScalarWork(math.prod(target.shape), round(ctx.register_move_cycles), (source,), (target,))
    return WorkChoice((kept, work))


def _sliced_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """Axes that are cut; those of which everything is taken do not count."""
    starts, ends, steps = (constant_ints(node.input(port)) for port in (1, 2, 4))
    length, shape = shape_of(node, 1), shape_of(node, 0) or ()
    if not length or not isinstance(length[0], int):
        return None
    axes = tuple(range(length[0])) if node.input(3) is None else constant_ints(node.input(3))
    if axes is None:
        return None
    whole = [False] * len(axes)
    if starts is not None and ends is not None and (node.input(4) is None or steps is not None):
        sizes = [shape[axis] for axis in axes]
        whole = [
            start == 0 and step == 1 and isinstance(size, int) and end >= size
            for start, end, step, size in zip(starts, ends, steps or (1,) * len(axes), sizes, strict=True)
        ]
    return tuple([axis % rank for axis, everything in zip(axes, whole, strict=True) if not everything])


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Transpose",
        _transpose_infer,
        _transpose,
        _transpose_lower,
        cann="TransposeD",
        facts=movement(permutation(_permutation), kept=(0,)),
    ),
    OpDef(
        "Slice",
        _slice_infer,
        _slice,
        _slice_lower,
        cann="StridedSliceD",
        most_inputs=5,
        facts=movement(along_axes(_sliced_axes), parameters=(1, 2, 3, 4), kept=(0,)),
    ),
)
