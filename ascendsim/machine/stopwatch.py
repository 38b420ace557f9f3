"""Times single tasks on a chip that does nothing else.

What `run` would say of a program of one task, without all that a run sets up: for those who try hundreds of
tasks of which they keep one. Instructions are costed once for all tasks, and shares of the links are worked
out once for all transfers that meet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from simpy import Environment

from ascendsim.isa.program import Access, MemoryPlan, Task
from ascendsim.machine.clock import Clock
from ascendsim.machine.known import Known
from ascendsim.machine.l2 import L2State
from ascendsim.machine.links import Links
from ascendsim.machine.placing import Delays
from ascendsim.machine.preparing import Preparation
from ascendsim.machine.solo import Solo
from ascendsim.soc.spec import SocSpec

MOST_TASKS = 4096  # after which what was worked out is forgotten, so that it does not grow without end


class Stopwatch:
    """Times tasks on one chip."""

    def __init__(self, soc: SocSpec) -> None:
        self._soc, self._clock = soc, Clock.of(soc)
        self._delays = Delays.of(soc.launch, self._clock)
        self._launch = self._clock.us(soc.launch.task_launch_us)
        self._forget()

    def _forget(self) -> None:
        self._env = Environment()
        self._links = Links(self._env, self._soc, self._clock)
        self._known = Known()
        self._timed = 0

    def ticks(
        self, task: Task, memory: MemoryPlan, written: Mapping[str, int], placed: Collection[str] = ()
    ) -> int | None:
        """Ticks from the task's start to its end; None if only `run` can tell, as while compiled code is not
        loaded.

        Args:
            task: What to run.
            memory: Where its regions lie.
            written: Bytes of regions that a task before it has written as a whole.
            placed: Regions that a software-managed L2 holds.

        Raises:
            SimulationError: It needs what the chip lacks.
            CompileError: An instruction that the chip lacks.
        """
        if self._soc.missing:
            return None
        self._timed += 1
        if self._timed > MOST_TASKS:
            self._forget()
        run = Preparation(self._env, self._soc, self._clock, self._known, alike=False).ready(0, task)
        l2 = L2State(self._soc.l2, memory, placed)
        if written:
            l2.enter((), [Access(name, size, size, True) for name, size in written.items()], {})
        run.enter_l2(l2, {})
        solo = Solo(self._soc, self._clock, self._links, self._delays, groups=True)
        ticks = solo.ticks(run) if run.unfinished else 0
        return None if ticks is None else self._launch + ticks
