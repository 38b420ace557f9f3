"""Fast-forward on small programs: it fires, it stops in time, and what it skips is accounted for."""

from __future__ import annotations

import pytest

from ascendsim.core.errors import SimulationError
from ascendsim.isa.instructions import Barrier, Flag, Loop, Pipe, Scalar, SetFlag, WaitFlag
from ascendsim.isa.program import Block, Program, Task, TaskKind
from ascendsim.machine import Statistics, run
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import InstructionRecord, Trace
from tests.support.random_blocks import work
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY, bare, toy

REGIONS = {name: 1 << 16 for name in ("a", "b", "c", "x", "y")}


def both(program: Program, soc: SocSpec = TOY, **options: bool) -> tuple[Trace, Statistics]:
    """The trace with fast-forward, which must be the one without, and what was saved."""
    statistics = Statistics()
    trace = run(program, soc, instructions=True, solo=False, statistics=statistics, **options)  # type: ignore[arg-type]
    assert trace == run(program, soc, instructions=True, fast_forward=False, replay=False, **options)  # type: ignore[arg-type]
    return trace, statistics


@pytest.mark.parametrize(("trips", "states"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_states_are_taken_where_a_trip_is_left_to_skip(trips: int, states: int) -> None:
    """Not at the start of a loop, and not before its last trip; the one task is simulated."""
    block = Block((work(Pipe.M, 64), Loop("i", trips, (work(Pipe.MTE2, 512),))))
    program = program_of(task_of((block, 1)), regions=REGIONS)
    _, saved = both(program, toy(issue={"queue_depth": {"MTE2": 1}}))
    assert (saved.states, saved.replayed, saved.simulated) == (states, 0, 1)
    if not states:
        assert (saved.jumps, saved.periods, saved.ticks) == (0, 0, 0)


def test_a_pipe_that_waits_for_the_end_of_a_loop_does_not_hide_that_it_repeats_itself() -> None:
    """How long it has been waiting says nothing: it goes on when the loop has ended."""
    body = Loop("i", 300, (work(Pipe.MTE2, 512),))
    ends = (SetFlag(Pipe.MTE2, "done"), work(Pipe.V, 64))
    block = Block((WaitFlag(Pipe.V, "done"), body, *ends), flags=(Flag("done", Pipe.MTE2, Pipe.V),))
    trace, saved = both(program_of(task_of((block, 1)), regions=REGIONS))
    assert saved.jumps > 0
    assert saved.ticks > trace.end / 2


def test_a_loop_that_repeats_itself_is_skipped_but_for_its_start_and_end() -> None:
    trace, saved = both(program_of(task_of((copy_block(4000), 1)), regions=REGIONS))
    assert saved.jumps == 1
    assert saved.periods > 300
    assert saved.ticks > 0.97 * trace.end


def test_skipped_instructions_are_in_the_trace() -> None:
    trace, saved = both(program_of(task_of((copy_block(500), 2)), regions=REGIONS))
    assert saved.periods > 40
    adds = [item for item in trace.instructions if item.pipe == "V"]
    assert len(adds) == 500
    assert isinstance(adds[250], InstructionRecord)


def test_outer_loops_are_skipped_too() -> None:
    inner, saved_inner = both(program_of(task_of((matmul_block(1, 60), 1)), regions=REGIONS))
    outer, saved = both(program_of(task_of((matmul_block(60, 6), 1)), regions=REGIONS))
    assert saved_inner.ticks > 0.7 * inner.end
    assert saved.ticks > 0.8 * outer.end
    assert saved.states < 60


def test_a_pipe_that_worked_before_the_loop_only_is_not_carried_along() -> None:
    body = (work(Pipe.M, 64), Loop("i", 300, (work(Pipe.MTE2, 512),)))
    trace, saved = both(program_of(task_of((Block(body), 1)), regions=REGIONS))
    assert saved.jumps == 1
    assert trace.tasks[0].last_compute < trace.end / 10


def test_tails_are_simulated() -> None:
    main = copy_block(300, tile_bytes=4096)
    tail = copy_block(1, tile_bytes=512)
    trace, saved = both(
        program_of(task_of((Block((*main.body, *tail.body[0].body), (), main.flags), 1)), regions=REGIONS)
    )  # type: ignore[union-attr]
    assert saved.periods > 20
    assert [item.bytes for item in trace.instructions if item.pipe == "MTE2"] == [4096] * 300 + [512]


def test_cores_that_share_links_are_skipped_together() -> None:
    groups = (copy_block(900), 1), (copy_block(900, slots=1), 1)
    trace, saved = both(program_of(task_of(*groups), regions=REGIONS))
    assert saved.ticks > 0.5 * trace.end
    assert len({item.cores for item in trace.instructions}) == 2


def test_cores_one_by_one_are_skipped_like_their_group() -> None:
    trace, saved = both(program_of(task_of((copy_block(900), 2)), regions=REGIONS), groups=False)
    assert saved.ticks > 0.9 * trace.end


def test_no_appointment_is_skipped() -> None:
    """The second stream's task comes while the first one's loop repeats itself, and takes bandwidth from
    it."""
    cpu = Task(1, "cpu", TaskKind.AI_CPU, stream=1, cpu_us=10)
    late = task_of((copy_block(50), 1), id=2, stream=1)
    soc = toy(l2={"software_managed": True})
    trace, saved = both(program_of(task_of((copy_block(4000), 1)), cpu, late, regions=REGIONS), soc)
    alone = run(program_of(task_of((copy_block(4000), 1)), regions=REGIONS), soc)
    assert saved.jumps >= 2
    assert {task.task: task.start for task in trace.tasks}[2] > 100_000
    assert trace.end > alone.end


def test_a_free_running_scalar_loop_has_no_state_to_come_back_to() -> None:
    """Without transfers everything takes place in one tick of the simulation: nothing to skip, and nothing
    goes wrong."""
    trace, saved = both(program_of(task_of((Block((Loop("i", 200, (Scalar(5), work(Pipe.M, 64))),)), 1))))
    assert (saved.jumps, saved.periods, saved.ticks) == (0, 0, 0)
    assert len(trace.instructions) == 400


def test_a_flag_that_piles_up_keeps_states_apart() -> None:
    """The vector unit sets a flag in every trip that nobody takes: no two states are equal."""
    flag = Flag("never_taken", Pipe.V, Pipe.M, 0, 1000)
    body = (Loop("i", 200, (work(Pipe.MTE2, 512), work(Pipe.V, 512), SetFlag(Pipe.V, flag.name))),)
    _, saved = both(program_of(task_of((Block(body, (), (flag,)), 1)), regions=REGIONS), bare())
    assert saved.jumps == 0


def test_states_are_taken_seldom_if_nothing_comes_back() -> None:
    flag = Flag("never_taken", Pipe.V, Pipe.M, 0, 10_000)
    body = (Loop("i", 4000, (work(Pipe.MTE2, 512), work(Pipe.V, 512), SetFlag(Pipe.V, flag.name))),)
    saved = Statistics()
    run(
        program_of(task_of((Block(body, (), (flag,)), 1)), regions=REGIONS),
        bare(),
        solo=False,
        statistics=saved,
    )
    # at the first 16 boundaries, then at every eighth of 3983: the queue takes 16 trips in one tick
    assert saved.states == 16 + len(range(24, 3984, 8))


@pytest.mark.parametrize(("room", "found"), [(4, False), (5, True)])
def test_states_are_forgotten_when_their_table_is_full(
    room: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of the outer loop passes the boundaries of five inner loops: a period of five states, the first
    of which is its own too."""
    monkeypatch.setattr("ascendsim.machine.fast_forward.LARGEST_TABLE", room)
    monkeypatch.setattr("ascendsim.machine.fast_forward.EAGER", 1000)
    inner = tuple(
        Loop(f"i{number}", 3, (work(Pipe.MTE2, 512 * (number + 1)), Barrier(Pipe.S))) for number in range(5)
    )
    trace, saved = both(program_of(task_of((Block((Loop("o", 60, inner),)), 1)), regions=REGIONS), bare())
    assert (saved.ticks > 0.9 * trace.end) is found  # else trips of inner loops at most


def test_deadlocks_after_a_skip_are_reported() -> None:
    main = copy_block(500)
    body = (*main.body, WaitFlag(Pipe.V, "in_full"), work(Pipe.V, 512))
    with pytest.raises(SimulationError, match="V waits for flag 'in_full'"):
        run(program_of(task_of((Block(body, (), main.flags), 1)), regions=REGIONS), TOY)


def test_a_narrow_queue_and_a_shared_bus_repeat_themselves_too() -> None:
    soc = toy(
        issue={"queue_depth": {"M": 1, "V": 1, "MTE1": 2, "MTE2": 2, "MTE3": 1}},
        dram={"half_duplex": True, "write_gb_per_s": 17},
    )
    trace, saved = both(program_of(task_of((matmul_block(40, 8), 3)), regions=REGIONS), soc)
    assert saved.ticks > 0.5 * trace.end
