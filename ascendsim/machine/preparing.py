"""Makes tasks ready to run: blocks compiled once each, flags between cores wired."""

from __future__ import annotations

from simpy import Environment
from simpy.events import Event

from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import Block, Task, TaskKind
from ascendsim.machine.block_key import block_key, regions_of
from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import CompiledBlock, compile_block
from ascendsim.machine.free_cores import FreeCores, core_text
from ascendsim.machine.known import Known
from ascendsim.machine.tasks import PlacedBlock, TaskRun
from ascendsim.soc.spec import SocSpec


class Preparation:
    """Prepares the tasks of one program, which it takes to stay alive.

    Args:
        env: Of the ends of tasks.
        known: What others have worked out for this chip.
        alike: Whether blocks may be alike, so that it pays to look for those that are.
    """

    def __init__(
        self, env: Environment, soc: SocSpec, clock: Clock, known: Known, alike: bool = True
    ) -> None:
        self._env, self._soc, self._clock = env, soc, clock
        self._known, self._alike = known, alike
        self._numbers = FreeCores(soc).numbers
        self._core_counts = {kind: len(numbers) for kind, numbers in self._numbers.items()}
        self._regions: dict[int, tuple[CompiledBlock, tuple[str, ...]]] = {}

    def ready(self, position: int, task: Task) -> TaskRun:
        """A task at a place in launch order.

        Raises:
            SimulationError: It needs what the chip lacks.
            CompileError: An instruction that the chip lacks.
        """
        blocks = []
        for group in task.groups:
            if group.count < 1:
                raise SimulationError(
                    f"task {task.name!r}", "must have at least one block in every group", group.count
                )
            if not self._core_counts[group.block.core]:
                raise SimulationError(
                    f"task {task.name!r}",
                    f"needs a {group.block.core.value} core",
                    f"one of the {core_text(self._numbers)} of {self._soc.name}",
                    "compile the graph for this chip",
                )
            blocks.append(PlacedBlock(*self._compile(group.block), group.count))
        if task.kind is TaskKind.AI_CPU and self._soc.ai_cpu.cores < 1:
            raise SimulationError(f"task {task.name!r}", "needs an AI CPU core", 0, "set ai_cpu.cores")
        barrier = self._clock.ns(self._soc.issue.barrier_ns)
        run = TaskRun(position, task, blocks, Event(self._env), self._core_counts, barrier)
        for kind, count in run.wanted_cores.items():
            if run.wiring.together and count > self._core_counts[kind]:
                raise SimulationError(
                    f"task {task.name!r}",
                    f"has a barrier, so it may have {self._core_counts[kind]} blocks at most",
                    count,
                    "give every core one block",
                )
        return run

    def _compile(self, block: Block) -> tuple[CompiledBlock, tuple[str, ...]]:
        """The compiled form that all blocks like this one share, and this one's names of regions."""
        known = self._regions.get(id(block))  # the program keeps every block alive, so ids stay unique
        if known is None:
            known = self._regions[id(block)] = self._compile_new(block)
        return known

    def _compile_new(self, block: Block) -> tuple[CompiledBlock, tuple[str, ...]]:
        if block.template is not block:
            compiled, regions = self._compile(block.template)
            return compiled, tuple([block.region(name) for name in regions])
        if not self._alike:
            regions = regions_of(block)
            return self._compiled(block, regions), regions
        key, regions = block_key(block)
        known = self._known.blocks.get(key)
        if known is None:
            known = self._known.blocks[key] = self._compiled(block, regions)
        return known, regions

    def _compiled(self, block: Block, regions: tuple[str, ...]) -> CompiledBlock:
        number = self._known.number()
        return compile_block(block, self._soc, self._clock, number, regions, self._known.prices)
