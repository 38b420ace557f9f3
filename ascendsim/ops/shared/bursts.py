"""Movement as the DMA sees it: lengths of contiguous pieces in global memory, and the vector work on the way.

A movement kernel holds one tile in UB, reads it in pieces that are contiguous in the source and writes it in
pieces that are contiguous in the destination. Sources: Ascend C data-layout page (TransData = read,
vnchwconv, write; blocks of 32 B) and intrinsic tables (vnchwconv of 32-bit elements and vgather exist from
m200 on). Chip-independent figures are marked assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, Format, c0, ceil_div, storage_shape
from ascendsim.graph.ir import Tensor
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    Step,
    Stream,
    VectorWork,
    Work,
    workspace_of,
)

# assumed: a quarter of the 256 KiB of UB that most chips have, so that source and result double-buffer
TILE_BYTES = 64 * 1024
# what a transfer of one or two blocks takes from its start to its end: from L1 as long as a vector
# instruction (head and latency), from memory with the latency of L2 and most of that of DRAM; assumed
_FROM_L1, _FROM_MEMORY = 26, 250
SCALAR_CYCLES_PER_INDEX = 8  # assumed: load, bounds check, multiply, add and issue at 1-2 cycles each
# GatherElements along the last axis, which the scalar unit does element by element, on 48 cores of 910B2:
# 343 us for 522,753 elements, 666 us for 1,040,892. Two loads from UB that depend on each other, and a store.
SCALAR_CYCLES_PER_ELEMENT = 57
_KEPT_BYTES = 9 * 1024  # of UB: 8 KiB that kernels leave alone, and 1 KiB more (opp, impl/transpose_d.py)
LANES = 16  # rows that vnchwconv turns at once
DUPLICATE = "vectordup"
MOVE = "vadds"  # copy inside UB: add zero


def stored_axis(ref: Ref, axis: int) -> tuple[tuple[int, ...], int]:
    """The physical shape of a tensor and where its logical axis begins in it (in blocks for axes that are cut
    in blocks).
    """
    stored, rank = storage_shape(ref.shape, ref.format, ref.dtype), len(ref.shape)
    if ref.format is Format.FRACTAL_NZ and axis >= rank - 2:
        return stored, 2 * rank - 3 - axis  # the last two axes change places: (..., N1, M1, M0, N0)
    return stored, axis


def cuts_whole_blocks(tensors: Sequence[Tensor], axis: int, format: Format) -> bool:
    """Whether tensors that lie side by side along an axis meet at block borders in a blocked format.

    Args:
        tensors: The parts, of equal rank.
        axis: Counted from the front.
        format: The format that all of them would have.
    """
    for tensor in tensors:
        if not tensor.is_static:
            return False
        size, rank = tensor.static_shape[axis], len(tensor.static_shape)
        if format is Format.NC1HWC0:
            if rank != 4 or (axis == 1 and size % c0(tensor.element_type)):
                return False
        elif format is Format.FRACTAL_NZ:
            block = {rank - 1: c0(tensor.element_type), rank - 2: FRACTAL_ROWS}.get(axis, 1)
            if rank < 2 or size % block:
                return False
        else:
            return False
    return True


def run_bytes(shape: Sequence[int], axis: int, itemsize: int) -> int:
    """Bytes of the contiguous piece that one index of the axes before `axis` selects in a row-major tensor.

    >>> run_bytes((2, 3, 4), 1, 2)
    24
    """
    return math.prod(shape[axis:]) * itemsize


def transposing(dtype: DType, ctx: LowerContext) -> Step:
    """One vnchwconv sweep over all elements; wider elements than the unit takes go in 16- or 32-bit parts.

    Args:
        dtype: Element type of the tensor.
        ctx: Gives the chip generation.
    """
    if dtype.itemsize == 1:
        return Step("vnchwconv", DType.INT8)
    wide = dtype.itemsize > 2 and ctx.supports("vnchwconv", DType.FLOAT32)
    part = DType.FLOAT32 if wide else DType.FLOAT16
    return Step("vnchwconv", part, count=dtype.itemsize // part.itemsize)


def vector_dtype(dtype: DType) -> DType:
    """A type of the same width that plain moves and duplicates run in (two 32-bit parts for 64-bit
    elements).
    """
    return {1: DType.FLOAT16, 2: DType.FLOAT16}.get(dtype.itemsize, DType.FLOAT32)


def filling(dtype: DType) -> Step:
    """Duplicates a scalar over all elements."""
    return Step(DUPLICATE, vector_dtype(dtype), count=max(1, dtype.itemsize // 4))


def fill_work(target: Ref) -> Work:
    """One value over the whole result, then out."""
    elements = math.prod(target.shape)
    if elements == 0:
        return NoTask()
    return VectorWork(1, elements, (filling(target.dtype),), (), (Stream(target),))


def clear_work(target: Ref, ctx: LowerContext) -> VectorWork:
    """Zeros over memory that is added to: AtomicAddrClean's kernel, on split cores MemSet's, which is started
    on all cores whatever it clears and works out its tiling there (profiles: 48 blocks on Ascend910B1, 40 on
    Ascend910B4, which take 3.6 to 3.9 us).
    """
    stored = target.bytes // target.dtype.itemsize
    fill = (filling(target.dtype),)
    if not ctx.split_cores:
        return VectorWork(1, stored, fill, (), (Stream(target),), cores="pieces")
    work = VectorWork(1, stored, fill, (), (Stream(target),), cores="all")
    return replace(work, own_tiling=ctx.open_shapes, code_at_hand=True)


def moving(dtype: DType) -> Step:
    """Copies all elements from one place in UB to another (runs that are no multiple of a 32 B block)."""
    return Step(MOVE, vector_dtype(dtype), count=max(1, dtype.itemsize // 4))


def repacking(run: int, dtype: DType) -> tuple[Step, ...]:
    """Steps that a run of `run` bytes needs in UB: none if it fills whole blocks, else one move."""
    return () if run % BLOCK_BYTES == 0 else (moving(dtype),)


def sorted_in_lanes(dtype: DType, ctx: LowerContext) -> tuple[Step, ...]:
    """Any order of elements inside a tile: vnchwconv makes sixteen pieces of it the lanes of blocks, one
    instruction a block (an element of each piece) puts it in its place, and vnchwconv turns them back.

    That the kernels go block by block is read off measured ones: a pixel shuffle of 3.3 M elements on
    Ascend310 (RDN, kernel of the white list: 10.1 ms), DepthToSpace on 310P3 (2.3 ms, PointPillars),
    transposes with short last axes on 910B2 (1 to 3 cycles an element and core).
    """
    turn = transposing(dtype, ctx)
    return (turn, replace(moving(dtype), run=LANES), turn)


def merged_permutation(shape: Sequence[int], permutation: Sequence[int]) -> tuple[list[int], list[int]]:
    """Joins axes that stay neighbours and drops those of size 1.

    Returns:
        Sizes in source order and the permutation (result axis -> source axis) among them.

    >>> merged_permutation((2, 3, 4, 5), (0, 2, 3, 1))
    ([2, 3, 20], [0, 2, 1])
    """
    order = [axis for axis in permutation if shape[axis] != 1]
    groups: list[list[int]] = []
    sources = sorted(order)
    position = {axis: number for number, axis in enumerate(sources)}
    for axis in order:
        if groups and position[axis] == position[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    by_source = sorted(groups)
    return [math.prod(shape[axis] for axis in group) for group in by_source], [
        by_source.index(group) for group in groups
    ]


def transpose_bursts(
    shape: Sequence[int], permutation: Sequence[int], itemsize: int, packed: bool = False
) -> tuple[int, int]:
    """Bytes of the longest contiguous pieces that a tile of `TILE_BYTES` allows on the read and the write
    side.

    The tile grows along the trailing axes of source and result in turns, the side with the shorter pieces
    first. Lines join to one piece only if they fill whole 32 B blocks: in UB, vector instructions want every
    line to start at a block.

    Args:
        shape: Source shape.
        permutation: Result axis -> source axis.
        itemsize: Bytes of one element.
        packed: Lines are put together in UB, element by element, so that they join whatever their length.

    >>> transpose_bursts((1, 512, 64), (0, 1, 2), 2)
    (65536, 65536)
    >>> transpose_bursts((4096, 4096), (1, 0), 2)
    (512, 256)
    >>> transpose_bursts((3, 4096), (1, 0), 2), transpose_bursts((3, 4096), (1, 0), 2, packed=True)
    ((24576, 6), (24576, 24576))
    """
    sizes, order = merged_permutation(shape, permutation)
    extent = [1] * len(sizes)
    sides = (list(range(len(sizes))), order)

    def piece(side: int) -> tuple[int, int | None]:
        """Length of the piece, and the axis along which it can grow."""
        run = itemsize
        for axis in reversed(sides[side]):
            run *= extent[axis]
            if extent[axis] < sizes[axis]:
                return run, axis
            if run % BLOCK_BYTES and not packed:
                break  # the next line starts at a block of its own in UB
        return run, None

    while True:
        for _, axis in sorted((piece(0), piece(1)), key=lambda found: found[0]):
            if (
                axis is not None
                and math.prod(extent) // extent[axis] * min(2 * extent[axis], sizes[axis]) * itemsize
                <= TILE_BYTES
            ):
                extent[axis] = min(2 * extent[axis], sizes[axis])
                break
        else:
            return piece(0)[0], piece(1)[0]


def goes_element_by_element(shape: Sequence[int], permutation: Sequence[int], dtype: DType) -> bool:
    """Whether TransposeD, off its white list, has no better way than element by element.

    The kernel of static shapes (canndev, impl/transpose_d.py) has forms for a last axis that stays, for the
    last two axes changing places, and for lines of whole blocks of two bytes an element. Everything else is
    taken for a tensor with a further last axis of one element, whose lines are copied one by one: a block of
    UB each, one core, no second buffer. That is 281 ns an element on Ascend310: 934 ms for a pixel shuffle of
    3.3 M (RDN), where the kernel that the white list leads to takes 10.1 ms.

    >>> goes_element_by_element((1, 64, 2, 2, 114, 114), (0, 1, 4, 2, 5, 3), DType.FLOAT16)
    True
    >>> goes_element_by_element((1, 85, 80, 80), (0, 2, 3, 1), DType.FLOAT16)
    False
    """
    sizes, order = merged_permutation(shape, permutation)
    rank = len(order)
    if rank < 2 or order[-1] == rank - 1:
        return False
    if order == [*range(rank - 2), rank - 1, rank - 2]:
        return False
    lines = BLOCK_BYTES // dtype.itemsize
    return dtype.itemsize > 2 or any(sizes[axis] % lines for axis in (-1, order[-1]))


def static_transpose_work(
    source: Ref, target: Ref, shape: Sequence[int], permutation: Sequence[int], ctx: LowerContext
) -> MoveWork:
    """`transpose_work` of CANN's TransposeD: the general kernel takes what is not on the white list."""
    if ctx.options.get("transpose_white_list", True) or not goes_element_by_element(
        shape, permutation, source.dtype
    ):
        return transpose_work(source, target, shape, permutation, ctx)
    size = source.dtype.itemsize
    return MoveWork((Copy(source, target, math.prod(shape) * size, size, size),), one_by_one=True)


