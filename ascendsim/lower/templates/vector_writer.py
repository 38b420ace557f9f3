"""Vector work: elementwise programs, broadcasts, reductions, normalisations, tiled by the size of UB.

A block loops over tiles of its share: MTE2 brings the inputs (two slots each), V runs the steps, MTE3 stores
the outputs. Four forms:
    flat     no broadcast: one long row, cut anywhere
    across   tiles of rows x columns; a row that is reduced or normalised is in UB as a whole
    sweeping rows too long for UB are read `sweeps` times; the steps are dealt out to the sweeps, the last one
    stores
    down     reduced over rows: tiles accumulate into one result a column, stored once
Shares are whole rows if rows are reduced, 512 B pieces else; long reductions of few rows are cut along the
row as well, and the partial results meet in global memory (atomic add of MTE3). Small work takes few cores:
one more block costs its dispatch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES, Format, align, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Operand, Pipe
from ascendsim.isa.notes import Note
from ascendsim.isa.program import Block
from ascendsim.lower.affine import plus, scaled, times
from ascendsim.lower.emit import BlockBuilder, Ring, pieces
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.row_sums import added_up
from ascendsim.lower.templates.sharing import Space, even_bursts, lanes_of
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import broadcast_calls, emit_steps
from ascendsim.lower.templates.vector_notes import Extent, VectorNotes
from ascendsim.opset.work import Step, Stream, VectorWork

# a transfer of this size reaches the peak rate (vendor guide; hardware notes on granularity)
GOOD_TRANSFER_BYTES = 16 * 1024
GOOD_BURST_BYTES = 2048  # bursts of several 512 B transactions lose little to rounding
# of a fractal of 16-bit elements; wider ones take two blocks a row, which the last fold joins
FRACTAL_COLUMNS = 16
ALONE: Extent = (ZERO, 1)  # along an axis that a stream has not
TILES_TO_OVERLAP = 4  # a share is cut in at least so many tiles, if they stay above the size before
# one result for every 32 B block instead of one a repeat
BLOCK_REDUCTIONS = {"vcadd": "vcgadd", "vcmax": "vcgmax", "vcmin": "vcgmin"}
FOLDS = {
    "vcadd": "vadd",
    "vcmax": "vmax",
    "vcmin": "vmin",
    "vcgadd": "vadd",
    "vcgmax": "vmax",
    "vcgmin": "vmin",
}
BINARY = frozenset(
    {"vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vaddrelu", "vmla", "vmadd", "vsel", "vand", "vor"}
)


class VectorWriter:
    """Writes the program of one share."""

    slots: ClassVar[int] = 2  # of what streams, if the next tile comes while this one is worked on
    kept_slots: ClassVar[int] = 1  # of what stays for several tiles

    def __init__(
        self,
        builder: BlockBuilder,
        work: VectorWork,
        space: Space,
        steps: tuple[Step, ...],
        rows: int,
        cols: int,
    ) -> None:
        self.b, self.work, self.space = builder, work, space
        self.steps, self.rows, self.cols = steps, rows, cols
        self.elements = max(1, space.rows * space.cols)
        widest = max([step.dtype.itemsize for step in steps], default=2)
        narrow = min(
            [stream.ref.dtype.itemsize for stream in work.inputs if stream.over == "all"], default=widest
        )
        whole = [stream.ref for stream in (*work.inputs, *work.outputs) if stream.over == "all"]
        self.blocked_rows = bool(whole) and all(ref.format is Format.FRACTAL_NZ for ref in whole)
        self.scratch_item = max(
            work.live_bytes, 0 if len(steps) <= 1 else widest * (2 if widest > narrow else 1)
        )
        slots = self.slots if work.overlaps else 1
        for self.held in (slots, 1, slots) if work.cores == "shares" else (slots,):
            self._choose_tile()
            if not self.sweeping:  # a row may fit if it is alone in UB
                break
        self._allocate()
        self.notes = self._notes()
        builder.noted = builder.noted and self._known()

    def _notes(self) -> VectorNotes:
        return VectorNotes(self.work, self.space)

    def _known(self) -> bool:
        """Whether what the block does can be told: one that has rows as a whole, if it reduces them."""
        whole = self.work.reduces == "none" or self.tile_cols == self.cols == self.space.cols
        return whole and self.notes.known

    # --- tile and memory ------------------------------------------------------------------------------------

    def _item(self, stream: Stream) -> float:
        """Bytes that a stream moves for one element of the iteration space."""
        return stream.ref.bytes / self.elements if stream.over == "all" else float(stream.ref.dtype.itemsize)

    def _each(self, over: str) -> float:
        """UB bytes that an element (or row, or column) takes in all slots of the streams of one kind."""
        streams = [stream for stream in (*self.work.inputs, *self.work.outputs) if stream.over == over]
        return sum(self.held * max(self._item(stream), stream.ref.dtype.itemsize) for stream in streams)

    def _grain(self) -> int:
        """Bytes of which a slot is a multiple: what an instruction writes beyond its run stays inside."""
        overruns = any(step.overruns for step in self.steps)
        return self.b.soc.vector.repeat_bytes if overruns else BLOCK_BYTES

    def _room(self) -> int:
        """Bytes of UB for tiles."""
        count = len(self.work.inputs) + len(self.work.outputs) + 1
        return capacity(self.b.soc, Buffer.UB) - count * 4 * self._grain() - 256

    def _choose_tile(self) -> None:
        element = self._each("all") + self.scratch_item or 2.0
        row, column = self._each("row"), self._each("col")
        room = self._room()
        repeat = self.b.soc.vector.repeat_bytes
        fitting = int((room - row) // (element + column))
        if fitting < 1:
            raise CompileError(
                f"UB of {self.b.soc.name}",
                "must hold one element of each input",
                f"{room} bytes",
                "use fewer fused inputs",
            )
        self.tile_cols = self.cols if self.cols <= fitting else fitting // repeat * repeat or fitting
        self.tile_cols = self._blocks_of_columns(int((room - column * self.tile_cols) // element))
        self.sweeping = self.work.reduces == "cols" and self.tile_cols < self.cols
        moved = max(
            1.0,
            sum(
                self._item(stream)
                for stream in (*self.work.inputs, *self.work.outputs)
                if stream.over == "all"
            ),
        )
        if self.sweeping:
            self.tile_rows = 1
        elif self.rows == 1:
            self.tile_rows = 1
            if self.space.flat:
                wanted = max(ceil_div(self.cols, TILES_TO_OVERLAP), int(GOOD_TRANSFER_BYTES // moved) + 1)
                self.tile_cols = min(self.tile_cols, align(wanted, repeat))
        else:
            most = int((room - self.tile_cols * column) // (self.tile_cols * element + row))
            wanted = max(
                ceil_div(self.rows, TILES_TO_OVERLAP),
                int(GOOD_TRANSFER_BYTES // (self.tile_cols * moved)) + 1,
            )
            self.tile_rows = max(1, min(self.rows, most, wanted))
            grain = self._row_grain()
            even = align(ceil_div(self.rows, ceil_div(self.rows, self.tile_rows)), grain)
            self.tile_rows = min(
                self.rows,
                even
                if even <= most
                else max(grain, most // grain * grain)
                if most >= grain
                else self.tile_rows,
            )

    def _kept_columns(self) -> int:
        """Columns whose operands and results are in UB at a time."""
        return self.tile_cols

    def _blocks_of_columns(self, fitting: int) -> int:
        """Fewer columns for blocked tensors if all of them leave room for few rows only: a burst is as long
        as the rows.
        """
        if self._row_grain() == 1 or self.work.reduces == "cols" or self.cols < self.space.cols:
            return self.tile_cols
        rows = min(self.rows, GOOD_BURST_BYTES // BLOCK_BYTES)
        block = max(
            stream.ref.block[0] for stream in (*self.work.inputs, *self.work.outputs) if stream.over == "all"
        )
        return min(self.tile_cols, max(block, fitting // rows // block * block))

    def _row_grain(self) -> int:
        """Rows whose pieces of one channel block fill a 512 B transaction, for blocked tensors."""
        blocked = any(
            lanes_of(stream.ref) == self.space.cols
            for stream in (*self.work.inputs, *self.work.outputs)
            if stream.over == "all"
        )
        return TRANSACTION_BYTES // BLOCK_BYTES if blocked else 1

    def _slot_bytes(self, stream: Stream) -> int:
        """UB bytes of a stream's part of a tile."""
        rows, cols = self.tile_rows, self.tile_cols
        counts = {"all": rows * cols, "row": rows, "col": self._kept_columns(), "one": 1}
        item = max(self._item(stream), stream.ref.dtype.itemsize)
        return align(math.ceil(counts[stream.over] * item), self._grain())

    def _allocate(self) -> None:
        b, rows, cols = self.b, self.tile_rows, self.tile_cols
        grain, size = self._grain(), self._slot_bytes
        self.inputs: list[tuple[Stream, Ring]] = []
        self.outputs: list[tuple[Stream, Ring]] = []
        for number, stream in enumerate(self.work.inputs):
            slots = self.held if stream.over in ("all", "row") else self.kept_slots
            self.inputs.append(
                (stream, b.ring(f"in{number}", Pipe.MTE2, Pipe.V, slots, (Buffer.UB, size(stream))))
            )
        for number, stream in enumerate(self.work.outputs):
            slots = 2 if self.held == self.slots else 1
            slots = slots if stream.over in ("all", "row") else self.kept_slots
            self.outputs.append(
                (stream, b.ring(f"out{number}", Pipe.V, Pipe.MTE3, slots, (Buffer.UB, size(stream))))
            )
        self.scratch = (
            b.ring("tmp", Pipe.V, Pipe.V, 1, (Buffer.UB, align(rows * cols * self.scratch_item, grain)))
            if self.scratch_item
            else None
        )

    # --- program --------------------------------------------------------------------------------------------

    def write(self) -> Block:
        """The block."""
        self._bring("one")
        if self.sweeping:
            self._sweeps()
        elif self.work.reduces == "rows":
            self._down()
        else:
            self._across()
        self._store("one")
        self._finish("one")
        return self.b.build()

    def _across(self) -> None:
        b = self.b
        for columns in pieces(self.cols, self.tile_cols):
            with b.loop("c", columns.trips) as j:
                col = (columns.at(j), columns.size)
                self._bring("col", col=col)
                for rows in pieces(self.rows, self.tile_rows):
                    with b.loop("r", rows.trips) as i:
                        row = (rows.at(i), rows.size)
                        self._bring("row", row, col)
                        self._bring("all", row, col)
                        with b.together(self._whole_tile(row, col)):
                            self._compute(self.steps, ("all", "row"), rows.size, columns.size)
                        self._store("row", row, col)
                        self._store("all", row, col)
                self._finish("col")
                self._store("col", col=col)

    def _whole_tile(self, row: tuple[Affine, int], col: tuple[Affine, int]) -> Note | None:
        """What all steps do to a tile."""
        return self.notes.compute(row[1], row, col)

    def _down(self) -> None:
        b = self.b
        inner = added_up(self.steps, self.work, min(self.cols, self.tile_cols), b.soc)
        outer = tuple(step for step in self.steps if step.over in ("col", "one"))
        for columns in pieces(self.cols, self.tile_cols):
            with b.loop("c", columns.trips) as j:
                col = (columns.at(j), columns.size)
                self._bring("col", col=col)
                sums = [ring for stream, ring in self.outputs if stream.over == "col"]
                for ring in sums:
                    b.acquire(ring)
                for rows in pieces(self.rows, self.tile_rows):
                    with b.loop("r", rows.trips) as i:
                        row = (rows.at(i), rows.size)
                        self._bring("row", row, col)
                        self._bring("all", row, col)
                        self._compute(inner, ("all", "row"), rows.size, columns.size, held=sums)
                        self._store("row", row, col)
                        self._store("all", row, col)
                if outer and sums:
                    target = b.target(sums[0], sums[0].slot_bytes)
                    emit_steps(b, outer, {"col": (columns.size, 1), "one": (1, 1)}, target, (target,))
                self._finish("col")
                for ring in sums:
                    b.commit(ring)
                self._save("col", col=col)

    def _sweeps(self) -> None:
        b, sweeps = self.b, max(1, self.work.sweeps)
        dealt = [
            self.steps[len(self.steps) * k // sweeps : len(self.steps) * (k + 1) // sweeps]
            for k in range(sweeps)
        ]
        with b.loop("r", self.rows) as i:
            row = (i, 1)
            self._bring("row", row, (ZERO, self.cols))
            results = [ring for stream, ring in self.outputs if stream.over == "row"]
            for ring in results:
                b.acquire(ring)
            for sweep, steps in enumerate(dealt):
                last = sweep == sweeps - 1
                for columns in pieces(self.cols, self.tile_cols):
                    with b.loop("c", columns.trips) as j:
                        col = (columns.at(j), columns.size)
                        self._bring("col", row, col)
                        self._bring("all", row, col)
                        self._compute(steps, ("all",), 1, columns.size, results, last)
                        self._finish("col")
                        if last:
                            self._store("all", row, col)
            self._finish("row")
            for ring in results:
                b.commit(ring)
            self._save("row", row, (ZERO, self.cols))

    # --- parts ----------------------------------------------------------------------------------------------

    def _bring(self, over: str, row: Extent = ALONE, col: Extent = ALONE) -> None:
        """Loads the inputs of one kind; those that stay for several tiles are received at once."""
        b = self.b
        for stream, ring in self.inputs:
            if stream.over == over:
                b.acquire(ring)
                tile = self._gm(stream, row, col)
                b.emit(
                    Move(
                        Pipe.MTE2,
                        b.target(ring, tile.bytes),
                        tile.operand,
                        tile.bursts,
                        tile.burst_bytes,
                        src_stride=tile.stride,
                        aligned=tile.aligned,
                        effect=b.note(self.notes.move(stream, row, col, inward=True)),
                    )
                )
                b.commit(ring)
                if over in ("col", "one") or (over == "row" and self.sweeping):
                    b.receive(ring)

    def _finish(self, over: str) -> None:
        """Gives back inputs that stayed."""
        for stream, ring in self.inputs:
            if stream.over == over:
                self.b.release(ring)

    def _compute(
        self,
        steps: tuple[Step, ...],
        inputs: tuple[str, ...],
        rows: int,
        cols: int,
        held: list[Ring] | None = None,
        stores: bool = True,
    ) -> None:
        """V's part of a tile."""
        b = self.b
        passing = set(inputs) - {"row"} if self.sweeping else inputs
        read = [(stream, ring) for stream, ring in self.inputs if stream.over in passing]
        made = [ring for stream, ring in self.outputs if stores and stream.over in inputs]
        for _, ring in read:
            b.receive(ring)
        for ring in made:
            b.acquire(ring)
        target = self._target([*made, *(held or [])])
        sources = tuple(b.source(ring, ring.slot_bytes) for _, ring in self.inputs) or (target,)
        self._emit(steps, rows, cols, target, sources)
        for _, ring in read:
            b.release(ring)
        for ring in made:
            b.commit(ring)

    def _emit(
        self, steps: Sequence[Step], rows: int, cols: int, target: Operand, sources: tuple[Operand, ...]
    ) -> None:
        """All steps on so many rows."""
        for step in steps:
            emit_steps(
                self.b,
                self._folded(step, cols),
                self._counts(rows, cols, step),
                target,
                sources,
                self.scratch,
            )
            sources = (target, *sources[1:])

    def _target(self, rings: list[Ring]) -> Operand:
        """Where a tile's result goes: an output, scratch, or an input in place."""
        b = self.b
        if rings:
            return b.target(rings[0], rings[0].slot_bytes)
        if self.scratch is not None:
            return b.target(self.scratch, self.scratch.slot_bytes)
        ring = self.inputs[0][1] if self.inputs else self.outputs[0][1]
        return b.source(ring, ring.slot_bytes)

    def _folded(self, step: Step, cols: int) -> tuple[Step, ...]:
        """A reduction along a long row: binary steps fold it to one repeat, then one reducing repeat a row.

        In blocked formats they fold it to one column of blocks, in which a reducing repeat has several rows.
        """
        fold, blocks = FOLDS.get(step.op), self._block_reduction(step)
        supported = self.b.soc.vector.intrinsics.get(fold or "", ())
        if (
            self.work.reduces != "cols"
            or step.over != "all"
            or fold is None
            or step.dtype.value not in supported
        ):
            return (step,)
        if blocks is not None:
            return (replace(step, op=fold), replace(step, op=blocks, over="row"))
        if cols > self.b.soc.vector.repeat_bytes // step.dtype.itemsize:
            return (replace(step, op=fold), replace(step, over="row"))
        return (step,)

    def _block_reduction(self, step: Step) -> str | None:
        """The instruction that reduces blocks in place of whole repeats, where rows lie in fractals."""
        name = BLOCK_REDUCTIONS.get(step.op)
        known = name is not None and step.dtype.value in self.b.soc.vector.intrinsics.get(name, ())
        return name if known and self.blocked_rows else None

    def _counts(self, rows: int, cols: int, step: Step) -> dict[str, tuple[int, int]]:
        """Elements of one call and calls, by `over`."""
        lanes = self.b.soc.vector.repeat_bytes // step.dtype.itemsize
        broadcasts = any(stream.over in ("row", "col") for stream in self.work.inputs) and not self.space.flat
        elements, calls = rows * cols, 1
        if step.op in BINARY and broadcasts and rows > 1 and cols > 1:
            elements, calls = broadcast_calls(rows, cols, lanes, self._row_grain() > 1, self.b.soc)
        row = (rows, 1)
        if step.op in FOLDS and self.work.reduces == "cols":
            row = (rows * (lanes if self._block_reduction(step) is None else FRACTAL_COLUMNS), 1)
        return {"all": (elements, calls), "row": row, "col": (cols, 1), "one": (1, 1)}

    def _store(self, over: str, row: Extent = ALONE, col: Extent = ALONE) -> None:
        """Stores the outputs of one kind that a tile has made."""
        b = self.b
        for stream, ring in self.outputs:
            if stream.over == over and over in ("col", "one"):
                b.acquire(ring)
                b.commit(ring)
        self._save(over, row, col)

    def _save(self, over: str, row: Extent = ALONE, col: Extent = ALONE) -> None:
        b = self.b
        for stream, ring in self.outputs:
            if stream.over == over:
                b.receive(ring)
                tile = self._gm(stream, row, col)
                source = b.source(ring, tile.bytes)
                b.emit(
                    Move(
                        Pipe.MTE3,
                        tile.operand,
                        source,
                        tile.bursts,
                        tile.burst_bytes,
                        dst_stride=tile.stride,
                        aligned=tile.aligned,
                        effect=b.note(self.notes.store(stream, row, col)),
                    )
                )
                b.release(ring)

    def _gm(self, stream: Stream, row: tuple[Affine, int], col: tuple[Affine, int]) -> Tile:
        """The tile's bytes in global memory."""
        ref, cols = stream.ref, self.space.cols
        if stream.over != "all":
            first, count = {"row": row, "col": col}.get(stream.over, ALONE)
            size = ref.dtype.itemsize
            return fitted(
                self.b, Tile(ref.region, times(first, size), 1, max(size, min(count * size, ref.bytes))), ref
            )
        count = row[1] * col[1]
        bytes = ceil_div(ref.bytes * count, self.elements)
        width = ref.bytes // self.space.rows
        offset = plus(scaled(row[0], width, 1), scaled(col[0], ref.bytes, self.elements))
        tile = Tile(ref.region, offset, 1, bytes)
        gather = self.work.gather_bytes
        block, position = ref.block
        if lanes_of(ref) == cols and not self.space.flat and col[1] % block == 0:
            bursts = col[1] // block
            plane = ref.bytes // (cols // block)
            if bytes % bursts == 0 and plane >= bytes // bursts:
                start = plus(times(row[0], position), scaled(col[0], plane, block))
                tile = Tile.strided(ref.region, start, bursts, bytes // bursts, plane)
        elif row[1] > 1 and (col[1] < cols or self.work.pads_rows) and bytes % row[1] == 0:
            tile = Tile(ref.region, offset, row[1], bytes // row[1], width)
        elif 0 < gather < TRANSACTION_BYTES and bytes > gather and stream in self.work.inputs:
            bursts = even_bursts(bytes, gather)
            tile = Tile.strided(
                ref.region, offset, bursts, bytes // bursts, max(BLOCK_BYTES, 2 * (bytes // bursts))
            )
        return fitted(self.b, tile, ref)
