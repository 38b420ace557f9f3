"""Vector work that reduces rows one by one: all steps are done on a row before the next one begins.

What was made of the whole row (its maximum, mean ...) comes back to all elements by way of a register: the
scalar unit reads it, and an instruction takes it from there, or vectordup spreads it. Kernels of the first
generation do so, and those in Ascend C (`VectorWork.in_turn`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.isa.instructions import ZERO, Affine, Operand, Pipe, Scalar
from ascendsim.isa.notes import Note
from ascendsim.lower.affine import plus
from ascendsim.lower.templates.steps import emit_steps
from ascendsim.lower.templates.vector_writer import FOLDS, VectorWriter
from ascendsim.opset.work import Step

BY_NUMBER = frozenset({"vadds", "vmuls", "vmaxs", "vmins"})  # take the register as it is


class RowWriter(VectorWriter):
    """Writes the program of one share; rows in blocks and rows too long for UB go as elsewhere."""

    tile_at: tuple[Affine, Affine] = ZERO, ZERO  # first row and column of the tile that is worked on

    def _known(self) -> bool:
        return super()._known() and (len(self.work.outputs) == 1 or not self._in_turn)

    @property
    def _in_turn(self) -> bool:
        return not (self.sweeping or self.blocked_rows)

    def _emit(
        self, steps: Sequence[Step], rows: int, cols: int, target: Operand, sources: tuple[Operand, ...]
    ) -> None:
        if not self._in_turn or sum(len(self._folded(step, cols)) for step in steps) == 1:
            super()._emit(steps, rows, cols, target, sources)
            return
        tile, col = self.tile_at
        with self.b.loop("row", rows) as i:
            row = (plus(tile, i), 1)
            with self.b.together(self.notes.compute(rows, row, (col, cols), i)):
                self._one_row(steps, cols, target, sources)

    def _whole_tile(self, row: tuple[Affine, int], col: tuple[Affine, int]) -> Note | None:
        self.tile_at = row[0], col[0]
        in_turn = self._in_turn and sum(len(self._folded(step, col[1])) for step in self.steps) > 1
        return None if in_turn else super()._whole_tile(row, col)

    def _one_row(
        self, steps: Sequence[Step], cols: int, target: Operand, sources: tuple[Operand, ...]
    ) -> None:
        others, one = sources[1:], False
        for step in steps:
            if one and step.over == "all" and self.scratch is not None:
                self._read(target, "value of a row")
            if one and step.over == "all" and self.scratch is not None and step.op not in BY_NUMBER:
                room = min(cols * step.dtype.itemsize, self.scratch.slot_bytes)
                spread, duplicate = self.b.target(self.scratch, room), Step("vectordup", step.dtype)
                emit_steps(self.b, (duplicate,), self._counts(1, cols, duplicate), spread, ())
                sources = (target, self.b.source(self.scratch, room), *others)
            one = step.over == "row" or step.op in FOLDS
            for part in self._folded(step, cols):
                for length in self._lengths(part, cols):
                    emit_steps(self.b, (part,), self._counts(1, length, part), target, sources)
                sources = (target, *others)

    def _read(self, source: Operand, what: str) -> None:
        """The scalar unit reads what the vector unit has made, which waits for it."""
        self.b.order(Pipe.V, Pipe.S, "scalar")
        self.b.emit(Scalar(self.b.soc.issue.scalar_element_cycles, what, srcs=(source,)))
        self.b.order(Pipe.S, Pipe.V, "scalar")

    def _lengths(self, step: Step, cols: int) -> tuple[int, ...]:
        """Elements of the instructions of a step on one row: what ends within a repeat takes one of its own,
        with a mask.
        """
        lanes = self.b.soc.vector.repeat_bytes // step.dtype.itemsize
        whole = cols // lanes * lanes
        return (whole, cols - whole) if step.over == "all" and 0 < whole < cols else (cols,)

    def _counts(self, rows: int, cols: int, step: Step) -> dict[str, tuple[int, int]]:
        counts = super()._counts(rows, cols, step)
        return {**counts, "all": (cols, rows)} if self._in_turn else counts
