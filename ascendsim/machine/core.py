"""One core, or a group of cores in lock-step, that runs a block: a scalar unit, its queues, and one process a pipe.

Everything inside a core is ordered by tokens that carry the tick at which they may be used: an instruction its issue time, a free
queue slot the time at which it became free, a flag the time at which it fires. A pipe therefore runs ahead of the simulated clock
as far as its tokens allow and computes start and end times by plain arithmetic; the result does not depend on who runs first (a
Kahn network). Only transfers to and from global memory, whose duration depends on other cores, enter SimPy's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from simpy import Environment
from simpy.events import Event

from ascendsim.isa.instructions import Instruction
from ascendsim.machine.compiled import END, FIXED, SET, WAIT, CompiledBlock, Operation, Run, walk_runs
from ascendsim.machine.links import Flow, Links

Record = Callable[[tuple[int, ...], str, Instruction, int, int], None]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer's demand, bound to what L2 holds when its task starts.

    Attributes:
        work: Work units to move.
        kind: Number of its flow class.
        latency: Ticks from the end of the transfer until its result is visible.
    """

    work: int
    kind: int
    latency: int


class Lane:
    """A pipe of a running core: its queue and what it has done."""

    __slots__ = ("busy", "complete", "first", "flow", "free", "last", "name", "queue", "sleep", "waiting")

    def __init__(self, name: str, depth: int, begin: int) -> None:
        self.name = name
        self.queue: deque[tuple[int, Operation]] = deque()
        self.free = deque([begin] * depth)  # ticks at which the free queue slots became free
        self.sleep: Event | None = None  # set while the pipe has no instruction
        self.waiting = ""  # what it waits for, for the deadlock report
        self.flow = Flow()
        self.busy = 0
        self.complete = begin  # tick at which all its results are visible
        self.first = -1
        self.last = -1


class CoreRun:
    """A block on one core, or on several in lock-step.

    Args:
        begin: Tick of the first instruction.
        transfers: By number of the block's link demands.
        flag_ticks: From the completion of everything before a set_flag to the waiting pipe going on.
        max_in_flight: Transfers of one pipe whose results may be outstanding at a time.
        record: Called with every instruction if the task is recorded.
        finished: Called with the run when its last instruction has been placed in time; `end` is known then.
    """

    def __init__(
        self,
        env: Environment,
        links: Links,
        block: CompiledBlock,
        cores: tuple[int, ...],
        begin: int,
        transfers: Sequence[Transfer],
        flag_ticks: int,
        max_in_flight: int,
        record: Record | None,
        finished: Callable[[CoreRun], None],
    ) -> None:
        self.env, self.links, self.block, self.cores, self.begin = env, links, block, cores, begin
        self.transfers, self.flag_ticks, self.max_in_flight = transfers, flag_ticks, max_in_flight
        self.record, self.finished = record, finished
        self.tokens: list[deque[int]] = [deque([begin] * flag.initial) for flag in block.flags]
        self.waiters: list[Event | None] = [None] * len(block.flags)
        self.lanes = [Lane(pipe.value, depth, begin) for pipe, depth in zip(block.lanes, block.depths, strict=True)]
        self.running = len(self.lanes)
        self.scalar = ScalarUnit(self)
        self.end = begin

    def start(self) -> None:
        """Starts the scalar unit and the pipes."""
        for lane in self.lanes:
            self.env.process(_pipe(self, lane))
        self.scalar.feed()

    def retire(self) -> None:
        """Notes that a pipe, or the scalar unit, has come to its end; the last one ends the block."""
        if self.running == 0 and self.scalar.done:
            self.end = max([self.scalar.time] + [lane.complete for lane in self.lanes])
            self.finished(self)

    def waiting(self) -> list[str]:
        """What every pipe that has not come to its end waits for."""
        lines = [] if self.scalar.done else [f"S waits for {self.scalar.waiting}"]
        return lines + [f"{lane.name} waits for {lane.waiting}" for lane in self.lanes if lane.waiting]


