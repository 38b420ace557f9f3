"""Which flags of a block order anything: those that tell a pipe something that no other wait tells it."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import (
    Affine,
    Allocation,
    Buffer,
    Flag,
    Loop,
    Move,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, BlockGroup, TaskKind
from ascendsim.lower.needed_flags import needed_flags, with_useful_flags
from ascendsim.lower.templates.stage import Stage
from tests.support.toy_machine import add, block, mmad
from tests.support.toy_programs import gm

THERE = [SetFlag(Pipe.M, "there"), WaitFlag(Pipe.V, "there")]
BACK = [SetFlag(Pipe.V, "back"), WaitFlag(Pipe.M, "back")]
AGAIN = [SetFlag(Pipe.M, "again"), WaitFlag(Pipe.V, "again")]
FLAGS = (
    Flag("there", Pipe.M, Pipe.V),
    Flag("back", Pipe.V, Pipe.M),
    Flag("again", Pipe.M, Pipe.V),
)


def test_work_of_the_pipe_that_begins_the_block_counts_every_time() -> None:
    chain = block(mmad(1), *THERE, add(1), *BACK, mmad(1), *AGAIN, add(1), flags=FLAGS)
    assert needed_flags(chain) == {"there", "back", "again"}


def test_of_two_waits_for_one_pipe_the_later_one_is_enough() -> None:
    (first, wait), (second, wait_again) = THERE, AGAIN
    both = block(mmad(1), first, mmad(1), second, wait, wait_again, add(1), *BACK, mmad(1), flags=FLAGS)
    assert needed_flags(both) == {"again", "back"}


def test_a_flag_between_pipes_that_have_done_nothing_orders_nothing() -> None:
    early = block(*THERE, add(1), *BACK, mmad(1), flags=FLAGS[:2])
    assert needed_flags(early) == {"back"}


BIAS, WIDE = Operand(Buffer.UB, "bias", 32), Operand(Buffer.UB, "wide", 64)
LATE, EARLY = Flag("late", Pipe.V, Pipe.MTE2, 1, 1), Flag("early", Pipe.V, Pipe.MTE2, 1, 1)
FULL = Flag("full", Pipe.MTE2, Pipe.V)


def biases(trips: int = 2, source: str = "b", more: tuple[Statement, ...] = (), late: Flag = LATE) -> Block:
    """Loads of a bias that the vector unit reads and then works on without it."""
    body = (
        WaitFlag(Pipe.MTE2, "late"),
        WaitFlag(Pipe.MTE2, "early"),
        Move(Pipe.MTE2, BIAS, gm(source, 32), 1, 32),
        SetFlag(Pipe.MTE2, "full"),
        WaitFlag(Pipe.V, "full"),
        Vector("vconv", "float32", 8, WIDE, (BIAS,)),
        SetFlag(Pipe.V, "early"),
        add(1, WIDE, WIDE),
        *more,
        SetFlag(Pipe.V, "late"),
    )
    places = (Allocation("bias", Buffer.UB, 0, 32), Allocation("wide", Buffer.UB, 32, 64))
    return Block((Loop("i", trips, body),), places, (FULL, late, EARLY))


def useful(body: Block) -> set[str]:
    stage = with_useful_flags(Stage((BlockGroup(body, 1),), TaskKind.AI_CORE, {}))
    return {flag.name for flag in stage.groups[0].block.flags}


def test_a_wait_for_work_that_touches_nothing_of_ours_goes() -> None:
    assert needed_flags(biases()) == {"full", "late", "early"}
    assert useful(biases()) == {"full", "early"}


def test_a_wait_stays_if_the_work_before_it_reads_what_is_loaded() -> None:
    read_again = biases(more=(add(1, WIDE, BIAS),))
    assert useful(read_again) == {"full", "late"}


def test_flags_stay_that_order_other_cores() -> None:
    assert useful(biases(late=replace(LATE, shared=True))) == {"full", "late"}
    handed_on = (Move(Pipe.V, gm("b", 64), WIDE, 1, 64),)
    assert useful(biases(more=handed_on)) == {"full", "late", "early"}


def test_flags_stay_in_programs_too_long_to_walk() -> None:
    """Of more than 5000 instructions, turns of loops counted."""
    for many, kept in ((260, {"full", "early"}), (300, {"full", "late", "early"})):
        inner = Loop("j", 3, (Loop("k", 3, (add(1, WIDE, WIDE),) * many),))  # twice
        assert useful(biases(more=(inner,))) == kept


def test_flags_stay_that_late_trips_need() -> None:
    """The reader reaches the bytes that are loaded next only in its last trips."""
    far = Operand(Buffer.UB, "bias", 32, Affine(288, (("i", -32),)))
    body = biases(11, more=(Vector("vadd", "float16", 16, WIDE, (far,)),))
    body = replace(
        body, allocations=(Allocation("wide", Buffer.UB, 0, 64), Allocation("bias", Buffer.UB, 64, 320))
    )
    check_hazards(body)
    assert useful(body) == {"full", "late"}
