"""Laws of L2 placement on random programs."""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ascendsim.isa.program import Access, MemoryPlan, Program, Region, Task, TaskKind
from ascendsim.lower.l2_placement import PIECES, L2Plan, Placement, check_placement, plan_l2

CAPACITY = 64 * 512


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Up to 12 tasks with regions of random sizes and lives."""
    count = draw(st.integers(2, 12))
    accesses: list[list[Access]] = [[] for _ in range(count)]
    regions = {}
    for number in range(draw(st.integers(1, 20))):
        users = sorted(draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=4)))
        name, bytes = f"r{number}", draw(st.integers(1, CAPACITY + 600))
        kind = draw(st.sampled_from(["activation", "activation", "activation", "weight", "output"]))
        regions[name] = Region(name, 0, bytes, kind, first=users[0], last=users[-1])
        for user in users:
            accesses[user].append(
                Access(name, bytes, bytes * draw(st.integers(1, 3)), user == users[0] and kind != "weight")
            )
    tasks = tuple(
        Task(number, f"t{number}", TaskKind.AI_CORE, accesses=tuple(items))
        for number, items in enumerate(accesses)
    )
    return Program(tasks, MemoryPlan(regions, 0, 0))


@given(programs(), st.sampled_from([1, 8, 64]), st.integers(1, PIECES))
def test_the_capacity_is_never_exceeded_and_nobody_shares_bytes(
    program: Program, pages: int, pieces: int
) -> None:
    plan = plan_l2(program, CAPACITY, weights=list(program.memory.regions), pages=pages, pieces=pieces)
    assert check_placement(program, plan) == []
    assert plan.peak_bytes <= CAPACITY
    for task in program.tasks:
        assert sum(item.first <= task.id <= item.last for item in plan.placed) <= pieces
    assert not {item.region for item in plan.placed} & set(plan.refused)


@given(programs())
def test_what_is_saved_is_what_placed_regions_move(program: Program) -> None:
    plan = plan_l2(program, CAPACITY)
    placed = {item.region for item in plan.placed}
    assert plan.saved_bytes == sum(
        access.moved_bytes for task in program.tasks for access in task.accesses if access.region in placed
    )
    assert all(program.memory.regions[name].kind == "activation" for name in placed)


def test_breaches_are_bytes_that_two_have_at_one_task() -> None:
    random, outcomes = Random(4), [0, 0]
    nothing = Program((), MemoryPlan({}, 0, 0))
    for _ in range(300):
        pieces = []
        for name in "abc":
            first = random.randint(0, 3)
            spot = random.randint(0, 4), random.randint(1, 3), first, random.randint(first, 3)
            pieces.append(Placement(name, *spot, 0, 0))
        taken = {
            one.region: {
                (task, byte)
                for task in range(one.first, one.last + 1)
                for byte in range(one.offset, one.offset + one.bytes)
            }
            for one in pieces
        }
        wanted = [f"{one} ends beyond L2" for one in taken if max(byte for _, byte in taken[one]) >= 6]
        wanted += [
            f"{one} and {two} share bytes" for one, two in combinations(taken, 2) if taken[one] & taken[two]
        ]
        assert check_placement(nothing, L2Plan(6, tuple(pieces))) == wanted
        outcomes[bool(wanted)] += 1
    assert min(outcomes) > 30
