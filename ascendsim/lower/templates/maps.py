"""Kernels that walk through feature maps plane by plane, as those of batch normalisation in training do.

A tile of elementwise work is as many planes of one image as UB holds, which follow each other in memory, or
an even part of one plane; sums, whose schedule cuts inside the axes that are reduced, have one plane at most.
What a channel block has of its own (a factor a channel) takes an instruction of its own: with 7 x 7
positions, whose plane is 12 repeats, most of the time goes into starting them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.instructions import Affine, Operand
from ascendsim.lower.affine import plus, times
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import emit_steps
from ascendsim.lower.templates.vector_notes import Extent
from ascendsim.lower.templates.vector_writer import ALONE, BINARY, VectorWriter
from ascendsim.opset.work import Maps, Step, Stream

SPREADS = "vadds"  # of what a block of channels has of its own to all of its positions


class MapWriter(VectorWriter):
    """Writes the program of a share of images or channel blocks."""

    kept_slots = 2  # the next block's factors come while one is worked on

    @property
    def _maps(self) -> Maps:
        assert self.work.maps is not None
        return self.work.maps

    def _choose_tile(self) -> None:
        positions, block = self.space.rows // self._maps.images, self.space.cols // self._maps.blocks
        element, column, row = self._each("all") + self.scratch_item, self._each("col"), self._each("row")
        most = int((self._room() - block * column) // (block * element + row))
        if most < 1:
            rule = "must hold one position of each input"
            actual = f"{self._room()} bytes"
            raise CompileError(f"UB of {self.b.soc.name}", rule, actual, "use fewer fused inputs")
        self.sweeping = False
        self.tile_cols, self.tile_rows = min(self.cols, block), positions
        planes = int((self._room() - positions * row) // (block * (positions * element + column)))
        if planes > 1 and self.work.reduces == "none":
            share = ceil_div(self.cols, block)
            self.tile_cols = min(self.cols, block * ceil_div(share, ceil_div(share, planes)))
        elif planes < 1:
            grain = self._row_grain() if most >= self._row_grain() else 1
            parts = ceil_div(positions, most // grain * grain)
            self.tile_rows = align(ceil_div(positions, parts), grain)

    def _bring(self, over: str, row: Extent = ALONE, col: Extent = ALONE) -> None:
        """What channels have of their own comes once for all tiles that need it, and factors are made of it
        there.
        """
        super()._bring(over, row, col)
        factors = tuple(step for step in self.steps if step.over == "col")
        kept = [ring for stream, ring in self.inputs if stream.over == "col"]
        if over == "col" and self.work.reduces == "none" and factors and kept:
            place = self.b.source(kept[0], kept[0].slot_bytes)
            emit_steps(self.b, factors, {"col": (col[1], 1)}, place, (place,))

    def _emit(
        self, steps: Sequence[Step], rows: int, cols: int, target: Operand, sources: tuple[Operand, ...]
    ) -> None:
        if self.work.reduces == "none":
            steps = [step for step in steps if step.over != "col"]
        super()._emit(steps, rows, cols, target, sources)

    def _counts(self, rows: int, cols: int, step: Step) -> dict[str, tuple[int, int]]:
        counts = super()._counts(rows, cols, step)
        blocks = ceil_div(cols * self._maps.blocks, self.space.cols)
        if step.op in BINARY or step.op == SPREADS:
            counts["all"] = (ceil_div(rows * cols, blocks), blocks)
        return counts

    def _gm(self, stream: Stream, row: tuple[Affine, int], col: tuple[Affine, int]) -> Tile:
        """Whole planes of an image follow each other."""
        positions = self.space.rows // self._maps.images
        if stream.over != "all" or row[1] != positions:
            return super()._gm(stream, row, col)
        ref, (block, bytes) = stream.ref, stream.ref.block
        first = Affine(col[0].base // block, tuple((name, step // block) for name, step in col[0].terms))
        start = plus(times(row[0], self.space.cols // block * bytes), times(first, positions * bytes))
        tile = Tile(ref.region, start, 1, ceil_div(row[1] * col[1], block) * bytes)
        return fitted(self.b, tile, ref)
