"""The program of one core's share of a filter's gradient.

    for each group, tile of columns, tile of rows:
        for each image, run of positions:   MTE2 brings the gradient and the map's rows under it into L1
            for each step:                  MTE1 makes L0A (gradient, turned by load2d) and L0B (map,
                                            unfolded by load3d); M multiplies into L0C
        way out, as for other products: MTE3 or FIXPIPE adds the tile to what is in memory

That is the order of TBE's conv2d_backprop_filter; the addition is the DMA's (atomic add), which moves the
bytes of a store.
"""

from __future__ import annotations

from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, c0, ceil_div
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Img2Col, Mmad, Move, Pipe
from ascendsim.isa.program import Block, BlockGroup, CoreKind
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Piece, pieces
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.filter_tiling import FilterProduct, FilterTiling, filter_tiling
from ascendsim.lower.templates.operands import fitted, image_tile
from ascendsim.lower.templates.pipelining import pipelined
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, in_hf32
from ascendsim.lower.templates.stage import Stage, Tile, share_groups, sizes_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.way_out import FixpipeOut, UnifiedBufferOut
from ascendsim.opset.work import CubeWork, FilterWork, Ref
from ascendsim.soc.spec import SocSpec


def lower_filter(work: FilterWork, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of the work with the tiling that the closed form likes best.

    Raises:
        CompileError: If the Cube lacks the type or no tile fits.
    """
    return filter_stage(work, filter_tiling(work, soc), soc, expansion)


def filter_stage(work: FilterWork, tiling: FilterTiling, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of the work with a tiling."""
    product = FilterProduct.of(work)
    axes = [
        (product.groups, tiling.groups),
        (product.images, tiling.images),
        (product.positions, tiling.positions),
        (product.m, tiling.m),
        (product.blocks, tiling.blocks),
    ]
    groups = [
        BlockGroup(_Writer(work, product, tiling, soc, expansion).write(*shares), count)
        for shares, count in share_groups(axes)
    ]
    return Stage(tuple(groups), sizes=sizes_of(work.gradient, work.image, work.out))


class _Writer:
    """Writes the program of one share."""

    def __init__(
        self,
        work: FilterWork,
        product: FilterProduct,
        tiling: FilterTiling,
        soc: SocSpec,
        expansion: Expansion,
    ) -> None:
        self.work, self.product, self.tiling = work, product, tiling
        self.conv, self.columns = work.conv, product.blocks * product.block
        self.direct = unfold.is_direct(work.conv)
        self.b = b = BlockBuilder(soc, CoreKind.CUBE if soc.split_cores else CoreKind.AI)
        t = tiling
        rows, columns = ceil_div(t.tile_m, FRACTAL_ROWS), product.column_blocks(t.tile_blocks)
        self.l1 = b.ring(
            "l1",
            Pipe.MTE2,
            Pipe.MTE1,
            2,
            (Buffer.L1, product.gradient_bytes(t.tile_m, t.run)),
            (Buffer.L1, product.image_bytes(t.tile_blocks, t.positions, t.run)),
        )
        step = t.step * FRACTAL_BYTES
        self.l0 = b.ring("l0", Pipe.MTE1, Pipe.M, 2, (Buffer.L0A, rows * step), (Buffer.L0B, columns * step))
        leaves = Pipe.FIX if soc.split_cores else Pipe.V
        size = rows * columns * ACCUMULATOR_BYTES
        self.l0c = b.ring("l0c", Pipe.M, leaves, t.accumulators, (Buffer.L0C, size))
        depth = product.images * product.positions
        whole = CubeWork(work.m, depth, self.columns, work.gradient, work.image, work.out, dtype=work.dtype)
        self.out: FixpipeOut | UnifiedBufferOut
        if soc.split_cores:
            self.out = FixpipeOut(b, whole, self.l0c)
        else:
            tile = (t.tile_m, t.tile_blocks * product.block)
            self.out = UnifiedBufferOut(b, whole, self.l0c, expansion, tile, t.blocks * product.block)

    def write(self, groups: int, images: int, positions: int, m: int, blocks: int) -> Block:
        """The program of a share of so many groups, images, positions, rows and blocks of columns."""
        b, t = self.b, self.tiling
        with b.loop("batch", groups) as group:
            for columns in pieces(blocks, t.tile_blocks):
                with b.loop("n", columns.trips) as j:
                    for rows in pieces(m, t.tile_m):
                        with b.loop("m", rows.trips) as i:
                            self._tile(
                                group,
                                (images, positions),
                                (rows.at(i), rows.size),
                                (columns.at(j), columns.size),
                            )
        return b.build()

    def _tile(self, group: Affine, k: tuple[int, int], m: tuple[Affine, int], n: tuple[Affine, int]) -> None:
        """One tile of the result; n counts blocks of columns."""
        b, t, images, positions = self.b, self.tiling, *k
        b.acquire(self.l0c)
        steps = ceil_div(ceil_div(min(t.run, positions), self.product.block), t.step)
        if positions <= t.run:  # a chunk an image: those of several images run ahead
            pipelined(
                b,
                pieces(images, 1),
                "image",
                steps,
                lambda piece, i, _: self._load((group, piece.at(i)), (ZERO, positions), 1, m, n),
                lambda piece, i: self._multiply(m[1], n[1], (piece.at(i), positions)),
            )
        else:
            with b.loop("image", images) as image:

                def load(piece: Piece, i: Affine, trips: int) -> None:
                    self._load((group, image), (piece.at(i), piece.size), trips, m, n)

                def compute(piece: Piece, i: Affine) -> None:
                    self._multiply(m[1], n[1], (plus(image, piece.at(i)), piece.size))

                pipelined(b, pieces(positions, t.run), "k", steps, load, compute)
        b.commit(self.l0c)
        block = self.product.block
        base = times(group, self.work.out.bytes // self.product.groups)
        self.out.write(base, m, (times(n[0], block), n[1] * block), (self.work.m, self.columns, False))

    def _load(
        self,
        where: tuple[Affine, Affine],
        run: tuple[Affine, int],
        trips: int,
        m: tuple[Affine, int],
        n: tuple[Affine, int],
    ) -> None:
        """GM -> L1: the gradient of some channels at a run of positions, and the map's rows under it."""
        b, work, conv, (group, image) = self.b, self.work, self.conv, where
        b.acquire(self.l1)
        plane = self.product.positions * BLOCK_BYTES
        channels = ceil_div(work.m, c0(work.dtype))
        first = plus(
            times(image, work.gradient.bytes // self.product.images),
            times(group, channels * plane),
            times(m[0], plane // c0(work.dtype)),
            times(run[0], BLOCK_BYTES),
        )
        count = ceil_div(m[1], c0(work.dtype))
        self._bring(
            work.gradient, Tile.strided(work.gradient.region, first, count, run[1] * BLOCK_BYTES, plane), 0
        )
        size = conv.height * conv.width * BLOCK_BYTES
        base = plus(
            times(image, work.image.bytes // self.product.images),
            times(group, unfold.channel_blocks(conv, c0(work.dtype)) * size),
        )
        if self.direct:
            start = plus(base, times(n[0], size), times(run[0], BLOCK_BYTES))
            tile = Tile.strided(work.image.region, start, n[1], run[1] * BLOCK_BYTES, size)
        else:
            grain = self.product.grain(self.tiling.positions, self.tiling.run)
            tile = image_tile(work.image, conv, run, n, base, trips=trips, grain=grain)
        self._bring(work.image, tile, 1)
        b.commit(self.l1)

    def _bring(self, ref: Ref, tile: Tile, part: int) -> None:
        tile = fitted(self.b, tile, ref)
        self.b.emit(
            Move(
                Pipe.MTE2,
                self.b.target(self.l1, tile.bytes, part),
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                src_stride=tile.stride,
                aligned=tile.aligned,
            )
        )

    def _multiply(self, m: int, blocks: int, k: tuple[Affine, int]) -> None:
        """L1 -> L0 -> Cube for one chunk: positions, from a place in the core's k on (0 = the first of
        all).
        """
        b, t, block = self.b, self.tiling, self.product.block
        rows, columns = ceil_div(m, FRACTAL_ROWS), self.product.column_blocks(blocks)
        b.receive(self.l1)
        held = [allocation.slot_bytes for allocation in self.l1.allocations]
        for steps in pieces(ceil_div(k[1], block), t.step):
            with b.loop("s", steps.trips) as s:
                at, size = plus(k[0], steps.at(s)), steps.size * FRACTAL_BYTES
                b.acquire(self.l0)
                left, right = b.target(self.l0, rows * size, 0), b.target(self.l0, columns * size, 1)
                b.emit(Move(Pipe.MTE1, left, b.source(self.l1, held[0], 0), 1, rows * size, "load2d"))
                source = b.source(self.l1, held[1], 1)
                if self.direct:
                    b.emit(Move(Pipe.MTE1, right, source, 1, columns * size, "load2d"))
                else:
                    spanned = unfold.input_rows(self.conv)
                    b.emit(Img2Col(right, source, columns * size, self.conv.stride_w, spanned))
                b.commit(self.l0)
                b.receive(self.l0)
                fresh = tuple(name for name, _ in at.terms) if at.base == 0 else None
                b.emit(
                    Mmad(
                        dst=b.target(self.l0c, rows * columns * ACCUMULATOR_BYTES),
                        a=b.source(self.l0, rows * size, 0),
                        b=b.source(self.l0, columns * size, 1),
                        m=m,
                        k=steps.size * block,
                        n=blocks * block,
                        dtype=self.work.dtype.value,
                        accumulate=fresh != (),
                        fresh_at=fresh or (),
                        hf32=in_hf32(self.work.dtype.value, True, b.soc),
                    )
                )
                b.release(self.l0)
        b.release(self.l1)
