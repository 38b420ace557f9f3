"""A vector core's side of an attention task: its half of a unit's rows, piece by piece through UB."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, ceil_div
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Pipe, SetFlag, WaitFlag
from ascendsim.lower.affine import times
from ascendsim.lower.emit import BlockBuilder, pieces
from ascendsim.lower.templates.attention_units import (
    ALL_SUMS,
    CLEARED,
    COMPLETE,
    READY,
    SCORES,
    SUMS,
    WEIGHTS,
    Unit,
)
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import Expansion, emit_steps
from ascendsim.opset.attention import AttentionWork, Sweep
from ascendsim.opset.refs import Ref
from ascendsim.opset.steps import Step

_WIDE = DType.FLOAT32.itemsize
PIECE = 8192  # values in UB at a time at most: 8 rows of 1024 (CANN: 32 KB of float32)
MOST_ROWS = 64  # of a piece
REPEAT = 64  # float32 of one repeat


class AttentionVector:
    """Writes what one vector core of a team does.

    Args:
        b: Of its block.
        work: What is to be done.
        expansion: Of steps, for the chip.
        each: Vector cores of a team.
        cores: Of all teams.
    """

    def __init__(
        self, b: BlockBuilder, work: AttentionWork, expansion: Expansion, each: int, cores: int
    ) -> None:
        self.b, self.work, self.each, self.cores = b, work, each, cores
        self.expand = expansion.expand
        self.read = (*(matrix.ref for matrix in work.scores), *work.given, *work.masks)
        made = [matrix.ref.dtype.itemsize for matrix in work.weights]
        widths = [self._width(ref) for ref in self.read]
        spare = MOST_ROWS * BLOCK_BYTES * max(1, len(work.row_values))
        room = capacity(b.soc, Buffer.UB) // 2 - spare
        self.piece = min(PIECE, int(room / (sum(widths) + sum(made))) // REPEAT * REPEAT)
        parts = [(Buffer.UB, int(self.piece * width)) for width in widths]
        self.ins = b.ring("in", Pipe.MTE2, Pipe.V, 2, *parts, (Buffer.UB, spare))
        self.outs = b.ring("out", Pipe.V, Pipe.MTE3, 2, *((Buffer.UB, self.piece * width) for width in made))

        self.joined = ""  # running sums are in memory
        if work.join is not None:
            self.joined = b.semaphore("joined", Pipe.MTE3, Pipe.MTE2, 1)

    def begin(self) -> None:
        """Work before the first unit, which all vector cores wait for."""
        if self.work.join is not None:
            self.b.emit(SetFlag(Pipe.MTE3, self.joined))
        if self.work.prologue:
            self._sweeps(self.work.prologue)
            self.b.emit(SetFlag(Pipe.MTE3, CLEARED), WaitFlag(Pipe.MTE3, CLEARED), SetFlag(Pipe.MTE3, READY))

    def end(self) -> None:
        """Work behind the last unit of all teams."""
        if self.work.join is not None:
            self.b.emit(WaitFlag(Pipe.MTE2, self.joined))
        if self.work.epilogue:
            self.b.emit(
                WaitFlag(Pipe.MTE3, ALL_SUMS), SetFlag(Pipe.MTE3, COMPLETE), WaitFlag(Pipe.MTE2, COMPLETE)
            )
            self._sweeps(self.work.epilogue)

    def scores(self, unit: Unit) -> None:
        """Scores to what the Cube takes next."""
        b, work = self.b, self.work
        b.emit(WaitFlag(Pipe.MTE2, SCORES))
        reads = [ref for ref in self.read if unit.masked or ref not in work.masks]
        steps = self.expand((*(work.mask_steps if unit.masked else ()), *work.steps))
        most = min(MOST_ROWS, max(1, self.piece // unit.columns))
        for rows in pieces(self._own(unit), most):
            with b.loop("piece", rows.trips) as i:
                at, count = rows.at(i), rows.size
                b.acquire(self.ins)
                for ref in reads:
                    wide = max(1, int(unit.columns * self._width(ref)))
                    part = self.read.index(ref)
                    self._bring(ref, at, (count, min(wide, self._stride(ref))), self._stride(ref), part)
                for number, ref in enumerate(work.row_values):
                    held = times(Affine(number), MOST_ROWS * BLOCK_BYTES)
                    self._bring(ref, at, (count, BLOCK_BYTES), BLOCK_BYTES, len(self.read), held)
                b.commit(self.ins)
                b.receive(self.ins)
                b.acquire(self.outs)
                self._compute(steps, count, unit.columns)
                b.commit(self.outs)
                b.release(self.ins)
                b.receive(self.outs)
                for number, matrix in enumerate(work.weights):
                    wide = unit.columns * matrix.ref.dtype.itemsize
                    stride = matrix.stride * matrix.ref.dtype.itemsize
                    self._send(matrix.ref, at, (count, wide), stride, number)
                b.release(self.outs)
        b.emit(SetFlag(Pipe.MTE3, WEIGHTS))

    def join(self, unit: Unit) -> None:
        """Weighted sums of a unit to those of its row block."""
        b, join = self.b, self.work.join
        if join is None:
            return
        b.emit(WaitFlag(Pipe.MTE2, SUMS), WaitFlag(Pipe.MTE2, self.joined))
        steps = self.expand((*(() if unit.first else join.steps), *(join.last if unit.last else ())))
        # two tiles come, one goes, all of float32
        values = min(self.ins.slot_bytes // 2, self.outs.slot_bytes) // _WIDE
        for rows in pieces(self._own(unit), max(1, values // join.width)):
            with b.loop("piece", rows.trips) as i:
                at, count = rows.at(i), rows.size
                wide = join.width * _WIDE
                b.acquire(self.ins)
                self._bring(join.partial.ref, at, (count, wide), join.partial.stride * _WIDE, 0)
                if not unit.first:
                    self._bring(join.running, at, (count, wide), wide, 0, Affine(count * wide))
                b.commit(self.ins)
                b.receive(self.ins)
                b.acquire(self.outs)
                self._compute(steps, count, join.width)
                b.commit(self.outs)
                b.release(self.ins)
                b.receive(self.outs)
                if unit.last:
                    item = join.out.ref.dtype.itemsize
                    self._send(join.out.ref, at, (count, join.width * item), join.out.stride * item, 0)
                else:
                    self._send(join.running, at, (count, wide), wide, 0)
                for ref in join.rows if unit.last else ():
                    self._send(ref, at, (count, BLOCK_BYTES), BLOCK_BYTES, 0)
                b.release(self.outs)
        b.emit(SetFlag(Pipe.MTE3, self.joined))

    def _own(self, unit: Unit) -> int:
        return ceil_div(unit.rows, self.each)

    def _compute(self, steps: Sequence[Step], rows: int, columns: int) -> None:
        """Steps on a piece: on each value, on a block a row, and ("one") on a repeat a row, which is what is
        left of a reduction when columns have been folded.
        """
        b = self.b
        lanes = BLOCK_BYTES // _WIDE
        counts = {"all": (rows * columns, 1), "row": (rows * lanes, 1), "one": (rows * REPEAT, 1)}
        sources = tuple(
            b.source(self.ins, allocation.slot_bytes, part)
            for part, allocation in enumerate(self.ins.allocations[: max(1, len(self.work.scores))])
        )
        emit_steps(b, steps, counts, b.target(self.outs, self.outs.slot_bytes), sources)

    def _bring(
        self, ref: Ref, at: Affine, size: tuple[int, int], stride: int, part: int, held: Affine = ZERO
    ) -> None:
        """GM -> UB: rows of so many bytes."""
        tile = fitted(self.b, Tile.strided(ref.region, times(at, stride), *size, stride), ref)
        target = self.b.target(self.ins, tile.bytes, part, held)
        steps = tile.bursts, tile.burst_bytes
        self.b.emit(
            Move(Pipe.MTE2, target, tile.operand, *steps, src_stride=tile.stride, aligned=tile.aligned)
        )

    def _send(self, ref: Ref, at: Affine, size: tuple[int, int], stride: int, part: int) -> None:
        """UB -> GM."""
        tile = fitted(self.b, Tile.strided(ref.region, times(at, stride), *size, stride), ref)
        source = self.b.source(self.outs, tile.bytes, part)
        steps = tile.bursts, tile.burst_bytes
        self.b.emit(
            Move(Pipe.MTE3, tile.operand, source, *steps, dst_stride=tile.stride, aligned=tile.aligned)
        )

    def _width(self, ref: Ref) -> float:
        """Bytes of a value a score; masks of dropout are bits."""
        return 1 / 8 if ref in self.work.given and ref.dtype is DType.UINT8 else ref.dtype.itemsize

    def _stride(self, ref: Ref) -> int:
        """Bytes from one row of such values to the next."""
        for matrix in self.work.scores:
            if matrix.ref is ref:
                return matrix.stride * ref.dtype.itemsize
        if self._width(ref) < 1:
            return ceil_div(self.work.heads[0].keys, 8)
        return ref.shape[-1] * ref.dtype.itemsize

    def _sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Whole tensors, each vector core a part."""
        b = self.b
        for sweep in sweeps:
            share = ceil_div(sweep.elements, self.cores)
            several = max(1, len(sweep.inputs))
            most = min(self.ins.slot_bytes // several, self.outs.slot_bytes) // _WIDE
            for part in pieces(share, min(most, share)):
                with b.loop("sweep", part.trips) as i:
                    b.acquire(self.ins)
                    for number, ref in enumerate(sweep.inputs):
                        size = max(1, ref.bytes * part.size // sweep.elements)
                        self._bring(ref, i, (1, size), size, 0, Affine(number * most * _WIDE))
                    b.commit(self.ins)
                    b.receive(self.ins)
                    b.acquire(self.outs)
                    self._compute(self.expand(sweep.steps), 1, part.size)
                    b.commit(self.outs)
                    b.release(self.ins)
                    b.receive(self.outs)
                    for ref in sweep.outputs:
                        size = max(1, ref.bytes * part.size // sweep.elements)
                        self._send(ref, i, (1, size), size, 0)
                    b.release(self.outs)
