"""Barriers of pipes: nothing behind one begins before the results of all that is ahead of it are there."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.costs import cost
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Allocation, Barrier, Buffer, Loop, Pipe, SetFlag, Statement, WaitFlag
from ascendsim.isa.listing import listing
from ascendsim.isa.program import Block
from ascendsim.machine import Statistics, run
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.random_blocks import REGIONS
from tests.support.random_programs import random_block, random_chip
from tests.support.reference_blocks import expanded
from tests.support.toy_machine import UB, add, block, load, mmad, simulate, spans, store
from tests.support.toy_programs import program_of, task_of
from tests.support.toy_soc import TOY, bare

ALL = Barrier(Pipe.S)
SIZES = {**REGIONS, "a": 1 << 16, "b": 1 << 17, "c": 1 << 16}
FLAGS = (SetFlag, WaitFlag)


def with_barriers(
    body: tuple[Statement, ...], random: Random, barriers: tuple[Barrier, ...]
) -> tuple[Statement, ...]:
    """The statements with some barriers between them, in loops too."""
    made: list[Statement] = []
    for item in body:
        if random.random() < 0.25:
            made.append(random.choice(barriers))
        made.append(
            replace(item, body=with_barriers(item.body, random, barriers)) if isinstance(item, Loop) else item
        )
    return tuple(made)


def traced(body: Block, soc: SocSpec, count: int = 1) -> Trace:
    """The trace, which must be the one without shortcuts."""
    program = program_of(task_of((body, count)), regions=SIZES)
    trace = run(program, soc, instructions=True)
    assert trace == run(program, soc, instructions=True, fast_forward=False, replay=False)
    return trace


def check_order(body: Block, trace: Trace, soc: SocSpec) -> int:
    """Compares what was recorded with the program written out; returns the number of barriers that ran."""
    records = {
        pipe: iter([item for item in trace.instructions if item.pipe == pipe.value and item.cores[0] == 0])
        for pipe in Pipe
    }
    there = dict.fromkeys(Pipe, 0)  # tick at which all results of a pipe are there
    held = dict.fromkeys(Pipe, 0)
    barriers = 0
    for item, _ in expanded(body.body):
        if isinstance(item, Barrier):
            barriers += 1
            for pipe in Pipe if item.pipe is Pipe.S else (item.pipe,):
                held[pipe] = max(there.values()) if item.pipe is Pipe.S else there[pipe]
        elif not isinstance(item, FLAGS):
            record = next(records[item.pipe])
            assert record.start >= held[item.pipe], (item, record)
            latency = cost(item, soc, body.core).latency
            there[item.pipe] = max(there[item.pipe], record.end + latency)
    assert all(next(left, None) is None for left in records.values())
    return barriers


def test_random_programs_with_barriers_keep_their_order() -> None:
    seen = 0
    for seed in range(60):
        random = Random(seed)
        soc = replace(random_chip(random), frequency_mhz=1000)
        plain = random_block(random)
        body = replace(
            plain, body=with_barriers(plain.body, random, (ALL, *map(Barrier, (Pipe.V, Pipe.MTE2, Pipe.M))))
        )
        seen += check_order(body, traced(body, soc, random.randint(1, soc.ai_cores)), soc)
    assert seen > 500


def test_barriers_do_not_stop_skipping() -> None:
    body = block(Loop("i", 5000, (load(), Barrier(Pipe.MTE2), ALL, add(3), Barrier(Pipe.V), store())))
    statistics = Statistics()
    run(program_of(task_of((body, 1)), regions=SIZES), TOY, solo=False, statistics=statistics)
    assert statistics.periods > 4000


def test_a_barrier_waits_for_results_and_costs_one_instruction() -> None:
    """Additions that do not need one another: three cycles each, and the result 20 later."""
    soc = bare(vector={"latency_cycles": 20, "minimum_cycles": 0})
    first, second = add(3), add(3, replace(UB, name="w"))
    assert spans(simulate(block(first, second), soc), "V") == [(0, 3), (3, 6)]
    assert spans(simulate(block(first, Barrier(Pipe.V), second), soc), "V") == [(0, 3), (23, 26)]
    assert spans(simulate(block(first, Barrier(Pipe.MTE2), second), soc), "V") == [(0, 3), (3, 6)]
    slow = replace(soc, issue=replace(soc.issue, scalar_cycles=100))
    ends = [simulate(block(first, *more, second), slow).end for more in ((), (Barrier(Pipe.V),), (ALL,))]
    # issued at 100, 200, 300; the sum is there at 123, when the barrier is being issued
    assert [end - ends[0] for end in ends] == [0, 100, 100]


def test_a_barrier_of_all_pipes_holds_them_all() -> None:
    body = block(mmad(40), ALL, add(1), load())
    trace = simulate(body, bare(cube={"latency_cycles": 15}, issue={"flag_cycles": 4}))
    end = spans(trace, "M")[0][1] + 15 + 4
    assert (spans(trace, "V")[0][0], spans(trace, "MTE2")[0][0]) == (end, end)


def test_a_barrier_of_all_pipes_orders_accesses_for_the_check_of_races() -> None:
    body = replace(block(load(), ALL, add(1, UB, UB)), allocations=(Allocation("u", Buffer.UB, 0, 4096),))
    check_hazards(body)
    for kept in (Barrier(Pipe.MTE2), Barrier(Pipe.V)):
        with pytest.raises(CompileError, match="must not be"):
            check_hazards(replace(body, body=(body.body[0], kept, body.body[2])))


def test_listings_show_barriers() -> None:
    text = listing(block(Barrier(Pipe.V), ALL))
    assert "  V.barrier\n  S.barrier\n" in text
