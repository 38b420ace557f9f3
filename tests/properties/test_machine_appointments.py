"""Shortcuts up to the very tick in which something else happens: a task of another stream comes at every tick
around one's end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.isa.program import Program, Task, TaskKind
from ascendsim.machine import Statistics, run
from ascendsim.machine.clock import Clock
from ascendsim.soc.spec import SocSpec
from tests.support.gate import every
from tests.support.random_programs import ALL_REGIONS, random_chip
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import bare


def plain(program: Program, soc: SocSpec) -> object:
    return run(program, soc, instructions=True, fast_forward=False, replay=False)


def waiting(tick: int, stream: int = 1) -> Task:
    """A task of another stream that ends at a tick, on a chip whose AI CPU takes no time by itself."""
    return Task(10, "cpu", TaskKind.AI_CPU, stream, cpu_us=tick / 1000)


def without_cpu_costs(soc: SocSpec) -> SocSpec:
    return replace(soc, ai_cpu=replace(soc.ai_cpu, dispatch_us=0, overhead_us=0))


@pytest.mark.parametrize("gap", [0, 0.005])
def test_a_task_is_replayed_if_nothing_else_happens_before_its_end(gap: float) -> None:
    soc = without_cpu_costs(
        bare(l2={"software_managed": True}, launch={"task_gap_us": gap, "task_launch_us": 0.003})
    )
    twins = [task_of((copy_block(2), 1), id=number) for number in range(3)]
    end = run(program_of(*twins[:2], regions=ALL_REGIONS), soc).end
    for tick in range(end - 2, end + 3):
        late = task_of((copy_block(1), 2), id=11, stream=1)
        program, saved = program_of(*twins[:2], waiting(tick), late, regions=ALL_REGIONS), Statistics()
        assert run(program, soc, instructions=True, statistics=saved) == plain(program, soc)
        assert saved.replayed == (tick >= end)


@pytest.mark.parametrize("chunk", every(2, range(4)))
def test_whatever_comes_when_a_task_or_a_period_ends_gives_the_trace_of_the_plain_simulation(
    chunk: int,
) -> None:
    jumped = replayed = 0
    for seed in range(chunk * 2, (chunk + 1) * 2):
        random = Random(seed)
        soc = without_cpu_costs(random_chip(random))
        launch = {"task_launch_us": random.choice((0, 0.01, 1)), "task_gap_us": random.choice((0, 0.1))}
        soc = replace(soc, launch=replace(soc.launch, **launch))
        way, megahertz = Clock.of(soc).us(soc.launch.task_launch_us), Clock.of(soc).megahertz
        block = random.choice(
            (copy_block(random.randint(20, 40), 512), matmul_block(2, random.randint(2, 9)))
        )
        same = [task_of((block, random.randint(1, 2)), id=number) for number in range(4)]
        trace = run(program_of(*same, regions=ALL_REGIONS), soc, instructions=True)
        inside = [item.end for item in random.sample(trace.instructions, 4)]
        for tick in (*inside, *(at for task in trace.tasks[1:3] for at in (task.end, task.start + way))):
            for early in {0, way}:
                cpu = Task(10, "cpu", TaskKind.AI_CPU, 1, cpu_us=max(0, tick - early) / megahertz)
                late = [
                    task_of((other, random.randint(1, 3)), id=11 + number, stream=1)
                    for number, other in enumerate((block, copy_block(2)))
                ]
                program, saved = program_of(*same, cpu, *late, regions=ALL_REGIONS), Statistics()
                assert run(program, soc, solo=False, statistics=saved) == run(
                    program, soc, fast_forward=False, replay=False
                ), f"seed {seed}, tick {tick}"
                jumped += saved.jumps
                replayed += saved.replayed
    assert jumped
    assert replayed
