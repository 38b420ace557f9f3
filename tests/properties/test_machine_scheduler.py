"""When tasks start and end and where their blocks run, on tiny random programs, against a simulator that asks
everybody in every tick."""

from __future__ import annotations

from random import Random

import pytest

from ascendsim.isa.instructions import Mmad
from ascendsim.isa.program import Block, CoreKind, Program, Task, TaskKind
from ascendsim.machine import Statistics, run
from ascendsim.soc.spec import SocSpec
from tests.support.gate import in_turn
from tests.support.reference_scheduler import TickByTick
from tests.support.toy_machine import add, block, mmad
from tests.support.toy_programs import program_of, task_of
from tests.support.toy_soc import bare

LENGTHS = (1, 2, 4, 7)


def duration(body: Block) -> int:
    """Ticks of one of the blocks below: its only instruction is all it does."""
    (item,) = body.body
    return item.k // 16 if isinstance(item, Mmad) else item.elements // 128  # type: ignore[union-attr]


def random_chip(random: Random) -> SocSpec:
    """Costs of launches of some ticks each, so that things often happen in the same one."""
    launch = {
        "task_gap_us": random.choice((0, 0.001, 0.003)),
        "task_launch_us": random.choice((0.001, 0.002)),
        "block_dispatch_ns": random.choice((0, 1, 2)),
        "kernel_init_ns": random.choice((0, 3)),
        "host_launch_us": random.choice((0.001, 0.004)),
        "eager_launch_us": random.choice((0.002, 0.007)),
    }
    cpu = {"cores": random.choice((1, 2)), "dispatch_us": random.choice((0, 0.002)), "overhead_us": 0.001}
    return bare(
        launch=launch,
        ai_cpu=cpu,
        vector={"minimum_cycles": 1},
        ai_cores=random.randint(1, 3),
        vector_cores=random.choice((0, 2)),
        split_cores=random.random() < 0.3,
    )


def random_program(random: Random, soc: SocSpec, streams: int) -> Program:
    tasks: list[Task] = []
    kinds = [CoreKind.CUBE if soc.split_cores else CoreKind.AI] + [CoreKind.VECTOR] * (soc.vector_cores > 0)
    mode = random.choice(("sink", "sink", "sink", "host", "eager"))
    lengths = random.sample(LENGTHS, 2)
    for number in random.sample(range(20), random.choice((1, 4, 6, 8))):
        stream = random.randrange(streams)
        waits = tuple({random.choice(tasks).id for _ in range(random.choice((0, 0, 1, 2)))}) if tasks else ()
        extra = {"decisions": random.choice((0, 0, 0, 2)) if mode == "sink" else 0}
        extra["read_backs"] = random.choice((0, 0, 0, 1, 2)) if mode != "sink" else 0
        extra["host_waits"] = random.random() < 0.2
        if random.random() < 0.25:
            kind = TaskKind.AI_CPU
            tasks.append(
                Task(
                    number,
                    f"t{number}",
                    kind,
                    stream,
                    waits_for=waits,
                    cpu_us=random.choice((0.001, 0.005)),
                    **extra,
                )
            )
            continue
        groups = []
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            core = random.choice(kinds)
            work = add if core is CoreKind.VECTOR else mmad
            groups.append((block(work(random.choice(lengths)), core=core), random.randint(1, 5)))
        made = task_of(*groups, id=number, stream=stream, waits_for=waits)
        fused = (random.choice("abc"),) if random.random() < 0.5 else ()
        tasks.append(Task(number, made.name, made.kind, stream, made.groups, (), waits, 0.0, fused, **extra))
    return program_of(*tasks, mode=mode)


@pytest.mark.parametrize(("chunk", "streams"), in_turn(range(3), [1, 2, 3]))
def test_tasks_start_and_end_as_in_a_simulation_tick_by_tick(chunk: int, streams: int) -> None:
    ties = replayed = 0
    for seed in range(chunk * 60, (chunk + 1) * 60):
        random = Random(seed * 10 + streams)
        soc = random_chip(random)
        program = random_program(random, soc, streams)
        wanted = TickByTick(program, soc, duration)
        times = {item.task.id: (item.ready, item.start, item.end, *item.launch) for item in wanted.run()}
        saved = Statistics()
        trace = run(program, soc, statistics=saved)
        found = {
            item.task: (item.ready, item.start, item.end, item.launch_start, item.launch_end)
            for item in trace.tasks
        }
        assert found == times, f"seed {seed}"
        recorded = run(program, soc, instructions=True, groups=random.random() < 0.5)
        places = sorted(
            (item.task, core, item.start, item.end) for item in recorded.instructions for core in item.cores
        )
        assert places == sorted((item.task, item.core, item.begin, item.end) for item in wanted.placed), (
            f"seed {seed}"
        )
        starts = [start for _, start, *_ in times.values()]
        ties += len(set(starts)) < len(starts)
        replayed += saved.replayed
    assert streams == 1 or ties > 5  # of 60 programs
    assert streams > 1 or replayed


def clockwork(random: Random) -> Program:
    """Chains of tasks whose lengths are powers of two, so that many end and start in one tick, in an order
    that is not their own."""
    tasks: list[Task] = []
    for number in range(16):
        stream, length = random.randrange(4), random.choice((1, 2, 4, 8))
        if random.random() < 0.4:
            tasks.append(Task(number, f"c{number}", TaskKind.AI_CPU, stream, cpu_us=length / 1000))
        else:
            # none: it ends where it arrives
            blocks = [(block(mmad(length)), 1)] if random.random() < 0.7 else []
            tasks.append(task_of(*blocks, id=number, stream=stream))
    return program_of(*tasks)


@pytest.mark.parametrize("chunk", range(2))
def test_ties_go_by_launch_order(chunk: int) -> None:
    """One core and one AI CPU: who comes first in a tick decides when all others run."""
    free = {"task_launch_us": 0.001, "task_gap_us": 0}
    soc = bare(ai_cores=1, launch=free, ai_cpu={"cores": 1, "dispatch_us": 0, "overhead_us": 0})
    for seed in range(chunk * 50, (chunk + 1) * 50):
        program = clockwork(Random(seed))
        times = {
            item.task.id: (item.ready, item.start, item.end)
            for item in TickByTick(program, soc, duration).run()
        }
        assert {item.task: (item.ready, item.start, item.end) for item in run(program, soc).tasks} == times, (
            f"seed {seed}"
        )
