"""A product whose right operand vector cores make piece by piece: weights of few bits, made floats.

One task of a split chip, each cube core in a team with its vector cores. A team has columns of the product,
and goes through them tile by tile, through a tile chunk by chunk of k:

    vector      make(0)  make(1)  make(2)  make(3) ...
    cube                 multiply(0)  multiply(1)  multiply(2) ...

Each vector core makes its half of a chunk and stores it in scratch memory, where the cube core fetches it;
this memory has room for few chunks of each team and stays in L2. Flags between the cores (mode 2) say which
chunks are there, and which have been fetched. So do the kernels of CANN for weights of 8 and 4 bits on such
chips.
"""

from __future__ import annotations

from dataclasses import replace

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    TRANSACTION_BYTES,
    align,
    ceil_div,
)
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, CrossFlag, Move, Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import Block, BlockGroup, CoreKind, TaskKind
from ascendsim.lower.affine import plus, scaled, times
from ascendsim.lower.emit import BlockBuilder, pieces
from ascendsim.lower.templates.cube import product_of, vector_rest
from ascendsim.lower.templates.cube_block import CubeWriter
from ascendsim.lower.templates.cube_notes import Where
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product
from ascendsim.lower.templates.stage import Stage, Tile, shared, sizes_of
from ascendsim.lower.templates.steps import Expansion, broadcast_calls, emit_steps
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.lower.templates.vector_writer import BINARY
from ascendsim.opset.regions import refs_of
from ascendsim.opset.work import Ref, StagedProduct, Stream
from ascendsim.soc.spec import SocSpec

MADE, FETCHED = "made", "fetched"  # chunks
FLAGS = (CrossFlag(MADE, 2, 0), CrossFlag(FETCHED, 2, 1))
SUBJECT = "weights that are made beside a product"
MOST_COLUMNS = 256  # of a tile