def transpose_work(
    source: Ref, target: Ref, shape: Sequence[int], permutation: Sequence[int], ctx: LowerContext
) -> MoveWork:
    """Work of a transpose of `source`, seen as row-major `shape`, into `target`.

    The last axis moves: vnchwconv turns blocks. It stays and its run fills whole blocks: DMA alone. Lines on
    either side are shorter than a block, which the DMA cannot address, or end inside one where the last axis
    moves and the chip's kernel packs lines: `sorted_in_lanes`.
    """
    itemsize = source.dtype.itemsize
    read, write = transpose_bursts(shape, permutation, itemsize)
    sizes, order = merged_permutation(shape, permutation)
    steps: tuple[Step, ...] = ()
    if order != sorted(order):
        turn = transposing(source.dtype, ctx)
        moves = order[-1] != len(order) - 1
        ragged = any(sizes[axis] * itemsize % BLOCK_BYTES for axis in (-1, order[-1]))
        if min(read, write) < BLOCK_BYTES or (moves and ragged and ctx.transpose_packs_lines):
            read, write = transpose_bursts(shape, permutation, itemsize, packed=True)
            steps = sorted_in_lanes(source.dtype, ctx)
        elif moves:
            steps = (turn,)
        elif sizes[-1] * itemsize < BLOCK_BYTES:
            steps = (turn, turn)
        else:
            steps = repacking(sizes[-1] * itemsize, source.dtype)
    blocks = 0
    if ctx.map_blocks and not steps and order != sorted(order):  # UB holds a block of the result
        blocks = turning_blocks([shape[axis] for axis in permutation], itemsize, ctx.ub_bytes)
        read, write = sizes[-1] * itemsize, math.prod(shape) * itemsize // blocks
    copies = (Copy(source, target, math.prod(shape) * itemsize, read, write),)
    return MoveWork(copies, steps, own_tiling=ctx.open_shapes, blocks=blocks, one_buffer=blocks > 0)


