"""Laws of the machine on random well-formed programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascendsim.core.errors import SimulationError
from ascendsim.isa.costs import cost
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Buffer, Loop, Move, Pipe, SetFlag, Statement
from ascendsim.isa.program import Block, Program, Task, TaskKind
from ascendsim.isa.walk import in_order
from ascendsim.machine import run
from ascendsim.machine.core import CoreRun
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.gate import examples
from tests.support.random_blocks import REGIONS, any_block, blocks, pipelines
from tests.support.sequential import block_end
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import bare, toy

CHIPS = (
    toy(),
    toy(ai_cores=3, issue={"queue_depth": {"M": 2, "V": 1, "MTE1": 3, "MTE2": 2, "MTE3": 1}}),
    toy(dram={"half_duplex": True, "write_gb_per_s": 20, "max_in_flight": 1}, l2={"size": 100_000}),
    toy(
        l2={"software_managed": True}, frequency_mhz=680, issue={"instruction_start_ns": 40, "flag_cycles": 0}
    ),
    bare(ai_cores=4),
)
chips = st.sampled_from(CHIPS)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """One to three tasks on one or two streams, each with one or two groups of blocks, and perhaps an AI CPU
    task."""
    tasks = []
    for number in range(draw(st.integers(1, 3))):
        groups = [(draw(any_block()), draw(st.integers(1, 5))) for _ in range(draw(st.integers(1, 2)))]
        waits = (draw(st.integers(0, number - 1)),) if number and draw(st.booleans()) else ()
        tasks.append(task_of(*groups, id=number, stream=draw(st.integers(0, 1)), waits_for=waits))
    if draw(st.booleans()):
        tasks.append(Task(len(tasks), "cpu", TaskKind.AI_CPU, stream=draw(st.integers(0, 2)), cpu_us=3))
    return program_of(*tasks, regions=REGIONS)


def per_core(trace: Trace) -> list[tuple[object, ...]]:
    """Instruction records with groups taken apart."""
    return sorted(
        (item.start, item.end, core, item.pipe, item.name, item.task)
        for item in trace.instructions
        for core in item.cores
    )


def compute_ticks(block: Block, soc: SocSpec) -> dict[Pipe, int]:
    """Ticks that each pipe computes or moves on chip, by walking the block."""
    busy: dict[Pipe, int] = defaultdict(int)
    for instruction, _ in in_order(block.body):
        busy[instruction.pipe] += cost(instruction, soc).occupancy
    return busy


@given(programs(), chips)
def test_no_pipe_overlaps_itself(program: Program, soc: SocSpec) -> None:
    last: dict[tuple[int, str], int] = {}
    for start, end, core, pipe, *_ in per_core(run(program, soc, instructions=True)):
        assert start >= last.get((core, pipe), 0)  # type: ignore[index, operator]
        assert end >= start  # type: ignore[operator]
        last[core, pipe] = end  # type: ignore[index, assignment]


@given(programs(), chips)
def test_bytes_in_are_bytes_out(program: Program, soc: SocSpec) -> None:
    trace = run(program, soc, instructions=True)
    for record in trace.tasks:
        task = program.tasks[record.task]
        for pipe, counted in (("MTE2", record.read_bytes), ("MTE3", record.write_bytes)):
            in_program = sum(
                group.count * instruction.bytes
                for group in task.groups
                for instruction, _ in in_order(group.block.body)
                if isinstance(instruction, Move)
                and instruction.pipe.value == pipe
                and Buffer.GM in (instruction.src.buffer, instruction.dst.buffer)
            )
            in_trace = sum(
                item.bytes * len(item.cores)
                for item in trace.instructions
                if item.task == record.task and item.pipe == pipe
            )
            assert in_trace == in_program
            assert counted["ddr" if soc.l2.software_managed else "l2"] == in_program
        assert record.read_bytes["ddr"] <= max(
            record.read_bytes["l2"], record.read_bytes["ddr"] if soc.l2.software_managed else 0
        )


@given(any_block(), st.integers(1, 5), chips)
def test_time_is_above_the_compute_and_the_bandwidth_bound(block: Block, count: int, soc: SocSpec) -> None:
    trace = run(program_of(task_of((block, count)), regions=REGIONS), soc)
    record = trace.tasks[0]
    rounds = -(-count // soc.ai_cores)
    assert trace.end >= rounds * max(compute_ticks(block, soc).values(), default=0) * trace.core_ticks
    seconds = float(trace.end * trace.tick_seconds)
    read, write = record.read_bytes["ddr"], record.write_bytes["ddr"]
    assert seconds * soc.dram.read_gb_per_s * 1e9 >= read * (1 - 1e-9)
    assert seconds * soc.dram.write_gb_per_s * 1e9 >= write * (1 - 1e-9)
    if soc.dram.half_duplex:
        assert seconds >= (read / soc.dram.read_gb_per_s + write / soc.dram.write_gb_per_s) / 1e9 * (1 - 1e-9)
    per_second = soc.l2.read_bytes_per_cycle_per_core * soc.ai_cores * soc.frequency_mhz * 1e6
    assert seconds * per_second >= record.read_bytes["l2"] * (1 - 1e-9)


@given(programs(), chips)
def test_groups_equal_their_members(program: Program, soc: SocSpec) -> None:
    grouped, single = run(program, soc, instructions=True), run(program, soc, instructions=True, groups=False)
    assert grouped.tasks == single.tasks
    assert grouped.end == single.end
    assert per_core(grouped) == per_core(single)


@examples(0.5)
@given(programs(), chips)
def test_two_runs_are_the_same_to_the_byte(program: Program, soc: SocSpec) -> None:
    assert run(program, soc, instructions=True) == run(program, soc, instructions=True)


@given(programs(), chips, st.permutations(range(10)))
def test_time_does_not_depend_on_task_ids_or_the_order_of_regions(
    program: Program, soc: SocSpec, ids: list[int]
) -> None:
    renamed = tuple(
        replace(task, id=ids[task.id], waits_for=tuple(ids[other] for other in task.waits_for))
        for task in program.tasks
    )
    regions = dict(reversed(program.memory.regions.items()))
    other = replace(program, tasks=renamed, memory=replace(program.memory, regions=regions))
    times = {record.task: (record.start, record.end, record.busy) for record in run(program, soc).tasks}
    assert {record.task: (record.start, record.end, record.busy) for record in run(other, soc).tasks} == {
        ids[task]: time for task, time in times.items()
    }


def start_backwards(core: CoreRun) -> None:
    """Starts the pipes of a core in the opposite order, the scalar unit first."""
    core.scalar.feed()
    core.begin_pipes(core.lanes[::-1])


@given(programs(), chips)
def test_time_does_not_depend_on_the_order_in_which_pipes_begin(program: Program, soc: SocSpec) -> None:
    expected = run(program, soc, instructions=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreRun, "start", start_backwards)
        assert run(program, soc, instructions=True) == expected


@given(any_block(), st.sampled_from([1.1, 2, 7]))
def test_more_bandwidth_is_never_slower_for_a_core_that_shares_with_nobody(
    block: Block, factor: float
) -> None:
    program = program_of(task_of((block, 1)), regions=REGIONS)
    slow = toy(ai_cores=1, l2={"software_managed": True})
    fast = toy(
        ai_cores=1,
        l2={"software_managed": True},
        dram={"read_gb_per_s": 32 * factor, "write_gb_per_s": 32 * factor},
    )
    assert run(program, fast).end <= run(program, slow).end


@given(any_block(), st.sampled_from([chip for chip in CHIPS if not chip.dram.half_duplex]))
def test_one_core_equals_the_recurrence_in_program_order(block: Block, soc: SocSpec) -> None:
    """With a core to itself and links that no two of its pipes share, every time follows from a recurrence
    without events."""
    alone = replace(soc, l2=replace(soc.l2, software_managed=True))
    program = program_of(task_of((block, 1)), regions=REGIONS)
    assert run(program, alone).end == block_end(block, alone)


@given(blocks(with_gm=False), chips)
def test_pure_compute_equals_the_recurrence(block: Block, soc: SocSpec) -> None:
    assert run(program_of(task_of((block, 1))), soc).end == block_end(block, soc)


@given(pipelines(), chips, st.data())
def test_a_missing_set_is_reported_as_a_deadlock(block: Block, soc: SocSpec, data: st.DataObject) -> None:
    flag = data.draw(st.sampled_from([flag for flag in block.flags if flag.initial == 0]))

    def without(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            Loop(item.variable, item.trips, without(item.body)) if isinstance(item, Loop) else item
            for item in body
            if not (isinstance(item, SetFlag) and item.flag == flag.name)
        )

    assume(any(isinstance(item, SetFlag) and item.flag == flag.name for item, _ in in_order(block.body)))
    broken = replace(block, body=without(block.body))
    with pytest.raises(SimulationError) as caught:
        run(program_of(task_of((broken, 2)), regions=REGIONS), soc)
    assert f"{flag.target.value} waits for flag '{flag.name}'" in str(caught.value)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_pipelines_with_flags_have_no_races(outer: int, inner: int, slots: int) -> None:
    check_hazards(matmul_block(outer, inner))
    check_hazards(copy_block(inner, slots=slots))
