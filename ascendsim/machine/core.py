"""One core, or a group of cores in lock-step, that runs a block: a scalar unit, its queues, and one generator
a pipe.

Everything inside a core is ordered by tokens that carry the tick at which they may be used: an instruction
its issue time, a free queue slot the time at which it became free, a flag the time at which it fires. A pipe
therefore runs ahead of the simulated clock as far as its tokens allow and computes start and end times by
plain arithmetic; the result does not depend on who runs first (a Kahn network). Only transfers to and from
global memory, whose duration depends on other cores, enter SimPy's time.

Ticks in here are SimPy's; what goes in (`begin`) and comes out (`end`, records, first and last) are ticks of
the machine, which counts skipped periods too (`machine.skipping_clock`). Before a pipe waits it leaves its
state in its `Lane`, where `machine.fast_forward` reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from ascendsim.core.records import quickly_made
from ascendsim.isa.instructions import Flag, Instruction
from ascendsim.machine.barrier import Member, Wire
from ascendsim.machine.compiled import BARRIER, END, FIXED, SET, WAIT, CompiledBlock, LoopEnd, Operation, Run
from ascendsim.machine.links import Flow, Links, nothing
from ascendsim.machine.skipping_clock import Timeline

NO_WIRES: Mapping[str, Wire] = MappingProxyType({})
Record = Callable[[tuple[int, ...], str, Instruction, int, int], None]


@quickly_made
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
    """A pipe of a running core: its queue and what it has done.

    Attributes:
        queue: Issue ticks and operations of what waits in the queue.
        free: Ticks at which the free queue slots became free.
        sleep: Whether the pipe waits for an instruction.
        go: Lets it go on from where it waits.
        doing: The operation that holds it up, an empty one while it has none, None if nothing does.
        times: Of the last wait: end of the last instruction, arrival, completion, start of the transfer (as
            in `_pipe`).
        ready: Tick at which each vector operand's last result is visible.
        in_flight: Ticks at which the last transfers were complete.
        busy: Busy ticks up to the last wait, and `skipped_busy` those in skipped periods.
        first, last: Start of the first and end of the last instruction since `settle`, -1 if none, in SimPy's
            ticks.
        first_tick, last_tick: The same over everything up to `settle`, in ticks of the machine.
        touched: Number of times that `settle` found something new.
    """

    __slots__ = (
        "busy",
        "complete",
        "doing",
        "first",
        "first_tick",
        "flow",
        "free",
        "go",
        "in_flight",
        "last",
        "last_tick",
        "name",
        "queue",
        "ready",
        "skipped_busy",
        "sleep",
        "times",
        "touched",
    )

    def __init__(self, name: str, depth: int, begin: int, operands: int, max_in_flight: int) -> None:
        self.name = name
        self.queue: deque[tuple[int, Operation]] = deque()
        self.free = deque([begin] * depth)
        self.sleep = False
        self.go: Callable[[], object] = nothing
        self.doing: Operation | None = None
        self.times = (begin, begin, begin, begin)
        self.ready = [0] * operands
        self.in_flight = deque([begin] * max_in_flight)
        self.flow = Flow()
        self.busy = self.skipped_busy = 0
        self.complete = begin
        self.first = self.last = self.first_tick = self.last_tick = -1
        self.touched = 0

    def settle(self, skipped: int) -> None:
        """Turns `first` and `last` into ticks of the machine; due before the number of skipped ticks
        changes.
        """
        if self.last >= 0:
            if self.first_tick < 0:
                self.first_tick = self.first + skipped
            self.last_tick, self.last = self.last + skipped, -1
            self.touched += 1


class CoreRun:
    """A block on one core, or on several in lock-step.

    Args:
        begin: Tick of the machine of the first instruction.
        transfers: By number of the block's link demands.
        flag_ticks: From the completion of everything before a set_flag to the waiting pipe going on.
        max_in_flight: Transfers of one pipe whose results may be outstanding at a time.
        record: Called with every instruction if the task is recorded.
        passed: Called with the run and the number of a loop when the scalar unit goes back to the loop's
            start.
        finished: Called with the run when its last instruction has been placed in time; `end` is known then.
        wires: The flags that it shares with other cores, by name.
    """

    def __init__(
        self,
        timeline: Timeline,
        links: Links,
        block: CompiledBlock,
        cores: tuple[int, ...],
        begin: int,
        *,
        transfers: Sequence[Transfer],
        flag_ticks: int,
        max_in_flight: int,
        record: Record | None,
        passed: Callable[[CoreRun, int], None] | None,
        finished: Callable[[CoreRun], None],
        wires: Mapping[str, Wire] = NO_WIRES,
    ) -> None:
        self.timeline, self.env, self.links, self.block, self.cores = (
            timeline,
            timeline.env,
            links,
            block,
            cores,
        )
        self.begin = begin = begin - timeline.skipped
        self.transfers, self.flag_ticks = transfers, flag_ticks
        self.record, self.passed, self.finished = record, passed, finished
        self.tokens: list[deque[int]] = [
            deque([begin] * flag.initial if isinstance(flag, Flag) else ()) for flag in block.flags
        ]
        self.waiters: list[Callable[[], object] | None] = [None] * len(block.flags)
        self.wake = timeline.wakes.wake
        self.barriers: dict[int, Member] = {}
        for number, flag in enumerate(block.flags):
            if flag.name in wires:
                self.barriers[number] = Member(wires[flag.name].sets, len(cores))
                wires[flag.name].hears.heard.append(partial(give, self, number))
        lanes = zip(block.lanes, block.depths, strict=True)
        self.lanes = [Lane(pipe.value, depth, begin, block.operands, max_in_flight) for pipe, depth in lanes]
        self.running = len(self.lanes)
        self.scalar = ScalarUnit(self)
        self.end = begin

    def start(self) -> None:
        """Starts the scalar unit and the pipes."""
        self.begin_pipes(self.lanes)
        self.scalar.feed()

    def begin_pipes(self, lanes: Sequence[Lane]) -> None:
        """Lets pipes begin in this tick, in the order in which they are given."""
        for lane in lanes:
            lane.go = partial(next, _pipe(self, lane), None)
            lane.flow.done = partial(self.wake, lane.go)
        self.timeline.wakes.begin([lane.go for lane in lanes])

    def retire(self) -> None:
        """Notes that a pipe, or the scalar unit, has come to its end; the last one ends the block."""
        if self.running == 0 and self.scalar.done:
            skipped = self.timeline.skipped
            self.end = max([self.scalar.time] + [lane.complete for lane in self.lanes]) + skipped
            for lane in self.lanes:
                lane.settle(skipped)
                lane.busy += lane.skipped_busy
            self.finished(self)

    def release(self) -> None:
        """Lets go of what holds it in a circle, when all is known of it: a machine that has run is gone then
        without Python's collector of cyclic garbage, which would walk all of it.
        """
        del self.scalar
        self.barriers = {}

    def waiting(self) -> list[str]:
        """What every pipe waits for that has an instruction and cannot go on with it."""
        lines = [] if self.scalar.done else [f"S waits for {self.scalar.waiting()}"]
        return lines + [
            f"{lane.name} waits for {self._reason(lane.doing)}" for lane in self.lanes if lane.doing
        ]

    def _reason(self, doing: Operation) -> str:
        return self.block.flags[doing[1]].text if doing[0] == WAIT else "its transfer"


class ScalarUnit:
    """Walks the block in program order and puts instructions into the queues.

    It has no process: it walks when a pipe runs dry, until a queue is full or it waits for a flag itself, and
    computes the issue times from the ticks at which queue slots became free. `wanted` is the full queue's
    slots while some pipe sleeps, so that the pipe that frees one calls back.

    Attributes:
        step: Index of the next step of the block's code.
        position: Index of the next entry in the current run, and `run` that run.
        counters: Trips that each loop has behind it, by number of the loop; 0 outside the loop.
        asleep: Pipes that wait for what only this unit can give.
        full: Number of the lane whose full queue stopped it, -1 if none.
        flag: Number of the flag that it waits for, -1 if none.
    """

    __slots__ = (
        "_core",
        "asleep",
        "busy",
        "counters",
        "done",
        "flag",
        "full",
        "position",
        "run",
        "step",
        "time",
        "wanted",
    )

    def __init__(self, core: CoreRun) -> None:
        self._core = core
        self.step = 0
        self.counters = [0] * len(core.block.trips)
        self.run: Run = ()
        self.position = 0
        self.time = core.begin
        self.busy = 0
        self.asleep = 0
        self.done = False
        self.full = self.flag = -1
        self.wanted: deque[int] | None = None

    def waiting(self) -> str:
        """What stopped it."""
        core = self._core
        return (
            core.block.flags[self.flag].text
            if self.flag >= 0
            else f"a free slot in the queue of {core.lanes[self.full].name}"
        )

    def feed(self) -> None:
        """Issues as many instructions as the queues take."""
        if self.done:
            return
        lanes = self._core.lanes
        run, position, time, busy = self.run, self.position, self.time, self.busy
        full = self.flag = -1
        going = True
        while going:
            for index in range(position, len(run)):
                number, issue, operation = run[index]
                if number >= 0:
                    lane = lanes[number]
                    free = lane.free
                    if not free:
                        full = number
                        position, going = index, False
                        break
                    slot = free.popleft()
                    if slot > time:
                        time = slot
                    time += issue
                    busy += issue
                    lane.queue.append((time, operation))
                    if lane.sleep:
                        lane.sleep = False
                        self.asleep -= 1
                        self._core.wake(lane.go)
                else:
                    after = self._own(operation, issue, time)
                    if after is None:
                        position, going = index, False
                        break
                    busy += after[0]
                    time = after[1]
            else:
                run, position = self._next_run(), 0
                if run is END:
                    self.done, going = True, False
        self.run, self.position, self.time, self.busy, self.full = run, position, time, busy, full
        self.wanted = lanes[full].free if full >= 0 and self.asleep else None
        if self.done:
            self._finish()

    def _next_run(self) -> Run:
        """Goes on to the next run of the block, back to the start of loops that have trips left."""
        core, counters = self._core, self.counters
        code = core.block.code
        step = code[self.step]
        self.step += 1
        while isinstance(step, LoopEnd):
            loop = step.loop
            counters[loop] += 1
            if counters[loop] < step.trips:
                self.step = step.first
                if core.passed is not None:
                    core.passed(core, loop)
            else:
                counters[loop] = 0
            step = code[self.step]
            self.step += 1
        return step

    def _own(self, operation: Operation, issue: int, time: int) -> tuple[int, int] | None:
        """An instruction of the scalar unit itself; returns busy ticks and the time after it, None if it must
        wait for a flag.
        """
        core = self._core
        kind, detail = operation[0], operation[1]
        if kind == FIXED:
            if core.record is not None:
                skipped = core.timeline.skipped
                core.record(core.cores, "S", operation[-1], time + skipped, time + detail + skipped)
            return detail, time + detail
        if kind == SET:
            fire(core, detail, time + issue + core.flag_ticks)
            return issue, time + issue
        tokens = core.tokens[detail]
        if not tokens:
            core.waiters[detail] = self.feed
            self.flag = detail
            return None
        return issue, max(time, tokens.popleft()) + issue

    def _finish(self) -> None:
        for lane in self._core.lanes:
            if lane.sleep:
                lane.sleep = False
                self._core.wake(lane.go)
        self.asleep = 0
        self._core.retire()


def fire(core: CoreRun, flag: int, at: int) -> None:
    """Sets a flag: a token that counts from tick `at` on, or an arrival at a barrier."""
    if flag in core.barriers:
        core.barriers[flag].arrive(at)
    else:
        give(core, flag, at)


def give(core: CoreRun, flag: int, at: int) -> None:
    """Adds a token that counts from tick `at` on."""
    core.tokens[flag].append(at)
    waiter = core.waiters[flag]
    if waiter is not None:
        core.waiters[flag] = None
        core.wake(waiter)


def _pipe(core: CoreRun, lane: Lane) -> Generator[None, None, None]:
    """One pipe: takes instructions in order and gives each its start and end; yields where it waits.

    What every instruction needs is written out here in local names: a call for each would cost the machine a
    tenth of its speed. Waiting, which is rare, is in functions below.
    """
    env, scalar, timeline, flow = core.env, core.scalar, core.timeline, lane.flow
    queue, free, ready, in_flight = lane.queue, lane.free, lane.ready, lane.in_flight
    tokens, transfers, flag_ticks, record = core.tokens, core.transfers, core.flag_ticks, core.record
    cores, name, enter = core.cores, lane.name, core.links.enter
    # end of the last instruction or wait; when the next one could have begun on an idle unit
    local = arrival = complete = core.begin
    busy = 0
    while True:
        if not queue:
            scalar.feed()
            if not queue:
                if scalar.done:
                    break
                lane.doing, lane.times, lane.busy = (), (local, arrival, complete, local), busy
                _next_instruction(core, lane)
                yield
                lane.doing = None
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
            lane.last = local = start + occupancy
            if write >= 0:
                ready[write] = local + latency
        elif kind == WAIT:
            arrived = tokens[operation[1]]
            while not arrived:
                lane.doing, lane.times, lane.busy = operation, (local, arrival, complete, local), busy
                _flag(core, lane, operation[1])
                yield
                if core.block.scalar_sets:
                    scalar.asleep -= 1
                lane.doing = None
            at = arrived.popleft()
            if at > arrival:
                arrival = at
                if at > local:
                    local = at
            continue
        elif kind == SET:
            fire(core, operation[1], (complete if complete > local else local) - operation[2] + flag_ticks)
            continue
        elif kind == BARRIER:
            if complete > local:
                local = complete
            continue
        else:
            _, occupancy, index, instruction = operation
            outstanding = in_flight.popleft()
            if outstanding > local:
                local = outstanding
            start, transfer = local, transfers[index]
            lane.doing, lane.times, lane.busy = operation, (local, arrival, complete, start), busy
            flow.remaining, flow.kind = transfer.work, transfer.kind
            enter(flow, start + occupancy)
            yield
            lane.doing = None
            local, latency = int(env.now), transfer.latency
            in_flight.append(complete if complete > local + latency else local + latency)
        busy += local - start
        if local + latency > complete:
            complete = local + latency
        if record is not None:
            record(cores, name, instruction, start + timeline.skipped, local + timeline.skipped)
    lane.busy, lane.complete, lane.times = busy, max(complete, local), (local, arrival, complete, local)
    core.running -= 1
    core.retire()


def _next_instruction(core: CoreRun, lane: Lane) -> None:
    """A pipe with an empty queue waits; the scalar unit may go on since it does."""
    lane.sleep = True
    core.scalar.asleep += 1
    core.scalar.wanted = None
    core.scalar.feed()


def _flag(core: CoreRun, lane: Lane, flag: int) -> None:
    """A pipe waits whose flag has not been set; the scalar unit may go on if it sets flags itself."""
    core.waiters[flag] = lane.go
    if core.block.scalar_sets:
        core.scalar.asleep += 1
        core.scalar.feed()