def turning_blocks(made: Sequence[int], itemsize: int, ub_bytes: int) -> int:
    """Blocks in which TransposeD and ConfusionTransposeD are started where the last axis stays: each turns
    as many places of one axis as UB holds, if they divide it, and all there is along the axes behind it;
    whatever the number of cores (opp, impl/transpose_d.py).

    Args:
        made: Shape of the result.
        itemsize: Bytes of an element.
        ub_bytes: Size of UB.

    >>> [turning_blocks(made, 2, 256 * 1024) for made in ((64, 12, 50, 64), (64, 7, 7, 3, 32, 32))]
    [32, 448]
    """
    behind, room = itemsize, ub_bytes - _KEPT_BYTES
    for axis in reversed(range(len(made))):
        if behind * made[axis] <= room:
            behind *= made[axis]
            continue
        most = room // behind
        places = next((n for n in range(most - 1, 0, -1) if made[axis] % n == 0), 1)
        return math.prod(made[:axis]) * ceil_div(made[axis], places)
    return min(2, max(made))


def turned_copy(ref: Ref) -> Ref:
    """Scratch memory for a tensor with its axes in another order."""
    return replace(ref, region=workspace_of(ref.region))


def _picking_cycles(source: Ref, run: int, ctx: LowerContext) -> float:
    """Cycles of a piece below a block in GatherV2's kernel of static shapes (opp, gather_v2_d.py): its index
    is read, and every number of it goes through a register. A table beyond half of UB lies in L1, one beyond
    that in global memory; the blocks of a piece come from there first, and are waited for.
    """
    wait = 0 if source.bytes <= 2 * TILE_BYTES else _FROM_L1 if source.bytes < ctx.l1_bytes else _FROM_MEMORY
    return SCALAR_CYCLES_PER_INDEX + wait + run / source.dtype.itemsize * ctx.register_move_cycles


