"""Tasks on cores the slow way: tick after tick, everybody is asked whether there is something to do.

Written from the description at the head of `machine.scheduler`, for blocks whose time is known beforehand
(they touch no global memory).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ascendsim.isa.program import Block, CoreKind, Program, Task, TaskKind
from ascendsim.soc.spec import SocSpec


@dataclass
class Running:
    """A task between its start and its end.

    Attributes:
        ready, start, end: As in its record; -1 before that is known.
        launch: Ticks between which the host launches it.
        arrival: When it reaches the cores.
        left: Blocks of each group that no core has taken yet.
        working: Ends of those that run.
    """

    task: Task
    position: int
    ready: int = -1
    start: int = -1
    end: int = -1
    arrival: int = -1
    launch: tuple[int, int] = (-1, -1)
    left: list[int] = field(default_factory=list)
    working: list[int] = field(default_factory=list)
    arrived: bool = False
    began: bool = False


@dataclass(frozen=True)
class Placed:
    """A block that ran."""

    task: int
    core: int
    begin: int
    end: int


class TickByTick:
    """A chip of one clock, with one tick a nanosecond.

    Args:
        duration: Ticks of a block once it begins.
    """

    def __init__(self, program: Program, soc: SocSpec, duration: Callable[[Block], int]) -> None:
        self.program, self.soc, self.duration = program, soc, duration
        self.tasks = [
            Running(task, position, left=[group.count for group in task.groups])
            for position, task in enumerate(program.tasks)
        ]
        first = list(range(soc.ai_cores))
        second = list(range(soc.ai_cores, soc.ai_cores + soc.vector_cores))
        mine = CoreKind.CUBE if soc.split_cores else CoreKind.AI
        self.free = {CoreKind.AI: [], CoreKind.CUBE: [], CoreKind.VECTOR: second} | {mine: first}
        self.cpu_free = [0] * soc.ai_cpu.cores
        self.busy: list[tuple[int, CoreKind, int]] = []  # end, kind and number of cores at work
        self.queue: list[Running] = []  # with blocks that wait for a core, first come first served
        self.placed: list[Placed] = []
        self.now = 0

    def run(self, most: int = 100_000) -> list[Running]:
        """All tasks, with their times."""
        while any(task.end < 0 or task.end > self.now for task in self.tasks):
            while self.step():
                pass
            self.now += 1
            assert self.now < most, "nothing happens any more"
        return self.tasks

    def step(self) -> bool:
        """What happens in this tick; tells whether there may be more of it."""
        now, moved = self.now, False
        for end, kind, core in list(self.busy):
            if end == now:
                self.busy.remove((end, kind, core))
                self.free[kind] = sorted([*self.free[kind], core])
                moved = True
        for task in self.tasks:
            if (
                task.end < 0
                and task.arrived
                and not any(task.left)
                and all(end <= now for end in task.working)
            ):
                task.end, moved = now, True
        for task in self.tasks:
            if task.ready < 0 and self.may_start(task):
                task.ready, moved = now, True
        for task in self.tasks:
            if task.start < 0 <= task.ready and self.may_launch(task):
                self.launch(task)
                moved = True
        for task in self.tasks:  # in launch order
            if task.start == now and task.task.kind is TaskKind.AI_CPU and not task.began:
                task.began = moved = True
                self.on_ai_cpu(task)
        for task in self.tasks:
            if task.arrival == now and not task.arrived:
                task.arrived = moved = True
                self.queue.append(task)
        for task in list(self.queue):
            moved |= self.place(task)
            if not any(task.left):
                self.queue.remove(task)
        return moved

    def may_start(self, task: Running) -> bool:
        before = [other for other in self.tasks[: task.position] if other.task.stream == task.task.stream]
        waited = [other for other in self.tasks if other.task.id in task.task.waits_for]
        if self.host_waited(task.position):
            waited.append(self.tasks[task.position - 1])
        return all(0 <= other.end <= self.now for other in (*before[-1:], *waited))

    def host_waited(self, position: int) -> bool:
        """Whether the host waits for the end of one task before it launches the next."""
        return self.program.mode != "sink" and position > 0 and self.tasks[position - 1].task.host_waits

    def may_launch(self, task: Running) -> bool:
        """The host launches in order, and gets no further than a task for which it must read a value."""
        looking = [
            other
            for other in self.tasks[: task.position]
            if other.task.read_backs or self.host_waited(other.position)
        ]
        return self.program.mode == "sink" or all(other.ready >= 0 for other in looking)

    def launch(self, task: Running) -> None:
        launch = self.soc.launch
        gap, way = round(launch.task_gap_us * 1000), round(launch.task_launch_us * 1000)
        alone = not any(other.task.stream == task.task.stream for other in self.tasks[: task.position])
        task.start = task.ready + task.task.decisions * (gap + way) + (0 if alone else gap)
        if self.program.mode != "sink":
            task.launch = self.host(task)
            task.start = max(task.start, task.launch[1])
        if task.task.kind is not TaskKind.AI_CPU:
            task.arrival = task.start + way

    def host(self, task: Running) -> tuple[int, int]:
        """Begin and end of a task's launch, by going through all launches before it."""
        launch = self.soc.launch
        one, call = round(launch.host_launch_us * 1000), round(launch.eager_launch_us * 1000)
        begin = end = 0
        for position, other in enumerate(self.tasks[: task.position + 1]):
            before = self.tasks[position - 1].task.nodes if position else None
            cost = call if self.program.mode == "eager" and other.task.nodes != before else one
            begin, end = end, end + cost
            if other.task.read_backs or self.host_waited(position):
                # the device comes to its end, each value is copied, then the launch goes on
                late = other.ready + other.task.read_backs * one + cost - end
                begin, end = begin + max(0, late), end + max(0, late)
        return begin, end

    def on_ai_cpu(self, task: Running) -> None:
        spec = self.soc.ai_cpu
        core = self.cpu_free.index(min(self.cpu_free))
        begin = max(self.now + round(spec.dispatch_us * 1000), self.cpu_free[core])
        self.cpu_free[core] = begin + round((spec.overhead_us + task.task.cpu_us) * 1000)
        task.working, task.arrived = [self.cpu_free[core]], True

    def place(self, task: Running) -> bool:
        """Gives the free cores to a task's blocks; all that are dispatched together begin together."""
        taken: list[tuple[Block, int]] = []
        for number, group in enumerate(task.task.groups):
            free = self.free[group.block.core]
            while task.left[number] and free:
                task.left[number] -= 1
                taken.append((group.block, free.pop(0)))
        further = len(taken) if task.began else len(taken) - 1
        launch = self.soc.launch
        begin = self.now + further * round(launch.block_dispatch_ns) + round(launch.kernel_init_ns)
        for block, core in taken:
            task.began = True
            end = begin + self.duration(block)
            self.busy.append((end, block.core, core))
            task.working.append(end)
            self.placed.append(Placed(task.task.id, core, begin, end))
        return bool(taken)
