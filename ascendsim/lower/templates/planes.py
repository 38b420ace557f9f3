"""Sums over the positions of a map in NC1HWC0 (global pooling), as TBE's schedule makes them.

`mix_reduce_nlast_schedule` of CANN's DSL walks the planes of a core's share (a plane = all positions of one
image and one channel block) one after the other: a tile of positions comes in, its elements are converted and
scaled, a repeat adds one position to the sums of the block's channels, and only then does the next tile come;
kernels with a single reduction have no second slot. The sums of a share go out together, or in parts where
they would fill more than half of UB. How many lanes the closed back end fills in a repeat is not public:
those of one block are assumed.
"""

from __future__ import annotations

from typing import ClassVar

from ascendsim.core.formats import BLOCK_BYTES, c0, ceil_div
from ascendsim.isa.instructions import Affine
from ascendsim.isa.notes import nothing
from ascendsim.isa.program import Block
from ascendsim.lower.affine import plus, scaled, times
from ascendsim.lower.emit import Ring, pieces
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import emit_steps
from ascendsim.lower.templates.vector_writer import VectorWriter
from ascendsim.opset.work import Step, Stream


class PlaneWriter(VectorWriter):
    """Writes the program of a share of planes."""

    slots: ClassVar[int] = 1

    def _choose_tile(self) -> None:
        block = c0(self.work.inputs[0].ref.dtype)
        element, column, room = self._each("all") + self.scratch_item, self._each("col"), self._room()
        self.kept = min(self.cols, max(block, int(room // 2 // column) // block * block))
        self.tile_cols, self.sweeping = min(self.cols, block), False
        self.tile_rows = max(
            1, min(self.rows, int((room - self.kept * column) // (self.tile_cols * element)))
        )

    def _known(self) -> bool:
        return self.tile_rows == self.rows == self.space.rows and self.notes.known_planes

    def _kept_columns(self) -> int:
        return self.kept

    def _item(self, stream: Stream) -> float:
        """Sums have the type that they are added up in until they go out."""
        if stream.over == "all":
            return super()._item(stream)
        return float(max(stream.ref.dtype.itemsize, *(step.dtype.itemsize for step in self.steps)))

    def write(self) -> Block:
        """The block."""
        for part in pieces(self.cols, self.kept):
            with self.b.loop("p", part.trips) as k:
                self._part(part.at(k), part.size)
        return self.b.build()

    def _part(self, first: Affine, columns: int) -> None:
        """The planes whose sums go out together."""
        b = self.b
        inner = tuple(step for step in self.steps if step.over == "all")
        outer = tuple(step for step in self.steps if step.over == "col")
        sums = [ring for _, ring in self.outputs]
        for ring in sums:
            b.acquire(ring)
        for blocks in pieces(columns, self.tile_cols):
            with b.loop("c", blocks.trips) as j:
                for rows in pieces(self.rows, self.tile_rows):
                    with b.loop("r", rows.trips) as i:
                        column = (plus(first, blocks.at(j)), blocks.size)
                        self._bring("all", (rows.at(i), rows.size), column)
                        with b.together(self.notes.plane(rows.size, column, blocks.at(j))):
                            self._add(inner, rows.size, blocks.size, sums)
        if outer:
            target = b.target(sums[0], sums[0].slot_bytes)
            with b.together(nothing):  # kernels give values in their own type
                emit_steps(b, outer, {"col": (columns, 1)}, target, (target,))
        for ring in sums:
            b.commit(ring)
        self._save("col", col=(first, columns))

    def _add(self, steps: tuple[Step, ...], rows: int, columns: int, sums: list[Ring]) -> None:
        """Adds a tile to the sums: the last step folds, what is before it stays in scratch."""
        b = self.b
        ring = self.inputs[0][1]
        b.receive(ring)
        source = b.source(ring, ring.slot_bytes)
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            target = self._target(sums if last else [])
            emit_steps(b, (step,), self._counts(rows, columns, step), target, (source,))
            source = target
        b.release(ring)

    def _counts(self, rows: int, cols: int, step: Step) -> dict[str, tuple[int, int]]:
        if step.lanes:
            return {
                "all": (
                    ceil_div(rows * cols, step.lanes)
                    * (self.b.soc.vector.repeat_bytes // step.dtype.itemsize),
                    1,
                )
            }
        return super()._counts(rows, cols, step)

    def _gm(self, stream: Stream, row: tuple[Affine, int], col: tuple[Affine, int]) -> Tile:
        """Positions of one plane follow each other."""
        if stream.over != "all":
            return super()._gm(stream, row, col)
        ref = stream.ref
        start = plus(scaled(col[0], ref.bytes, self.space.cols), times(row[0], BLOCK_BYTES))
        return fitted(self.b, Tile(ref.region, start, 1, ref.bytes * row[1] * col[1] // self.elements), ref)
