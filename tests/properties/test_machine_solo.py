"""Tasks that have the cores to themselves: compiled code walks them to the trace of the plain simulation,
tick for tick, and leaves to SimPy what it cannot walk."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest

# loaded, it walks tasks from the first one on
import ascendsim_kernels.block_walk  # noqa: F401
from ascendsim.core.errors import SimulationError
from ascendsim.isa.instructions import Barrier, Flag, Loop, Pipe, Scalar, SetFlag, WaitFlag
from ascendsim.isa.program import Block, CoreKind, Program
from ascendsim.machine import Statistics, run, solo, solo_walk
from ascendsim.soc.spec import SocSpec
from tests.properties.test_machine_pipe_barrier import with_barriers
from tests.properties.test_machine_teams import CHIP, random_teams, team_task
from tests.properties.test_machine_teams import SIZES as TEAM_SIZES
from tests.support.random_programs import ALL_REGIONS, random_chip, random_program
from tests.support.toy_machine import add, load, mmad, store
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY, toy
from tests.unit.test_machine_barrier import turns

BARRIERS = (Barrier(Pipe.S), Barrier(Pipe.V), Barrier(Pipe.MTE2), Barrier(Pipe.MTE3))


def both(program: Program, soc: SocSpec = TOY, **options: Any) -> Statistics:
    """What was walked; the trace must be the one without shortcuts."""
    statistics = Statistics()
    trace = run(program, soc, statistics=statistics, **options)
    assert trace == run(program, soc, fast_forward=False, replay=False, **options)
    return statistics


def alone(program: Program, soc: SocSpec, random: Random) -> Program:
    """The program with one stream, with barriers in its blocks, and with no more blocks than cores."""
    tasks = []
    for task in program.tasks:
        left, groups = soc.ai_cores, []
        for group in task.groups:
            count = min(group.count, left)
            left -= count
            body = with_barriers(group.block.body, random, BARRIERS) if random.random() < 0.3 else None
            block = replace(group.block, body=body) if body else group.block
            groups += [replace(group, block=block, count=count)] if count else []
        tasks.append(replace(task, groups=tuple(groups), stream=0))
    return replace(program, tasks=tuple(tasks))


@pytest.mark.parametrize("chunk", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 40))])
def test_random_tasks_are_walked_to_the_same_trace(chunk: int) -> None:
    """Contention, flags, barriers, ragged loops, narrow queues, few transfers in flight."""
    for seed in range(chunk * 30, (chunk + 1) * 30):
        random = Random(seed)
        soc = random_chip(random)
        program = alone(random_program(random), soc, random)
        saved = both(program, soc, groups=random.random() < 0.7)
        assert saved.solo == saved.simulated > 0, seed


def test_flags_that_cores_share_are_walked() -> None:
    for seed in range(12):
        random = Random(seed)
        count = random.randint(3, 9)
        blocks = [
            random.choice((copy_block(random.randint(1, 8), 4096, random.choice((1, 2))), matmul_block(2, 3)))
            for _ in range(random.choice((2, 3)))
        ]
        soc = toy(ai_cores=6, issue={"flag_cycles": 4, "barrier_ns": random.choice((0, 700))})
        task = task_of(*[(turns(block, count), random.randint(1, 2)) for block in blocks])
        saved = both(program_of(task, regions=ALL_REGIONS), soc, groups=bool(seed % 2))
        assert saved.solo == 1


def test_random_teams_are_walked_with_transfers_on_the_way() -> None:
    moves = {CoreKind.CUBE: load(), CoreKind.VECTOR: store()}
    for seed in range(20):
        random = Random(seed)
        teams = [
            (
                count,
                *[
                    None
                    if block is None
                    else replace(
                        block, body=(moves[block.core], *block.body, moves[block.core], moves[block.core])
                    )
                    for block in blocks
                ],
            )
            for count, *blocks in random_teams(random)
        ]
        saved = both(program_of(team_task(*teams), regions=TEAM_SIZES), CHIP, groups=bool(seed % 2))
        assert saved.solo == 1


def test_the_table_of_rates_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solo_walk, "SETS", 3)
    random = Random(7)
    soc = toy(ai_cores=4)
    blocks = [(copy_block(random.randint(3, 9), size), 1) for size in (512, 3000, 4096, 7777)]
    assert both(program_of(task_of(*blocks), regions=ALL_REGIONS), soc, groups=False).solo == 1


@pytest.mark.parametrize("pause", [1, 30])
def test_flags_of_the_scalar_unit_are_walked(pause: int) -> None:
    """Pipes that hardly have work begin when the scalar unit's flag counts."""
    turn = (Scalar(pause), SetFlag(Pipe.S, "go"), WaitFlag(Pipe.V, "go"), add(1))
    block = Block((Loop("i", 5, turn),), (), (Flag("go", Pipe.S, Pipe.V, 0, 16),))
    soc = toy(issue={"scalar_cycles": 3, "flag_cycles": 40})
    assert both(program_of(task_of((block, 1)), regions=ALL_REGIONS), soc).solo == 1


