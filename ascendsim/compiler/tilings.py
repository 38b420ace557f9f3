"""Times tilings on the machine for `lower.tiling_search`, and keeps what was found for every chip: in the
process, and on disk for those that follow (`tiling_store`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from ascendsim.compiler.tiling_store import TilingStore, cache_folder
from ascendsim.core.keys import forget_oldest
from ascendsim.isa.instructions import Buffer, Move, Operand, Pipe
from ascendsim.isa.program import Access, Block, BlockGroup, MemoryPlan, Program, ProgramInfo, Task
from ascendsim.lower.accesses import accesses_of, task_of
from ascendsim.lower.templates.stage import Stage, vector_core
from ascendsim.lower.tiling_search import Choices, TilingSearch, Timer
from ascendsim.machine import Stopwatch, run
from ascendsim.soc import SocSpec

MOST_CHIPS = 32  # whose searches are kept; sweeps over figures of a chip go through many
_searches: dict[Hashable, TilingSearch] = {}
_tilings: dict[Hashable, Choices] = {}  # of single tasks, by what decides these


def tilings_of(soc: SocSpec, options: Mapping[str, object]) -> TilingSearch | None:
    """What picks tilings for a chip as the profile option `tiling` says; None = the closed form."""
    return tiling_search(soc) if options.get("tiling") == "verified" else None


def tiling_search(soc: SocSpec) -> TilingSearch:
    """The search of a chip: the same for all chips with equal figures, wherever these come from. Tilings of
    single tasks are the same for versions of CANN, which differ in steps and in gaps between tasks.
    """
    figures = soc.figures
    if figures not in _searches:
        forget_oldest(_searches, MOST_CHIPS - 1)
        forget_oldest(_tilings, MOST_CHIPS - 1)
        task = soc.task_figures
        if task not in _tilings:
            _tilings[task] = _choices(task)
        _searches[figures] = TilingSearch(timer_of(soc), alone_on(soc), _tilings[task], _choices(figures))
    return _searches[figures]


def _choices(figures: Hashable) -> Choices:
    folder = cache_folder()
    return Choices(TilingStore(folder / "tilings", figures) if folder is not None else None)


def timer_of(soc: SocSpec) -> Timer:
    """Runs a task in the state in which networks have it: L2 holds what it can of the tensors that it reads,
    but no weights.

    Where L2 is a cache, a task before it has just written them; else those that fit are placed there, as L2
    fusion would have it.
    """
    watch = Stopwatch(soc)

    def ticks(stage: Stage, weights: Collection[str]) -> int:
        accesses = accesses_of(stage.groups, stage.sizes)
        task = Task(0, "candidate", stage.kind, groups=stage.groups, accesses=accesses)
        memory = MemoryPlan.in_a_row(stage.sizes)
        read = {
            access.region: stage.sizes[access.region]
            for access in accesses
            if not access.write and access.region not in weights
        }
        managed = soc.l2.software_managed
        placed = _fitting({**read, **stage.sizes}, weights, soc.l2.size or 0) if managed else []
        before = {} if managed else read
        quick = watch.ticks(task, memory, before, placed)
        if quick is not None:
            return quick
        tasks = (_writer(soc, before), task) if before else (task,)
        trace = run(Program(tasks, memory, info=ProgramInfo(l2_placed=tuple(placed))), soc)
        (measured,) = (record for record in trace.tasks if record.task == 0)
        return measured.end - measured.start

    return ticks


def alone_on(soc: SocSpec) -> Callable[[Sequence[Stage]], int]:
    """Runs tasks one after the other on a chip that has done nothing before."""

    def ticks(stages: Sequence[Stage]) -> int:
        tasks = []
        sizes: dict[str, int] = {}
        for number, stage in enumerate(stages):
            tasks.append(task_of(stage, number, f"candidate{number}", soc))
            for name, size in stage.sizes.items():
                sizes.setdefault(name, size)
        program = Program(tuple(tasks), MemoryPlan.in_a_row(sizes))
        return max(record.end for record in run(program, soc).tasks)

    return ticks


def _writer(soc: SocSpec, sizes: Mapping[str, int]) -> Task:
    """A task that writes regions as a whole, one instruction each."""
    core, kind = vector_core(soc)
    body = [
        Move(Pipe.MTE3, Operand(Buffer.GM, name, size), Operand(Buffer.UB, "tensor", size), 1, size)
        for name, size in sizes.items()
    ]
    accesses = tuple([Access(name, size, size, True) for name, size in sizes.items()])
    return Task(1, "writer", kind, groups=(BlockGroup(Block(tuple(body), core=core), 1),), accesses=accesses)


def _fitting(sizes: Mapping[str, int], weights: Collection[str], capacity: int) -> list[str]:
    """The first of the tensors between tasks that fit into L2 together."""
    fitting: list[str] = []
    for name in sizes:
        if name not in weights and sum(sizes[other] for other in (*fitting, name)) <= capacity:
            fitting.append(name)
    return fitting
