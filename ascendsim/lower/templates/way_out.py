"""The way out of L0C: through UB and the vector unit on coupled cores, through FIXPIPE on split ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import FRACTAL_ROWS, L0C_ELEMENT_BYTES, align, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Operand, Pipe, Vector
from ascendsim.isa.notes import Note, origin
from ascendsim.lower.affine import plus, scaled, times
from ascendsim.lower.emit import BlockBuilder, Ring, pieces
from ascendsim.lower.templates.area import Area, WholeRows, share_of_slot
from ascendsim.lower.templates.bias import Extent, accumulator_type, bias_passes
from ascendsim.lower.templates.column_sums import ColumnSums, sum_passes, widest_step
from ascendsim.lower.templates.cube_notes import Where
from ascendsim.lower.templates.operands import bring_columns, fitted
from ascendsim.lower.templates.out_notes import OutNotes, TileNotes
from ascendsim.lower.templates.sharing import Computing
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import Expansion, emit_steps
from ascendsim.opset.work import SCALED, CubeWork, Ref, Step, Stream
from ascendsim.soc.spec import SocSpec

# What FIXPIPE does as it stores (source: fix_pipe_pre_conv and fix_pipe_pre_act functions of the chip files):
# one ReLU; int32 by a scale to float16; the same with an offset to int8
_FIXPIPE = re.compile(f"(vrelu )?|{SCALED} (vrelu )?((vadds )?vconv )?")


def fixpipe_takes(epilogue: Sequence[Step]) -> bool:
    """Whether FIXPIPE does the steps on the way: conversion, scale, one ReLU."""
    return _FIXPIPE.fullmatch("".join(f"{step.op} " for step in epilogue)) is not None


def by_the_move(work: CubeWork) -> int:
    """How many steps of the epilogue the move out of L0C does."""
    return int(bool(work.epilogue) and work.epilogue[0].op == SCALED)


def vector_passes(work: CubeWork, soc: SocSpec) -> float:
    """Vector passes over the result besides the move out of L0C, each as long as one over 16-bit elements
    that takes a repeat a cycle; none where FIXPIPE is the way out.
    """
    if soc.split_cores:
        return 0
    steps = Expansion(soc).expand(work.epilogue[by_the_move(work) :])
    epilogue = Computing.of(steps, soc).each * soc.vector.repeat_bytes / 2
    return epilogue + bias_passes(work, soc) + sum_passes(work.sums)


def serving(batch: Affine, each: int, count: int) -> Affine:
    """Which matrix of an operand goes with a product: number // each % count, where a loop over products is
    cut after as many as share a matrix, or as there are matrices.

    >>> str(serving(Affine(0, (("image", 12), ("head", 1))), 12, 8))
    'image'
    >>> str(serving(Affine(0, (("image", 12), ("head", 1))), 1, 12))
    'head'
    """
    if each > 1:
        return Affine(batch.base // each, tuple((name, n // each) for name, n in batch.terms if n >= each))
    return Affine(batch.base % count, tuple((name, n % count) for name, n in batch.terms if n % count))


class FixpipeOut:
    """Split cores: FIXPIPE stores converted results."""

    def __init__(self, builder: BlockBuilder, work: CubeWork, l0c: Ring) -> None:
        self.b, self.work, self.l0c = builder, work, l0c
        self.area: Area = WholeRows()
        self.notes: OutNotes | None = None

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
        """Nothing is kept on the way."""

    def finish(self) -> None:
        """Nothing is left."""

    def bring(self, m: Extent) -> None:
        """Nothing else is read."""

    def write(
        self,
        base: Affine,
        m: Extent,
        n: Extent,
        whole: tuple[int, int, bool],
        where: Where | None = None,
    ) -> None:
        """Stores the tile (rows and columns of the whole product, and whether it is a feature map, in
        `whole`; its indices, for notes, in `where`).
        """
        b, out = self.b, self.work.out
        notes = self.notes.of(where) if self.notes and where else None
        b.receive(self.l0c)
        for place, part, parts in self.area.tiles(b, out, whole, m, n, base):
            tile = fitted(b, place, out)
            rows = align(m[1], FRACTAL_ROWS) if parts == 1 else m[1]
            held = rows * align(n[1], FRACTAL_ROWS) * L0C_ELEMENT_BYTES // parts
            source = b.source(self.l0c, held, 0, times(part, held))
            b.emit(
                Move(
                    Pipe.FIX,
                    tile.operand,
                    source,
                    tile.bursts,
                    tile.burst_bytes,
                    "fixpipe",
                    dst_stride=tile.stride,
                    aligned=tile.aligned,
                    effect=notes.fix(m[1], n, part) if notes else None,
                )
            )
        b.release(self.l0c)


class UnifiedBufferOut:
    """Coupled cores: the vector unit fetches the tile from L0C in pieces, runs the epilogue, sums columns,
    MTE3 stores.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        work: CubeWork,
        l0c: Ring,
        expansion: Expansion,
        tile: tuple[int, int],
        share_n: int,
    ) -> None:
        tile_m, tile_n = tile
        self.b, self.work, self.l0c, self.expansion = builder, work, l0c, expansion
        self.moved = by_the_move(work)
        self.area: Area = WholeRows()
        self.notes: OutNotes | None = None
        self.inside = (
            DType.FLOAT32
            if work.out.dtype is DType.FLOAT32
            else DType.INT32
            if work.out.dtype is DType.INT32
            else DType.FLOAT16
        )
        self.itemsize = max(
            work.out.dtype.itemsize,
            self.inside.itemsize,
            *(side.ref.dtype.itemsize for side in work.side_outputs),
        )
        full = [stream for stream in work.epilogue_inputs if stream.over == "all"]
        counts = {
            "row": align(tile_m, FRACTAL_ROWS),
            "col": align(share_n, FRACTAL_ROWS),
            "one": FRACTAL_ROWS,
        }
        self.kept: list[tuple[Stream, Ring]] = []  # one value a column or one in all: brought once
        self.rows: list[tuple[Stream, Ring]] = []  # one value a row: brought for every tile
        for number, stream in enumerate(work.epilogue_inputs):
            if stream.over != "all":
                size = counts[stream.over] * stream.ref.dtype.itemsize
                slots, held = (2, self.rows) if stream.over == "row" else (1, self.kept)
                held.append(
                    (stream, builder.ring(f"in{number}_ub", Pipe.MTE2, Pipe.V, slots, (Buffer.UB, size)))
                )
        widest = max(
            [self.itemsize, *(step.dtype.itemsize for step in work.epilogue), widest_step(work.sums)]
        )
        values = work.epilogue_values if work.epilogue else 1 if work.sums else 0
        stored = 1 + len(work.side_outputs)
        each = (
            2 * stored * self.itemsize
            + 2 * sum(stream.ref.dtype.itemsize for stream in full)
            + values * widest
        )
        rows = align(tile_m, FRACTAL_ROWS)
        self.sums = ColumnSums(builder, work.sums, expansion, share_n) if work.sums else None
        room = capacity(builder.soc, Buffer.UB) - builder.used(Buffer.UB) - 256
        most = room // (rows * each) // FRACTAL_ROWS * FRACTAL_ROWS
        if most < FRACTAL_ROWS:
            raise CompileError(
                f"UB of {builder.soc.name}",
                "must hold 16 columns of a Cube tile",
                f"{room} bytes for {rows} rows",
                "use fewer fused inputs",
            )
        columns = align(tile_n, FRACTAL_ROWS)
        self.step_n = align(ceil_div(columns, ceil_div(columns, most)), FRACTAL_ROWS)
        count = rows * min(self.step_n, columns)
        self.full = [
            (
                stream,
                builder.ring(f"x{number}_ub", Pipe.MTE2, Pipe.V, 2, (Buffer.UB, stream.ref.stored(count))),
            )
            for number, stream in enumerate(full)
        ]
        self.result = builder.ring("out_ub", Pipe.V, Pipe.MTE3, 2, (Buffer.UB, count * self.itemsize))
        self.sides = [
            (side, builder.ring(f"side{number}_ub", Pipe.V, Pipe.MTE3, 2, (Buffer.UB, count * self.itemsize)))
            for number, side in enumerate(work.side_outputs)
        ]
        self.scratch = (
            builder.ring("tmp_ub", Pipe.V, Pipe.V, 1, (Buffer.UB, values * count * widest))
            if values
            else None
        )

    def start(self, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
        """Loads what the epilogue needs of the share's columns; `placed` is the first of them in tensors."""
        for stream, ring in self.kept:
            at, count, first = (n_at, n, placed) if stream.over == "col" else (ZERO, 1, ZERO)
            bring_columns(self.b, stream.ref, ring, at, count, first)
            self.b.receive(ring)
        if self.sums is not None:
            self.sums.start(n_at, n)

    def finish(self) -> None:
        """Gives it back and stores the sums over the rows."""
        if self.sums is not None:
            self.sums.finish()
        for _, ring in self.kept:
            self.b.release(ring)

    def bring(self, m: Extent) -> None:
        """Loads what the epilogue needs of a tile's rows."""
        for stream, ring in self.rows:
            first = self.area.first(m[0])
            bring_columns(self.b, stream.ref, ring, first, m[1], plus(first, origin("m")))

    def write(
        self,
        base: Affine,
        m: Extent,
        n: Extent,
        whole: tuple[int, int, bool],
        where: Where | None = None,
    ) -> None:
        """Moves the tile out in pieces of columns; see `FixpipeOut.write`."""
        b = self.b
        b.receive(self.l0c)
        rings = [ring for _, ring in self.rows]
        for ring in rings:
            b.receive(ring)
        notes = self.notes.of(where) if self.notes and where else None
        starts = [self._start_of(stream.ref, base, where) for stream, _ in self.full]
        parts = pieces(n[1], self.step_n)
        single = len(parts) == 1 and parts[0].trips == 1
        for columns in parts:
            with b.loop("o", columns.trips) as j:
                part = (plus(n[0], columns.at(j)), columns.size)
                self._piece((base, starts), m, part, columns.at(j), whole, single=single, notes=notes)
        if not single:
            b.release(self.l0c)
        for ring in rings:
            b.release(ring)

    def _start_of(self, ref: Ref, base: Affine, where: Where | None) -> Affine:
        """Byte offset in an operand of what goes with the product whose result begins at `base`."""
        out = self.work.out
        period = ref.period(out) if ref.shape != out.shape else None
        if ref.shape == out.shape or where is None:
            return scaled(base, ref.bytes, out.bytes)
        each, count = ref.matrices(out) or (1, 1)
        return ZERO if period is None else times(serving(where.batch, each, count), ref.bytes // count)

    def _piece(
        self,
        places: tuple[Affine, Sequence[Affine]],
        m: Extent,
        n: Extent,
        column: Affine,
        whole: tuple[int, int, bool],
        *,
        single: bool,
        notes: TileNotes | None,
    ) -> None:
        b, work, (base, starts) = self.b, self.work, places
        rows, blocks = align(m[1], FRACTAL_ROWS), ceil_div(n[1], FRACTAL_ROWS)
        count = rows * blocks * FRACTAL_ROWS
        for (stream, ring), start in zip(self.full, starts, strict=True):
            b.acquire(ring)
            for place, part, parts in self.area.tiles(b, stream.ref, whole, m, n, start):
                other = fitted(b, place, stream.ref)
                held = times(part, share_of_slot(stream.ref.stored(count), parts))
                into = b.target(ring, other.bytes, 0, held)
                b.emit(
                    Move(
                        Pipe.MTE2,
                        into,
                        other.operand,
                        other.bursts,
                        other.burst_bytes,
                        src_stride=other.stride,
                        aligned=other.aligned,
                        effect=notes.bring(stream.ref, m[1], n, part) if notes else None,
                    )
                )
            b.commit(ring)
        stops = [
            *((side.after, side.ref, ring) for side, ring in self.sides),
            (len(work.epilogue), work.out, self.result),
        ]
        b.acquire(stops[0][2])
        target = b.target(stops[0][2], count * self.itemsize)
        source = b.source(self.l0c, count * L0C_ELEMENT_BYTES, 0, times(column, rows * L0C_ELEMENT_BYTES))
        note = notes.from_l0c(m[1], n[1], self.inside) if notes else None
        b.emit(Vector("l0c_to_ub", accumulator_type(work).value, count, target, (source,), effect=note))
        if single:
            b.release(self.l0c)
        others: list[Operand] = []
        for stream, ring in self.full:
            b.receive(ring)
            others.append(b.source(ring, stream.ref.stored(count)))
        others += [b.source(ring, ring.slot_bytes) for _, ring in (*self.rows, *self.kept)]
        counts = {"all": (count, 1), "row": (rows, 1), "col": (blocks * FRACTAL_ROWS, 1), "one": (1, 1)}
        done, before = self.moved, ("", self.inside)
        streams = [stream for stream, _ in (*self.full, *self.rows, *self.kept)]
        for number, (after, ref, ring) in enumerate(stops):
            read = target
            if number:
                b.acquire(ring)
                target = b.target(ring, count * self.itemsize)
            steps = self.expansion.expand(work.epilogue[done:after])
            note = notes.epilogue(ref, before, streams, (m[1], n)) if notes else None
            with b.together(note):
                emit_steps(b, steps, counts, target, (read, *others), self.scratch)
            done, before = after, (ref.region, ref.dtype)
            if number == len(stops) - 1:
                for _, brought in self.full:
                    b.release(brought)
                if self.sums is not None:
                    room = None if self.scratch is None else b.target(self.scratch, self.scratch.slot_bytes)
                    self.sums.add(target, n[0], count, blocks, room)
            start = scaled(base, ref.bytes, work.out.bytes)
            b.commit(ring)
            b.receive(ring)
            for place, part, parts in self.area.tiles(b, ref, whole, m, n, start):
                at = times(part, share_of_slot(count * self.itemsize, parts))
                note = notes.store(ref, m[1], n, part) if notes else None
                self._store(fitted(b, place, ref), ring, count * self.itemsize, at, note)
            b.release(ring)

    def _store(self, tile: Tile, ring: Ring, bytes: int, at: Affine, note: Note | None = None) -> None:
        """MTE3 writes a part of a finished slot, which begins at an offset, to global memory."""
        b = self.b
        stored = b.source(ring, min(bytes, tile.bytes), 0, at)
        b.emit(
            Move(
                Pipe.MTE3,
                tile.operand,
                stored,
                tile.bursts,
                tile.burst_bytes,
                dst_stride=tile.stride,
                aligned=tile.aligned,
                effect=note,
            )
        )
