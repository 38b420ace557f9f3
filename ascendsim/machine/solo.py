"""Tasks that have the cores to themselves, walked by compiled code.

A task that comes to free cores is a closed system until it ends: nobody else uses the links, and what L2
holds acts through the shares that its transfers are bound to. So it can be walked from its arrival to its end
without SimPy, in arrays, twenty times as fast; what comes out is what `machine.replay` keeps of a task. SimPy
stays the machine: it runs whatever is not so simple, and tasks of which instructions are recorded.

Left to SimPy are tasks whose blocks do not all find a core at once, those so long that skipping periods is
quicker, and what goes beyond the arrays (`solo_walk`). Loading compiled code takes longer than all that a
small network has to simulate, so it is loaded when a process has simulated about as much as that takes.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import END, CompiledBlock, LoopEnd
from ascendsim.machine.free_cores import FreeCores
from ascendsim.machine.links import Links
from ascendsim.machine.outcome import Outcome
from ascendsim.machine.placing import Delays, Placed, place
from ascendsim.machine.tasks import TaskRun
from ascendsim.soc.spec import SocSpec

if TYPE_CHECKING:
    from ascendsim.machine.solo_walk import Walker

# SimPy skips periods of what is longer, which takes less time than walking all of it.
LONGEST = 1_000_000
# SimPy takes about as long for a task as for a hundred instructions, and skips most of what lies beyond some
# thousands. In the time that it takes for so many numba and the code that it kept are loaded; a process that
# has called compiled code for values needs a fraction of that.
EACH_TASK, EACH_AT_MOST = 100, 2_000
LOAD_AFTER, WITH_NUMBA = 250_000, 20_000
KERNELS_RAN = "numba.np.arraymath"  # loaded with the first call of compiled code
KERNELS = "ascendsim_kernels.block_walk"


class _Budget:
    """Instructions that the process has had SimPy simulate although compiled code could walk them."""

    def __init__(self) -> None:
        self.spent = 0

    def pays(self, instructions: int) -> bool:
        """Whether compiled code is there, or worth to be loaded by now."""
        if KERNELS in sys.modules:
            return True
        self.spent += EACH_TASK + min(instructions, EACH_AT_MOST)
        return self.spent > (WITH_NUMBA if KERNELS_RAN in sys.modules else LOAD_AFTER)


_BUDGET = _Budget()


class Solo:
    """Walks tasks of a run.

    Args:
        groups: Whether blocks that do the same are walked once.
    """

    def __init__(self, soc: SocSpec, clock: Clock, links: Links, delays: Delays, groups: bool) -> None:
        self._soc, self._clock, self._links = soc, clock, links
        self._delays, self._groups = delays, groups
        self._lengths: dict[int, int] = {}

    def walk(self, run: TaskRun) -> Outcome | None:
        """What a task that arrives at free cores will do; None if that is left to SimPy."""
        executed = [self._length(block.compiled) for block in run.blocks]
        if sum(executed) > LONGEST or not _BUDGET.pays(sum(executed)):
            return None
        batch = self._all_together(run)
        return self._loaded.walk(run, batch, self._delays, executed) if batch else None

    def ticks(self, run: TaskRun) -> int | None:
        """Ticks from a task's arrival at free cores to its end; None if that is left to SimPy, as it is while
        compiled code is not loaded.
        """
        executed = [self._length(block.compiled) for block in run.blocks]
        if sum(executed) > LONGEST or KERNELS not in sys.modules:
            return None
        batch = self._all_together(run)
        return self._loaded.ticks(run, batch, self._delays, executed) if batch else None

    def _all_together(self, run: TaskRun) -> list[Placed]:
        """Where the blocks of a task go, if all of them find a core at once."""
        left = [block.count for block in run.blocks]
        batch = place(run, left, FreeCores(self._soc), self._groups)
        return [] if any(left) else batch

    @cached_property
    def _loaded(self) -> Walker:
        from ascendsim.machine.solo_walk import Walker  # brings numba

        return Walker(self._soc, self._clock, self._links)

    def _length(self, block: CompiledBlock) -> int:
        known = self._lengths.get(block.number)
        if known is None:
            known = self._lengths[block.number] = length(block)
        return known


def length(block: CompiledBlock) -> int:
    """Instructions that a block executes, ends of loops included."""
    times = [1] * len(block.code)
    for position, step in enumerate(block.code):
        if isinstance(step, LoopEnd):
            for inner in range(step.first, position + 1):
                times[inner] *= step.trips
    return sum(
        count * (1 if isinstance(step, LoopEnd) else len(step))
        for count, step in zip(times, block.code, strict=True)
        if step is not END
    )