def test_flags_that_fire_before_the_end_of_a_product_are_walked() -> None:
    turn = (mmad(20), SetFlag(Pipe.M, "part", unit_flag=True), WaitFlag(Pipe.V, "part"), add(1))
    block = Block((Loop("i", 3, turn),), (), (Flag("part", Pipe.M, Pipe.V, 0, 16),))
    saved = both(program_of(task_of((block, 1)), regions=ALL_REGIONS), toy(cube={"unit_flag": True}))
    assert saved.solo == 1


def test_a_transfer_is_complete_when_those_before_it_are() -> None:
    """What comes from memory is there long after what L2 has, and the next but one waits for both."""
    far = replace(load(512), cached=False)
    body = (Loop("i", 4, (far, *[load(512)] * 3, SetFlag(Pipe.MTE2, "in"), WaitFlag(Pipe.V, "in"), add(1))),)
    block = Block(body, (), (Flag("in", Pipe.MTE2, Pipe.V, 0, 16),))
    soc = toy(
        dram={"max_in_flight": 2, "read_latency_cycles": 900, "uncached_latency_cycles": 900},
        l2={"software_managed": True},
    )
    program = program_of(task_of((block, 1)), regions=ALL_REGIONS, l2_placed=("x",))
    assert both(program, soc).solo == 1


def test_more_blocks_than_cores_are_left_to_simpy() -> None:
    assert both(program_of(task_of((copy_block(4), 5)), regions=ALL_REGIONS)).solo == 0


def test_recorded_tasks_are_left_to_simpy() -> None:
    program = program_of(task_of((copy_block(4), 1)), regions=ALL_REGIONS)
    assert both(program, instructions=True).solo == 0
    assert both(program, instructions={0}).solo == 0
    assert both(program, instructions={1}).solo == 1


def test_long_tasks_are_left_to_simpy_which_skips_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of nine tiles: eleven instructions a tile, and the end of the loop."""
    program = program_of(task_of((copy_block(9), 1), (copy_block(9), 1)), regions=ALL_REGIONS)
    for bound, walked in ((2 * 9 * 12, 1), (2 * 9 * 12 - 1, 0)):
        monkeypatch.setattr(solo, "LONGEST", bound)
        assert both(program).solo == walked


def test_more_settings_of_a_flag_than_are_kept_are_left_to_simpy() -> None:
    flag = Flag("f", Pipe.V, Pipe.S, 0, 500)
    for count, walked in ((40, 1), (200, 0)):
        body = (
            Loop("i", count, (SetFlag(Pipe.V, "f"),)),
            Scalar(1),
            Loop("j", count, (WaitFlag(Pipe.S, "f"),)),
        )
        assert both(program_of(task_of((Block(body, (), (flag,)), 1)), regions=ALL_REGIONS)).solo == walked


def test_a_deadlock_is_told_as_ever() -> None:
    block = Block((WaitFlag(Pipe.V, "f"), Scalar(1)), (), (Flag("f", Pipe.M, Pipe.V),))
    program = program_of(task_of((block, 1)), regions=ALL_REGIONS)
    texts = []
    for choice in (True, False):
        with pytest.raises(SimulationError) as caught:
            run(program, TOY, solo=choice)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "deadlock" in texts[0]


@pytest.mark.parametrize(("ran", "bound"), [("sys", "WITH_NUMBA"), ("of no name", "LOAD_AFTER")])
def test_compiled_code_is_loaded_when_a_process_has_simulated_enough(
    monkeypatch: pytest.MonkeyPatch, ran: str, bound: str
) -> None:
    """Sooner if compiled code has run in it before, for then less is to be loaded."""
    monkeypatch.delitem(sys.modules, solo.KERNELS)
    monkeypatch.setattr(solo, "_BUDGET", solo._Budget())
    monkeypatch.setattr(solo, "KERNELS_RAN", ran)
    for name in ("WITH_NUMBA", "LOAD_AFTER"):
        monkeypatch.setattr(solo, name, 10_000 if name == bound else 1 << 40)
    program = program_of(task_of((copy_block(300), 1)), regions=ALL_REGIONS)
    spent = solo.EACH_TASK + solo.EACH_AT_MOST
    walked = [both(program).solo for _ in range(6)]
    assert walked == [0] * (10_000 // spent) + [1] * (6 - 10_000 // spent)