def row_gather_work(
    source: Ref,
    target: Ref,
    count: int,
    run: int,
    indices: tuple[Ref, ...],
    ctx: LowerContext,
    *,
    write_run: int | None = None,
) -> MoveWork | ScalarWork:
    """Work of copying `count` indexed pieces of `run` bytes into `target`.

    Pieces of at least one 32 B block go by DMA with a scalar address computation each. So do the blocks of
    shorter ones, where these are fewer bytes than the source has: one learning rate out of 781 to 200,180
    takes 1.8 to 2.2 us on the first generation of Ascend910B, whatever their number (public profiles). Else
    the source comes whole, and pieces are picked in UB by vgather where the chip has it, or by the scalar
    unit, one element at a time.
    """
    total = count * run
    if run >= BLOCK_BYTES or count * BLOCK_BYTES < source.bytes:
        piece = max(run, BLOCK_BYTES)
        copy = Copy(source, target, count * piece, piece, write_run or total, total if run < piece else 0)
        return MoveWork(
            (copy,),
            repacking(run, source.dtype),
            scalar_per_burst=SCALAR_CYCLES_PER_INDEX,
            extra_inputs=indices,
            singly="read" if ctx.register_moves else "",
        )
    picking = vector_dtype(source.dtype)
    if ctx.register_moves:
        cycles = round(_picking_cycles(source, run, ctx) * source.dtype.itemsize / run)
        return ScalarWork(total // source.dtype.itemsize, cycles, (source, *indices), (target,))
    if not ctx.supports("vgather", picking):
        return ScalarWork(
            total // source.dtype.itemsize, SCALAR_CYCLES_PER_INDEX, (source, *indices), (target,)
        )
    pick = Step("vgather", picking, count=max(1, source.dtype.itemsize // 4))
    copy = Copy(source, target, source.bytes, source.bytes, write_run or total, write_bytes=total)
    return MoveWork((copy,), (pick,), extra_inputs=indices)


def scattering(
    updates: Ref,
    target: Ref,
    run: int,
    read: tuple[Ref, ...],
    steps: tuple[Step, ...] = (),
    singly: bool = False,
) -> MoveWork | ScalarWork:
    """Every piece of updates meets what lies at the place that an index says; the scalar unit takes pieces
    below a block.

    Args:
        updates: What is brought.
        target: Where it goes.
        run: Bytes of a piece.
        read: What is read beside the updates, indices first.
        steps: How a piece meets what lies there; none if the transfer itself adds (atomic writes).
        singly: Whether each piece leaves by an instruction of its own, which adds it.
    """
    if run < BLOCK_BYTES:
        elements = max(1, math.prod(updates.shape))
        return ScalarWork(elements, SCALAR_CYCLES_PER_INDEX, (updates, *read), (target,))
    copy = Copy(updates, target, updates.bytes, updates.bytes if singly else run, run)
    side: Literal["", "added"] = "added" if singly else ""
    return MoveWork((copy,), steps, SCALAR_CYCLES_PER_INDEX, read, singly=side)