def lower_staged(work: StagedProduct, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of the work.

    Raises:
        CompileError: If cube and vector cores of the chip are not apart, if not all rows of a product fit
            into L0C beside the fewest columns, or if vector cores must work on the result.
    """
    product = product_of(work.product, soc)
    each = min(2, soc.vector_cores // max(1, soc.ai_cores))
    if not soc.split_cores or not each:
        raise CompileError(SUBJECT, "need cube and vector cores that are apart", soc.name)
    if product.batch * product.images > 1 or vector_rest(work.product, soc) is not None:
        raise CompileError(SUBJECT, "need a single product that FIXPIPE completes")
    tiling = _tiling(work, product, soc, each)
    groups: list[BlockGroup] = []
    for number, (columns, count) in enumerate(shared(product.n, tiling.share_n)):
        cube = _Multiplying(work, product, tiling, soc, expansion, columns).write(1, 1, product.m, columns)
        groups.append(BlockGroup(replace(cube, cross=FLAGS), count, number))
        vector = _Making(work, product, tiling, soc, expansion, each).write(columns)
        groups.append(BlockGroup(vector, count * each, number))
    inside = frozenset([work.product.b.region])
    return Stage(tuple(groups), TaskKind.MIX_AIC, sizes_of(*refs_of(work)), inside=inside)


def _tiling(work: StagedProduct, product: Product, soc: SocSpec, each: int) -> Tiling:
    """All rows at a time, so that nothing is made twice; as many columns to a tile as L0C holds then."""
    rows = ceil_div(product.m, FRACTAL_ROWS)
    grain = align(BLOCK_BYTES * work.packed, FRACTAL_ROWS) if product.b_rows == "n" else FRACTAL_ROWS
    share = min(align(product.n, FRACTAL_ROWS), align(ceil_div(product.n, work.teams), grain))
    line = TRANSACTION_BYTES * work.packed  # stored elements of a line of L2
    most = min(MOST_COLUMNS, capacity(soc, Buffer.L0C) // (rows * ACCUMULATOR_BYTES) * FRACTAL_ROWS)
    if product.b_rows == "k" and work.product.k > line:  # rather whole lines than many columns
        most = min(most, each * work.values // line // FRACTAL_ROWS * FRACTAL_ROWS)
    if most < min(share, grain):
        raise CompileError(SUBJECT, "need all rows in L0C", product.m)
    columns = align(ceil_div(share, ceil_div(share, most)), min(share, grain))
    columns = columns if columns <= most else most // grain * grain
    room = capacity(soc, Buffer.L0C) // (rows * ceil_div(columns, FRACTAL_ROWS) * ACCUMULATOR_BYTES)
    wide = max(rows, ceil_div(columns, FRACTAL_ROWS))
    step = capacity(soc, Buffer.L0A) // (2 * wide * FRACTAL_BYTES)
    grain_k = line // FRACTAL_ROWS if product.b_rows == "k" else 2
    chunk = max(grain_k, each * work.values // columns // FRACTAL_ROWS // grain_k * grain_k)
    panel = rows * FRACTAL_BYTES * product.k_blocks
    of_b = 2 * FRACTAL_BYTES * product.b_blocks(columns)  # in L1, a block of k, twice
    room_l1 = capacity(soc, Buffer.L1) * 7 // 8
    hold = "a" if panel + of_b * min(chunk, product.k_blocks) <= room_l1 else ""
    if not hold:
        chunk = min(chunk, room_l1 // (of_b + 2 * FRACTAL_BYTES * rows))
    chunk = min(product.k_blocks, chunk)
    step = min(step, chunk)
    if step < 1:
        raise CompileError(SUBJECT, "need all rows in L0A and L1", product.m)
    accumulators = min(2, room)
    return Tiling(1, 1, product.m, share, product.m, columns, chunk, step, hold, accumulators, 0, product.m)


class _Multiplying(CubeWriter):
    """The cube core's side: the second operand comes from scratch memory as soon as it is there."""

    def __init__(
        self,
        work: StagedProduct,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        expansion: Expansion,
        n: int,
    ) -> None:
        super().__init__(work.product, product, tiling, soc, expansion, (product.m, n))
        self.slots = work.slots

    def write(self, batch: int, images: int, m: int, n: int) -> Block:
        """The program; scratch memory is free at first."""
        self.b.emit(*[SetFlag(Pipe.MTE2, FETCHED)] * self.slots)
        return super().write(batch, images, m, n)

    def _load_b(self, where: Where, n: int, k: tuple[Affine, int]) -> None:
        ref = self.work.b
        self.b.emit(WaitFlag(Pipe.MTE2, MADE))
        depth = min(k[1] * FRACTAL_ROWS, self.work.k)
        tile = Tile(ref.region, ZERO, 1, n * depth * ref.dtype.itemsize)
        self._load(tile, self.b1, len(self.b1.allocations) - 1, ref)
        self.b.emit(SetFlag(Pipe.MTE2, FETCHED))


class _Making:
    """A vector core's side: its half of the rows of each chunk.

    Args:
        work: What is to be done.
        product: As the Cube's tiling sees it.
        tiling: That of the Cube.
        soc: The chip.
        expansion: Of steps, for the chip.
        each: Vector cores of a team.
    """

    def __init__(
        self,
        work: StagedProduct,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        expansion: Expansion,
        each: int,
    ) -> None:
        self.work, self.product, self.tiling, self.each = work, product, tiling, each
        self.b = b = BlockBuilder(soc, CoreKind.VECTOR)
        self.steps = expansion.expand(work.staging.steps)
        self.flat = product.b_rows == "k"  # stored rows are columns of the product
        self.source, self.made = work.staging.inputs[0].ref, work.product.b
        rows, columns = self._half(tiling.chunk_k, tiling.tile_n)
        held = [self._parameters(stream.ref, tiling.chunk_k, tiling.tile_n) for stream in self._given]
        parts = [(Buffer.UB, size) for size in (rows * columns * self.source.dtype.itemsize, *held)]
        self.ins = b.ring("in", Pipe.MTE2, Pipe.V, 2, *parts)
        wide = rows * columns * work.packed * self.made.dtype.itemsize
        self.outs = b.ring("out", Pipe.V, Pipe.MTE3, 2, (Buffer.UB, wide))

    @property
    def _given(self) -> tuple[Stream, ...]:
        return self.work.staging.inputs[1:]

    def _half(self, k_blocks: int, n: int) -> tuple[int, int]:
        """Stored rows, and stored elements of a row, of a vector core's part of a chunk."""
        depth = min(k_blocks * FRACTAL_ROWS, self.work.product.k)
        rows, columns = (n, depth) if self.flat else (depth, n)
        return ceil_div(rows, self.each), ceil_div(columns, self.work.packed)

    def _parameters(self, ref: Ref, k_blocks: int, n: int) -> int:
        """Bytes of scales or offsets of a chunk: one for all, one a column, or one for each group of one."""
        count = ref.bytes // ref.dtype.itemsize
        groups = count // self.product.n
        depth = min(k_blocks * FRACTAL_ROWS, self.work.product.k)
        several = ceil_div(groups * depth, self.work.product.k) * n if groups else 1
        return min(ref.bytes, several * ref.dtype.itemsize)

    def write(self, columns: int) -> Block:
        """The program of a team with so many columns."""
        b = self.b
        for part in pieces(columns, self.tiling.tile_n):
            with b.loop("n", part.trips) as j:
                for chunk in pieces(self.product.k_blocks, self.tiling.chunk_k):
                    with b.loop("k", chunk.trips) as i:
                        self._chunk((part.at(j), part.size), (chunk.at(i), chunk.size))
        b.emit(*[WaitFlag(Pipe.MTE3, FETCHED)] * self.work.slots)
        return replace(b.build(), cross=FLAGS)

    def _chunk(self, n: tuple[Affine, int], k: tuple[Affine, int]) -> None:
        b, item = self.b, self.source.dtype.itemsize
        rows, columns = self._half(k[1], n[1])
        depth = times(k[0], FRACTAL_ROWS)
        row, column = (n[0], depth) if self.flat else (depth, n[0])
        width = self.source.bytes // self.work.staging.rows
        offset = plus(times(row, width), scaled(times(column, item), 1, self.work.packed))
        b.acquire(self.ins)
        self._bring(Tile.strided(self.source.region, offset, rows, columns * item, width), self.source, 0)
        for number, stream in enumerate(self._given, 1):
            size = self._parameters(stream.ref, k[1], n[1])
            self._bring(Tile(stream.ref.region, ZERO, 1, size), stream.ref, number)
        b.commit(self.ins)
        b.receive(self.ins)
        b.acquire(self.outs)
        self._compute(rows, columns)
        b.commit(self.outs)
        b.release(self.ins)
        b.receive(self.outs)
        b.emit(WaitFlag(Pipe.MTE3, FETCHED))
        size = rows * columns * self.work.packed * self.made.dtype.itemsize
        tile = fitted(b, Tile(self.made.region, ZERO, 1, size), self.made)
        b.emit(Move(Pipe.MTE3, tile.operand, b.source(self.outs, tile.bytes), 1, tile.bytes))
        b.emit(SetFlag(Pipe.MTE3, MADE))
        b.release(self.outs)

    def _bring(self, tile: Tile, ref: Ref, part: int) -> None:
        b, tile = self.b, fitted(self.b, tile, ref)
        target = b.target(self.ins, min(tile.bytes, self.ins.allocations[part].slot_bytes), part)
        size = tile.bursts, tile.burst_bytes
        b.emit(Move(Pipe.MTE2, target, tile.operand, *size, src_stride=tile.stride, aligned=tile.aligned))

    def _compute(self, rows: int, columns: int) -> None:
        """Scales of rows or columns are broadcast."""
        b = self.b
        sources = tuple(
            b.source(self.ins, allocation.slot_bytes, part)
            for part, allocation in enumerate(self.ins.allocations)
        )
        target = b.target(self.outs, self.outs.slot_bytes)
        for step in self.steps:
            count = rows * columns, 1
            if step.op in BINARY:
                lanes = b.soc.vector.repeat_bytes // step.dtype.itemsize
                count = broadcast_calls(rows, columns, lanes, False, b.soc)
            emit_steps(b, (step,), {step.over: count}, target, sources)
            sources = (target, *sources[1:])
