"""TransData (domain "ascend"): a tensor in another layout. Values stay, bytes move.

Cost shape (hardware notes on formats, section 5): read through MTE2, turn in UB with vnchwconv, write through
MTE3; padding of both layouts is moved as well. Feature-map rows are neighbours in either layout, so runs join
over H as far as a tile in UB goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError, suggest
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, Format, align, c0, ceil_div
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import transpose_bursts, transposing
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import OpPattern, movement
from ascendsim.opset.structure import elementwise
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Step, Work

Wanted = Sequence["np.dtype[Any]"]
_PLAIN = (Format.ND, Format.NCHW)


def _format(node: Node, name: str) -> Format:
    value = node.attr(name)
    try:
        return value if isinstance(value, Format) else Format(value)
    except ValueError:
        raise GraphError(
            f"node {node.name!r} (TransData)",
            f"needs a known {name}",
            repr(value),
            suggest(str(value), [f.value for f in Format]),
        ) from None


def _infer(ctx: InferContext) -> None:
    _format(ctx.node, "src_format")
    target = _format(ctx.node, "dst_format")
    ctx.set(0, ctx.dtype(0), ctx.shape(0))
    if ctx.node.outputs:
        ctx.node.output.format = target


def _compute(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [inputs[0]]


def blocked_view(shape: Sequence[int], format: Format, block: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How a blocked layout comes out of the row-major one: a padded row-major view and the order of its axes
    in the blocks.

    Args:
        shape: Logical shape, of a rank that the format takes.
        format: NC1HWC0, FRACTAL_NZ or FRACTAL_Z.
        block: Elements of one 32 B block.

    >>> blocked_view((1, 3, 4, 4), Format.NC1HWC0, 16)
    ((1, 16, 16), (0, 2, 1))
    """
    if format is Format.NC1HWC0:
        n, c, h, w = shape
        return (n * ceil_div(c, block), block, h * w), (0, 2, 1)
    if format is Format.FRACTAL_NZ:
        *batch, m, n = shape
        return (math.prod(batch), align(m, FRACTAL_ROWS), ceil_div(n, block), block), (0, 2, 1, 3)
    n, c, h, w = shape
    return (align(n, FRACTAL_ROWS), ceil_div(c, block), block, h * w), (1, 3, 0, 2)


def _is_blocked(shape: Sequence[int], format: Format) -> bool:
    needed = {
        Format.NC1HWC0: len(shape) == 4,
        Format.FRACTAL_Z: len(shape) == 4,
        Format.FRACTAL_NZ: len(shape) >= 2,
    }
    return needed.get(format, False)


def _turns(shape: Sequence[int], format: Format, itemsize: int, turn: Step) -> tuple[Step, ...]:
    """FRACTAL_NZ keeps rows of whole blocks, which the DMA places; ragged rows go through vnchwconv there and
    back.
    """
    if format is not Format.FRACTAL_NZ:
        return (turn,)
    return () if shape[-1] * itemsize % BLOCK_BYTES == 0 else (turn, turn)


def _filter_bytes(shape: Sequence[int], format: Format, block: int, itemsize: int) -> int:
    """Bytes of a filter's block of channels, which lie together in NCHW and fill whole 32 B blocks; 0 for
    other formats than FRACTAL_Z.
    """
    return min(block, shape[1]) * shape[2] * shape[3] * itemsize if format is Format.FRACTAL_Z else 0


def _lower(node: Node, ctx: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    before, after = _format(node, "src_format"), _format(node, "dst_format")
    if target.bytes == 0:
        return NoTask()
    shape, dtype = source.shape, source.dtype
    block, turn = c0(dtype), transposing(dtype, ctx)
    read, write = source.bytes, target.bytes
    steps: tuple[Step, ...] = ()
    if _is_blocked(shape, after) and after is not before:
        view, order = blocked_view(shape, after, block)
        longest_read, write = transpose_bursts(view, order, dtype.itemsize)
        read = (
            max(longest_read, _filter_bytes(shape, after, block, dtype.itemsize))
            if not _is_blocked(shape, before)
            else read
        )
        steps += _turns(shape, after, dtype.itemsize, turn)
    if _is_blocked(shape, before) and after is not before:
        view, order = blocked_view(shape, before, block)
        inverse = tuple(order.index(axis) for axis in range(len(order)))
        read, longest_write = transpose_bursts([view[axis] for axis in order], inverse, dtype.itemsize)
        write = (
            max(longest_write, _filter_bytes(shape, before, block, dtype.itemsize))
            if not _is_blocked(shape, after)
            else write
        )
        steps = _turns(shape, before, dtype.itemsize, turn) + steps
    if not steps and read == source.bytes and write == target.bytes and before in _PLAIN and after in _PLAIN:
        return NoTask(((target.region, source.region),))
    copy = Copy(
        source,
        target,
        source.bytes,
        min(read, source.bytes),
        min(write, target.bytes),
        write_bytes=target.bytes,
    )
    known = next((form for form in (after, before) if _is_blocked(shape, form)), None)
    if ctx.transdata_in_turn and known is Format.NC1HWC0 and shape[1] % block == 0 and shape[2:] == (1, 1):
        return MoveWork((Copy(source, target, source.bytes, source.bytes, target.bytes),))  # nothing turns
    pieces = most = addresses = 0
    by_images = known is Format.NC1HWC0 and ctx.transdata_by_images
    if by_images and shape[0] >= ctx.cores:  # of few images all cores take parts
        pieces = shape[0]
    elif known is Format.FRACTAL_Z and ctx.transdata_filter_cycles and math.prod(shape[2:]) > 1:
        elements = copy.read_burst // dtype.itemsize
        addresses = round(ctx.transdata_filter_cycles * elements)
        pieces = shape[0]
        most = ceil_div(pieces, pieces // (2 * ctx.cores) + 1)  # one more than the even share, say profiles
    return MoveWork(
        (copy,),
        steps,
        addresses,
        in_turn=ctx.transdata_in_turn,
        one_buffer=by_images,
        pieces=pieces,
        most_cores=most,
        own_tiling=ctx.open_shapes and not addresses,
        code_at_hand=True,
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "TransData",
        _infer,
        _compute,
        _lower,
        domain="ascend",
        most_inputs=None,
        facts=movement(elementwise(), pattern=OpPattern.TRANSDATA),
    ),
)
