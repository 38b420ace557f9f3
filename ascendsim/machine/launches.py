"""When the host has launched a task: at once if the whole graph is on the device, one after another
otherwise.

    sink    the graph with all of its tasks was loaded before; one launch starts everything
    host    the host runs through the compiled graph and launches task by task, `host_launch_us` each
    eager   a framework calls operator by operator, `eager_launch_us` each; further tasks of the same operator
            cost `host_launch_us`

The host does not wait for the device: it runs ahead where tasks take longer than their launch, and the device
waits where they are shorter. It waits for a copy out of memory that the device cannot read by itself, and
for one that brings it a value (`Task.host_waits`). Each value is a tick at which a task may start at the
earliest; the scheduler adds what the host waited for.
"""

from __future__ import annotations

from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import MODES, Program
from ascendsim.machine.clock import Clock
from ascendsim.soc.spec import LaunchSpec


def launch_ticks(program: Program, launch: LaunchSpec, clock: Clock) -> list[int]:
    """Ticks at which the host has launched the tasks of a program, in launch order.

    Raises:
        SimulationError: If the program's mode is unknown.
    """
    if program.mode not in MODES:
        raise SimulationError(
            "the mode of a program", f"must be one of {', '.join(MODES)}", repr(program.mode)
        )
    if program.mode == "sink":
        return [0] * len(program.tasks)
    task_ticks, call_ticks = clock.us(launch.host_launch_us), clock.us(launch.eager_launch_us)
    launched: list[int] = []
    now, before = 0, None
    for task in program.tasks:
        if task.kind.for_images:
            launched.append(now)
            continue
        called = program.mode == "eager" and task.nodes != before
        now += call_ticks if called else task_ticks
        launched.append(now)
        before = task.nodes
    return launched


def waited_for(program: Program) -> dict[int, int]:
    """Where the host waits: by the place of a task in launch order, that of the task that must have ended
    before it is launched.
    """
    found: dict[int, int] = {}
    last: int | None = None
    for position, task in enumerate(program.tasks):
        if last is not None and not task.kind.for_images:
            found[position], last = last, None
        if task.host_waits:
            last = position
    return found
