"""The block builder: slots as functions of loop variables, tails, capacity."""

from __future__ import annotations

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.instructions import Affine, Buffer, Loop, Move, Operand, Pipe, SetFlag
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Piece, Ring, pieces
from ascendsim.soc import load


@pytest.fixture
def builder() -> BlockBuilder:
    return BlockBuilder(load("Ascend310"))


def copy_in(b: BlockBuilder, ring: Ring) -> None:
    b.acquire(ring)
    b.emit(Move(Pipe.MTE2, b.target(ring, 64), Operand(Buffer.GM, "x", 64), 1, 64))
    b.commit(ring)
    b.receive(ring)
    b.emit(Move(Pipe.MTE3, Operand(Buffer.GM, "y", 64), b.source(ring, 64), 1, 64))
    b.release(ring)


def moves(body: tuple[object, ...]) -> list[Move]:
    found: list[Move] = []
    for item in body:
        if isinstance(item, Loop):
            found += moves(item.body)
        elif isinstance(item, Move):
            found.append(item)
    return found


def test_pieces_cover_everything_once() -> None:
    assert pieces(100, 30) == (Piece(0, 30, 3), Piece(90, 10, 1))
    assert pieces(90, 30) == (Piece(0, 30, 3),)
    assert pieces(7, 30) == (Piece(0, 7, 1),)
    assert Piece(90, 10, 1).at(Affine(0, (("i", 1),))) == Affine(90, (("i", 10),))


def test_affine_arithmetic_drops_terms_that_cancel() -> None:
    i = Affine(0, (("i", 1),))
    assert plus(times(i, 3), times(i, -3), 5) == Affine(5)


def test_rings_of_one_name_are_told_apart_by_number(builder: BlockBuilder) -> None:
    rings = [builder.ring("r", Pipe.MTE2, Pipe.MTE3, 1, (Buffer.UB, 64)) for _ in range(4)]
    assert [ring.name for ring in rings] == ["r", "r2", "r3", "r4"]
    assert [builder.semaphore("s", Pipe.M, Pipe.V, 1) for _ in range(3)] == ["s", "s2", "s3"]


def test_slots_follow_all_loops_around(builder: BlockBuilder) -> None:
    ring = builder.ring("r", Pipe.MTE2, Pipe.MTE3, 2, (Buffer.UB, 64))
    with builder.loop("i", 5):
        with builder.loop("j", 3):
            copy_in(builder, ring)
        copy_in(builder, ring)
        copy_in(builder, ring)
    copy_in(builder, ring)
    first, second, third, after = [
        move.dst.slot for move in moves(builder.build().body) if move.pipe is Pipe.MTE2
    ]
    for i in range(5):
        done = i * 5
        assert [first.at({"i": i, "j": j}) % 2 for j in range(3)] == [(done + j) % 2 for j in range(3)]
        assert second.at({"i": i}) % 2 == (done + 3) % 2
        assert third.at({"i": i}) % 2 == (done + 4) % 2
    assert after == Affine(25 % 2)


def test_a_loop_that_runs_once_leaves_no_loop(builder: BlockBuilder) -> None:
    with builder.loop("i", 1) as i:
        builder.emit(SetFlag(Pipe.V, "f"))
    assert i == Affine(0)
    assert builder.build().body == (SetFlag(Pipe.V, "f"),)


def test_nested_loops_of_one_name_get_variables_of_their_own(builder: BlockBuilder) -> None:
    with builder.loop("i", 2) as outer, builder.loop("i", 2) as inner:
        assert outer.terms[0][0] != inner.terms[0][0]


def test_buffer_overflow_is_a_compile_error(builder: BlockBuilder) -> None:
    with pytest.raises(CompileError, match="buffer L0A of Ascend310 must hold 65536 bytes, not 131072"):
        builder.ring("r", Pipe.MTE1, Pipe.M, 2, (Buffer.L0A, 65536))


def test_unbalanced_ring_is_a_compile_error(builder: BlockBuilder) -> None:
    ring = builder.ring("r", Pipe.MTE2, Pipe.MTE3, 2, (Buffer.UB, 64))

    def fill_only() -> None:
        with builder.loop("i", 2):
            builder.acquire(ring)
            builder.commit(ring)

    with pytest.raises(CompileError, match="filled as often as it is emptied"):
        fill_only()
