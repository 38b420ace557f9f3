"""Two convolutions in one task, what is between them in L1 (L1 fusion).

One block takes some images and output rows of the second convolution, in bands of rows:

    weights of both convolutions come into L1 once
    for each band:   MTE2 brings the input rows that the band needs
        first convolution:   Cube -> L0C -> V (bias, epilogue) -> UB -> MTE3 -> L1, all channels, halo rows of
                             the second included
        second convolution:  L1 -> Cube -> L0C -> V -> UB -> MTE3 -> global memory

The first convolution of a band runs before the second one of the band before it, so that the Cube need not
wait for the way through UB. Halo rows are computed again in every band; the height of a band is the one that
the closed form likes best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, Format, align, c0, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Img2Col, Mmad, Move, Pipe
from ascendsim.isa.notes import Note
from ascendsim.isa.program import Block, BlockGroup, CoreKind, Task, TaskKind
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Piece, Ring, pieces
from ascendsim.lower.task_cost import closed_form
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.bias import Bias, NoBias, bias_of
from ascendsim.lower.templates.operands import fitted, image_tile, weight_tile
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES
from ascendsim.lower.templates.stage import Stage, Tile, share_groups, sizes_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import FEW, NEAR
from ascendsim.lower.templates.way_out import UnifiedBufferOut
from ascendsim.opset.work import ConvGeometry, CubePair, CubeWork, Ref
from ascendsim.soc.spec import SocSpec

# tile in L0C: half of the smallest L0C of coupled cores, so that the way out overlaps
MOST_M, MOST_N = (256, 128)
SLACK = FRACTAL_ROWS * BLOCK_BYTES  # fractals at the end of a band may reach beyond its last position


def lower_pair(work: CubePair, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of two convolutions, in bands of the height that the closed form likes best.

    Raises:
        CompileError: If the chip has no way from UB to L1, the convolutions do not follow each other, or they
            do not fit into L1.
    """
    return pair_options(work, soc, expansion)[0]()


def pair_options(work: CubePair, soc: SocSpec, expansion: Expansion) -> list[Callable[[], Stage]]:
    """What makes the stage with bands of each of the best few heights, by the closed form's price.

    Raises:
        CompileError: As `lower_pair`.
    """
    _check(work, soc)
    reason: CompileError | None = None
    priced: list[tuple[float, Callable[[], Stage]]] = []
    for rows in _band_heights(_shares(work, soc)[1][1]):
        make = partial(_stage, work, soc, expansion, rows)
        try:
            stage = make()
        except CompileError as error:
            reason = error
            continue
        task = Task(
            0, "", TaskKind.AI_CORE, groups=stage.groups, accesses=accesses_of(stage.groups, stage.sizes)
        )
        priced.append((closed_form(task, soc).far, make))
    if not priced:
        raise reason or CompileError("two convolutions", "must have rows")
    priced.sort(key=itemgetter(0))
    return [make for price, make in priced[:FEW] if price <= NEAR * priced[0][0]]


