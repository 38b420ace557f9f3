"""Sums down the columns of a Cube result, made by the vector unit while the tiles are in UB on their way out.

A channel block of 16 columns has as many partial sums as a repeat has lanes (float32: 64, four for each
column). Every piece of a tile is folded in halves to as many, block by block, and added to them: that is
vector_dichotomy_add_for_bn_reduce in TBE's schedule of convolutions, whose short dependent instructions take
most of the time where a block has few rows. When the share is done the partial sums are folded to one value a
column and stored. Where several cores have rows of the same columns, their results meet in global memory
(atomic add of MTE3).
"""

from __future__ import annotations

from ascendsim.core.formats import FRACTAL_ROWS, align, ceil_div
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Operand, Pipe, Vector
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder
from ascendsim.lower.templates.operands import fitted
from ascendsim.lower.templates.stage import Tile
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import ColumnSum, Step

CLEAR = "vectordup"


class ColumnSums:
    """Writes the sums' part of a block.

    Args:
        builder: Of the block.
        sums: What is added up, in order.
        expansion: Steps as the chip has them.
        share_n: Columns of the block's share.
    """

    def __init__(
        self, builder: BlockBuilder, sums: tuple[ColumnSum, ...], expansion: Expansion, share_n: int
    ) -> None:
        self.b, self.expansion = builder, expansion
        self.repeat = builder.soc.vector.repeat_bytes
        self.share = (ZERO, share_n)
        size = ceil_div(share_n, FRACTAL_ROWS) * self.repeat
        self.parts = [
            (item, builder.ring(f"sum{number}_ub", Pipe.V, Pipe.MTE3, 1, (Buffer.UB, size)))
            for number, item in enumerate(sums)
        ]

    def start(self, first: Affine, columns: int) -> None:
        """Clears the partial sums of a share.

        Args:
            first: First column of the share in the result.
            columns: How many it has.
        """
        b = self.b
        self.share = (first, columns)
        for item, ring in self.parts:
            b.acquire(ring)
            target = b.target(ring, ring.slot_bytes)
            b.emit(
                Vector(CLEAR, item.fold.dtype.value, ring.slot_bytes // item.fold.dtype.itemsize, target, ())
            )

    def add(self, tile: Operand, column: Affine, count: int, blocks: int, scratch: Operand | None) -> None:
        """Adds a piece of a tile.

        Args:
            tile: Where it lies in UB.
            column: Its first column in the share.
            count: Elements.
            blocks: Channel blocks of 16 columns.
            scratch: Room for the piece in the type of the sums; needed where a sum has steps of its own.
        """
        b, value = self.b, tile
        for item, ring in self.parts:
            for step in self.expansion.expand(item.steps):
                assert scratch is not None
                b.emit(Vector(step.op, step.dtype.value, count, scratch, (value,), step.count))
                value = scratch
            start = times(column, self.repeat // FRACTAL_ROWS)
            if scratch is None or value is not scratch:
                held = b.target(ring, blocks * self.repeat, 0, start)
                b.emit(Vector(item.fold.op, item.fold.dtype.value, count, held, (value, held)))
                continue
            fold, kind = item.fold.op, item.fold.dtype.value
            lanes, length = self.repeat // item.fold.dtype.itemsize, ceil_div(count, blocks)
            with b.loop("sum", blocks) as j:
                while length > lanes:
                    length = max(lanes, ceil_div(length, 2))
                    b.emit(Vector(fold, kind, length, scratch, (scratch,)))
                held = b.target(ring, self.repeat, 0, plus(start, times(j, self.repeat)))
                b.emit(Vector(fold, kind, lanes, held, (scratch, held)))

    def finish(self) -> None:
        """Folds the partial sums to one value a column and stores them."""
        first, columns = self.share
        b, blocks = self.b, ceil_div(columns, FRACTAL_ROWS)
        for item, ring in self.parts:
            size = item.fold.dtype.itemsize
            lanes = self.repeat // size
            while lanes > FRACTAL_ROWS:
                lanes //= 2
                held = b.target(ring, blocks * self.repeat)
                b.emit(Vector(item.fold.op, item.fold.dtype.value, blocks * lanes, held, (held,)))
            bytes = columns * item.ref.dtype.itemsize
            tile = fitted(b, Tile(item.ref.region, times(first, item.ref.dtype.itemsize), 1, bytes), item.ref)
            b.commit(ring)
            b.receive(ring)
            b.emit(
                Move(
                    Pipe.MTE3,
                    tile.operand,
                    b.source(ring, tile.bytes),
                    1,
                    tile.bytes,
                    aligned=tile.aligned,
                )
            )
            b.release(ring)


def widest_step(sums: tuple[ColumnSum, ...]) -> int:
    """Bytes an element of the values that the sums need besides the tile; 0 if they add up the tile as it
    is.
    """
    return max((step.dtype.itemsize for item in sums for step in item.steps), default=0)


def sum_passes(sums: tuple[ColumnSum, ...]) -> int:
    """Vector passes over the tile in terms of its 16-bit elements."""
    steps: list[Step] = [step for item in sums for step in (*item.steps, item.fold)]
    return sum(step.count * align(step.dtype.itemsize, 2) // 2 for step in steps)
