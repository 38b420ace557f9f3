"""The task scheduler: streams in order, events between streams, blocks on free cores, AI CPU tasks,
collectives.

A task of a stream may start when the one before it and the tasks it waits for have ended. With the whole
graph on the device (sink) the next task follows after `task_gap_us`; in the other modes the host launches
the tasks one by one and a task starts no earlier than its launch (`machine.launches`). What prepares
images (DVPP, Ctrl CPU) starts when what it waits for has ended, without gap or launch. Control flow: a
branch chosen or a loop tested on the device is a task of the scheduler itself, so it costs a gap and a
launch; a host that must look at a value waits for the device, reads the value with one more launch (a
copy) and only then launches on. From the start of a task to its blocks it takes `task_launch_us`, and
`block_dispatch_ns` for every block dispatched together with the first: all of them begin at the same
tick, so equal blocks stay in lock-step. When cores become free, the next blocks follow, again all that
fit at that tick together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Generator, Iterator
from functools import partial

from simpy import Environment
from simpy.events import Event

from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import Program, Task, TaskKind
from ascendsim.machine.clock import Clock
from ascendsim.machine.core import CoreRun, Record
from ascendsim.machine.events import DISPATCH, Call
from ascendsim.machine.fast_forward import FastForward, Statistics
from ascendsim.machine.free_cores import FreeCores
from ascendsim.machine.known import Known
from ascendsim.machine.l2 import L2State
from ascendsim.machine.launches import launch_ticks, waited_for
from ascendsim.machine.links import Links
from ascendsim.machine.log import Log
from ascendsim.machine.outcome import Outcome
from ascendsim.machine.placing import Delays, place
from ascendsim.machine.preparing import Preparation
from ascendsim.machine.replay import Replay
from ascendsim.machine.skipping_clock import Timeline
from ascendsim.machine.solo import Solo
from ascendsim.machine.tasks import TaskRun
from ascendsim.machine.wiring import TeamFlags
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import TaskRecord


class Scheduler:
    """Runs a program's tasks in a SimPy environment.

    Args:
        instructions: Whether to record instructions: of all tasks, none, or those with these ids.
        groups: Whether blocks that start together and run the same program are simulated once.
        fast_forward: Whether to skip periods of a machine that repeats itself.
        replay: Whether to look up tasks that were simulated before.
        solo: Whether compiled code may walk a task that has the cores to itself.
        log: Where instruction records go.
        known: What runs before have worked out for the chip; only with all shortcuts.
        statistics: Where to count what was skipped.
        progress: Called with the number of finished tasks and of all tasks.
    """

    def __init__(
        self,
        env: Environment,
        program: Program,
        soc: SocSpec,
        clock: Clock,
        *,
        instructions: bool | Container[int],
        groups: bool,
        fast_forward: bool,
        replay: bool,
        solo: bool,
        log: Log,
        known: Known,
        statistics: Statistics,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.env, self.program, self.soc, self.clock = env, program, soc, clock
        self._instructions, self._groups, self._log, self._progress = instructions, groups, log, progress
        self._free = FreeCores(soc)
        self.timeline = Timeline(env)
        self.links = Links(env, soc, clock)
        self._forward = (
            FastForward(self.timeline, self.links, log.items, statistics) if fast_forward else None
        )
        self._delays = Delays.of(soc.launch, clock)
        walker = Solo(soc, clock, self.links, self._delays, groups) if solo else None
        self._replay = Replay(log, statistics, walker, known.outcomes) if replay else None
        self.l2 = L2State(soc.l2, program.memory, program.info.l2_placed, program.info.l2_kept)
        self.records: list[TaskRecord] = []
        self._ai_cpus = [0] * soc.ai_cpu.cores  # heap of ticks at which each becomes free
        self._traffic = known.traffic
        self._on_cores = 0  # tasks that have arrived at the cores and not ended
        self._open: dict[int, TaskRun | None] = {}  # streams with tasks left: whose end each waits for
        self._starting: list[TaskRun] = []
        self._arriving: list[TaskRun] = []
        self._pending: list[TaskRun] = []
        self._placing = False
        self._gap, self._launch = clock.us(soc.launch.task_gap_us), clock.us(soc.launch.task_launch_us)
        self._launched = launch_ticks(program, soc.launch, clock)
        # By launch order of tasks before which the host reads values of the device: when it has, and by how
        # many ticks it is late then.
        self._looks: dict[int, Event] = {}
        self._late: dict[int, int] = {}
        self._waited_for = {} if program.mode == "sink" else waited_for(program)
        preparation = Preparation(env, soc, clock, known)
        self.runs = [preparation.ready(position, task) for position, task in enumerate(program.tasks)]
        self._by_id = {run.task.id: run for run in self.runs}
        if len(self._by_id) != len(self.runs):
            raise SimulationError("task ids", "must be unique in a program")

    def start(self) -> None:
        """Starts one process a stream, in the order in which streams first appear."""
        if self.program.mode != "sink":
            self._looks = {
                run.position: Event(self.env)
                for run in self.runs
                if run.task.read_backs or run.position in self._waited_for
            }
        streams: dict[int, list[TaskRun]] = {}
        for run in self.runs:
            streams.setdefault(run.task.stream, []).append(run)
        self._open = dict.fromkeys(streams)
        for stream, runs in streams.items():
            self.env.process(self._stream(stream, runs))

    def _stream(self, stream: int, runs: list[TaskRun]) -> Generator[Event, None, None]:
        """Starts the tasks of a stream one after another."""
        for number, run in enumerate(runs):
            for before in self._awaited(run):
                if not before.ended:
                    self._open[stream] = before
                    yield before.done
                    self._open[stream] = None
            run.ready = self.timeline.now
            for position, look in self._looks.items():
                if position < run.position and not look.triggered:
                    yield look
            decided = run.ready + run.task.decisions * (self._gap + self._launch)
            gap = self._gap if number and not run.task.kind.for_images else 0
            run.start = max(decided + gap, self._launch_tick(run))
            if self._replay is not None and run.task.kind.on_cores and self._still(stream):
                self.timeline.skip(run.start + self._launch - run.ready)
                if self._arrive_alone(run, self._replay):
                    continue
            else:
                self.timeline.at(run.start, partial(self._begin, run))
            self._open[stream] = run
            yield run.done
            self._open[stream] = None
        del self._open[stream]

    def _awaited(self, run: TaskRun) -> Iterator[TaskRun]:
        """Tasks of any stream that must have ended before one can start."""
        for other in run.task.waits_for:
            before = self._by_id.get(other)
            if before is None:
                raise SimulationError(
                    f"task {run.task.name!r}", "waits for a task that the program does not have", other
                )
            yield before
        if run.position in self._waited_for:
            yield self.runs[self._waited_for[run.position]]

    def _still(self, stream: int) -> bool:
        """Whether nothing goes on in the machine, and nothing will before a task of a stream has ended."""
        return (
            not self._on_cores
            and not self._starting
            and not self._arriving
            and self.timeline.next_appointment is None
            and all(
                run is not None and not run.done.triggered
                for other, run in self._open.items()
                if other != stream
            )
        )

    def _arrive_alone(self, run: TaskRun, replay: Replay) -> bool:
        """A task arrives at the cores with nothing else in the machine; tells whether it has ended, since
        what it does is known.
        """
        now = self.timeline.now
        run.enter_l2(self.l2, self._traffic)
        if run.unfinished:
            outcome = replay.begin(run, now, None, self._recorder(run.task) is not None)
            if outcome is None:
                self._on_cores += 1
                self._pending.append(run)
                self._place_later()
                return False
            self.timeline.skip(outcome.ticks)
            replay.write(run, outcome, now)
        self._record(run, self.timeline.now)
        if run.done.callbacks:  # other streams wait for it
            run.done.succeed()
            return False
        run.at_once = True
        return True

    def _launch_tick(self, run: TaskRun) -> int:
        """When the host has launched a task; it runs ahead of the device until it must read a value back
        before it can go on.
        """
        launched = self._launched[run.position]
        if self.program.mode == "sink" or run.task.kind.for_images:
            return launched
        before = self._launched[run.position - 1] if run.position else 0
        if run.position in self._looks:
            read = run.task.read_backs * self.clock.us(self.soc.launch.host_launch_us)
            self._late[run.position] = run.ready + read - before
            self._looks[run.position].succeed()
        late = max([0] + [ticks for position, ticks in self._late.items() if position <= run.position])
        run.launch = (before + late, launched + late)
        return launched + late

    def _begin(self, run: TaskRun) -> None:
        self._starting.append(run)
        self._place_later()

    def _arrive(self, run: TaskRun) -> None:
        self._arriving.append(run)
        self._place_later()

    def _place_later(self) -> None:
        if not self._placing:
            self._placing = True
            Call(self.env, self._place, 0, DISPATCH)

    def _place(self) -> None:
        """The dispatch phase of a tick: starts, arrivals, then blocks on free cores; ties go by launch
        order.
        """
        self._placing = False
        now = self.timeline.now
        for run in sorted(self._starting, key=lambda run: run.position):
            if run.task.kind is TaskKind.AI_CPU:
                self._run_on_ai_cpu(run, now)
            elif run.task.kind.on_cores:
                self.timeline.at(now + self._launch, partial(self._arrive, run))
            else:
                launch = 0 if run.task.kind.for_images else self._launch
                end = now + launch + self.clock.us(run.task.known_us)
                self.timeline.at(end, partial(self._end, run, end))
        self._starting = []
        arriving, self._arriving = sorted(self._arriving, key=lambda run: run.position), []
        for run in arriving:
            run.enter_l2(self.l2, self._traffic)
            if not run.unfinished:
                self._end(run, now)
            elif not self._replays(run, now, alone=len(arriving) == 1):
                self._pending.append(run)
        for run in self._pending:
            self._dispatch(run, now)
        self._pending = [run for run in self._pending if any(run.left)]

    def _replays(self, run: TaskRun, now: int, alone: bool) -> bool:
        """A task arrives at the cores; whether its end is known and set."""
        alone = alone and not self._on_cores
        self._on_cores += 1
        if self._replay is None:
            return False
        if not alone:
            self._replay.disturb()
            return False
        outcome = self._replay.begin(
            run, now, self.timeline.next_appointment, self._recorder(run.task) is not None
        )
        if outcome is not None:
            self.timeline.at(now + outcome.ticks, partial(self._replayed, run, outcome, now))
        return outcome is not None

    def _replayed(self, run: TaskRun, outcome: Outcome, start: int) -> None:
        if self._replay is not None:
            self._replay.write(run, outcome, start)
        self._leave(run, self.timeline.now)  # took no cores, so that none become free

    def _run_on_ai_cpu(self, run: TaskRun, now: int) -> None:
        spec = self.soc.ai_cpu
        run.pass_l2(self.l2)
        free = heapq.heappop(self._ai_cpus)
        begin = max(now + self.clock.us(spec.dispatch_us), free)
        end = begin + self.clock.us(spec.overhead_us + run.task.cpu_us)
        heapq.heappush(self._ai_cpus, end)
        self.timeline.at(end, partial(self._end, run, end))

    def _dispatch(self, run: TaskRun, now: int) -> None:
        """Puts as many of a task's blocks on free cores as there are."""
        batch = place(run, run.left, self._free, self._groups)
        if not batch:
            return
        dispatch = self._delays.dispatch(batch, first=not run.dispatched)
        if not run.dispatched:
            run.dispatched, run.work.dispatch = True, dispatch
        for index, cores, flags in batch:
            self._run_block(run, index, cores, flags, now, now + dispatch + self._delays.init)

    def _run_block(
        self, run: TaskRun, index: int, cores: tuple[int, ...], flags: TeamFlags | None, now: int, begin: int
    ) -> None:
        compiled = run.blocks[index].compiled

        def finished(core: CoreRun) -> None:
            if self._forward is not None:
                self._forward.remove(core)
            self.timeline.at(core.end, partial(self._block_ended, run, core, now))

        core = CoreRun(
            self.timeline,
            self.links,
            compiled,
            cores,
            begin,
            transfers=run.transfers(index, len(cores), self.soc, self.clock, self.links),
            flag_ticks=self.soc.issue.flag_cycles * self.clock.cycle(compiled.block.core),
            max_in_flight=max(1, self.soc.dram.max_in_flight),
            record=self._recorder(run.task),
            passed=self._forward.passed if self._forward is not None else None,
            finished=finished,
            wires=run.wiring.wires(run.task.groups[index], flags),
        )
        run.running.append(core)
        if self._forward is not None:
            self._forward.add(core)
        core.start()

    def _recorder(self, task: Task) -> Record | None:
        wanted = self._instructions if isinstance(self._instructions, bool) else task.id in self._instructions
        if not wanted:
            return None
        return partial(self._log.add, task.id)

    def _block_ended(self, run: TaskRun, core: CoreRun, dispatched: int) -> None:
        run.running.remove(core)
        run.absorb(core, dispatched)
        core.release()
        self._free.give(core.block.block.core, core.cores)
        if not run.unfinished:
            if self._replay is not None:
                self._replay.finish(run, core.end)
            self._leave(run, core.end)
        self._place_later()

    def _leave(self, run: TaskRun, now: int) -> None:
        """A task is through with the cores."""
        self._on_cores -= 1
        self._end(run, now)

    def _end(self, run: TaskRun, now: int) -> None:
        self._record(run, now)
        run.done.succeed()

    def _record(self, run: TaskRun, now: int) -> None:
        run.end = now
        self.records.append(run.record())
        if self._progress is not None:
            self._progress(len(self.records), len(self.runs))

    def _owner(self, task: Task) -> str:
        """Whose core it is, where there is a choice."""
        return f" of task {task.id} ({task.name})" if len(self.runs) > 1 else ""

    def check_finished(self) -> None:
        """Raises SimulationError with all that waits if tasks are left although nothing can happen any
        more.
        """
        unfinished = [run for run in self.runs if not run.ended]
        if not unfinished:
            return
        lines = [
            f"on core {_numbers(core.cores)}{self._owner(run.task)} {'; '.join(waiting)}"
            for run in unfinished
            for core in run.running
            if (waiting := core.waiting())
        ]
        if not lines:
            lines = [
                f"task {run.task.id} ({run.task.name}) waits for tasks {list(run.task.waits_for)}"
                for run in unfinished
            ]
        raise SimulationError(
            "deadlock:",
            "; ".join(lines),
            remedy="every wait needs a set, and a queue must not fill before its flag is set",
        )


def _numbers(cores: tuple[int, ...]) -> str:
    return str(cores[0]) if len(cores) == 1 else f"{cores[0]} (and {len(cores) - 1} in lock-step)"
