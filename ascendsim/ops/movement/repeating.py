"""Expand and Tile: elements taken more than once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES, ceil_div
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.bursts import (
    DUPLICATE,
    repacking,
    run_bytes,
    vector_dtype,
)
from ascendsim.ops.shared.common import broadcast_shapes, split_broadcast
from ascendsim.ops.shared.dims import (
    known_ints,
    need_vectors,
    unknown_shape,
    vector_length,
)
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import movement
from ascendsim.opset.steps import REGISTER, SCALAR
from ascendsim.opset.structure import along_axes, constant_ints, elementwise
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    Step,
    Stream,
    VectorWork,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]
# beyond, what one block of a source becomes would crowd UB, so the result is walked instead of the source
MOST_GROWTH = 256


def _expand_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1,))
    source, target = ctx.shape(0), known_ints(ctx, 1)
    if source is None or target is None:
        length = vector_length(ctx, 1)
        ctx.set(
            0,
            ctx.dtype(0),
            None if source is None or length is None else unknown_shape(max(len(source), length)),
        )
        return
    if any(dim < 0 for dim in target):
        raise ctx.fail("needs sizes that are not negative", target)
    try:
        ctx.set(0, ctx.dtype(0), broadcast_shapes([source, target]))
    except GraphError:
        raise ctx.fail(
            "needs a shape that its input broadcasts to", f"{list(source)} -> {list(target)}"
        ) from None


def _expand(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, target = inputs[0], tuple(int(dim) for dim in inputs[1])
    try:
        return [np.broadcast_to(data, np.broadcast_shapes(data.shape, target)).copy(order="C")]
    except ValueError:
        raise GraphError(
            f"node {node.name!r} (Expand)",
            "needs a shape that its input broadcasts to",
            f"{data.shape} -> {target}",
        ) from None


def replicate_work(source: Ref, target: Ref, repeats: Sequence[int], ctx: LowerContext) -> Work:
    """Work of repeating `source` along axes: read once, repeated in UB where the innermost repeat is not a
    whole block run.

    Args:
        source: What is repeated.
        target: The result.
        repeats: Repeats of each axis of the result's rank.
        ctx: The chip.
    """
    if target.bytes == 0:
        return NoTask()
    padded = (1,) * (len(repeats) - len(source.shape)) + source.shape
    spread = math.prod(repeats[_behind(padded) :])
    if ctx.register_moves and spread > 1 and math.prod(padded) > 1 and source.dtype.itemsize in (2, 4):
        return _spread_numbers(source, target, spread, ctx)
    if target.bytes > MOST_GROWTH * source.bytes:
        split = split_broadcast(target.shape, [padded])
        fill = Step(DUPLICATE, vector_dtype(source.dtype), count=max(1, source.dtype.itemsize // 4))
        return VectorWork(
            split.rows, split.cols, (fill,), (Stream(source, split.overs[0]),), (Stream(target),)
        )
    repeated = [axis for axis, count in enumerate(repeats) if count != 1]
    run = run_bytes(padded, repeated[-1], source.dtype.itemsize) if repeated else target.bytes
    steps: tuple[Step, ...] = ()
    if repeated and run <= source.dtype.itemsize:
        steps = (Step(DUPLICATE, vector_dtype(source.dtype)),)
    elif repeated and run < target.bytes:
        steps = repacking(run, source.dtype)
    # lines leave UB one by one, as often as they are repeated; shorter ones share transactions
    alone = ctx.register_moves and repeated and not steps and run >= TRANSACTION_BYTES
    written = run if alone else target.bytes
    return MoveWork(
        (Copy(source, target, source.bytes, source.bytes, written, write_bytes=target.bytes),), steps
    )


def _behind(shape: Shape) -> int:
    """The first axis of those at the end that have one element.

    >>> _behind((12, 1, 80)), _behind((12, 7, 1, 1)), _behind((1, 1))
    (3, 2, 0)
    """
    return next((axis + 1 for axis in reversed(range(len(shape))) if shape[axis] != 1), 0)


def _spread_numbers(source: Ref, target: Ref, spread: int, ctx: LowerContext) -> VectorWork:
    """Each number of the source becomes a row, as TBE's kernels of static shapes do it (opp, tile_d.py, and
    the schedule of TBE for broadcasts).

    Rows of whole blocks of 32 B: the scalar unit reads a number and an instruction duplicates it. Rows that
    end inside a block: the numbers go to registers first, as many as UB has, and an instruction with a mask
    of its own writes the block that two rows share. Below a block: the scalar unit stores every number.
    """
    dtype, size = vector_dtype(source.dtype), spread * source.dtype.itemsize
    rows = target.bytes // size
    steps: tuple[Step, ...] = (Step(SCALAR, dtype, "row"), Step(DUPLICATE, dtype, run=spread, overruns=True))
    if size < BLOCK_BYTES:
        steps = (Step(SCALAR, dtype),)
    elif size % BLOCK_BYTES:
        steps = (Step(REGISTER, dtype, "row"), Step(DUPLICATE, dtype, run=spread, count=2, overruns=True))
    inputs, outputs = (Stream(source, "row"),), (Stream(target),)
    return VectorWork(rows, spread, steps, inputs, outputs, blocks=_shared(target.shape, rows, ctx.cores))


def _shared(shape: Shape, rows: int, cores: int) -> int:
    """Blocks that TBE's schedule for broadcasts starts: equal parts of the first axis, and of the next one
    as well where cores are left.

    >>> _shared((16, 2048, 7, 7), 16 * 2048, 30), _shared((32, 2048, 7, 7), 32 * 2048, 30)
    (16, 16)
    >>> _shared((12000, 39, 1), 12000, 30), _shared((4, 20, 64), 80, 30)
    (30, 28)
    """
    blocks, left = 1, rows
    for axis in shape:
        if not isinstance(axis, int) or left == 1 or blocks * 2 > cores:
            break
        parts = min(axis, left, cores // blocks)
        each = ceil_div(min(axis, left), parts)
        blocks, left = blocks * ceil_div(min(axis, left), each), left // min(axis, left)
    return blocks


def _expand_lower(node: Node, ctx: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    padded = (1,) * (len(target.shape) - len(source.shape)) + source.shape
    return replicate_work(
        source, target, [new // old if old else 1 for new, old in zip(target.shape, padded, strict=True)], ctx
    )


def _tile_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1,))
    source, repeats = ctx.shape(0), known_ints(ctx, 1)
    if source is None or repeats is None:
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source) if source is not None else vector_length(ctx, 1)))
        return
    if len(repeats) != len(source) or any(count < 0 for count in repeats):
        raise ctx.fail(f"needs {len(source)} repeats that are not negative", repeats)
    dims: Shape = tuple(
        dim if count == 1 else dim * count if isinstance(dim, int) else 0 if count == 0 else None
        for dim, count in zip(source, repeats, strict=True)
    )
    ctx.set(0, ctx.dtype(0), dims)


def _tile(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [np.tile(inputs[0], inputs[1])]


def _tile_lower(node: Node, ctx: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    return replicate_work(
        source,
        target,
        [new // old if old else 1 for new, old in zip(target.shape, source.shape, strict=True)],
        ctx,
    )


def _repeated_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    repeats = constant_ints(node.input(1))
    return (
        None
        if repeats is None or len(repeats) != rank
        else tuple([axis for axis, times in enumerate(repeats) if times != 1])
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Expand",
        _expand_infer,
        _expand,
        _expand_lower,
        cann="ExpandD",
        mindspore="BroadcastTo",
        most_inputs=2,
        facts=movement(elementwise(0), parameters=(1,), shape_port=1, kept=(0,)),
    ),
    OpDef(
        "Tile",
        _tile_infer,
        _tile,
        _tile_lower,
        cann="TileD",
        most_inputs=2,
        facts=movement(along_axes(_repeated_axes), parameters=(1,), kept=(0,)),
    ),
)
