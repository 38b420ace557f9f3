"""The program of one core's share of Cube work: matmul and img2col convolution, tiled over L1, L0 and k.

One block runs, for its share of batch, images, m and n:

    for each tile of n, for each tile of m (the held operand's panel is loaded in the outer loop):
        for each chunk of k:   MTE2 brings the chunk of A and B into L1 (two slots)
            for each step:     MTE1 makes L0A, L0B (two slots); M multiplies into L0C
        way out:   coupled cores: V moves L0C -> UB and converts, runs the epilogue; MTE3 stores
                   split cores:   FIX converts and stores; a ReLU is free;
                                  further epilogue steps run as a second task on the vector cores, over the
                                  stored result

Every stage hands over through a ring of slots, so MTE2, MTE1, M and the way out overlap. The order of m and n
loops follows the held operand ("b": n outside). The bias is in L0C before the first mmad, see `bias`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    L0C_ELEMENT_BYTES,
    Format,
    align,
    c0,
    ceil_div,
)
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Img2Col, Mmad, Move, Pipe
from ascendsim.isa.notes import Note, origin
from ascendsim.isa.program import Block, CoreKind
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import Piece, Ring, pieces
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.bias import Extent, bias_of, in_turn
from ascendsim.lower.templates.cube_notes import CubeNotes, Where
from ascendsim.lower.templates.operands import fitted, image_tile, matrix_tile, raw_tile, weight_tile
from ascendsim.lower.templates.out_notes import OutNotes
from ascendsim.lower.templates.pipelining import Compute, Load, pipelined
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product, in_hf32
from ascendsim.lower.templates.stage import Tile, start_library
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.lower.templates.way_out import FixpipeOut, UnifiedBufferOut
from ascendsim.opset.work import CubeWork, Ref
from ascendsim.soc.spec import SocSpec


class CubeWriter:
    """Writes the program of one share of m x n rows and columns."""

    def __init__(
        self,
        work: CubeWork,
        product: Product,
        tiling: Tiling,
        soc: SocSpec,
        expansion: Expansion,
        share: tuple[int, int],
    ) -> None:
        self.work, self.product, self.tiling = work, product, tiling
        self.whole = product  # of which the tensors are; strips are parts of it
        self.conv = None if unfold.is_direct(work.conv) else work.conv
        self.b = b = expansion.builder(CoreKind.CUBE if soc.split_cores else CoreKind.AI)
        self.share_n = share[1]
        self.tile_m, self.tile_n = tile_m, tile_n = min(tiling.tile_m, share[0]), min(tiling.tile_n, share[1])
        m_blocks, n_blocks = ceil_div(tile_m, FRACTAL_ROWS), ceil_div(tile_n, FRACTAL_ROWS)
        self.band_m = min(tiling.band_m, share[0])
        self.grain = unfold.run_grain(work.conv, product.m, tiling.share_m, tiling.band_m)
        a_chunk = product.a_bytes(tiling.share_m, tiling.band_m, tiling.chunk_k)
        b_chunk = product.b_blocks(tile_n) * FRACTAL_BYTES * tiling.chunk_k
        a_panel = product.a_bytes(tiling.share_m, tiling.band_m, product.k_blocks)
        b_panel = product.b_blocks(tile_n) * FRACTAL_BYTES * product.k_blocks
        mte2, mte1 = Pipe.MTE2, Pipe.MTE1
        if tiling.hold == "b":
            self.a1 = self.streamed = b.ring("a_l1", mte2, mte1, 2, (Buffer.L1, a_chunk))
            self.b1 = self.panel = b.ring(
                "b_l1", mte2, mte1, self._panel_slots(2 * a_chunk, b_panel), (Buffer.L1, b_panel)
            )
        elif tiling.hold == "a":
            self.b1 = self.streamed = b.ring("b_l1", mte2, mte1, 2, (Buffer.L1, b_chunk))
            self.a1 = self.panel = b.ring(
                "a_l1", mte2, mte1, self._panel_slots(2 * b_chunk, a_panel), (Buffer.L1, a_panel)
            )
        else:
            self.a1 = self.b1 = self.streamed = b.ring(
                "l1", mte2, mte1, tiling.l1_slots, (Buffer.L1, a_chunk), (Buffer.L1, b_chunk)
            )
        step = tiling.step_k * FRACTAL_BYTES
        self.l0 = b.ring("l0", mte1, Pipe.M, 2, (Buffer.L0A, m_blocks * step), (Buffer.L0B, n_blocks * step))
        out_pipe = Pipe.FIX if soc.split_cores else Pipe.V
        self.l0c = b.ring(
            "l0c",
            Pipe.M,
            out_pipe,
            tiling.accumulators,
            (Buffer.L0C, m_blocks * n_blocks * ACCUMULATOR_BYTES),
        )
        self.bias = bias_of(b, work, self.l0c, expansion, (tile_m, tile_n), share[1])
        if soc.split_cores:
            self.out: FixpipeOut | UnifiedBufferOut = FixpipeOut(b, work, self.l0c)
        else:
            self.out = UnifiedBufferOut(b, work, self.l0c, expansion, (tile_m, tile_n), share[1])
        self.notes = CubeNotes(work, product, soc)
        if not tiling.columns:
            self._note(work, product)

    def _note(self, work: CubeWork, whole: Product) -> None:
        """Gets ready to say what instructions do, if it is asked for and known."""
        self.notes, out = CubeNotes(work, whole, self.b.soc), OutNotes(work, whole)
        self.b.noted = self.b.noted and self.notes.known(self.tiling) and out.known
        self.out.notes = out if self.b.noted else None

    def _panel_slots(self, streamed: int, panel: int) -> int:
        """Two if the next panel fits beside the current one (and the bias), so that it is brought in
        ahead.
        """
        spare = align(self.share_n * L0C_ELEMENT_BYTES, 32)
        return 2 if streamed + 2 * panel + spare <= capacity(self.b.soc, Buffer.L1) else 1

    def write(self, batch: int, images: int, m: int, n: int) -> Block:
        """The program."""
        b = self.b
        if self.work.library:
            start_library(b)
        for group in self._products(batch):
            placed = plus(times(plus(group, origin("batch")), self.product.n), origin("n"))
            for part in (self.bias, self.out):
                part.start(times(group, self.product.n), n, placed)
            if self.tiling.hold == "a":
                self.bias.enter((ZERO, min(n, self.tile_n)))
                for image, rows in self._images(images, m):
                    self._rows_outside(group, image, rows, n)
                self.bias.leave()
            else:
                self._columns_outside(group, images, m, n)
            for part in (self.bias, self.out):
                part.finish()
        return b.build()

    def _products(self, batch: int) -> Iterator[Affine]:
        """Loops over products: cut where the epilogue goes on to another matrix of an operand that serves
        several of them, or begins again.
        """
        streams = [stream.ref for stream in self.work.epilogue_inputs if stream.over == "all"]
        period = next((found for ref in streams if (found := ref.period(self.work.out))), batch)
        if self.work.conv is not None or period >= batch:
            with self.b.loop("batch", batch) as group:
                yield group
            return
        for part in pieces(batch, period):
            with self.b.loop("group", part.trips) as i, self.b.loop("batch", part.size) as j:
                yield plus(part.at(i), j)

    def _images(self, images: int, m: int) -> Iterator[tuple[Affine, int]]:
        """Loops over images: yields each with its rows of A."""
        with self.b.loop("image", images) as image:
            yield image, m

    def _rows_outside(self, group: Affine, image: Affine, m: int, n: int) -> None:
        b, k = self.b, (ZERO, self.product.k_blocks)
        for rows in pieces(m, self.tile_m):
            with b.loop("m", rows.trips) as i:
                b.acquire(self.panel)
                self._load_a(Where(group, image, rows.at(i), ZERO), rows.size, rows.trips, k)
                b.commit(self.panel)
                b.receive(self.panel)
                for columns, j, after in in_turn(b, self.bias, pieces(n, self.tile_n), "n"):
                    self._tile(
                        Where(group, image, rows.at(i), columns.at(j)),
                        rows.size,
                        columns.size,
                        rows.trips,
                        after=after,
                    )
                b.release(self.panel)

    def _columns_outside(self, group: Affine, images: int, m: int, n: int) -> None:
        b, k = self.b, (ZERO, self.product.k_blocks)
        held = self.tiling.hold == "b"
        for columns in pieces(n, self.tile_n):
            with b.loop("n", columns.trips) as j:
                if held:
                    b.acquire(self.panel)
                    self._load_b(Where(group, ZERO, ZERO, columns.at(j)), columns.size, k)
                    b.commit(self.panel)
                    b.receive(self.panel)
                self.bias.enter((columns.at(j), columns.size))
                for image, whole in self._images(images, m):
                    if held and self.tiling.chunk_k == self.product.k_blocks:
                        self._bands(Where(group, image, ZERO, columns.at(j)), whole, columns.size)
                    else:
                        for rows in pieces(whole, self.tile_m):
                            with b.loop("m", rows.trips) as i:
                                self._tile(
                                    Where(group, image, rows.at(i), columns.at(j)),
                                    rows.size,
                                    columns.size,
                                    rows.trips,
                                )
                self.bias.leave()
                if held:
                    b.release(self.panel)

    def _bands(self, where: Where, m: int, n: int) -> None:
        """All rows of one image, while B's panel is held: A comes in bands of one or more tiles, with all of
        k.
        """
        b, k = self.b, (ZERO, self.product.k_blocks)

        def load(band: Piece, index: Affine, trips: int) -> None:
            b.acquire(self.streamed)
            self._load_a(replace(where, m=band.at(index)), band.size, trips, k)
            b.commit(self.streamed)

        def compute(band: Piece, index: Affine) -> None:
            b.receive(self.streamed)
            for rows in pieces(band.size, self.tile_m):
                with b.loop("t", rows.trips) as t:
                    at = plus(band.at(index), rows.at(t))
                    self._tile(replace(where, m=at), rows.size, n, 1, (band.at(index), band.size))
            b.release(self.streamed)

        self._pipelined(pieces(m, self.band_m), "m", load, compute)

    def _pipelined(self, parts: Sequence[Piece], name: str, load: Load, compute: Compute) -> None:
        pipelined(self.b, parts, name, self.tiling.steps_of_load, load, compute)

    def _tile(
        self,
        where: Where,
        m: int,
        n: int,
        trips: int,
        band: Extent | None = None,
        after: Extent | None = None,
    ) -> None:
        """One tile of the result. With a `band` its rows of A are among those in L1 already; `after`: columns
        of the next tile, by default the same.
        """
        b, t, following = self.b, self.tiling, after or (where.n, n)
        self.bias.bring((where.n, n))
        self.out.bring((where.m, m))
        b.acquire(self.l0c)
        self.bias.begin()
        if band is not None:
            self._steps(where, (m, n), (ZERO, self.product.k_blocks), band)
        else:

            def load(chunk: Piece, index: Affine, _: int) -> None:
                b.acquire(self.streamed)
                k = (chunk.at(index), chunk.size)
                if t.hold != "a":
                    self._load_a(where, m, trips, k)
                if t.hold != "b":
                    self._load_b(where, n, k)
                b.commit(self.streamed)

            def compute(chunk: Piece, index: Affine) -> None:
                b.receive(self.streamed)
                self._steps(where, (m, n), (chunk.at(index), chunk.size), (where.m, m))
                b.release(self.streamed)

            self._pipelined(pieces(self.product.k_blocks, t.chunk_k), "k", load, compute)
        b.commit(self.l0c)
        self.bias.computed(following)
        base, is_map = self._result_base(where)
        self.out.write(base, (where.m, m), (where.n, n), (self.whole.m, self.whole.n, is_map), where)
        self.bias.stored(following)

    def _steps(self, where: Where, size: tuple[int, int], k: Extent, rows: Extent) -> None:
        """L1 -> L0 -> Cube for one chunk of k; `rows` of A are in L1."""
        b, t = self.b, self.tiling
        m, n = size
        m_blocks, n_blocks = ceil_div(m, FRACTAL_ROWS), ceil_div(n, FRACTAL_ROWS)
        for steps in pieces(k[1], t.step_k):
            with b.loop("s", steps.trips) as s:
                at = steps.at(s)
                b.acquire(self.l0)
                inside = at if t.hold != "a" else plus(k[0], at)
                panel = k if t.hold != "a" else (ZERO, self.product.k_blocks)
                note = self.notes.feed_a(where, m, rows, panel, (inside, steps.size))
                self._feed_a(m, inside, steps.size, (rows[1], k[1]), note)
                inside = at if t.hold != "b" else plus(k[0], at)
                panel_k = k[1] if t.hold != "b" else self.product.k_blocks
                self._feed_b(
                    n_blocks, inside, steps.size, self.notes.feed_b(n, panel_k, (inside, steps.size))
                )
                b.commit(self.l0)
                b.receive(self.l0)
                self._multiply((m, m_blocks), (n, n_blocks), steps.size, plus(k[0], at), where)
                b.release(self.l0)

    def _multiply(
        self, m: tuple[int, int], n: tuple[int, int], k_blocks: int, at: Affine, where: Where
    ) -> None:
        step = FRACTAL_BYTES * k_blocks
        fresh = tuple(name for name, _ in at.terms) if at.base == 0 and not self.bias.preloads else None
        self.b.emit(
            Mmad(
                dst=self.b.target(self.l0c, m[1] * n[1] * ACCUMULATOR_BYTES),
                a=self.b.source(self.l0, m[1] * step, 0),
                b=self.b.source(self.l0, n[1] * step, 1),
                m=m[0],
                k=k_blocks * c0(self.work.dtype),
                n=n[0],
                dtype=self.work.dtype.value,
                accumulate=fresh != (),
                fresh_at=fresh or (),
                bias=self.bias.taken(n[0]) if at.base == 0 else None,
                hf32=in_hf32(self.work.dtype.value, self.work.conv is not None, self.b.soc),
                effect=self.b.note(self.notes.multiply(where, (m[0], n[0]), (at, k_blocks), self.bias)),
            )
        )

    # --- operands -------------------------------------------------------------------------------------------

    def _load_a(self, where: Where, m: int, trips: int, k: tuple[Affine, int]) -> None:
        """GM -> L1."""
        work, block = self.work, c0(self.work.dtype)
        pairs = 1 if work.a_shared else self.product.batch
        if work.image is not None and self.conv is not None:
            tile, converted = raw_tile(
                work.a,
                work.image,
                self.conv,
                (where.m, m),
                k[1],
                number=where.image,
                trips=trips,
                grain=self.grain,
            )
            self._load(tile, self.a1, 0, work.a, converted=converted)
            return
        if work.conv is None:
            base = plus(
                times(where.batch, 0 if work.a_shared else work.a.bytes // pairs),
                times(where.image, work.a.bytes // self.product.images),
            )
            rows, columns = (where.m, m), (times(k[0], block), k[1] * block)
            stored = (work.k, work.m) if work.transpose_a else (work.m, work.k)
            tile = matrix_tile(
                work.a, stored, *((columns, rows) if work.transpose_a else (rows, columns)), base
            )
        else:
            group = unfold.channel_blocks(work.conv, block) * work.conv.height * work.conv.width * BLOCK_BYTES
            base = plus(times(where.batch, group), times(where.image, work.a.bytes // self.product.images))
            if self.conv is None:
                plane = self.product.m * BLOCK_BYTES
                offset = plus(base, times(where.m, BLOCK_BYTES), times(k[0], plane))
                tile = Tile.strided(work.a.region, offset, k[1], m * BLOCK_BYTES, plane)
            else:
                tile = image_tile(work.a, self.conv, (where.m, m), k, base, trips=trips, grain=self.grain)
        self._load(tile, self.a1, 0, work.a, note=self.notes.load_a(where, m, k))

    def _load_b(self, where: Where, n: int, k: tuple[Affine, int]) -> None:
        """GM -> L1."""
        work, block = self.work, c0(self.work.dtype)
        if work.conv is not None:
            base = times(where.batch, ceil_div(self.product.n, FRACTAL_ROWS) * FRACTAL_BYTES)
            tile = weight_tile(work.b, self.product.n * self.product.batch, k, (where.n, n), base)
        else:
            base = times(where.batch, 0 if work.b_shared else work.b.bytes // self.product.batch)
            depth, columns = (times(k[0], block), k[1] * block), (where.n, n)
            stored = (work.n, work.k) if work.transpose_b else (work.k, work.n)
            tile = matrix_tile(
                work.b, stored, *((columns, depth) if work.transpose_b else (depth, columns)), base
            )
        note = self.notes.load_b(where, n, k)
        self._load(tile, self.b1, len(self.b1.allocations) - 1, work.b, note=note)

    def _load(
        self,
        tile: Tile,
        ring: Ring,
        part: int,
        ref: Ref,
        *,
        converted: int = 0,
        at: Affine = ZERO,
        note: Note | None = None,
    ) -> None:
        """MTE2 brings a tile, to an offset in its slot; `converted` are the bytes that AIPP makes of it."""
        tile = fitted(self.b, tile, ref)
        kind = (
            "nd2nz"
            if ref.format is Format.ND and self.b.soc.split_cores and self.work.conv is None
            else "copy"
        )
        if converted:
            kind = "aipp"
        target = self.b.target(ring, converted or tile.bytes, part, at)
        self.b.emit(
            Move(
                Pipe.MTE2,
                target,
                tile.operand,
                tile.bursts,
                tile.burst_bytes,
                kind,
                src_stride=tile.stride,
                aligned=tile.aligned,
                effect=None if note is None else self.b.note(note),
            )
        )

    def _feed_a(self, m: int, at: Affine, k_blocks: int, held: tuple[int, int], note: Note) -> None:
        """L1 -> L0A: load2d, or load3d where the map must be unfolded; `held` rows and k blocks are in L1."""
        b, work = self.b, self.work
        m_blocks = ceil_div(m, FRACTAL_ROWS)
        bytes = m_blocks * k_blocks * FRACTAL_BYTES
        target = b.target(self.l0, bytes, 0)
        if self.conv is not None:
            rows, chunk = held
            blocks = self.product.k_blocks if self.tiling.hold == "a" else chunk
            source = b.source(self.a1, unfold.a_bytes(self.conv, rows, blocks, self.grain))
            lines = unfold.input_rows(self.conv)
            b.emit(Img2Col(target, source, bytes, self.conv.stride_w, lines, effect=b.note(note)))
            return
        column = unfold.a_bytes(work.conv, m, 1)
        source = b.source(self.a1, column * k_blocks, 0, times(at, column))
        b.emit(Move(Pipe.MTE1, target, source, 1, bytes, "load2d", effect=b.note(note)))

    def _feed_b(self, n_blocks: int, at: Affine, k_blocks: int, note: Note) -> None:
        """L1 -> L0B."""
        b = self.b
        row = n_blocks * FRACTAL_BYTES
        source = b.source(self.b1, row * k_blocks, len(self.b1.allocations) - 1, times(at, row))
        target, bytes = b.target(self.l0, row * k_blocks, 1), row * k_blocks
        b.emit(Move(Pipe.MTE1, target, source, 1, bytes, "load2d", effect=b.note(note)))

    def _result_base(self, where: Where) -> tuple[Affine, bool]:
        """Byte offset of the product's result, and whether it is a feature map."""
        work, product = self.work, self.whole
        if work.conv is None:
            return plus(
                times(where.batch, work.out.bytes // product.batch),
                times(where.image, work.out.bytes // product.images),
            ), False
        block = c0(work.out.dtype)
        group = ceil_div(product.n, block) * product.m * BLOCK_BYTES if product.batch > 1 else 0
        return plus(times(where.batch, group), times(where.image, work.out.bytes // product.images)), True
