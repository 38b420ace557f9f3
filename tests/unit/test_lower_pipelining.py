"""Loads that run ahead of the Cube: the order that runs, written out, and how often the loops turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ascendsim.isa.instructions import Affine, Buffer, Loop, Move, Operand, Pipe, Scalar, Statement
from ascendsim.isa.walk import in_order
from ascendsim.lower.emit import BlockBuilder, Piece, pieces
from ascendsim.lower.templates.pipelining import pipelined
from ascendsim.soc import load

SOC = load("Ascend310")
SHORT, LONG = 1, 1000  # mmads of a load: few enough for the queue, and too many


def written(parts: Sequence[Piece], steps: int) -> tuple[list[tuple[str, int]], list[tuple[Statement, int]]]:
    """What runs: loads and computations with the first element of their piece; and every load of the text
    with what it was told of the loop around it."""
    b, told = BlockBuilder(SOC), list[tuple[Statement, int]]()

    def element(at: Affine) -> Operand:
        return Operand(Buffer.GM, "x", 1, at)

    def loads(piece: Piece, number: Affine, trips: int) -> None:
        item = Move(Pipe.MTE2, Operand(Buffer.L1, "a", 32), element(piece.at(number)), 1, piece.size)
        b.emit(item)
        told.append((item, trips))

    def computes(piece: Piece, number: Affine) -> None:
        b.emit(Scalar(1, srcs=(element(piece.at(number)),)))

    pipelined(b, parts, "k", steps, loads, computes)
    body = b.build().body
    ran = [
        ("load", item.src.offset.at(at))
        if isinstance(item, Move)
        else ("compute", item.srcs[0].offset.at(at))
        for item, at in in_order(body)
        if isinstance(item, Move | Scalar)
    ]
    around = {id(one): loop.trips for loop in body if isinstance(loop, Loop) for one in loop.body}
    turns = [(item, around.get(id(item), 1)) for item, _ in told]
    assert [trips for _, trips in told] == [trips for _, trips in turns]
    return ran, told


@pytest.mark.parametrize(("total", "tile"), [(1, 1), (5, 5), (6, 3), (7, 3), (40, 4), (41, 4), (3, 4)])
def test_each_piece_is_loaded_once_and_computed_after(total: int, tile: int) -> None:
    starts = list(range(0, total, tile))
    in_turn, _ = written(pieces(total, tile), SHORT)
    assert in_turn == [(what, at) for at in starts for what in ("load", "compute")]
    ahead, _ = written(pieces(total, tile), LONG)
    order = [("load", starts[0])]
    for number, at in enumerate(starts):
        order += [("load", one) for one in starts[number + 1 : number + 2]] + [("compute", at)]
    assert ahead == order


def test_loads_run_ahead_where_their_mmads_would_fill_the_queue() -> None:
    """A mmad takes three entries; two pieces of 4."""
    depth = SOC.issue.depth("M")
    for steps in range(1, depth):
        ran, _ = written(pieces(8, 4), steps)
        assert (ran[1] == ("load", 4)) == (3 * (steps + 1) > depth), steps
