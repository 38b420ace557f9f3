"""Kernels that are started in a fixed number of blocks, however many cores there are (`VectorWork.blocks`).

A core that has done one block begins the next as it began the first: what it stored is complete by then, and
the block starts up anew. The blocks of a core are one program here, in a loop, since the dispatcher hands
them out one by one while others run.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.core.formats import ceil_div
from ascendsim.isa.instructions import Affine, Pipe, Scalar
from ascendsim.isa.notes import nothing
from ascendsim.lower.affine import plus
from ascendsim.lower.emit import BlockBuilder, Ring, pieces
from ascendsim.lower.templates.vector_writer import VectorWriter
from ascendsim.soc.spec import SocSpec


def share_of_blocks(total: int, blocks: int, soc: SocSpec) -> int:
    """Rows, or bytes, of the core that has most blocks.

    Args:
        total: Of all blocks.
        blocks: How many there are.
        soc: The chip.
    """
    return min(total, ceil_div(total, blocks) * ceil_div(blocks, soc.vector_units))


def turns(b: BlockBuilder, filled: Ring, share: int, each: int) -> Iterator[tuple[Affine, int]]:
    """Writes the blocks of a core one after the other: yields where each begins, and its size.

    Args:
        b: The builder.
        filled: What a block fills first.
        share: Rows, or bytes, of all of them.
        each: Of one.
    """
    for piece in pieces(share, each):
        last = piece.start + piece.size * piece.trips == share
        again = piece.trips - (1 if last else 0)
        if again:
            with b.loop("turn", again) as i:
                yield piece.at(i), piece.size
                start_again(b, filled)
        if last:
            yield piece.at(Affine(piece.trips - 1)), piece.size


def start_again(b: BlockBuilder, filled: Ring) -> None:
    """From the end of a block to the first instruction of the next one on the same core, which finds the
    buffer that it fills first as if nobody had used it.
    """
    launch = b.soc.launch
    wait = launch.kernel_init_ns + launch.block_dispatch_ns
    fresh = (b.target(filled, filled.slot_bytes),)
    b.order(Pipe.MTE3, Pipe.S, "turn")
    cycles = round(wait * b.soc.vector_frequency_mhz / 1000)
    b.emit(Scalar(cycles, "next block", dsts=fresh, effect=b.note(nothing)))
    b.order(Pipe.S, filled.producer, "turn")


class TurnWriter(VectorWriter):
    """Writes the blocks of one core; nothing is reduced."""

    def _choose_tile(self) -> None:
        super()._choose_tile()
        each = self._each_block()
        if self.work.in_turn:
            self.tile_rows = 1
        self.tile_rows = ceil_div(each, ceil_div(each, self.tile_rows))

    def _each_block(self) -> int:
        """Rows of a block."""
        return min(self.rows, ceil_div(self.space.rows, self.work.blocks))

    def _across(self) -> None:
        b, col = self.b, (Affine(0), self.cols)
        for first, size in turns(b, self.inputs[0][1], self.rows, self._each_block()):
            for rows in pieces(size, self.tile_rows):
                with b.loop("r", rows.trips) as i:
                    row = (plus(first, rows.at(i)), rows.size)
                    self._bring("all", row, col)
                    with b.together(self._whole_tile(row, col)):
                        self._compute(self.steps, ("all",), rows.size, self.cols)
                    self._store("all", row, col)
