"""Times of small programs against values worked out by hand, on a chip with round numbers (one tick = 1 ns =
1 cycle)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ascendsim.core.errors import CompileError, SimulationError
from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Flag,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.program import Access, Block, CoreKind, Task, TaskKind
from ascendsim.machine import run
from tests.support.toy_machine import BIG, OTHER, UB, add, block, load, mmad, simulate, spans
from tests.support.toy_programs import copy_block, gm, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY, bare, toy


def test_a_pipe_runs_its_instructions_one_after_the_other() -> None:
    trace = simulate(block(mmad(10), mmad(20), mmad(5)))
    assert spans(trace, "M") == [(0, 10), (10, 30), (30, 35)]
    assert trace.end == 35


def test_pipes_run_side_by_side_without_flags() -> None:
    trace = simulate(block(mmad(100), add(40)))
    assert spans(trace, "M") == [(0, 100)]
    assert spans(trace, "V") == [(0, 40)]


def test_loops_repeat() -> None:
    trace = simulate(block(Loop("i", 3, (mmad(10), Loop("j", 2, (add(5),))))))
    assert spans(trace, "M") == [(0, 10), (10, 20), (20, 30)]
    assert len(spans(trace, "V")) == 6


def test_loops_of_no_trips_do_nothing() -> None:
    assert simulate(block(Loop("i", 0, (mmad(10),)), mmad(1))).end == 1


def test_a_flag_fires_when_everything_before_it_is_visible() -> None:
    soc = bare(cube={"latency_cycles": 15}, issue={"flag_cycles": 4})
    full = Flag("full", Pipe.M, Pipe.V)
    trace = simulate(
        block(mmad(100), SetFlag(Pipe.M, "full"), mmad(50), WaitFlag(Pipe.V, "full"), add(10), flags=(full,)),
        soc,
    )
    assert spans(trace, "M") == [(0, 100), (100, 150)]  # the flag does not hold its pipe up
    assert spans(trace, "V") == [(100 + 15 + 4, 129)]


def test_flags_count() -> None:
    free = Flag("free", Pipe.V, Pipe.M, 2, 2)
    body = block(
        Loop("i", 4, (WaitFlag(Pipe.M, "free"), mmad(10), add(100), SetFlag(Pipe.V, "free"))), flags=(free,)
    )
    assert spans(simulate(body), "M") == [(0, 10), (10, 20), (100, 110), (200, 210)]


def test_the_scalar_unit_issues_one_instruction_after_the_other() -> None:
    trace = simulate(block(mmad(10), mmad(10), add(3)), bare(issue={"scalar_cycles": 4}))
    assert spans(trace, "M") == [(4, 14), (14, 24)]
    assert spans(trace, "V") == [(12, 15)]


def test_scalar_work_delays_what_follows() -> None:
    trace = simulate(block(Scalar(50, "address"), mmad(10)), bare(issue={"scalar_cycles": 1}))
    assert spans(trace, "S") == [(0, 50)]
    assert spans(trace, "M") == [(51, 61)]


def test_the_scalar_unit_waits_for_flags_and_sets_them() -> None:
    there, back = Flag("there", Pipe.V, Pipe.S), Flag("back", Pipe.S, Pipe.V)
    body = block(
        add(100),
        SetFlag(Pipe.V, "there"),
        WaitFlag(Pipe.S, "there"),
        Scalar(30),
        SetFlag(Pipe.S, "back"),
        WaitFlag(Pipe.V, "back"),
        add(10),
        flags=(there, back),
    )
    assert spans(simulate(body), "V") == [(0, 100), (130, 140)]


def test_a_full_queue_stops_the_scalar_unit() -> None:
    soc = bare(issue={"queue_depth": {"M": 2, "V": 16}})
    trace = simulate(block(mmad(100), mmad(100), mmad(100), mmad(100), add(10)), soc)
    # Two wait in the queue while one runs: the fourth mmad, and with it the add, is issued when the second
    # one starts.
    assert spans(trace, "V") == [(100, 110)]


def test_a_pipe_that_waits_for_the_scalar_unit_lets_it_go_on() -> None:
    """The wait leaves the full queue, so that what sets the flag behind it can be issued."""
    soc = bare(issue={"queue_depth": {"M": 16, "V": 2}})
    body = block(
        WaitFlag(Pipe.V, "go"),
        add(10),
        add(20),
        SetFlag(Pipe.S, "go"),
        flags=(Flag("go", Pipe.S, Pipe.V),),
    )
    assert spans(simulate(body, soc), "V") == [(0, 10), (10, 30)]


def test_the_vector_head_hides_behind_the_instruction_before() -> None:
    soc = bare(vector={"head_cycles": 13}, issue={"scalar_cycles": 1})
    assert spans(simulate(block(add(40), add(40)), soc), "V") == [(14, 54), (54, 94)]


def test_dependent_vector_instructions_wait_for_the_result() -> None:
    soc = bare(vector={"latency_cycles": 20})
    trace = simulate(block(add(40, UB, OTHER), add(40, OTHER, UB), add(40, UB, UB)), soc)
    # the third reads what was complete at tick 60
    assert spans(trace, "V") == [(0, 40), (60, 100), (100, 140)]
    trace = simulate(block(add(40, UB, OTHER), add(40, OTHER, UB), add(40, UB, OTHER)), soc)
    assert spans(trace, "V") == [(0, 40), (60, 100), (120, 160)]  # each reads what the one before it wrote


def test_unit_flag_overlaps_mmad_and_fixpipe() -> None:
    soc = bare(
        generation="c220",
        cube={"unit_flag": True},
        ports={"l0c_to_gm": 64, "fixpipe_elements_per_cycle": 256},
    )
    tile = Operand(Buffer.L0C, "c", 128 * 256 * 4)
    work = Mmad(tile, Operand(Buffer.L0A, "a", 512), Operand(Buffer.L0B, "b", 512), 128, 64, 256)
    out = Move(Pipe.FIX, gm("y", 4096), tile, 1, 4096, "fixpipe")
    starts = {}
    for unit_flag in (False, True):
        ready = SetFlag(Pipe.M, "f", unit_flag)
        trace = simulate(
            block(work, ready, WaitFlag(Pipe.FIX, "f"), out, flags=(Flag("f", Pipe.M, Pipe.FIX),)), soc
        )
        starts[unit_flag] = spans(trace, "FIX")[0][0]
    # FIXPIPE takes 128 cycles out of L0C and ends with the mmad
    assert starts == {False: 512, True: 512 - 128 * 255 // 256}


def test_unit_flag_needs_an_mmad_and_a_chip_that_has_it() -> None:
    wait = (WaitFlag(Pipe.FIX, "f"),)
    flags = (Flag("f", Pipe.M, Pipe.FIX),)
    for soc, body in (
        (bare(), (mmad(1), SetFlag(Pipe.M, "f", True))),
        (bare(cube={"unit_flag": True}), (SetFlag(Pipe.M, "f", True),)),
    ):
        with pytest.raises(CompileError, match="UnitFlag"):
            simulate(block(*body, *wait, flags=flags), soc)


def test_a_task_pays_for_launch_dispatch_and_head() -> None:
    trace = run(
        program_of(task_of((block(mmad(10)), 2))),
        toy(cube={"gap_cycles": 0, "latency_cycles": 0}),
        instructions=True,
    )
    # 1 us launch, 10 ns for the second block, 100 ns kernel head, 1 cycle issue
    assert spans(trace, "M") == [(1111, 1121)]
    task = trace.tasks[0]
    assert (task.ready, task.start, task.end, task.blocks, task.rounds, task.cores) == (0, 0, 1121, 2, 1, 2)
    assert task.block_ticks == 2 * 121
    assert task.dispatch == 10


def test_dispatch_counts_the_blocks_that_start_together_first() -> None:
    soc = toy(launch={"block_dispatch_ns": 7})
    once = run(program_of(task_of((block(mmad(10)), 1)), task_of((block(mmad(10)), 5), id=1)), soc)
    assert [task.dispatch for task in once.tasks] == [0, 7]  # two cores: one block after the first
    again = run(program_of(*(task_of((block(mmad(10)), 5), id=number) for number in range(4))), soc)
    assert [task.dispatch for task in again.tasks] == [7] * 4  # repeated tasks are not run anew


def test_more_blocks_than_cores_take_rounds() -> None:
    trace = run(program_of(task_of((block(mmad(100)), 5))), bare(), instructions=True)
    assert [(item.cores, item.start) for item in trace.instructions] == [
        ((0, 1), 0),
        ((0, 1), 100),
        ((0,), 200),
    ]
    assert trace.tasks[0].rounds == 3
    assert trace.tasks[0].block_ticks == 500


def test_a_free_core_takes_the_next_block() -> None:
    program = program_of(task_of((block(mmad(100)), 1), (block(mmad(30)), 3)))
    trace = run(program, bare(), instructions=True)
    assert [(item.cores, item.start) for item in trace.instructions] == [
        ((1,), 0),
        ((0,), 0),
        ((1,), 30),
        ((1,), 60),
    ]


def test_tasks_of_a_stream_follow_after_the_gap() -> None:
    soc = bare(launch={"task_gap_us": 2, "task_launch_us": 1})
    trace = run(program_of(task_of((block(mmad(10)), 1), id=0), task_of((block(mmad(10)), 1), id=1)), soc)
    assert [(task.ready, task.start, task.end) for task in trace.tasks] == [(0, 0, 1010), (1010, 3010, 4020)]


def test_the_host_launches_tasks_one_by_one() -> None:
    soc = bare(launch={"host_launch_us": 5})
    tasks = [task_of((block(mmad(10)), 1), id=number) for number in range(3)]
    trace = run(program_of(*tasks, mode="host"), soc)
    assert [task.start for task in trace.tasks] == [5000, 10000, 15000]


def test_streams_run_side_by_side_and_wait_for_events() -> None:
    first, second = task_of((block(mmad(100)), 1), id=0), task_of((block(mmad(30)), 1), id=1, stream=1)
    third = task_of((block(mmad(10)), 1), id=2, stream=1, waits_for=(0,))
    trace = run(program_of(first, second, third), bare())
    assert [(task.task, task.start, task.end) for task in trace.tasks] == [
        (1, 0, 30),
        (0, 0, 100),
        (2, 100, 110),
    ]


def test_blocks_of_two_streams_share_the_cores() -> None:
    tasks = [task_of((block(mmad(100)), 2), id=0), task_of((block(mmad(100)), 2), id=1, stream=1)]
    trace = run(program_of(*tasks), bare())
    assert [(task.task, task.end) for task in trace.tasks] == [(0, 100), (1, 200)]


def test_ai_cpu_tasks_use_their_own_cores() -> None:
    tasks = [Task(number, f"c{number}", TaskKind.AI_CPU, stream=number, cpu_us=10) for number in range(3)]
    trace = run(program_of(*tasks), bare())
    assert [(task.task, task.start, task.end, task.cores) for task in trace.tasks] == [
        (0, 0, 230_000, 0),
        (1, 0, 230_000, 0),
        (2, 0, 380_000, 0),  # two AI CPU cores: 80 us dispatch, then a wait until 230 us, then 140 + 10 us
    ]


def test_split_cores_run_cube_and_vector_blocks_of_one_task() -> None:
    soc = bare(split_cores=True, ai_cores=1, vector_cores=2)
    task = task_of((block(mmad(100), core=CoreKind.CUBE), 1), (block(add(40), core=CoreKind.VECTOR), 3))
    trace = run(program_of(task), soc, instructions=True)
    assert [(item.cores, item.pipe, item.start) for item in trace.instructions] == [
        ((1, 2), "V", 0),
        ((0,), "M", 0),
        ((1,), "V", 40),
    ]
    (record,) = trace.tasks
    assert record.cores == 3
    # blocks last until their kind of core is done: 100 ticks on the Cube, 3 times 40 on Vector units
    assert (record.busy["M"], record.busy["V"], record.block_ticks) == (100, 120, 220)
    assert (record.vector_busy.get("M", 0), record.vector_busy["V"], record.vector_ticks) == (0, 120, 120)


def test_vector_cores_may_have_a_clock_of_their_own() -> None:
    soc = bare(vector_cores=1, frequency_mhz=1060)  # 53 and 50 ticks a cycle
    trace = run(
        program_of(task_of((block(mmad(10)), 1), (block(add(10), core=CoreKind.VECTOR), 1))),
        soc,
        instructions=True,
    )
    assert sorted(item.end for item in trace.instructions) == [500, 530]
    assert trace.core_ticks == 50
    assert trace.us(53_000) == 1


def test_records_sum_up_the_blocks() -> None:
    program = program_of(task_of((matmul_block(2, 3), 2)), regions={"a": 1 << 16, "b": 1 << 16, "c": 1 << 16})
    task = run(program, TOY).tasks[0]
    assert task.macs == 2 * 6 * 64**3
    assert task.read_bytes["l2"] == 2 * 12 * 8192
    assert task.read_bytes["ddr"] == 2 * (1 << 16)  # each region once, the rest hits
    assert task.write_bytes["l2"] == 2 * 2 * 8192
    assert task.busy["M"] == 2 * 6 * 66
    assert task.busy["MTE1"] == 2 * 6 * (26 + 42)
    assert 0 < task.first_compute < task.last_compute < task.end


def test_instructions_of_chosen_tasks_only() -> None:
    program = program_of(task_of((block(mmad(1)), 1), id=4), task_of((block(mmad(1)), 1), id=9))
    assert {item.task for item in run(program, bare(), instructions={9}).instructions} == {9}
    assert run(program, bare()).instructions == ()


def test_progress_counts_tasks() -> None:
    seen: list[tuple[int, int]] = []
    run(
        program_of(task_of((block(mmad(1)), 1), id=4), task_of((block(mmad(1)), 1), id=9)),
        bare(),
        progress=lambda *at: seen.append(at),
    )
    assert seen == [(1, 2), (2, 2)]


def test_a_program_without_tasks_takes_no_time() -> None:
    assert run(program_of(), TOY).end == 0


def test_a_graph_on_the_device_waits_for_no_look_of_the_host() -> None:
    tasks = [replace(task_of((block(mmad(10)), 1), id=number), read_backs=number) for number in range(3)]
    plain = [replace(task, read_backs=0) for task in tasks]
    assert run(program_of(*tasks), TOY) == run(program_of(*plain), TOY)


def test_computing_begins_with_the_first_pipe_that_computes() -> None:
    """M at once and then V; and M late, while V only waits for it."""
    full = Flag("full", Pipe.M, Pipe.V)
    both = block(mmad(10), SetFlag(Pipe.M, "full"), WaitFlag(Pipe.V, "full"), add(5), flags=(full,))
    (record,) = simulate(both).tasks
    assert (record.first_compute, record.last_compute) == (0, 15)
    late = block(Scalar(7), mmad(10), SetFlag(Pipe.M, "full"), WaitFlag(Pipe.V, "full"), flags=(full,))
    (record,) = simulate(late).tasks
    assert (record.first_compute, record.last_compute) == (7, 17)


def test_the_host_launches_one_task_after_the_other() -> None:
    soc = bare(launch={"host_launch_us": 3})
    tasks = [task_of((block(mmad(10)), 1), id=number) for number in range(3)]
    launched = run(program_of(*tasks, mode="host"), soc).tasks
    assert [(task.launch_start, task.launch_end) for task in launched] == [
        (0, 3000),
        (3000, 6000),
        (6000, 9000),
    ]


def test_a_missing_set_is_a_deadlock_that_names_who_waits() -> None:
    body = block(WaitFlag(Pipe.V, "full"), add(1), mmad(1), flags=(Flag("full", Pipe.M, Pipe.V),))
    with pytest.raises(SimulationError) as caught:
        run(program_of(task_of((body, 2), id=7)), TOY)
    assert str(caught.value).startswith(
        "deadlock: on core 0 (and 1 in lock-step) V waits for flag 'full'; every"
    )
    with pytest.raises(SimulationError, match=r"on core 0 of task 7 \(t7\) V waits"):
        run(program_of(task_of((block(mmad(1)), 1), id=3), task_of((body, 1), id=7)), TOY)
    good = task_of((block(mmad(1)), 1), id=3)
    with pytest.raises(SimulationError, match=r"on core 0 \(and 1 in lock-step\) of task 7 \(t7\) V waits"):
        run(program_of(good, task_of((body, 2), id=7)), TOY)


def test_a_circle_of_the_chips_own_flags_is_a_deadlock_that_names_them() -> None:
    flags = (Flag("full", Pipe.MTE2, Pipe.V, event=0), Flag("free", Pipe.V, Pipe.MTE2, event=0))
    body = block(
        WaitFlag(Pipe.MTE2, "free"),
        load(),
        SetFlag(Pipe.MTE2, "full"),
        WaitFlag(Pipe.V, "full"),
        add(1),
        SetFlag(Pipe.V, "free"),
        flags=flags,
    )
    with pytest.raises(SimulationError) as caught:
        simulate(body)
    text = str(caught.value)
    assert text.startswith(
        "deadlock: on core 0 MTE2 waits for V_MTE2 0; V waits for MTE2_V 0; every wait needs"
    )


def test_a_queue_that_fills_before_its_flag_is_set_is_a_deadlock() -> None:
    body = block(
        WaitFlag(Pipe.V, "go"),
        Loop("i", 40, (add(1),)),
        mmad(1),
        SetFlag(Pipe.M, "go"),
        flags=(Flag("go", Pipe.M, Pipe.V),),
    )
    with pytest.raises(SimulationError) as caught:
        run(program_of(task_of((body, 1))), TOY)
    for part in ("S waits for a free slot in the queue of V", "V waits for flag 'go'"):
        assert part in str(caught.value)


def test_the_scalar_unit_can_deadlock_too() -> None:
    with pytest.raises(SimulationError, match=r"S waits for flag 'never'"):
        run(
            program_of(
                task_of((block(WaitFlag(Pipe.S, "never"), flags=(Flag("never", Pipe.V, Pipe.S),)), 1))
            ),
            TOY,
        )


def test_tasks_that_wait_for_each_other_are_a_deadlock() -> None:
    tasks = [
        task_of((block(mmad(1)), 1), id=0, waits_for=(1,)),
        task_of((block(mmad(1)), 1), id=1, stream=1, waits_for=(0,)),
    ]
    with pytest.raises(SimulationError, match=r"task 0 \(t0\) waits for tasks \[1\]"):
        run(program_of(*tasks), TOY)


@pytest.mark.parametrize(
    ("program", "soc", "text"),
    [
        (
            program_of(task_of((block(mmad(1)), 1))),
            toy(ai_cores=0),
            "ai_cores of Toy must be at least 1, not 0",
        ),
        (
            program_of(task_of((block(mmad(1), core=CoreKind.CUBE), 1))),
            TOY,
            "task 't0' needs a CUBE core, not one of the 2 AI cores of Toy",
        ),
        (
            program_of(task_of((block(mmad(1)), 0))),
            TOY,
            "task 't0' must have at least one block in every group, not 0",
        ),
        (
            program_of(Task(0, "c", TaskKind.AI_CPU)),
            toy(ai_cpu={"cores": 0}),
            "task 'c' needs an AI CPU core, not 0",
        ),
        (
            program_of(task_of((block(mmad(1)), 1), waits_for=(5,))),
            TOY,
            "waits for a task that the program does not have, not 5",
        ),
        (
            program_of(task_of((block(mmad(1)), 1))),
            toy(dram={"read_gb_per_s": 0}),
            "dram.read_gb_per_s of Toy must be above 0, not 0",
        ),
        (
            program_of(task_of((block(mmad(1)), 1))),
            toy(frequency_mhz=0),
            "clock of Toy must be above 0 MHz, not 0",
        ),
        (
            program_of(task_of((block(mmad(1)), 1))),
            replace(TOY, missing=("buffers.ub",)),
            "Toy cannot be run; set what is not known: buffers.ub",
        ),
        (
            program_of(task_of((block(mmad(1)), 1)), task_of((block(mmad(1)), 1))),
            TOY,
            "task ids must be unique",
        ),
    ],
)
def test_impossible_programs_and_chips_are_refused(program: object, soc: object, text: str) -> None:
    with pytest.raises(SimulationError) as caught:
        run(program, soc)  # type: ignore[arg-type]
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (SetFlag(Pipe.M, "ful"), "flag 'ful' is not declared in its block; did you mean full?"),
        (SetFlag(Pipe.V, "full"), "flag 'full' may be set by M only, not V"),
        (WaitFlag(Pipe.M, "full"), "flag 'full' may be waited for by V only, not M"),
        (Loop("i", -1, (mmad(1),)), "loop i must not run a negative number of times, not -1"),
    ],
)
def test_malformed_blocks_are_refused(statement: Statement, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        run(program_of(task_of((block(statement, flags=(Flag("full", Pipe.M, Pipe.V),)), 1))), TOY)
    assert text in str(caught.value)


def test_double_buffering_overlaps_loads_and_work() -> None:
    single = simulate(copy_block(20, slots=1)).end
    double = simulate(copy_block(20, slots=2)).end
    assert double < single
    assert double >= 20 * 128  # DRAM: 4096 B at 32 B per cycle


def test_the_trace_of_a_double_buffered_matmul(golden: Callable[[str, str], None]) -> None:
    program = program_of(task_of((matmul_block(2, 3), 3)), regions={"a": 1 << 16, "b": 1 << 16, "c": 1 << 16})
    trace = run(program, TOY, instructions=True)
    lines = [
        f"{item.start:6d} {item.end:6d} {','.join(map(str, item.cores)):5s} {item.pipe:4s} {item.name}"
        for item in trace.instructions
    ]
    golden("machine_matmul.txt", "\n".join([*lines, *map(repr, trace.tasks)]) + "\n")


@pytest.mark.parametrize("narrow", [None, 32.0])
def test_cores_one_by_one_wait_for_the_links_like_their_group(narrow: float | None) -> None:
    soc = bare(l2={"same_line_bytes_per_cycle": narrow})
    read = Move(Pipe.MTE2, UB, gm("x", 4096, Affine(0, (("i", 4096),))), 1, 4096)
    body = block(Loop("pass", 3, (Loop("i", 4, (read,)),)))
    task = task_of((body, 2), accesses=(Access("x", 4 * 4096, 2 * 3 * 4 * 4096, False),))
    program = program_of(task, regions=BIG)
    assert run(program, soc, groups=True) == run(program, soc, groups=False)


@pytest.mark.parametrize(("l2", "together", "times"), [(100, False, 1), (100, True, 50), (400, True, 1)])
def test_a_ring_goes_to_memory_once_if_it_is_written_over_in_time(
    l2: int, together: bool, times: int
) -> None:
    """4 KiB, 50 times over: all of it before 9600 KiB are read, or between pieces of 192 KiB."""
    kib, piece = 1024, (192 if together else 64) * 1024
    store = Move(Pipe.MTE3, gm("ring", 4 * kib), Operand(Buffer.UB, "u", 4 * kib), 1, 4 * kib)
    source = gm("x", piece, Affine(0, (("n", piece),)))
    read = Move(Pipe.MTE2, Operand(Buffer.UB, "v", piece), source, 1, piece)
    apart = (Loop("t", 50, (store,)), Loop("n", 150, (read,)))
    body = Block((Loop("n", 50, (store, read)),) if together else apart)
    accesses = (Access("ring", 4 * kib, 0, True), Access("x", 9600 * kib, 0, False))
    program = program_of(task_of((body, 1), accesses=accesses), regions={"ring": 4 * kib, "x": 9600 * kib})
    (record,) = run(program, toy(ai_cores=1, l2={"size": l2 * kib})).tasks
    assert record.write_bytes["l2"] == 200 * kib
    assert record.write_bytes["ddr"] == pytest.approx(4 * kib * times, rel=0.05)
