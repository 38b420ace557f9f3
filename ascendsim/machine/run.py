"""Runs a program on a chip: the machine's only entry."""

from __future__ import annotations

from collections.abc import Callable, Container

from simpy import Environment

from ascendsim.core.collection import without_collection
from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import Program
from ascendsim.machine.clock import Clock
from ascendsim.machine.fast_forward import Statistics
from ascendsim.machine.known import Known
from ascendsim.machine.log import Log
from ascendsim.machine.scheduler import Scheduler
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace


@without_collection
def run(
    program: Program,
    soc: SocSpec,
    *,
    instructions: bool | Container[int] = False,
    groups: bool = True,
    fast_forward: bool = True,
    replay: bool = True,
    solo: bool = True,
    known: Known | None = None,
    statistics: Statistics | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Simulates a program.

    Args:
        program: Streams of tasks.
        soc: The chip.
        instructions: Whether to keep a record of every instruction; a container of task ids keeps those
            tasks' only.
        groups: Simulate equal blocks that start together once, with their number on the shared links. The
            result is the same without; False is the slow way to check that.
        fast_forward: Skip whole periods when the machine comes back to a state that it was in before. The
            result is the same without.
        replay: Look up tasks that were simulated before from the same state. The result is the same without.
        solo: With `replay`, let compiled code walk tasks that have the cores to themselves, once a process
            has simulated so much that loading it pays. The result is the same without.
        known: What other runs on the same chip have worked out, with all shortcuts as this one; it learns.
            The result is the same without.
        statistics: Counts what the shortcuts saved.
        progress: Called with the number of finished tasks and of all tasks after each task.

    Returns:
        The trace; times are ticks that divide every clock of the chip.

    Raises:
        SimulationError: A deadlock, a chip that cannot be run, or a task that needs cores which the chip
            lacks.
        CompileError: An instruction that the chip lacks.
    """
    if soc.missing:
        raise SimulationError(
            f"{soc.name}", "cannot be run", remedy="set what is not known: " + ", ".join(soc.missing)
        )
    clock = Clock.of(soc)
    known = Known() if known is None else known
    known.make_room()
    log = Log()
    env = Environment()
    scheduler = Scheduler(
        env,
        program,
        soc,
        clock,
        instructions=instructions,
        groups=groups,
        fast_forward=fast_forward,
        replay=replay,
        solo=solo,
        log=log,
        known=known,
        statistics=statistics or Statistics(),
        progress=progress,
    )
    scheduler.start()
    env.run()
    scheduler.check_finished()
    order = {task.id: position for position, task in enumerate(program.tasks)}
    tasks = tuple(sorted(scheduler.records, key=lambda task: (task.end, task.task)))
    return Trace(
        tick_seconds=clock.tick_seconds,
        core_ticks=clock.ai_ticks,
        tasks=tasks,
        instructions=tuple(
            sorted(
                log.expanded(),
                key=lambda item: (item.start, item.end, order[item.task], item.cores, item.pipe),
            )
        ),
        end=max((task.end for task in tasks), default=0),
    )
