"""Cube cores and their vector cores: they start together, and their flags do what a simulation tick by tick
says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.core.errors import CompileError, SimulationError
from ascendsim.isa.checks import check_program
from ascendsim.isa.costs import cost
from ascendsim.isa.cross_checks import check_teams
from ascendsim.isa.flag_checks import check_flags
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import (
    Allocation,
    Buffer,
    CrossFlag,
    Instruction,
    Loop,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.listing import task_listing
from ascendsim.isa.program import Block, BlockGroup, CoreKind, Program, Task, TaskKind
from ascendsim.machine import Statistics, run
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.reference_cores import Core, Cores
from tests.support.toy_machine import add, load, mmad, store
from tests.support.toy_programs import copy_block, gm, program_of, task_of
from tests.support.toy_soc import TOY, bare, toy
from tests.support.written_out import written_out

CUBE, VECTOR = CoreKind.CUBE, CoreKind.VECTOR
OWN, BETWEEN = 4, 7
CHIP = bare(
    split_cores=True,
    ai_cores=3,
    vector_cores=6,
    vector={"minimum_cycles": 0},
    issue={
        "flag_cycles": OWN,
        "barrier_ns": BETWEEN,
        "queue_depth": dict.fromkeys((p.value for p in Pipe), 500),
    },
)
SIZES = {"x": 1 << 20, "y": 1 << 20}
TO_L0A = Move(Pipe.MTE1, Operand(Buffer.L0A, "a", 512), Operand(Buffer.L1, "l", 512), 1, 512, "load2d")


def team_task(*teams: tuple[int, Block, Block, Block | None], id: int = 0, stream: int = 0) -> Task:
    """Teams: how many, the block of the cube core, those of its vector cores (None: there is only one)."""
    groups: list[BlockGroup] = []
    for number, (count, cube, first, second) in enumerate(teams):
        groups.append(BlockGroup(cube, count, number))
        same = first is second
        groups.append(BlockGroup(first, 2 * count if same else count, number))
        if second is not None and not same:
            groups.append(BlockGroup(second, count, number))
    return Task(id, f"t{id}", TaskKind.MIX_AIC, stream, tuple(groups))


def handover(trips: int, works: int = 3, both: bool = True) -> tuple[Block, Block]:
    """A cube core makes tiles, its vector cores take each and say when there is room for the next."""
    ready, room = CrossFlag("ready", 2, 0), CrossFlag("room", 2, 1)
    cube = (mmad(works), SetFlag(Pipe.M, "ready"), *([WaitFlag(Pipe.M, "room")] if both else []))
    vector = (WaitFlag(Pipe.V, "ready"), add(5), *([SetFlag(Pipe.V, "room")] if both else []))
    return (
        Block((Loop("i", trips, cube),), (), (), CUBE, (ready, room)),
        Block((Loop("i", trips, vector),), (), (), VECTOR, (ready, room)),
    )


def traced(program: Program, soc: SocSpec = CHIP) -> Trace:
    """The trace, which must be the one without shortcuts."""
    trace = run(program, soc, instructions=True)
    assert trace == run(program, soc, instructions=True, fast_forward=False, replay=False)
    return trace


def check(task: Task) -> None:
    """The checks of flags; these blocks have no allocations."""
    for group in task.groups:
        check_flags(group.block)
    check_teams(task)


def work(kind: CoreKind, random: Random) -> Instruction:
    if random.random() < 0.2:
        return Scalar(random.randint(1, 9))
    if kind is VECTOR:
        return add(random.randint(1, 30))
    return random.choice((mmad(random.randint(1, 40)), TO_L0A))


def random_teams(random: Random) -> list[tuple[int, Block, Block, Block | None]]:
    """Blocks in which all cores come to their flags in one order, so that none waits for ever."""
    shapes = [[CUBE, VECTOR], [CUBE, VECTOR, VECTOR]]
    teams = [random.choice(shapes) for _ in range(random.choice((1, 1, 2)))]
    kinds = [(team, kind) for team, shape in enumerate(teams) for kind in shape]
    bodies: list[list[Statement]] = [[] for _ in kinds]
    pipes = {CUBE: (Pipe.M, Pipe.MTE1, Pipe.MTE2), VECTOR: (Pipe.V, Pipe.MTE2, Pipe.MTE3)}
    flags = {
        CrossFlag(f"f{id}", mode, id): {
            kind: (random.choice(own), random.choice((*own, Pipe.S))) for kind, own in pipes.items()
        }
        for id, mode in enumerate(random.choice((0, 1, 2, 2)) for _ in range(3))
    }

    def meet(flag: CrossFlag) -> None:
        sides = random.choice((CUBE, VECTOR)) if flag.mode != 1 else VECTOR
        for body, (_, kind) in zip(bodies, kinds, strict=True):
            sets, waits = flags[flag][kind]
            if kind is sides:
                body.append(SetFlag(sets, flag.name))
            if kind is (sides if flag.mode < 2 else CUBE if sides is VECTOR else VECTOR):
                body.append(WaitFlag(waits, flag.name))

    for _ in range(random.randint(2, 12)):
        for body, (_, kind) in zip(bodies, kinds, strict=True):
            body += [work(kind, random) for _ in range(random.randint(0, 2))]
        meet(random.choice(list(flags)))
    trips = random.randint(1, 3)
    blocks = [
        Block((Loop("i", trips, tuple(body)),), (), (), kind)
        for body, (_, kind) in zip(bodies, kinds, strict=True)
    ]
    made: list[tuple[int, Block, Block, Block | None]] = []
    left = CHIP.ai_cores
    for team in range(len(teams)):
        count = random.randint(1, left - (len(teams) - 1 - team))
        left -= count
        cube, first, *second = [
            replace(block, cross=tuple(flag for flag in flags if flag.mode != 1 or block.core is VECTOR))
            for block, (of, _) in zip(blocks, kinds, strict=True)
            if of == team
        ]
        made.append((count, cube, first, random.choice((second[0], first)) if second else None))
    return made


def reference(
    teams: list[tuple[int, Block, Block, Block | None]], soc: SocSpec
) -> list[list[tuple[str, int, int]]]:
    """What each core does, tick by tick; cube cores first."""
    cores, team = [], 0
    for count, *blocks in teams:
        for _ in range(count):
            cores += [Core(written_out(block), team) for block in blocks if block is not None]
            team += 1
    chip = Cores(cores, lambda item, kind: cost(item, soc, kind).occupancy, OWN, BETWEEN)
    assert chip.run()
    return [core.ran for core in cores]


def test_random_teams_do_what_a_simulation_tick_by_tick_says() -> None:
    handed_over = 0
    for seed in range(30):
        random = Random(seed)
        teams = random_teams(random)
        program = program_of(team_task(*teams), regions=SIZES)
        check(program.tasks[0])
        trace = traced(program)
        assert trace.end == run(program, CHIP, groups=False).end
        wanted = sorted(item for ran in reference(teams, CHIP) for item in ran)
        found = sorted((i.pipe, i.start, i.end) for i in trace.instructions for _ in i.cores)
        assert found == wanted, seed
        handed_over += sum(flag.mode == 2 for _, cube, *_ in teams for flag in cube.cross)
    assert handed_over > 30


def test_a_team_starts_together_on_the_cores_of_one_ai_core() -> None:
    """While a vector task holds the vector cores of two AI Cores, only one team starts."""
    cube, vector = (replace(one, body=(Scalar(3), *one.body)) for one in handover(400, 400))
    holder = task_of((copy_block(200, core=VECTOR), 4), id=1, stream=1)
    program = program_of(holder, team_task((3, cube, vector, vector), id=0), regions=SIZES)
    soc = toy(split_cores=True, ai_cores=3, vector_cores=6)
    trace = run(program, soc, instructions=True, groups=False)
    mine = [item for item in trace.instructions if item.task == 0]
    first = {item.cores[0]: item.start for item in reversed(mine)}
    assert set(first) == set(range(9))
    # vector cores 3 to 6 are taken; cores 7 and 8 are beside the third cube core
    held = next(record.end for record in trace.tasks if record.task == 1)
    assert first[2] < held
    assert min(first[core] for core in (0, 1, 3, 4, 5, 6)) >= held
    for number in range(3):
        assert first[number] == first[3 + 2 * number] == first[4 + 2 * number]
    assert first[0] == first[1]  # as many teams as there is room for, at once


def test_each_vector_core_of_a_team_has_its_own_number() -> None:
    cube, vector = handover(2)
    other = replace(vector, body=(*vector.body, add(7)))
    trace = traced(program_of(team_task((3, cube, vector, other)), regions=SIZES))
    assert {item.cores for item in trace.instructions if item.pipe == "V"} == {(3, 5, 7), (4, 6, 8)}
    assert {item.cores for item in trace.instructions if item.pipe == "M"} == {(0, 1, 2)}


def test_flags_between_cores_say_nothing_of_the_pipes_of_one() -> None:
    cube, _ = handover(2)
    place = tuple(
        Allocation(name, buffer, 0, 1024)
        for name, buffer in (("a", Buffer.L0A), ("b", Buffer.L0B), ("c", Buffer.L0C))
    )
    check_hazards(replace(cube, allocations=place))
    unload = Move(Pipe.FIX, gm("y", 1024), Operand(Buffer.L0C, "c", 1024), 1, 1024, "fixpipe")
    with pytest.raises(CompileError, match="L0C.c must not be read by FIX"):
        check_hazards(replace(cube, allocations=place, body=(*cube.body, unload)))


def test_more_teams_than_cores_come_one_after_the_other() -> None:
    cube, vector = handover(4)
    program = program_of(team_task((7, cube, vector, vector)), regions=SIZES)
    trace = traced(program)
    assert trace == run(program, CHIP, instructions=True)
    assert trace.tasks[0].rounds == 3
    one = run(program_of(team_task((3, cube, vector, vector)), regions=SIZES), CHIP).end
    assert trace.end == pytest.approx(3 * one, rel=0.01)


def test_a_long_exchange_is_skipped() -> None:
    saved = []
    for trips in (400, 4000):
        cube, vector = handover(trips)
        statistics = Statistics()
        program = program_of(team_task((2, cube, vector, vector)), regions=SIZES)
        trace = run(program, CHIP, solo=False, statistics=statistics)
        assert trace == run(program, CHIP, fast_forward=False, replay=False)
        saved.append(statistics)
    assert saved[0].states == saved[1].states < 100


def test_a_transfer_on_the_way_is_waited_for() -> None:
    """A cube core reads what its vector cores have stored: a flag counts when the store is complete."""
    flag = CrossFlag("stored", 2, 3)
    vector = Block((store(), SetFlag(Pipe.MTE3, "stored")), (), (), VECTOR, (flag,))
    cube = Block(
        (WaitFlag(Pipe.MTE2, "stored"), replace(load(region="y"), dst=Operand(Buffer.L1, "l", 4096))),
        (),
        (),
        CUBE,
        (flag,),
    )
    soc = toy(split_cores=True, ai_cores=1, vector_cores=2, issue={"barrier_ns": 50})
    trace = traced(program_of(team_task((1, cube, vector, vector)), regions=SIZES), soc)
    stored = max(item.end for item in trace.instructions if item.pipe == "MTE3")
    (loaded,) = [item.start for item in trace.instructions if item.pipe == "MTE2"]
    assert loaded == stored + soc.l2.write_latency_cycles + soc.issue.flag_cycles + 50


def test_waiting_for_a_core_that_never_sets_the_flag_is_a_deadlock() -> None:
    cube, vector = handover(2, both=False)
    cube = replace(cube, body=(mmad(1),))
    with pytest.raises(
        SimulationError, match=r"deadlock: on core 3 \(and 1 in lock-step\) V waits for cross-core flag 0;"
    ):
        run(program_of(team_task((1, cube, vector, vector)), regions=SIZES), CHIP)


MEET = CrossFlag("meet", 0, 5)


def meeting(times: int, core: CoreKind = VECTOR, flag: CrossFlag = MEET, pipe: Pipe = Pipe.V) -> Block:
    return Block((SetFlag(pipe, flag.name), WaitFlag(Pipe.S, flag.name)) * times, (), (), core, (flag,))


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (
            task_of((meeting(1), 1), (meeting(2), 1)),
            "cross-core flag 5 of task 't0' must be set on each core as often",
        ),
        (
            task_of((meeting(1, flag=replace(MEET, mode=2)), 1)),
            "cross-core flag 5 of mode 2 needs a team of cores",
        ),
        (
            task_of((meeting(1, flag=replace(MEET, id=14)), 1)),
            "cross-core flag 14 must have an id of 0 to 10, not 14",
        ),
        (task_of((meeting(1, flag=replace(MEET, mode=3)), 1)), "must have mode 0, 1 or 2, not 3"),
        (task_of((meeting(1, pipe=Pipe.S), 1)), "cross-core flag 5 cannot be set by S"),
        (task_of((meeting(1, CoreKind.AI), 1)), "cross-core flag 5 of mode 0 does not exist on a AI core"),
        (
            task_of((replace(meeting(1), cross=(MEET, replace(MEET, name="again"))), 1)),
            "cross-core flag 5 must be declared once, not 'again'",
        ),
        (
            task_of((replace(meeting(1), body=(*meeting(1).body, *meeting(1, pipe=Pipe.MTE3).body)), 1)),
            "cross-core flag 5 may be set by one pipe of a core only, not V and MTE3",
        ),
        (
            replace(team_task((2, *handover(1), None)), groups=team_task((2, *handover(1), None)).groups[1:]),
            "team 0 of task 't0' must have one or two vector blocks for each cube block, not 2 VECTOR",
        ),
        (
            replace(
                team_task((2, *handover(1), None)),
                groups=(BlockGroup(handover(1)[0], 2, 0), BlockGroup(handover(1)[1], 3, 0)),
            ),
            "not 2 CUBE, 3 VECTOR",
        ),
        (
            team_task((1, handover(2)[0], handover(3)[1], None)),
            "cross-core flag 0 of task 't0' must be set on each core as often as the others "
            "wait for it, not used 2, 3 times",
        ),
        (
            team_task(
                (1, handover(1)[0], replace(handover(1)[1], body=handover(1, both=False)[1].body), None)
            ),
            "cross-core flag 1 of task 't0' must be set on each core as often as the others "
            "wait for it, not used 0, 1 times",
        ),
        (
            team_task((1, handover(1)[0], *[meeting(times, flag=replace(MEET, mode=1)) for times in (1, 2)])),
            "cross-core flag 5 of task 't0' must be set on each core as often as the others "
            "wait for it, not used 1, 2 times",
        ),
    ],
)
def test_flags_that_cannot_meet_are_refused(task: Task, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        check(task)
    assert text in str(caught.value)


def test_a_chip_without_vector_cores_beside_each_cube_core_has_no_such_teams() -> None:
    cube, vector = handover(1)
    with pytest.raises(
        SimulationError, match="a team of cores has 1 vector cores beside each cube core, not 2"
    ):
        run(program_of(team_task((1, cube, vector, vector)), regions=SIZES), replace(CHIP, vector_cores=3))


def test_cores_that_all_meet_start_when_all_have_a_core() -> None:
    with pytest.raises(SimulationError, match="has a barrier, so it may have 6 blocks at most, not 7"):
        run(program_of(task_of((meeting(1), 7)), regions=SIZES), CHIP)
    holder = task_of((copy_block(50, core=VECTOR), 1), id=1, stream=1)
    all_six = replace(meeting(3), body=(Scalar(3), *meeting(3).body))
    trace = traced(program_of(holder, task_of((all_six, 6), id=0), regions=SIZES))
    held = next(record.end for record in trace.tasks if record.task == 1)
    assert {item.start >= held for item in trace.instructions if item.task == 0} == {True}


def test_teams_that_all_meet_need_whole_ai_cores() -> None:
    """Two tasks of two teams each, whose vector cores all meet: one after the other on three AI Cores."""
    cube = Block((mmad(1),), (), (), CUBE)
    long = replace(meeting(3), body=(add(3000), *meeting(3).body))
    tasks = [team_task((2, cube, long, long), id=number, stream=number) for number in range(2)]
    trace = traced(program_of(*tasks, regions=SIZES))
    starts = [min(item.start for item in trace.instructions if item.task == number) for number in range(2)]
    assert starts[1] >= trace.tasks[0].end
    assert trace.tasks[0].task == 0


def test_vector_cores_of_different_ai_cores_make_no_team() -> None:
    """Cores 3 and 5 are held: four vector cores and three cube cores are free, but only one whole AI Core."""
    held, soon = (copy_block(tiles, core=VECTOR) for tiles in (5000, 1))
    holder = task_of((held, 1), (soon, 1), (replace(held), 1), id=1, stream=1)
    cube, vector = Block((mmad(1),), (), (), CUBE), meeting(3)
    cpu = Task(2, "cpu", TaskKind.AI_CPU, stream=2, cpu_us=1)
    teams = replace(team_task((2, cube, vector, vector), id=0), waits_for=(2,))
    trace = traced(program_of(holder, cpu, teams, regions=SIZES), replace(CHIP, ai_cpu=TOY.ai_cpu))
    end = {record.task: record.end for record in trace.tasks}
    assert end[2] < end[1]
    assert min(item.start for item in trace.instructions if item.task == 0) >= end[1]


def test_who_is_in_a_team_with_whom_decides_a_tasks_time() -> None:
    """The same blocks in the same order: quick with slow, and quick with quick."""
    quick, slow = (handover(1, works, both=False)[0] for works in (10, 4000))
    short = handover(1, both=False)[1]
    long = replace(short, body=(*short.body, add(4000)))
    tasks = []
    for number, teams in enumerate(((0, 0, 1, 1), (0, 1, 1, 0))):
        blocks = (quick, long, slow, short)
        groups = tuple(BlockGroup(block, 1, team) for block, team in zip(blocks, teams, strict=True))
        tasks.append(replace(team_task((1, quick, long, None), id=number), groups=groups))
    trace = traced(program_of(*tasks, regions=SIZES))
    apart, together = (record.end - record.start for record in trace.tasks)
    assert together > 1.8 * apart


def test_the_machine_does_not_guess_teams() -> None:
    cube, vector = handover(1)
    apart = replace(team_task((1, cube, vector, None)), groups=(BlockGroup(cube, 1), BlockGroup(vector, 1)))
    with pytest.raises(
        SimulationError, match="task 't0' has cross-core flag 0 of mode 2, so its groups must be"
    ):
        run(program_of(apart, regions=SIZES), CHIP)


def test_listings_show_teams_and_their_flags() -> None:
    text = task_listing(team_task((1, *handover(1), None)))
    assert "MIX_AIC" in text
    assert "team 0: 1 x block on CUBE core\n  cross ready, id 0, mode 2\n" in text


def test_the_check_of_a_program_looks_at_its_teams() -> None:
    programs = [program_of(task_of((meeting(1), 1), (meeting(times), 1)), regions=SIZES) for times in (1, 2)]
    check_program(programs[0], CHIP)
    with pytest.raises(CompileError, match="as often as the others wait for it"):
        check_program(programs[1], CHIP)
