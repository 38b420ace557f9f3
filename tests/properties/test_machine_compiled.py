"""Blocks in the machine's own form against the same program written out: what runs in which order, and what
all of it adds up to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil
from random import Random

import pytest

from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Instruction,
    Loop,
    Mmad,
    Move,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, CoreKind
from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import (
    END,
    FIXED,
    SCALAR_LANE,
    SET,
    TRANSFER,
    WAIT,
    CompiledBlock,
    Entry,
    LoopEnd,
    compile_block,
)
from ascendsim.soc.spec import SocSpec
from tests.support.random_programs import random_block
from tests.support.reference_blocks import expanded
from tests.support.toy_machine import add, load, store
from tests.support.toy_programs import gm
from tests.support.toy_soc import toy

CHIPS = (
    toy(),
    toy(frequency_mhz=680, issue={"scalar_cycles": 1.5, "instruction_start_ns": 40, "queue_depth": {"V": 3}}),
    toy(vector_cores=1, frequency_mhz=1060, issue={"scalar_cycles": 0.3}),
)


def walked(compiled: CompiledBlock) -> list[Entry]:
    """Entries in the order in which the scalar unit comes to them: to the start of a loop until its trips are
    done."""
    entries: list[Entry] = []
    counters, at = [0] * len(compiled.trips), 0
    while compiled.code[at] is not END:
        step = compiled.code[at]
        at += 1
        if isinstance(step, LoopEnd):
            counters[step.loop] += 1
            if counters[step.loop] < compiled.trips[step.loop]:
                at = step.first
            else:
                counters[step.loop] = 0
            assert step.trips == compiled.trips[step.loop]
        else:
            entries += step
    assert at == len(compiled.code) - 1
    return entries


@pytest.mark.parametrize("soc", CHIPS, ids=["toy", "slow", "two clocks"])
def test_random_blocks_run_and_cost_as_written_out(soc: SocSpec) -> None:
    clock = Clock.of(soc)
    for seed in range(40):
        block = random_block(Random(seed))
        compiled = compile_block(block, soc, clock)
        check(compiled, block, soc, clock, clock.ai_ticks)


def check(compiled: CompiledBlock, block: Block, soc: SocSpec, clock: Clock, cycle: int) -> None:
    run = [item for item, _ in expanded(block.body)]
    entries = walked(compiled)
    assert [operation[-1] for _, _, operation in entries] == list(run)
    for (lane, issue, operation), item in zip(entries, run, strict=True):
        assert (SCALAR_LANE if item.pipe is Pipe.S else compiled.lanes.index(item.pipe)) == lane
        price = cost(item, soc, block.core)
        assert issue == ceil(round(soc.issue.scalar_cycles * price.issues * cycle, 9))
        if isinstance(item, SetFlag | WaitFlag):
            assert operation[0] == (SET if isinstance(item, SetFlag) else WAIT)
            assert block.flags[operation[1]].name == item.flag
        elif price.link is not None:
            kind, occupancy, index, _ = operation
            region, demand = compiled.demands[index]
            assert (kind, occupancy, demand) == (TRANSFER, price.occupancy * cycle, price.link)
            assert compiled.regions[region] == demand.region
        else:
            scalar = item.pipe is Pipe.S
            times = (price.occupancy, 0 if scalar else price.latency, 0 if scalar else price.head)
            assert operation[:4] == (FIXED, *[cycles * cycle for cycles in times])
    totals(compiled, run)
    for lane, pipe in enumerate(compiled.lanes):
        heads = [cost(item, soc, block.core).head for item in run if item.pipe is pipe and not moves(item)]
        assert compiled.heads[lane] == max(heads, default=0) * cycle
        assert compiled.depths[lane] == soc.issue.queue_depth.get(pipe.value, 16)
    lanes = [*compiled.lanes, Pipe.S]
    used = {item.pipe for item in run}
    for flag, (source, target) in zip(block.flags, compiled.ends, strict=True):
        assert lanes[source] is (flag.source if flag.source in used else Pipe.S)
        assert lanes[target] is (flag.target if flag.target in used else Pipe.S)
    assert compiled.scalar_sets is any(isinstance(item, SetFlag) and item.pipe is Pipe.S for item in run)


def moves(item: Instruction) -> bool:
    return isinstance(item, Move) and Buffer.GM in (item.src.buffer, item.dst.buffer)


def totals(compiled: CompiledBlock, run: list[Instruction]) -> None:
    """Bytes by region and way, and multiply-accumulates."""
    sums: dict[str, Counter[str]] = {"read": Counter(), "past": Counter(), "written": Counter()}
    for item in run:
        if isinstance(item, Move) and moves(item):
            write = item.dst.buffer is Buffer.GM
            way = "written" if write else "read" if item.cached else "past"
            sums[way][item.dst.name if write else item.src.name] += item.bursts * item.burst_bytes
    for way, found in (
        ("read", compiled.read_bytes),
        ("past", compiled.uncached_bytes),
        ("written", compiled.write_bytes),
    ):
        assert {compiled.regions[region]: size for region, size in found.items()} == sums[way]
    assert compiled.macs == sum(item.m * item.k * item.n for item in run if isinstance(item, Mmad))


def test_vector_cores_have_their_own_cycle() -> None:
    soc = toy(vector_cores=1, frequency_mhz=1060)
    clock = Clock.of(soc)
    block = Block(
        (Loop("i", 3, (load(), add(2), replace(load(64), cached=False), store())),), (), (), CoreKind.VECTOR
    )
    compiled = compile_block(block, soc, clock)
    check(compiled, block, soc, clock, clock.vector_ticks)
    assert clock.vector_ticks != clock.ai_ticks


@pytest.mark.parametrize("seed", range(30))
def test_visits_are_how_often_a_transfer_comes_to_each_place(seed: int) -> None:
    random = Random(seed)
    trips = {name: random.randint(1, 4) for name in "ijk"}
    transfers: list[Move] = []
    for number in range(3):
        moving = [name for name in "ijk"[: number + 1] if random.random() < 0.5]
        place = gm(
            f"r{number}", 64, Affine(7, (*((name, 64 * 5 ** "ijk".index(name)) for name in moving), ("i", 0)))
        )
        transfers.append(
            replace(load(64), src=place) if random.random() < 0.7 else replace(store(64), dst=place)
        )
    body: tuple[Statement, ...] = ()
    for name, transfer in zip("kji", reversed(transfers), strict=True):
        behind = replace(load(64), src=gm(f"behind {name}", 64))  # the loop inside is over then
        body = (Loop(name, trips[name], (transfer, *body, behind)),)
    soc = toy()
    compiled = compile_block(Block(body), soc, Clock.of(soc))
    for (region, demand), visits in zip(compiled.demands, compiled.visits, strict=True):
        places = Counter[int]()
        for item, variables in expanded(body):
            assert isinstance(item, Move)
            operand = item.dst if demand.write else item.src
            if operand.name == compiled.regions[region]:
                places[operand.offset.at(variables)] += 1
        assert set(places.values()) == {visits}


def test_results_of_the_vector_unit_are_followed_by_name() -> None:
    """An instruction waits for what it reads, and for what it overwrites unless that is somewhere else in
    every trip."""
    moving = replace(add(1).dst, name="ring", slot=Affine(0, (("i", 1),)))
    first, second = add(1), Vector("vadd", "float16", 128, moving, (moving, add(1).dst, moving))
    soc = toy()
    compiled = compile_block(Block((Loop("i", 2, (first, second)),)), soc, Clock.of(soc))
    (one, two) = [operation for _, _, operation in compiled.code[0]]  # type: ignore[union-attr]
    other, result = one[4]
    assert one[5] == result  # into u, which it also waits for: the same place in every trip
    assert sorted(two[4]) == sorted((result, two[5]))  # u and the ring, which it reads
    assert len({other, result, two[5]}) == compiled.operands == 3
    writing = compile_block(Block((Loop("i", 2, (replace(second, srcs=(first.dst,)),)),)), soc, Clock.of(soc))
    (entry,) = writing.code[0]  # type: ignore[misc]
    assert entry[2][5] not in entry[2][4]  # type: ignore[index]
