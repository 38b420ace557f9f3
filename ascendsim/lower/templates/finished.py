"""A product whose results vector cores finish: sums of int8 that become floats by scales of rows.

One task of a split chip, each cube core in a team with its vector cores:

    cube      tile(0)  tile(1)  tile(2) ...
    vector             finish(0)  finish(1) ...

FIXPIPE stores the sums of a tile in scratch memory; each vector core fetches its part of the rows, does the
steps and stores the results. Scratch memory has room for few tiles of each team and stays in L2. Flags
between the cores (mode 2) say which tiles are there, and which have been fetched. So do CANN's kernels of
quantised products on such chips.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, L0C_ELEMENT_BYTES, align, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, CrossFlag, Move, Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import Block, BlockGroup, CoreKind, TaskKind
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, pieces
from ascendsim.lower.templates.bias import Extent
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.cube_block import CubeWriter
from ascendsim.lower.templates.cube_notes import Where
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.product import Product
from ascendsim.lower.templates.stage import Stage, Tile, share_groups, sizes_of
from ascendsim.lower.templates.steps import Expansion, broadcast_calls, emit_steps
from ascendsim.lower.templates.tiling import Tiling, best_tilings
from ascendsim.lower.templates.vector_writer import BINARY
from ascendsim.lower.templates.way_out import FixpipeOut
from ascendsim.opset.regions import refs_of
from ascendsim.opset.work import CubeWork, FinishedProduct, Stream
from ascendsim.soc.spec import SocSpec

SUMS, FETCHED = "sums", "fetched"  # tiles
FLAGS = (CrossFlag(SUMS, 2, 0), CrossFlag(FETCHED, 2, 1))
SUBJECT = "results that vector cores finish"


def finished_options(work: FinishedProduct, soc: SocSpec, expansion: Expansion) -> list[Callable[[], Stage]]:
    """What makes the stage with each of the best few tilings of the sums alone."""
    tilings = best_tilings(product_of(_sums_of(work), soc), soc)
    return [partial(lower_finished, work, tiling, soc, expansion) for tiling in tilings]


def lower_finished(work: FinishedProduct, tiling: Tiling, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of the work with a tiling.

    Raises:
        CompileError: If cube and vector cores of the chip are not apart.
    """
    each = min(2, soc.vector_cores // max(1, soc.ai_cores))
    if not soc.split_cores or not each:
        raise CompileError(SUBJECT, "need cube and vector cores that are apart", soc.name)
    product = product_of(_sums_of(work), soc)
    axes = [
        (product.batch, tiling.share_batch),
        (product.images, tiling.share_images),
        (product.m, tiling.share_m),
        (product.n, tiling.share_n),
    ]
    groups: list[BlockGroup] = []
    for number, (share, count) in enumerate(share_groups(axes)):
        cube = _Summing(work, product, tiling, soc, (share[2], share[3]))
        groups.append(BlockGroup(replace(cube.write(*share), cross=FLAGS), count, number))
        vector = _Finishing(work, product, tiling, soc, expansion, each).write(*share)
        groups.append(BlockGroup(vector, count * each, number))
    inside = frozenset([work.sums.region])
    return Stage(tuple(groups), TaskKind.MIX_AIC, sizes_of(*refs_of(work)), inside=inside)


def _sums_of(work: FinishedProduct) -> CubeWork:
    """The Cube's part: sums as they are in L0C."""
    return replace(work.product, out=work.sums, epilogue=(), epilogue_inputs=())


class _Summing(CubeWriter):
    """The cube core's side: tiles of sums go to scratch memory as soon as there is room."""

    def __init__(
        self,
        work: FinishedProduct,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        share: tuple[int, int],
    ) -> None:
        super().__init__(_sums_of(work), product, tiling, soc, Expansion(soc), share)
        self.slots = work.slots
        self.out = _ScratchOut(self.b, self.work, self.l0c)

    def write(self, batch: int, images: int, m: int, n: int) -> Block:
        """The program; all that was stored has been fetched at its end."""
        block = super().write(batch, images, m, n)
        return replace(block, body=(*block.body, *[WaitFlag(Pipe.FIX, FETCHED)] * self.slots))


class _ScratchOut(FixpipeOut):
    """FIXPIPE stores whole tiles one behind the other."""

    def write(
        self,
        base: Affine,
        m: Extent,
        n: Extent,
        whole: tuple[int, int, bool],
        where: Where | None = None,
    ) -> None:
        """Stores the tile; see `FixpipeOut.write`."""
        b, out = self.b, self.work.out
        b.receive(self.l0c)
        b.emit(WaitFlag(Pipe.FIX, FETCHED))
        tile = fitted(b, Tile(out.region, ZERO, 1, m[1] * n[1] * out.dtype.itemsize), out)
        held = align(m[1], FRACTAL_ROWS) * align(n[1], FRACTAL_ROWS) * L0C_ELEMENT_BYTES
        b.emit(Move(Pipe.FIX, tile.operand, b.source(self.l0c, held, 0, ZERO), 1, tile.bytes, "fixpipe"))
        b.emit(SetFlag(Pipe.FIX, SUMS))
        b.release(self.l0c)


class _Finishing:
    """A vector core's side: its part of the rows of each tile.

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
        work: FinishedProduct,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        expansion: Expansion,
        each: int,
    ) -> None:
        self.work, self.product, self.tiling, self.each = work, product, tiling, each
        self.b = b = BlockBuilder(soc, CoreKind.VECTOR)
        self.steps = expansion.expand(work.product.epilogue)
        self.given = work.product.epilogue_inputs
        wide = max(work.sums.dtype.itemsize, *(step.dtype.itemsize for step in self.steps))
        columns = min(tiling.tile_n, product.n)
        beside = sum(
            align((columns if stream.over == "col" else 1) * stream.ref.dtype.itemsize, BLOCK_BYTES)
            for stream in self.given
        )
        by_row = wide * 2 * columns + sum(s.ref.dtype.itemsize for s in self.given if s.over == "row")
        room = capacity(b.soc, Buffer.UB) // 2 - beside - len(self.given) * BLOCK_BYTES
        self.rows = max(1, min(room // by_row, ceil_div(min(tiling.tile_m, product.m), each)))
        held = [self._given_bytes(number, self.rows, columns) for number in range(len(self.given))]
        parts = [(Buffer.UB, size) for size in (self.rows * columns * work.sums.dtype.itemsize, *held)]
        self.ins = b.ring("in", Pipe.MTE2, Pipe.V, 2, *parts)
        self.outs = b.ring("out", Pipe.V, Pipe.MTE3, 2, (Buffer.UB, self.rows * columns * wide))

    def _given_bytes(self, number: int, rows: int, columns: int) -> int:
        """Bytes that a piece needs of scales and the like."""
        stream = self.given[number]
        count = {"row": rows, "col": columns, "one": 1}[stream.over]
        return min(count * stream.ref.dtype.itemsize, stream.ref.bytes)

    def write(self, batch: int, images: int, m: int, n: int) -> Block:
        """The program for a team with such a share, tile by tile in the order of the Cube."""
        b, t = self.b, self.tiling
        b.emit(*[SetFlag(Pipe.MTE2, FETCHED)] * self.work.slots)
        with b.loop("batch", batch) as group, b.loop("image", images) as image:
            whole = plus(group, image)
            outer = pieces(m, min(t.tile_m, m)) if t.hold == "a" else pieces(n, min(t.tile_n, n))
            inner = pieces(n, min(t.tile_n, n)) if t.hold == "a" else pieces(m, min(t.tile_m, m))
            for first in outer:
                with b.loop("o", first.trips) as i:
                    for second in inner:
                        with b.loop("i", second.trips) as j:
                            rows, columns = (first.at(i), first.size), (second.at(j), second.size)
                            if t.hold != "a":
                                rows, columns = columns, rows
                            self._tile(whole, rows, columns)
        return replace(b.build(), cross=FLAGS)

    def _tile(self, product: Affine, m: Extent, n: Extent) -> None:
        b = self.b
        b.emit(WaitFlag(Pipe.MTE2, SUMS))
        own = ceil_div(m[1], self.each)
        for part in pieces(own, min(self.rows, own)):
            with b.loop("piece", part.trips) as i:
                self._piece(product, plus(m[0], part.at(i)), part.size, n)
        b.emit(SetFlag(Pipe.MTE2, FETCHED))

    def _piece(self, product: Affine, row: Affine, rows: int, n: Extent) -> None:
        b, out = self.b, self.work.product.out
        place = plus(row, times(product, self.product.m))
        b.acquire(self.ins)
        size = rows * n[1] * self.work.sums.dtype.itemsize
        self._bring(Tile(self.work.sums.region, ZERO, 1, size), 0)
        for number, stream in enumerate(self.given):
            item = stream.ref.dtype.itemsize
            at = {"row": place if self._by_product(stream) else row, "col": n[0], "one": ZERO}[stream.over]
            tile = Tile(stream.ref.region, times(at, item), 1, self._given_bytes(number, rows, n[1]))
            self._bring(fitted(b, tile, stream.ref), number + 1)
        b.commit(self.ins)
        b.receive(self.ins)
        b.acquire(self.outs)
        self._compute(rows, n[1])
        b.commit(self.outs)
        b.release(self.ins)
        b.receive(self.outs)
        item, width = out.dtype.itemsize, self.product.n
        offset = plus(times(place, width * item), times(n[0], item))
        tile = fitted(b, Tile.strided(out.region, offset, rows, n[1] * item, width * item), out)
        source = b.source(self.outs, tile.bytes)
        steps = tile.bursts, tile.burst_bytes
        b.emit(Move(Pipe.MTE3, tile.operand, source, *steps, dst_stride=tile.stride, aligned=tile.aligned))
        b.release(self.outs)

    def _by_product(self, stream: Stream) -> bool:
        """Whether the rows of each product have scales of their own, as those of a grouped product do; the
        matrices of a batch share them.
        """
        return math.prod(stream.ref.shape) >= self.work.product.batch * self.product.m

    def _bring(self, tile: Tile, part: int) -> None:
        target = self.b.target(self.ins, tile.bytes, part)
        self.b.emit(
            Move(Pipe.MTE2, target, tile.operand, tile.bursts, tile.burst_bytes, aligned=tile.aligned)
        )

    def _compute(self, rows: int, columns: int) -> None:
        """The steps; scales of rows or columns are broadcast."""
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
