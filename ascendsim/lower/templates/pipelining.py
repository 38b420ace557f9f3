"""Loads that run ahead of what the Cube computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ascendsim.isa.instructions import ZERO, Affine
from ascendsim.lower.affine import plus
from ascendsim.lower.emit import BlockBuilder, Piece
from ascendsim.lower.templates.score import lookahead

Load = Callable[[Piece, Affine, int], None]  # a piece, its number, and how often the loop around turns
Compute = Callable[[Piece, Affine], None]


def pipelined(
    b: BlockBuilder, parts: Sequence[Piece], name: str, steps: int, load: Load, compute: Compute
) -> None:
    """Loads and computes pieces in turn; the next load goes before a computation that would fill the Cube's
    queue.

    Args:
        b: Of the block.
        parts: What is gone through.
        name: Of the loops.
        steps: Mmads that a load serves.
        load, compute: Write a piece's part.
    """
    if steps <= lookahead(b.soc.issue.depth("M")):
        for part in parts:
            with b.loop(name, part.trips) as i:
                load(part, i, part.trips)
                compute(part, i)
        return
    load(parts[0], ZERO, 1)
    for number, part in enumerate(parts):
        if part.trips > 1:
            with b.loop(name, part.trips - 1) as i:
                load(part, plus(i, 1), part.trips - 1)
                compute(part, i)
        if number + 1 < len(parts):
            load(parts[number + 1], ZERO, 1)
        compute(part, Affine(part.trips - 1))
