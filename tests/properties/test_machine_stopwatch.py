"""A stopwatch says of a task what a whole run says, after whatever it has timed before."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

# loaded, it walks tasks from the first one on
import ascendsim_kernels.block_walk  # noqa: F401
from ascendsim.compiler.tilings import timer_of
from ascendsim.core.errors import CompileError, SimulationError
from ascendsim.isa.instructions import Buffer, Move, Operand, Pipe
from ascendsim.isa.program import Access, Block, BlockGroup, MemoryPlan, Program, ProgramInfo, Task, TaskKind
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.templates.cube import cube_options
from ascendsim.lower.templates.steps import Expansion
from ascendsim.machine import Stopwatch, run, solo, stopwatch
from ascendsim.soc import load
from ascendsim.soc.spec import SocSpec
from tests.support.lowering import convolution, matmul
from tests.support.random_programs import ALL_REGIONS, random_chip, random_program

MEMORY = MemoryPlan.in_a_row(ALL_REGIONS)


def by_a_run(
    task: Task, soc: SocSpec, memory: MemoryPlan, written: Mapping[str, int], placed: tuple[str, ...]
) -> int:
    """From start to end in the plain simulation, behind a task that writes regions as a whole."""
    moves = [
        Move(Pipe.MTE3, Operand(Buffer.GM, name, size), Operand(Buffer.UB, "u", size), 1, size)
        for name, size in written.items()
    ]
    accesses = tuple(Access(name, size, size, True) for name, size in written.items())
    writer = Task(
        99, "writer", TaskKind.AI_CORE, groups=(BlockGroup(Block(tuple(moves)), 1),), accesses=accesses
    )
    tasks = (writer, task) if written else (task,)
    program = Program(tasks, memory, info=ProgramInfo(l2_placed=placed))
    (record,) = (
        one for one in run(program, soc, replay=False, fast_forward=False).tasks if one.task == task.id
    )
    return record.end - record.start


def test_random_tasks_on_random_chips() -> None:
    timed = 0
    for seed in range(60):
        random = Random(seed)
        soc = random_chip(random)
        watch = Stopwatch(soc)
        for other in range(3):
            for task in random_program(Random(1000 * other + seed)).tasks:
                groups = [replace(group, count=1) for group in task.groups[: soc.ai_cores]]
                task = replace(task, groups=tuple(groups), stream=0, waits_for=())
                if not groups:
                    continue
                managed = soc.l2.software_managed
                names = random.sample(sorted(ALL_REGIONS), random.randint(0, 2))
                written = {} if managed else {name: ALL_REGIONS[name] for name in names}
                placed = tuple(names) if managed else ()
                regions = {block.region for group in groups for block in accesses_of([group], {})}
                memory = MemoryPlan.in_a_row({**dict.fromkeys(regions, 4096), **ALL_REGIONS})
                ticks = watch.ticks(task, memory, written, placed)
                assert ticks is not None
                assert ticks == by_a_run(task, soc, memory, written, placed), (seed, other, task.id)
                timed += 1
    assert timed > 200


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B4"])
def test_candidates_for_tilings(chip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with and without it: L2 as a cache, and managed by software."""
    soc = load(chip)
    stages = []
    for work in (matmul(200, 320, 272, soc), convolution(64, 28, 96, 3, pad=1, images=4)):
        for make in cube_options(work, soc, Expansion(soc)):
            try:
                stages.append(make())
            except CompileError:
                continue
    assert len(stages) > 6
    timer = timer_of(soc)
    quick = [timer(stage, ("b", "w")) for stage in stages for _ in range(2)]
    asked: list[Task] = []
    monkeypatch.setattr(Stopwatch, "ticks", lambda self, task, *_: asked.append(task))
    assert quick == [timer(stage, ("b", "w")) for stage in stages for _ in range(2)]
    assert len(asked) == len(quick)


def test_what_it_has_worked_out_is_forgotten_at_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch, "MOST_TASKS", 2)
    soc = random_chip(Random(3))
    watch = Stopwatch(soc)
    (task, *_) = random_program(Random(3)).tasks
    task = replace(task, groups=(replace(task.groups[0], count=1),), stream=0)
    assert len({watch.ticks(task, MEMORY, {}) for _ in range(7)}) == 1


def test_what_it_cannot_time_is_left_to_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks than cores, tasks that are very long, all while compiled code is not loaded; and a task
    that no run could do is refused as a run refuses it."""
    soc = load("Ascend310P3")
    stage = cube_options(matmul(64, 64, 64, soc), soc, Expansion(soc))[0]()
    watch, memory = Stopwatch(soc), MemoryPlan.in_a_row(stage.sizes)

    def task(count: int) -> Task:
        groups = tuple(replace(group, count=count) for group in stage.groups)
        return Task(0, "t", stage.kind, groups=groups, accesses=accesses_of(groups, stage.sizes))

    assert watch.ticks(task(1), memory, {}) is not None
    assert watch.ticks(task(soc.ai_cores + 1), memory, {}) is None
    with pytest.raises(SimulationError, match="at least one block"):
        watch.ticks(task(0), memory, {})
    monkeypatch.setattr(solo, "LONGEST", 3)
    assert watch.ticks(task(1), memory, {}) is None
    monkeypatch.setattr(solo, "LONGEST", 1_000_000)
    monkeypatch.delitem(sys.modules, solo.KERNELS)
    assert watch.ticks(task(1), memory, {}) is None
