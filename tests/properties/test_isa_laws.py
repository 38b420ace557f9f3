"""Algebra of the instruction set against programs that are written out: flags, races, bounds, banks,
footprints."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import CompileError
from ascendsim.isa.banks import reads_conflict
from ascendsim.isa.checks import check_block
from ascendsim.isa.flag_checks import Count, check_flags, count
from ascendsim.isa.footprint import footprint
from ascendsim.isa.hazards import Walk, check_hazards, has_race
from ascendsim.isa.instructions import (
    Affine,
    Allocation,
    Buffer,
    Flag,
    Instruction,
    Loop,
    Move,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, MemoryPlan, Region
from ascendsim.isa.walk import bounds, in_order, static, times
from tests.support.gate import examples
from tests.support.reference_blocks import expanded, levels, races
from tests.support.toy_programs import gm
from tests.support.toy_soc import TOY

FULL = Flag("full", Pipe.MTE2, Pipe.V, 0, 16)
SET, WAIT = SetFlag(Pipe.MTE2, "full"), WaitFlag(Pipe.V, "full")
OTHER = Flag("other", Pipe.MTE2, Pipe.V, 9, 99)
NOISE = (SetFlag(Pipe.MTE2, "other"), WaitFlag(Pipe.V, "other"))


def nests(leaves: st.SearchStrategy[Instruction], depth: int = 2) -> st.SearchStrategy[tuple[Statement, ...]]:
    """Bodies of leaves and of loops of 0 to 4 trips, nested so deep; every loop has a variable of its own."""
    statement: st.SearchStrategy[Statement] = leaves
    for level in range(depth):
        statement = st.one_of(
            leaves,
            st.builds(
                Loop, st.just(f"i{level}"), st.integers(0, 4), st.lists(statement, max_size=3).map(tuple)
            ),
        )
    return st.lists(statement, max_size=4).map(tuple)


# ------------------------------------------------------------------------------------------------------------


@given(nests(st.sampled_from([SET, SET, WAIT, WAIT, *NOISE]), 3))
def test_the_count_of_a_flag_is_that_of_the_program_written_out(body: tuple[Statement, ...]) -> None:
    seen = levels(body, "full")
    assert count(body, "full") == Count(seen[-1], max(seen))


@given(st.integers(-3, 3), st.integers(0, 4), st.integers(-2, 6))
def test_a_repeated_count_is_highest_in_its_first_or_its_last_trip(
    change: int, above: int, trips: int
) -> None:
    highest = max(0, change) + above
    level = top = 0
    for _ in range(trips):
        top, level = max(top, level + highest), level + change
    assert Count(change, highest).repeated(trips) == Count(level, top)


@given(nests(st.sampled_from([SET, WAIT, WAIT, *NOISE]), 2), st.integers(0, 4), st.integers(0, 6))
def test_flags_are_refused_if_they_end_below_zero_or_pass_their_limit(
    body: tuple[Statement, ...], initial: int, limit: int
) -> None:
    flag = Flag("full", Pipe.MTE2, Pipe.V, initial, limit)
    seen = [initial + level for level in levels(body, "full")]
    noise = levels(body, "other")
    sound = (
        0 <= initial <= limit
        and seen[-1] >= 0
        and max(seen) <= limit
        and noise[-1] >= -9
        and max(noise) <= 90
    )
    block = Block(body, (), (flag, OTHER))
    if sound:
        check_flags(block)
    else:
        with pytest.raises(CompileError):
            check_flags(block)


# ------------------------------------------------------------------------------------------------------------


@given(nests(st.sampled_from([SET, WAIT, *NOISE]), 3))
def test_walks_visit_what_the_program_written_out_runs(body: tuple[Statement, ...]) -> None:
    wanted = [(id(item), tuple(variables.items())) for item, variables in expanded(body)]
    assert [(id(item), tuple(variables.items())) for item, variables in in_order(body)] == wanted
    runs = [(id(item), times(around), len(around)) for item, around in static(body)]
    assert sum(often for _, often, _ in runs) == len(wanted)
    assert all(
        often == sum(one == item for one, _ in wanted)
        for item, often, _ in runs
        if [one for one, _, _ in runs].count(item) == 1
    )


steps = st.sampled_from([-3, -1, 0, 1, 2, 5])


@given(st.integers(-5, 5), st.lists(steps, max_size=3), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_bounds_are_the_smallest_and_the_largest_value(
    base: int, coefficients: list[int], trips: list[int]
) -> None:
    names = "ijk"[: len(coefficients)]
    value, ranges = (
        Affine(base, tuple(zip(names, coefficients, strict=True))),
        dict(zip("ijk", trips, strict=True)),
    )
    body: tuple[Statement, ...] = (SET,)
    for name in names:
        body = (Loop(name, ranges[name], body),)
    values = [
        base + sum(step * variables[name] for name, step in value.terms) for _, variables in expanded(body)
    ]
    assert [value.at(variables) for _, variables in expanded(body)] == values
    assert bounds(value, ranges) == (min(values), max(values))


# -----------------------------------------------------------------------------------------------------------

affine = st.builds(
    Affine,
    st.sampled_from([0, 0, 32, 96]),
    st.sampled_from([(), (("i", 32),), (("i", -32),), (("i", 64),), (("j", 32),), (("i", 16),)]),
)


@given(
    affine,
    affine,
    st.integers(1, 4),
    st.sampled_from([32, 64, 96]),
    st.sampled_from([96, 128, 160]),
    st.sampled_from([128, 256]),
)
def test_operands_stay_inside_slots_and_regions_in_every_trip(
    target: Affine, source: Affine, trips: int, size: int, slot_bytes: int, region: int
) -> None:
    into = Operand(Buffer.UB, "u", size, target, Affine(0, (("i", 1),)))
    block = Block(
        (Loop("i", trips, (Move(Pipe.MTE2, into, gm("x", size, source), 1, size),)),),
        (Allocation("u", Buffer.UB, 0, slot_bytes, 2),),
    )
    plan = MemoryPlan({"x": Region("x", 0, region, "activation")}, 0, 0)
    known = all(name == "i" for name, _ in (*target.terms, *source.terms))
    sound = known
    for trip in range(trips) if known else ():
        low = target.base + sum(step * trip for _, step in target.terms)
        begin = source.base + sum(step * trip for _, step in source.terms)
        sound &= low >= 0 and low + size <= slot_bytes and begin >= 0 and begin + size <= region
    sound &= all(step % 32 == 0 for _, step in target.terms)
    if sound:
        check_block(block, TOY, plan)
    else:
        with pytest.raises(CompileError):
            check_block(block, TOY, plan)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 32, 64, 96, 128, 192]), st.sampled_from([32, 64]), st.integers(1, 3)),
        min_size=1,
        max_size=3,
    )
)
def test_allocations_share_no_byte_and_end_inside_their_buffer(pieces: list[tuple[int, int, int]]) -> None:
    capacity = TOY.buffers.ub
    assert capacity is not None
    shift = capacity - 288  # close to the end of the buffer
    allocations = tuple(
        Allocation(f"a{number}", Buffer.UB, shift + offset, size, slots)
        for number, (offset, size, slots) in enumerate(pieces)
    )
    taken = [
        byte for one in allocations for byte in range(one.offset, one.offset + one.slot_bytes * one.slots)
    ]
    block = Block((), allocations)
    if len(taken) == len(set(taken)) and max(taken) < capacity:
        check_block(block, TOY)
    else:
        with pytest.raises(CompileError):
            check_block(block, TOY)


# ------------------------------------------------------------------------------------------------------------

PIPES = (Pipe.MTE2, Pipe.V, Pipe.MTE3)


@st.composite
def racy_blocks(draw: st.DrawFn) -> Block:
    """Work of three pipes on two slots of a buffer and a workspace, with flags that order some of it."""
    flags = (
        Flag("a", Pipe.MTE2, Pipe.V, draw(st.integers(0, 1))),
        Flag("b", Pipe.V, Pipe.MTE3),
        Flag("c", Pipe.MTE3, Pipe.MTE2, 1),
    )
    places = st.builds(
        lambda base, size, moving, slot: Operand(
            Buffer.UB, "u", size, Affine(base), Affine(slot, (("i0", 1),) if moving else ())
        ),
        st.sampled_from([0, 32, 64]),
        st.sampled_from([32, 64]),
        st.booleans(),
        st.integers(0, 2),
    )
    workspace = st.builds(lambda base: gm("w", 64, Affine(base)), st.sampled_from([0, 32, 64]))
    works = st.one_of(
        st.builds(lambda to, source: Move(Pipe.MTE2, to, source, 1, 64), places, workspace),
        st.builds(lambda to, one, two: Vector("vadd", "float16", 32, to, (one, two)), places, places, places),
        st.builds(lambda source, to: Move(Pipe.MTE3, to, source, 1, 64), places, workspace),
    )
    body: list[Statement] = list(draw(st.lists(works, min_size=1, max_size=4)))
    for flag in flags:
        if draw(st.booleans()):
            first, second = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
            setting, waiting = SetFlag(flag.source, flag.name), WaitFlag(flag.target, flag.name)
            before, after = (waiting, setting) if flag.initial else (setting, waiting)
            body = [*body[:first], before, *body[first:second], after, *body[second:]]
    block = (Loop("i0", draw(st.integers(1, 3)), tuple(body)), Loop("i0", 1, tuple(body)))
    return Block(block, (Allocation("u", Buffer.UB, 0, 128, 2),), flags)


def initial(block: Block) -> dict[str, int]:
    """How often each flag of a block is set at first."""
    return {flag.name: flag.initial for flag in block.flags}


@examples(5)
@given(racy_blocks())
def test_races_are_found_exactly_where_nothing_orders_two_accesses(block: Block) -> None:
    found = races(block)
    assert has_race(Walk(block), initial(block), 1000) == bool(found)
    if not found:
        check_hazards(block)
        return
    with pytest.raises(CompileError, match="must not be"):
        check_hazards(block)


@given(racy_blocks())
def test_only_so_many_instructions_are_walked(block: Block) -> None:
    """A race shows as soon as its second access is walked."""
    found = races(block)
    if found:
        first = min(race.second for race in found)
        check_hazards(block, limit=first)
        walk = Walk(block)  # of which a second check uses what the first has seen
        assert [has_race(walk, initial(block), first + more) for more in (0, 1, 1000)] == [False, True, True]
        with pytest.raises(CompileError, match="must not be"):
            check_hazards(block, limit=first + 1)


def test_part_of_what_was_read_may_still_be_read_when_another_part_is_written() -> None:
    """MTE3 reads three blocks; V, which waits for it, writes the first two; MTE2, which waits for nobody,
    must not write the third."""
    place = Allocation("u", Buffer.UB, 0, 96)
    done = Flag("done", Pipe.MTE3, Pipe.V)

    def part(first: int, blocks: int) -> Operand:
        return Operand(Buffer.UB, "u", 32 * blocks, Affine(32 * first))

    for start, other in ((0, 2), (1, 0)):
        reader = Move(Pipe.MTE3, gm("w", 96), part(0, 3), 1, 96)
        writer = Vector("vadd", "float16", 32, part(start, 2), ())
        late = Move(Pipe.MTE2, part(other, 1), gm("x", 32), 1, 32)
        body = (reader, SetFlag(Pipe.MTE3, "done"), WaitFlag(Pipe.V, "done"), writer)
        check_hazards(Block(body, (place,), (done,)))
        with pytest.raises(CompileError, match="UB.u must not be written by MTE2"):
            check_hazards(Block((*body, late), (place,), (done,)))
        for text, races_at_all in ((body, False), ((*body, late), True)):
            block = Block(text, (place,), (done,))
            assert has_race(Walk(block), initial(block), 1000) == races_at_all


def test_twenty_thousand_instructions_are_walked_if_nobody_says_otherwise() -> None:
    write = Vector("vadd", "float16", 16, Operand(Buffer.UB, "u", 32), ())
    read = Move(Pipe.MTE3, gm("w", 32), Operand(Buffer.UB, "u", 32), 1, 32)
    place = (Allocation("u", Buffer.UB, 0, 32),)
    check_hazards(Block((Loop("i", 20_000, (write,)), read), place))
    with pytest.raises(CompileError, match="must not be read"):
        check_hazards(Block((Loop("i", 19_999, (write,)), read), place))


# ------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3),
    st.sampled_from([8, 16, 17, 32]),
)
def test_reads_conflict_if_a_bank_group_serves_two_sources_in_a_repeat(
    places: list[tuple[int, int, int]], groups: int
) -> None:
    allocations = {
        f"a{block}": Allocation(f"a{block}", Buffer.UB, 32 * block, 96, 2) for block, _, _ in places
    }
    sources = tuple(
        Operand(Buffer.UB, f"a{block}", 256, Affine(32 * offset), Affine(slot))
        for block, slot, offset in places
    )
    out = Operand(Buffer.UB, "out", 256)
    starts = {block + 3 * (slot % 2) + offset for block, slot, offset in places}
    served = [(start + number) % groups for start in starts for number in range(8)]
    from_l0c = Operand(Buffer.L0C, "c", 256)
    for more in ((), (from_l0c,)):
        vector = Vector("vadd", "float16", 128, out, (*sources, *more))
        assert reads_conflict(vector, allocations, groups) is (len(set(served)) < len(served))


# ---------------------------------------------------------------------------------------------------------- f


@st.composite
def transfers(draw: st.DrawFn) -> tuple[Statement, ...]:
    """Nested loops that move tiles of 64 B of regions of their own: every loop moves a tile or comes back to
    it."""
    numbers = iter(range(100))

    def tile(around: tuple[tuple[str, int], ...]) -> Statement:
        number, room = next(numbers), 64
        terms = []
        for name, trips in around:
            if draw(st.booleans()):
                terms.append((name, room))
                room *= trips
        at = gm(f"r{number}", 64, Affine(64 * draw(st.integers(0, 2)), tuple(terms)))
        local, kind = Operand(Buffer.UB, "u", 64), draw(st.sampled_from(["load", "load", "past", "store"]))
        return (
            Move(Pipe.MTE3, at, local, 1, 64)
            if kind == "store"
            else Move(Pipe.MTE2, local, at, 1, 64, cached=kind == "load")
        )

    def nest(depth: int, around: tuple[tuple[str, int], ...]) -> tuple[Statement, ...]:
        body: list[Statement] = []
        for _ in range(draw(st.integers(1, 2))):
            if depth and draw(st.booleans()):
                name, trips = f"i{next(numbers)}", draw(st.integers(0, 3))
                body.append(Loop(name, trips, nest(depth - 1, (*around, (name, max(1, trips))))))
            else:
                body.append(tile(around))
        return tuple(body)

    return nest(3, ())


@given(transfers())
def test_a_footprint_counts_the_different_bytes_of_the_program_written_out(
    body: tuple[Statement, ...],
) -> None:
    touched: dict[str, set[int]] = {}
    read: dict[str, set[int]] = {}
    runs = 0
    for item, variables in expanded(body):
        assert isinstance(item, Move)
        write = item.dst.buffer is Buffer.GM
        operand = item.dst if write else item.src
        start = operand.offset.base + sum(step * variables[name] for name, step in operand.offset.terms)
        runs += item.cached
        if item.cached:
            touched.setdefault(operand.name, set()).update(range(start, start + 64))
        if not write:
            read.setdefault(operand.name, set()).update(range(start, start + 64))
    made = footprint(Block(body))
    assert made.touched() == {name: len(bytes) for name, bytes in touched.items()}
    assert made.read() == {name: len(bytes) for name, bytes in read.items()}
    assert sum(prod(made.trips[loop] for loop in stream.loops) for stream in made.streams) == runs
    swapped = made.renamed({name: f"{name}'" for name in {**touched, **read}})
    assert swapped.touched() == {f"{name}'": size for name, size in made.touched().items()}
    assert swapped.read() == {f"{name}'": size for name, size in made.read().items()}


@given(transfers())
def test_a_working_set_is_what_one_trip_of_a_loop_touches(body: tuple[Statement, ...]) -> None:
    loops: list[tuple[Loop, tuple[Loop, ...]]] = []

    def collect(statements: tuple[Statement, ...], around: tuple[Loop, ...]) -> None:
        for statement in statements:
            if isinstance(statement, Loop) and statement.trips:
                loops.append((statement, around))
                collect(statement.body, (*around, statement))

    collect(body, ())
    made = footprint(Block(body))
    assert made.trips == tuple(loop.trips for loop, _ in loops)
    for number, (loop, around) in enumerate(loops):
        sets: list[dict[str, set[int]]] = []
        for trip in range(loop.trips):
            sets.append({})
            for item, variables in expanded(
                loop.body, {**{outer.variable: 0 for outer in around}, loop.variable: trip}
            ):
                assert isinstance(item, Move)
                operand = item.dst if item.dst.buffer is Buffer.GM else item.src
                start = operand.offset.base + sum(
                    step * variables[name] for name, step in operand.offset.terms
                )
                if item.cached:
                    sets[-1].setdefault(operand.name, set()).add(start)
        assert all(
            made.working_sets([number])[number] == {name: 64 * len(starts) for name, starts in one.items()}
            for one in sets
        )
        if loop.trips > 1:
            assert (number in made.repeating()) is any(
                starts == sets[1].get(name) for name, starts in sets[0].items()
            )
