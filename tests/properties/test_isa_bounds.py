"""Rules that bound what a program takes, against counting: bytes of buffers, heights of flags, shapes of
teams."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.checks import check_block
from ascendsim.isa.cross_checks import team_shape
from ascendsim.isa.flag_checks import check_flags
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
    WaitFlag,
)
from ascendsim.isa.program import Block, BlockGroup, CoreKind, MemoryPlan, Region
from tests.support.toy_programs import gm
from tests.support.toy_soc import toy

GRAIN = 32  # bytes at whose multiples anything in UB begins


def accepted(block: Block) -> bool:
    """Whether the block passes the checks."""
    try:
        check_block(block, toy(buffers={"ub": 10 * GRAIN}))
    except CompileError:
        return False
    return True


def test_allocations_take_bytes_of_their_own_within_the_buffer() -> None:
    random, passed = Random(1), 0
    for _ in range(400):
        pieces = [
            Allocation(
                f"a{number}",
                Buffer.UB,
                random.randint(0, 9) * GRAIN,
                random.choice((1, GRAIN, 2 * GRAIN)) if (slots := random.randint(1, 2)) == 1 else GRAIN,
                slots,
            )
            for number in range(random.randint(1, 3))
        ]
        taken = [
            byte
            for piece in pieces
            for byte in range(piece.offset, piece.offset + piece.slots * piece.slot_bytes)
        ]
        fits = len(set(taken)) == len(taken) and max(taken) < 10 * GRAIN
        assert accepted(Block((), tuple(pieces), ())) == fits, pieces
        passed += fits
    assert 50 < passed < 350


def test_a_transfer_stays_inside_its_region_in_every_trip() -> None:
    random, passed = Random(3), 0
    held = Allocation("held", Buffer.UB, 0, 4 * GRAIN, 1)
    memory = MemoryPlan({"x": Region("x", 0, 10 * GRAIN, "input")}, 0, 0)
    for _ in range(300):
        first, step, trips, size = (
            random.randint(low, high) for low, high in ((-1, 6), (-3, 3), (1, 4), (1, 4))
        )
        at = Affine(first * GRAIN, (("i", step * GRAIN),))
        load = Move(
            Pipe.MTE2, Operand(Buffer.UB, "held", size * GRAIN), gm("x", size * GRAIN, at), 1, size * GRAIN
        )
        places = [first + trip * step + grain for trip in range(trips) for grain in range(size)]
        fits = min(places) >= 0 and max(places) < 10
        try:
            check_block(Block((Loop("i", trips, (load,)),), (held,), ()), toy(), memory)
        except CompileError:
            assert not fits, (first, step, trips, size)
        else:
            assert fits, (first, step, trips, size)
        passed += fits
    assert 50 < passed < 250


def heights(body: tuple[Statement, ...], count: int) -> list[int]:
    """The counter of the only flag after every set and wait, loops written out."""
    found: list[int] = []
    for statement in body:
        if isinstance(statement, Loop):
            for _ in range(statement.trips):
                found += heights(statement.body, found[-1] if found else count)
        else:
            found.append((found[-1] if found else count) + (1 if isinstance(statement, SetFlag) else -1))
    return found


def test_a_flag_is_never_set_beyond_its_limit() -> None:
    """One of the chip's own, which is free at the start, never twice, and it is not left set. Waits that come
    too early are hazards, which are looked for elsewhere."""
    random, outcomes = Random(2), [0, 0]
    for _ in range(400):
        initial, limit, event = random.randint(0, 2), random.randint(2, 4), random.choice((None, 0, 7))
        initial = initial if event is None or random.random() < 0.1 else 0

        def steps(random: Random = random) -> tuple[Statement, ...]:
            return tuple(
                random.choice((SetFlag(Pipe.MTE2, "f"), SetFlag(Pipe.MTE2, "f"), WaitFlag(Pipe.V, "f")))
                for _ in range(random.randint(0, 3))
            )

        body = (*steps(), Loop("i", random.randint(0, 3), steps()), *steps())
        found = heights(body, initial)
        last = found[-1] if found else initial
        sound = max([initial, *found]) <= limit and last >= 0
        if event is not None:
            sound = initial == last == 0 and max([0, *found]) <= 1
        flag = Flag("f", Pipe.MTE2, Pipe.V, initial, limit, event=event)
        try:
            check_flags(Block(body, (), (flag,)))
        except CompileError:
            assert not sound, body
        else:
            assert sound, body
        outcomes[sound] += 1
    assert min(outcomes) > 50


@pytest.mark.parametrize("cubes", [1, 2, 3])
def test_a_team_is_one_cube_core_with_one_or_two_vector_cores(cubes: int) -> None:
    """Blocks are dealt out to teams one by one: those of each group must go round evenly."""
    for counts in product(range(1, 7), repeat=2):
        for kinds in product((CoreKind.VECTOR, CoreKind.AI, CoreKind.CUBE), repeat=2):
            groups = [BlockGroup(Block((), (), (), CoreKind.CUBE), cubes)]
            groups += [
                BlockGroup(Block((), (), (), kind), count) for kind, count in zip(kinds, counts, strict=True)
            ]
            a_core = [0] * cubes  # vector blocks of each team
            even = True
            for group in groups[1:]:
                dealt = [0] * cubes
                for block in range(group.count):
                    dealt[block % cubes] += 1
                even &= len(set(dealt)) == 1
                a_core = [a + b for a, b in zip(a_core, dealt, strict=True)]
            sound = kinds == (CoreKind.VECTOR, CoreKind.VECTOR) and even and set(a_core) <= {1, 2}
            if sound:
                first, shares = team_shape(groups, "team 0")
                assert first == 0
                assert sum(shares.values()) == a_core[0]
                assert all(shares[place] * cubes == groups[place].count for place in (1, 2))
            else:
                with pytest.raises(CompileError, match="one or two vector blocks for each cube block"):
                    team_shape(groups, "team 0")
    alone = [BlockGroup(Block((), (), (), CoreKind.VECTOR), 1)]
    with pytest.raises(CompileError, match="not 1 VECTOR"):
        team_shape(alone, "team 0")