def _shares(work: CubePair, soc: SocSpec) -> list[tuple[int, int]]:
    """Images and rows of the second convolution, with what one core takes of each."""
    geometry = _geometry(work.second)
    image_parts = min(geometry.batch, soc.ai_cores)
    row_parts = min(geometry.out_h, soc.ai_cores // image_parts)
    return [
        (geometry.batch, ceil_div(geometry.batch, image_parts)),
        (geometry.out_h, ceil_div(geometry.out_h, row_parts)),
    ]


def _stage(work: CubePair, soc: SocSpec, expansion: Expansion, rows: int) -> Stage:
    """Blocks with bands of so many rows."""
    groups = [
        BlockGroup(_PairWriter(work, soc, expansion, min(rows, own)).write(images, own), n)
        for (images, own), n in share_groups(_shares(work, soc))
    ]
    return Stage(tuple(groups), sizes=_sizes(work))


def _band_heights(rows: int) -> Iterator[int]:
    """Heights of bands to try, evened out over a share of so many rows; the large ones, which compute fewer
    halo rows, first.
    """
    wanted = [
        height for height in (64, 48, 32, 28, 24, 20, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1) if height < rows
    ]
    yield from dict.fromkeys(ceil_div(rows, ceil_div(rows, height)) for height in (rows, *wanted))


def _sizes(work: CubePair) -> dict[str, int]:
    first, second = work.first, work.second
    refs = [stream.ref for item in (first, second) for stream in item.epilogue_inputs]
    refs += [side.ref for side in second.side_outputs]
    return sizes_of(first.a, first.b, first.bias, second.b, second.bias, second.out, *refs)


def _geometry(work: CubeWork) -> ConvGeometry:
    assert work.conv is not None
    return work.conv


def _check(work: CubePair, soc: SocSpec) -> None:
    subject = f"convolutions into {work.first.out.region!r} and {work.second.out.region!r}"
    if soc.split_cores or not soc.ports.ub_to_l1:
        raise CompileError(subject, "need a way from UB to L1 in one core", soc.name)
    for item in (work.first, work.second):
        if item.conv is None or item.batch != 1 or item.conv.kernel_d != 1 or item.dtype is not DType.FLOAT16:
            raise CompileError(subject, "must be float16 convolutions in two dimensions with one group")
        if item.a.format is not Format.NC1HWC0:
            raise CompileError(subject, "must take NC1HWC0", item.a.format.value)
    if work.second.a.region not in (
        work.first.out.region,
        *(side.ref.region for side in work.first.side_outputs),
    ):
        raise CompileError(subject, "must follow each other")
    if work.first.sums or work.second.sums:
        raise CompileError(subject, "must not be added up on their way out")
    if work.first.side_outputs or any(stream.over in ("all", "row") for stream in work.first.epilogue_inputs):
        raise CompileError(subject, "must hand over one value, made with one value a channel at most")


class _IntoL1(UnifiedBufferOut):
    """The way out that ends in L1 instead of global memory."""

    def __init__(
        self,
        builder: BlockBuilder,
        work: CubeWork,
        l0c: Ring,
        expansion: Expansion,
        tile: tuple[int, int],
        target: Ring,
    ) -> None:
        super().__init__(builder, work, l0c, expansion, tile, work.n)
        self.target = target

    def _store(self, tile: Tile, ring: Ring, bytes: int, at: Affine, note: Note | None = None) -> None:
        b = self.b
        stored = b.source(ring, min(bytes, tile.bytes), 0, at)
        span = tile.operand.bytes
        into = b.target(self.target, span, 0, tile.offset)
        b.emit(Move(Pipe.MTE3, into, stored, tile.bursts, tile.burst_bytes, dst_stride=tile.stride))


class _Side:
    """One of the two convolutions: sizes, tiles, weights in L1."""

    def __init__(self, b: BlockBuilder, work: CubeWork, positions: int, name: str) -> None:
        self.work, self.geometry = work, _geometry(work)
        self.bias: Bias = NoBias()
        self.direct = unfold.is_direct(work.conv)
        self.k_blocks = ceil_div(self.geometry.channels, c0(work.dtype)) * unfold.taps(work.conv)
        self.columns = ceil_div(work.n, FRACTAL_ROWS)
        self.tile_m, self.tile_n = _even(positions, MOST_M), _even(work.n, MOST_N)
        l0a, l0b = capacity(b.soc, Buffer.L0A) // 2, capacity(b.soc, Buffer.L0B) // 2
        m_blocks, n_blocks = ceil_div(self.tile_m, FRACTAL_ROWS), ceil_div(self.tile_n, FRACTAL_ROWS)
        most = min(l0a // (m_blocks * FRACTAL_BYTES), l0b // (n_blocks * FRACTAL_BYTES), self.k_blocks)
        if most < 1:
            raise CompileError(f"convolution into {work.out.region!r}", "must fit its tile into L0")
        self.step = ceil_div(self.k_blocks, ceil_div(self.k_blocks, most))
        self.l0 = m_blocks * self.step * FRACTAL_BYTES, n_blocks * self.step * FRACTAL_BYTES
        self.l0c_bytes = m_blocks * n_blocks * ACCUMULATOR_BYTES
        self.weights = b.ring(
            f"{name}_weights_l1",
            Pipe.MTE2,
            Pipe.MTE1,
            1,
            (Buffer.L1, self.columns * FRACTAL_BYTES * self.k_blocks),
        )


class _PairWriter:
    """Writes the program of one share of images and rows, in bands of `rows` output rows of the second
    convolution.
    """

    def __init__(self, work: CubePair, soc: SocSpec, expansion: Expansion, rows: int) -> None:
        self.b = b = BlockBuilder(soc, CoreKind.AI)
        self.rows = rows
        second = _geometry(work.second)
        positions = rows * second.out_w
        held = self._held(second, rows)
        self.first, self.second = (
            _Side(b, work.first, held * second.width, "first"),
            _Side(b, work.second, positions, "second"),
        )
        source = unfold.a_bytes(work.first.conv, held * second.width, self.first.k_blocks, second.width)
        self.source = b.ring("a_l1", Pipe.MTE2, Pipe.MTE1, 2, (Buffer.L1, source + SLACK))
        between = held * second.width * BLOCK_BYTES * self.first.columns
        self.between = b.ring("between_l1", Pipe.MTE3, Pipe.MTE1, 2, (Buffer.L1, between + SLACK))
        sides = (self.first, self.second)
        self.l0 = b.ring(
            "l0",
            Pipe.MTE1,
            Pipe.M,
            2,
            *(
                (buffer, max(side.l0[n] for side in sides))
                for n, buffer in enumerate((Buffer.L0A, Buffer.L0B))
            ),
        )
        self.l0c = b.ring("l0c", Pipe.M, Pipe.V, 2, (Buffer.L0C, max(side.l0c_bytes for side in sides)))
        inside = Ref(
            "between", (1, work.first.n, held, second.width), work.first.out.dtype, Format.NC1HWC0, between
        )
        into = replace(work.first, out=inside)
        self.into = _IntoL1(
            b, into, self.l0c, expansion, (self.first.tile_m, self.first.tile_n), self.between
        )
        self.out = UnifiedBufferOut(
            b, work.second, self.l0c, expansion, (self.second.tile_m, self.second.tile_n), work.second.n
        )
        for side in sides:
            side.bias = bias_of(b, side.work, self.l0c, expansion, (side.tile_m, side.tile_n), side.work.n)

    @staticmethod
    def _held(geometry: ConvGeometry, rows: int) -> int:
        """Rows between the convolutions that some output rows need."""
        return unfold.window(geometry, rows * geometry.out_w, geometry.out_w).rows

    def write(self, images: int, rows: int) -> Block:
        """The program."""
        b = self.b
        self.into.start(ZERO, self.first.work.n)
        self.out.start(ZERO, self.second.work.n)
        for side in (self.first, self.second):
            side.bias.start(ZERO, side.work.n)
            self._load_weights(side)
        with b.loop("image", images) as image:
            parts = pieces(rows, self.rows)
            self._make(parts[0], ZERO, image)
            for number, part in enumerate(parts):
                if part.trips > 1:
                    with b.loop("band", part.trips - 1) as i:
                        self._make(part, plus(i, 1), image)
                        self._use(part, i, image)
                if number + 1 < len(parts):
                    self._make(parts[number + 1], ZERO, image)
                self._use(part, Affine(part.trips - 1), image)
        for side in (self.first, self.second):
            b.release(side.weights)
            side.bias.finish()
        self.into.finish()
        self.out.finish()
        return b.build()

    def _make(self, band: Piece, index: Affine, image: Affine) -> None:
        """First convolution of a band, into L1."""
        b, side = self.b, self.first
        second = self.second.geometry
        rows = self._held(second, band.size)
        positions = rows * second.width
        b.acquire(self.source)
        self._load(times(band.at(index), second.stride_h), rows, band.trips, image)
        b.commit(self.source)
        b.receive(self.source)
        b.acquire(self.between)
        for columns in pieces(side.work.n, side.tile_n):
            with b.loop("n", columns.trips) as j:
                n = (columns.at(j), columns.size)
                side.bias.enter(n)
                for run in pieces(positions, side.tile_m):
                    with b.loop("t", run.trips) as t:
                        self._product(side, self.source, (run.at(t), run.size, positions), n)
                        self.into.write(ZERO, (run.at(t), run.size), n, (positions, side.work.n, True))
                side.bias.leave()
        b.release(self.source)
        b.commit(self.between)

    def _use(self, band: Piece, index: Affine, image: Affine) -> None:
        """Second convolution of a band, from L1."""
        b, side = self.b, self.second
        geometry = side.geometry
        positions = geometry.out_h * geometry.out_w
        held = self._held(geometry, band.size) * geometry.width
        base = times(image, side.work.out.bytes // geometry.batch)
        start = times(band.at(index), geometry.out_w)
        b.receive(self.between)
        for columns in pieces(side.work.n, side.tile_n):
            with b.loop("n", columns.trips) as j:
                n = (columns.at(j), columns.size)
                side.bias.enter(n)
                for run in pieces(band.size * geometry.out_w, side.tile_m):
                    with b.loop("t", run.trips) as t:
                        m = (plus(start, run.at(t)), run.size)
                        self.out.bring(m)
                        self._product(side, self.between, (run.at(t), run.size, held), n)
                        self.out.write(base, m, n, (positions, side.work.n, True))
                side.bias.leave()
        b.release(self.between)

    def _load_weights(self, side: _Side) -> None:
        b = self.b
        b.acquire(side.weights)
        tile = fitted(
            b,
            weight_tile(side.work.b, side.work.n, (ZERO, side.k_blocks), (ZERO, side.work.n), ZERO),
            side.work.b,
        )
        target = b.target(side.weights, tile.bytes)
        b.emit(
            Move(
                Pipe.MTE2,
                target,
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                src_stride=tile.stride,
                aligned=tile.aligned,
            )
        )
        b.commit(side.weights)
        b.receive(side.weights)

    def _load(self, first_row: Affine, rows: int, trips: int, image: Affine) -> None:
        """Input rows for some rows between the convolutions."""
        b, side = self.b, self.first
        geometry, ref = side.geometry, side.work.a
        base = times(image, ref.bytes // geometry.batch)
        positions = times(first_row, geometry.out_w)
        if side.direct:
            plane = geometry.height * geometry.width * BLOCK_BYTES
            offset = plus(base, times(positions, BLOCK_BYTES))
            tile = Tile.strided(ref.region, offset, side.k_blocks, rows * geometry.out_w * BLOCK_BYTES, plane)
        else:
            run, k = (positions, rows * geometry.out_w), (ZERO, side.k_blocks)
            tile = image_tile(ref, geometry, run, k, base, trips=trips, grain=geometry.out_w)
        tile = fitted(b, tile, ref)
        target = b.target(self.source, tile.bytes)
        b.emit(
            Move(
                Pipe.MTE2,
                target,
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                src_stride=tile.stride,
                aligned=tile.aligned,
            )
        )

    def _product(self, side: _Side, source: Ring, m: tuple[Affine, int, int], n: tuple[Affine, int]) -> None:
        """One tile in L0C: position, rows and rows in L1 of A; first column and columns."""
        b = self.b
        side.bias.bring(n)
        b.acquire(self.l0c)
        side.bias.begin()
        m_blocks, n_blocks = ceil_div(m[1], FRACTAL_ROWS), ceil_div(n[1], FRACTAL_ROWS)
        for steps in pieces(side.k_blocks, side.step):
            with b.loop("s", steps.trips) as s:
                at = steps.at(s)
                b.acquire(self.l0)
                self._feed(side, source, m, n, (at, steps.size))
                b.commit(self.l0)
                b.receive(self.l0)
                fresh = (
                    tuple(name for name, _ in at.terms) if at.base == 0 and not side.bias.preloads else None
                )
                step = FRACTAL_BYTES * steps.size
                b.emit(
                    Mmad(
                        dst=b.target(self.l0c, m_blocks * n_blocks * ACCUMULATOR_BYTES),
                        a=b.source(self.l0, m_blocks * step, 0),
                        b=b.source(self.l0, n_blocks * step, 1),
                        m=m[1],
                        k=steps.size * c0(side.work.dtype),
                        n=n[1],
                        dtype=side.work.dtype.value,
                        accumulate=fresh != (),
                        fresh_at=fresh or (),
                    )
                )
                b.release(self.l0)
        b.commit(self.l0c)
        side.bias.computed(n)

    def _feed(
        self,
        side: _Side,
        source: Ring,
        m: tuple[Affine, int, int],
        n: tuple[Affine, int],
        k: tuple[Affine, int],
    ) -> None:
        """L1 -> L0A and L0B for one step of k."""
        b, (at, k_blocks) = self.b, k
        rows = align(m[1], FRACTAL_ROWS)
        target = b.target(self.l0, rows * BLOCK_BYTES * k_blocks, 0)
        if side.direct:
            column = m[2] * BLOCK_BYTES
            span = (k_blocks - 1) * column + rows * BLOCK_BYTES
            held = b.source(source, span, 0, plus(times(at, column), times(m[0], BLOCK_BYTES)))
            b.emit(Move(Pipe.MTE1, target, held, k_blocks, rows * BLOCK_BYTES, "load2d", src_stride=column))
        else:
            geometry = side.geometry
            held = b.source(source, source.slot_bytes - SLACK)
            b.emit(
                Img2Col(
                    target,
                    held,
                    rows * BLOCK_BYTES * k_blocks,
                    geometry.stride_w,
                    unfold.input_rows(geometry),
                )
            )
        row, n_bytes = side.columns * FRACTAL_BYTES, ceil_div(n[1], FRACTAL_ROWS) * FRACTAL_BYTES
        weights = b.source(
            side.weights, (k_blocks - 1) * row + n_bytes, 0, plus(times(at, row), times(n[0], BLOCK_BYTES))
        )
        into = b.target(self.l0, n_bytes * k_blocks, 1)
        b.emit(Move(Pipe.MTE1, into, weights, k_blocks, n_bytes, "load2d", src_stride=row))


def _even(total: int, most: int) -> int:
    """A tile size of at most `most`, a multiple of 16 unless it is all, that cuts `total` as evenly as can
    be.
    """
    blocks = ceil_div(total, FRACTAL_ROWS)
    tile = ceil_div(blocks, ceil_div(blocks, most // FRACTAL_ROWS)) * FRACTAL_ROWS
    return min(total, tile)
