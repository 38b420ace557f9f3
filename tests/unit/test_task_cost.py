"""Prices of tasks in closed form: the busiest pipe or the bytes, whichever is longer, on top of what a launch
takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.isa.instructions import Buffer, Loop, Operand, Pipe, Scalar, SetFlag, WaitFlag
from ascendsim.isa.program import Access, Block, BlockGroup, CoreKind, Task, TaskKind
from ascendsim.lower.task_cost import Rates, TaskPrice, closed_form
from ascendsim.lower.templates.cube import lower_cube
from ascendsim.lower.templates.steps import Expansion
from ascendsim.machine import run
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul, program_of

SOC = load("Ascend310", {"launch.task_launch_us": 3, "launch.task_gap_us": 2, "launch.kernel_init_ns": 500})
START = 5.5e-6


def busy(*cycles: int, count: int = 1, moved: int = 0, core: CoreKind = CoreKind.AI) -> Task:
    """A task whose groups keep the scalar unit busy for so many cycles each."""
    body = [
        Block(
            (Loop("i", 10, (Scalar(number // 10), SetFlag(Pipe.S, "f"), WaitFlag(Pipe.M, "f"))),), core=core
        )
        for number in cycles
    ]
    accesses = (Access("x", moved, moved, False),) if moved else ()
    return Task(
        0, "t", TaskKind.AI_CORE, groups=tuple(BlockGroup(block, count) for block in body), accesses=accesses
    )


def price(task: Task) -> tuple[float, float]:
    """In microseconds beyond the start."""
    found = closed_form(task, SOC)
    return (found.near - START) * 1e6, (found.far - START) * 1e6


def test_a_busy_pipe_takes_its_cycles() -> None:
    assert price(busy(6800)) == pytest.approx((10, 10))  # at 680 MHz
    assert price(busy(6800, 680)) == pytest.approx((11, 11))  # one group after the other


def test_blocks_beyond_the_cores_take_another_turn() -> None:
    for count, turns in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3)):
        assert price(busy(6800, count=count)) == pytest.approx((10 * turns,) * 2)


def test_vector_blocks_run_on_vector_cores_at_their_clock() -> None:
    soc = load("Ascend910B1")
    start = (soc.launch.task_launch_us + soc.launch.task_gap_us) * 1e-6 + soc.launch.kernel_init_ns * 1e-9
    for core, cores, clock in (
        (CoreKind.VECTOR, soc.vector_cores, soc.vector_frequency_mhz),
        (CoreKind.CUBE, soc.ai_cores, soc.frequency_mhz),
    ):
        for turns in (1, 2):
            found = closed_form(busy(10_000, count=cores * turns, core=core), soc)
            assert found.near == pytest.approx(start + turns * 10_000 / clock / 1e6)
            more = closed_form(busy(10_000, count=cores * turns + 1, core=core), soc)
            assert more.near == pytest.approx(start + (turns + 1) * 10_000 / clock / 1e6)


def test_bytes_take_the_rate_of_where_they_lie() -> None:
    rates = Rates.of(SOC)
    near, far = price(busy(10, moved=45_600_000))
    assert far == pytest.approx(1000)  # 45.6 GB/s, reads and writes on one bus
    assert near == pytest.approx(45_600_000 / rates.l2 * 1e6)
    assert rates.l2 == pytest.approx(2 * 680e6 * (37.8 + 37.8))
    # computing takes longer than either
    assert price(busy(6_800_000, moved=42_000)) == pytest.approx((10_000, 10_000))


def test_both_directions_count_where_the_bus_has_two() -> None:
    one = load("Ascend310")
    both = replace(one, dram=replace(one.dram, half_duplex=False))
    assert one.dram.half_duplex
    assert Rates.of(one).ddr == pytest.approx(one.dram.read_gb_per_s * 1e9)
    assert Rates.of(both).ddr == pytest.approx(2 * both.dram.read_gb_per_s * 1e9)


def test_the_ai_cpu_takes_its_time_wherever_the_bytes_are() -> None:
    task = Task(0, "t", TaskKind.AI_CPU, cpu_us=7, accesses=(Access("x", 10**9, 10**9, False),))
    soc = replace(SOC, ai_cpu=replace(SOC.ai_cpu, dispatch_us=11, overhead_us=13))
    assert closed_form(task, soc) == TaskPrice(pytest.approx(33e-6), pytest.approx(33e-6))  # and 2 of gap


def test_between_the_ends_time_is_linear_in_the_bytes() -> None:
    between = TaskPrice(2.0, 10.0)
    assert [between.seconds(share) for share in (0, 0.25, 0.5, 1)] == [10, 8, 6, 2]


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A"])
def test_the_machine_lies_between_the_ends(chip: str) -> None:
    soc = load(chip)
    for work in (matmul(512, 768, 512, soc), convolution(64, 28, 128, 3, 1, 1), convolution(256, 14, 512, 1)):
        (stage,), _ = lower_cube(work, soc, Expansion(soc))
        program = program_of([stage])
        trace = run(program, soc)
        record = trace.tasks[0]
        seconds = float((record.end - record.start) * trace.tick_seconds)
        found = closed_form(program.tasks[0], soc)
        assert found.near < 1.2 * seconds
        assert 0.6 * seconds < found.far


def test_operands_do_not_matter_to_the_clock() -> None:
    """Only what instructions cost: flags cost nothing here."""
    plain = Block((Scalar(680),))
    flagged = Block(
        (Scalar(680, srcs=(Operand(Buffer.UB, "u", 32),)), SetFlag(Pipe.S, "f"), WaitFlag(Pipe.V, "f"))
    )
    prices = {
        closed_form(Task(0, "t", TaskKind.AI_CORE, groups=(BlockGroup(block, 1),)), SOC)
        for block in (plain, flagged)
    }
    assert len(prices) == 1
