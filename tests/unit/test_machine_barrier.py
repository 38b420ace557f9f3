"""Barriers: cores wait for one another, and shortcuts see the period."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import SimulationError
from ascendsim.isa.instructions import Flag, Loop, Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import Block, Program, Task, TaskKind
from ascendsim.lower.needed_flags import needed_flags
from ascendsim.machine import Statistics, run
from ascendsim.machine.barrier import Barrier, Member
from ascendsim.machine.block_key import block_key
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY, toy

REGIONS = {name: 1 << 16 for name in ("a", "b", "c", "x", "y")}
BUS = toy(dram={"half_duplex": True, "write_gb_per_s": 17})


def turns(block: Block, count: int, shared: bool = True) -> Block:
    """A block `count` times, drained after each turn; all blocks of the task together if it is shared."""
    drain = Flag("drained", Pipe.MTE3, Pipe.MTE2, 0, 1, shared)
    body = (*block.body, SetFlag(Pipe.MTE3, "drained"), WaitFlag(Pipe.MTE2, "drained"))
    return replace(block, body=(Loop("turn", count, body),), flags=(*block.flags, drain))


def both(program: Program, soc: SocSpec = TOY) -> tuple[Trace, Statistics]:
    """The trace, which must be the one without shortcuts, and what was saved."""
    statistics = Statistics()
    trace = run(program, soc, instructions=True, statistics=statistics)
    assert trace == run(program, soc, instructions=True, fast_forward=False, replay=False)
    return trace, statistics


def uneven(count: int, shared: bool = True) -> Program:
    return program_of(
        task_of((turns(copy_block(7), count, shared), 1), (turns(copy_block(4), count, shared), 1)),
        regions=REGIONS,
    )


def test_no_core_loads_for_a_turn_before_all_have_stored_the_last_one() -> None:
    trace, _ = both(uneven(30))
    cores = sorted({item.cores for item in trace.instructions})
    assert len(cores) == 2
    loads, stores = (
        [[item for item in trace.instructions if item.pipe == pipe and item.cores == core] for core in cores]
        for pipe in ("MTE2", "MTE3")
    )
    for turn in range(1, 30):
        begin = min(loads[0][7 * turn].start, loads[1][4 * turn].start)
        assert begin >= max(stores[0][7 * turn - 1].end, stores[1][4 * turn - 1].end)


@pytest.mark.parametrize("soc", [TOY, BUS], ids=["two buses", "one bus"])
def test_more_turns_cost_no_more_states(soc: SocSpec) -> None:
    few, many = (both(uneven(count), soc)[1] for count in (60, 240))
    assert many.jumps > 0
    assert many.states == few.states


def test_random_turns_give_the_trace_of_the_plain_simulation() -> None:
    jumped = 0
    for seed in range(20):
        random = Random(seed)
        count = random.randrange(20, 60)
        blocks = [
            random.choice(
                (
                    copy_block(random.randrange(1, 9), random.choice((512, 4096)), random.choice((1, 2))),
                    matmul_block(random.randrange(1, 3), random.randrange(1, 4)),
                )
            )
            for _ in range(random.randrange(2, 5))
        ]
        soc = toy(
            ai_cores=6,
            dram={"half_duplex": random.random() < 0.5, "write_gb_per_s": 17},
            issue={"flag_cycles": random.choice((0, 4)), "barrier_ns": random.choice((0, 700))},
        )
        task = task_of(*[(turns(block, count), random.randrange(1, 3)) for block in blocks[:3]])
        _, saved = both(program_of(task, regions=REGIONS), soc)
        program = program_of(task, regions=REGIONS)
        assert run(program, soc) == run(program, soc, groups=False)
        jumped += saved.jumps > 0
    assert jumped > 15


def test_a_task_with_a_barrier_waits_until_all_its_blocks_have_a_core() -> None:
    """Two such tasks on two streams, and one that holds a core when they come."""
    cpu = Task(1, "cpu", TaskKind.AI_CPU, stream=1, cpu_us=1)
    long = task_of((copy_block(400), 1), id=0)
    first, second = (
        replace(uneven(10).tasks[0], id=number, stream=number, name=f"t{number}") for number in (2, 3)
    )
    trace, _ = both(program_of(long, cpu, first, second, regions=REGIONS))
    ends = {record.task: record.end for record in trace.tasks}
    starts = {task: min(item.start for item in trace.instructions if item.task == task) for task in (0, 2, 3)}
    assert starts[0] < ends[0] <= starts[2]
    assert ends[2] <= starts[3]


def test_more_blocks_than_cores_cannot_meet() -> None:
    task = task_of((turns(copy_block(1), 2), 3))
    with pytest.raises(SimulationError, match="2 blocks at most"):
        run(program_of(task, regions=REGIONS), TOY)


def test_a_block_that_never_arrives_is_named() -> None:
    with pytest.raises(SimulationError, match="MTE2 waits for flag 'drained'"):
        run(
            program_of(task_of((turns(copy_block(1), 3), 1), (turns(copy_block(1), 2), 1)), regions=REGIONS),
            TOY,
        )


def recurrent(steps: int) -> CompiledModel:
    """An LSTM whose gates run on one of two cores."""
    builder = asim.GraphBuilder("loop")
    x = builder.input("x", (steps, 1, 256), "float16")
    weights = [builder.weight(name, (1, 1024, 256), dtype="float16") for name in "wr"]
    builder.output(builder.op("LSTM", x, *weights, hidden_size=256))
    return asim.compile(builder.build(), soc="Ascend310")


def test_the_steps_of_a_recurrent_layer_on_unequal_cores_are_skipped() -> None:
    states = []
    for steps in (120, 300):
        model, saved = recurrent(steps), Statistics()
        (task,) = [task for task in model.program.tasks if len(task.groups) == 2]
        assert all(flag.shared for flag in task.groups[0].block.flags if flag.name.startswith("drained"))
        trace = run(model.program, model.soc, solo=False, statistics=saved)
        assert trace == run(model.program, model.soc, fast_forward=False, replay=False)
        states.append(saved.states)
    assert states[0] == states[1] < 120


def test_every_meeting_costs_the_price_of_a_barrier() -> None:
    dear = toy(issue={"barrier_ns": 500})
    cheap = toy(issue={"barrier_ns": 0})
    longer = [
        run(uneven(30, shared), dear).duration_us - run(uneven(30, shared), cheap).duration_us
        for shared in (True, False)
    ]
    assert longer == [pytest.approx(30 * 0.5, abs=0.5), 0]


def test_a_barrier_fires_at_the_latest_arrival_whoever_is_simulated_last() -> None:
    fired: list[tuple[str, int]] = []
    barrier = Barrier(3, 5)
    one, two = Member(barrier, 1), Member(barrier, 2)
    barrier.heard += [lambda at: fired.append(("one", at)), lambda at: fired.append(("two", at))]
    one.arrive(90)
    assert one.state(100) != two.state(100)
    assert not fired
    two.arrive(40)
    assert fired == [("one", 95), ("two", 95)]
    assert one.state(100) == two.state(100)


def test_a_shared_flag_is_part_of_what_decides_a_blocks_time_and_is_never_left_out() -> None:
    own, met = turns(copy_block(1), 1, shared=False), turns(copy_block(1), 1)
    assert block_key(own) != block_key(met)
    assert "drained" not in needed_flags(own)
    assert "drained" in needed_flags(met)