class ScalarUnit:
    """Walks the block in program order and puts instructions into the queues.

    It has no process: it walks when a pipe runs dry, until a queue is full or it waits for a flag itself, and computes the issue
    times from the ticks at which queue slots became free. `wanted` is the full queue's slots while some pipe sleeps, so that the
    pipe that frees one calls back.
    """

    __slots__ = ("_core", "_position", "_run", "_walk", "asleep", "busy", "done", "time", "waiting", "wanted")

    def __init__(self, core: CoreRun) -> None:
        self._core = core
        self._walk = walk_runs(core.block.items)
        self._run: Run = ()
        self._position = 0
        self.time = core.begin
        self.busy = 0
        self.asleep = 0  # pipes that wait for what only this unit can give
        self.done = False
        self.waiting = ""
        self.wanted: deque[int] | None = None

    def feed(self) -> None:
        """Issues as many instructions as the queues take."""
        if self.done:
            return
        lanes = self._core.lanes
        run, position, time, busy = self._run, self._position, self.time, self.busy
        stuck: deque[int] | None = None
        going = True
        while going:
            for index in range(position, len(run)):
                number, issue, operation = run[index]
                if number >= 0:
                    lane = lanes[number]
                    free = lane.free
                    if not free:
                        stuck = free
                        self.waiting = f"a free slot in the queue of {lane.name}"
                        position, going = index, False
                        break
                    slot = free.popleft()
                    if slot > time:
                        time = slot
                    time += issue
                    busy += issue
                    lane.queue.append((time, operation))
                    if lane.sleep is not None:
                        lane.sleep.succeed()
                        lane.sleep = None
                        self.asleep -= 1
                else:
                    after = self._own(operation, issue, time)
                    if after is None:
                        position, going = index, False
                        break
                    busy += after[0]
                    time = after[1]
            else:
                run, position = next(self._walk, END), 0
                if run is END:
                    self.done, going = True, False
        self._run, self._position, self.time, self.busy = run, position, time, busy
        self.wanted = stuck if self.asleep else None
        if self.done:
            self._finish()

    def _own(self, operation: Operation, issue: int, time: int) -> tuple[int, int] | None:
        """An instruction of the scalar unit itself; returns busy ticks and the time after it, None if it must wait for a flag."""
        core = self._core
        kind, detail = operation[0], operation[1]
        if kind == FIXED:
            if core.record is not None:
                core.record(core.cores, "S", operation[-1], time, time + detail)
            return detail, time + detail
        if kind == SET:
            fire(core, detail, time + issue + core.flag_ticks)
            return issue, time + issue
        tokens = core.tokens[detail]
        if not tokens:
            event = core.waiters[detail] = Event(core.env)
            event.callbacks.append(lambda _event: self.feed())
            self.waiting = f"flag {core.block.flags[detail].name!r}"
            return None
        return issue, max(time, tokens.popleft()) + issue

    def _finish(self) -> None:
        for lane in self._core.lanes:
            if lane.sleep is not None:
                lane.sleep.succeed()
                lane.sleep = None
        self.asleep = 0
        self._core.retire()


def fire(core: CoreRun, flag: int, at: int) -> None:
    """Adds a token that counts from tick `at` on."""
    core.tokens[flag].append(at)
    waiter = core.waiters[flag]
    if waiter is not None:
        core.waiters[flag] = None
        waiter.succeed()


def _pipe(core: CoreRun, lane: Lane) -> Generator[Event, None, None]:
    """The process of one pipe: takes instructions in order and gives each its start and end."""
    env, scalar, links = core.env, core.scalar, core.links
    queue, free = lane.queue, lane.free
    tokens, waiters, transfers = core.tokens, core.waiters, core.transfers
    flag_ticks, record, cores, name = core.flag_ticks, core.record, core.cores, lane.name
    ready = [0] * core.block.operands  # tick at which each vector operand's last result is visible
    in_flight: deque[int] = deque([core.begin] * core.max_in_flight)
    local = arrival = complete = core.begin  # end of the last instruction or wait; when the next one could have begun on an idle unit
    busy = 0
    while True:
        if not queue:
            scalar.feed()
            if not queue:
                if scalar.done:
                    break
                lane.waiting = "an instruction"
                sleep = lane.sleep = Event(env)
                scalar.asleep += 1
                scalar.wanted = None
                scalar.feed()
                yield sleep
                lane.waiting = ""
                continue
        issue, operation = queue.popleft()
        if issue > arrival:
            arrival = issue
            if issue > local:
                local = issue
        free.append(local)
        if scalar.wanted is free:
            scalar.feed()
        kind = operation[0]
        if kind == FIXED:
            _, occupancy, latency, head, reads, write, instruction = operation
            start = local
            if arrival + head > start:
                start = arrival + head
            for operand in reads:
                if ready[operand] > start:
                    start = ready[operand]
            if lane.first < 0:
                lane.first = start
            local = start + occupancy
            busy += occupancy
            lane.last = local
            if local + latency > complete:
                complete = local + latency
            if write >= 0:
                ready[write] = local + latency
            if record is not None:
                record(cores, name, instruction, start, local)
        elif kind == WAIT:
            flag = operation[1]
            arrived = tokens[flag]
            while not arrived:
                lane.waiting = f"flag {core.block.flags[flag].name!r}"
                waiter = waiters[flag] = Event(env)
                if core.block.scalar_sets:
                    scalar.asleep += 1
                    scalar.feed()
                yield waiter
                if core.block.scalar_sets:
                    scalar.asleep -= 1
                lane.waiting = ""
            at = arrived.popleft()
            if at > arrival:
                arrival = at
                if at > local:
                    local = at
        elif kind == SET:
            fire(core, operation[1], (complete if complete > local else local) + flag_ticks)
        else:
            _, occupancy, index, instruction = operation
            transfer = transfers[index]
            outstanding = in_flight.popleft()
            if outstanding > local:
                local = outstanding
            start = local
            flow = lane.flow
            flow.remaining, flow.kind = transfer.work, transfer.kind
            lane.waiting = "its transfer"
            yield links.enter(flow, start + occupancy)
            lane.waiting = ""
            local = int(env.now)
            busy += local - start
            if local + transfer.latency > complete:
                complete = local + transfer.latency
            in_flight.append(complete)
            if record is not None:
                record(cores, name, instruction, start, local)
    lane.busy, lane.complete = busy, max(complete, local)
    core.running -= 1
    core.retire()
