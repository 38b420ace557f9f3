"""Kernels of the user on the simulated cores: values, time, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ascendsim.api.kernel_groups import Stream, grouped
from ascendsim.asc.cross import MIXED, TOGETHER
from ascendsim.asc.launch import Argument, Kernel, bind, mentions, record
from ascendsim.asc.meeting import MEET, Meeting, MeetingError, Role
from ascendsim.asc.passes import loop_values
from ascendsim.asc.recorder import STATE, Context, Forms, Recorder, checked_cores
from ascendsim.core.arguments import checked, refuse_unknown
from ascendsim.core.dtypes import saturates
from ascendsim.core.errors import InputError, KernelError
from ascendsim.core.formats import TRANSACTION_BYTES
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.ir import Graph
from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import Buffer
from ascendsim.isa.program import (
    Access,
    MemoryPlan,
    Program,
    ProgramInfo,
    Task,
)
from ascendsim.machine import run as run_machine
from ascendsim.soc import SocSpec, load
from ascendsim.soc.arithmetic import float16_of, in_mode
from ascendsim.tile.advice import Timed, advice
from ascendsim.tile.checker import Checker, CoreChecker
from ascendsim.tile.crossing import Crossing
from ascendsim.tile.evaluate import ON_CHIP, CoreMemory, Evaluator, GlobalMemory
from ascendsim.tile.findings import FaultError, Finding, Findings
from ascendsim.tile.order import Order, Scheduler
from ascendsim.tile.reroll import Node, Repeat, Roller
from ascendsim.trace.records import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim import profiling
    from ascendsim.core.table import Table
    from ascendsim.plot.timeline import TimelineDisplay

LIMIT = 20_000_000
_RECORDING = Lock()  # one core of one launch records at a time


@fixed_threads()
@checked(kernel="write @asc.jit above the function", soc="see `ascendsim soc list`")
def run_kernel(
    kernel: Kernel,
    cores: int,
    *args: Any,
    soc: str | PathLike[str] | SocSpec = "Ascend910B1",
    values: bool = True,
    order: Literal["program", "late"] | int = "program",
    sync: Literal["auto", "manual"] = "auto",
    inf_nan_mode_enable: bool | None = None,
    limit: int = LIMIT,
) -> KernelResult:
    """Runs a kernel on a number of cores of the simulated chip; arrays that it writes are filled.

    Args:
        kernel: A function with `@asc.jit`.
        cores: Blocks; more than the chip has cores run in waves.
        *args: What the kernel gets: arrays of NumPy become addresses, all else stays as it is.
        soc: Name of a chip, path of a chip's file, or a `SocSpec`.
        values: Whether values are computed and the kernel is checked; False gives the time alone.
        order: In which order pipes and cores execute what no flag orders: "program", "late" (transfers only
            when something waits for them), or a seed for a random order.
        sync: Who orders the instructions of the vector unit among themselves and with the scalar unit: the
            compiler ("auto"), or the kernel ("manual").
        inf_nan_mode_enable: As in `compile`: whether float16 beyond its range is infinite or NaN, or
            saturates; by default as the chip has it.
        limit: Instructions of all cores that are allowed.

    Raises:
        InputError: An argument that cannot be used, or a mode that the chip does not have.
        KernelError: A line of the kernel that breaks a rule.
    """
    chip = in_mode(soc if isinstance(soc, SocSpec) else load(soc), inf_nan_mode_enable)
    number = checked_cores(cores)
    if isinstance(order, int) and order < 0:
        raise InputError("order", 'must be "program", "late" or a seed of 0 or more', order, "leave it out")
    if STATE.recorder is not None:
        remedy = f"call {kernel.name}(...) without cores: it then runs on this core"
        raise KernelError(f"kernel {kernel.name!r}", "cannot be launched inside of a kernel", remedy=remedy)
    if not _RECORDING.acquire(blocking=False):
        raise InputError("kernel", "is running already", remedy="run one after the other")
    try:
        given, arrays = bind(kernel, args)
        launch = _Launch(kernel, Context(chip, number, Forms(), limit), arrays, values, order, sync)
        launch.run(given)
        launch.finish(given)
    finally:
        _RECORDING.release()
    return launch.result()


class _Launch:
    """The cores of a launch, recorded one after the other."""

    def __init__(
        self,
        kernel: Kernel,
        context: Context,
        arrays: Sequence[Argument],
        values: bool,
        order: Order = "program",
        sync: str = "auto",
    ) -> None:
        self.saturates = saturates(float16_of(context.soc))
        self.kernel, self.context, self.arrays, self.values = kernel, context, arrays, values
        self.order, self.manual = order, sync == "manual"
        self.outside = GlobalMemory([(one.region.name, one.array) for one in arrays])
        self.findings = Findings()
        regions = [(one.region.name, one.array.nbytes) for one in arrays]
        forms = context.forms
        self.checked = partial(
            Checker, context.soc, regions, forms.listed, forms.places, self.findings, self.manual
        )
        self.checker = self.checked()
        self.together = False  # cores wait for one another
        self.rows = 0
        self.streams: dict[Role, Stream] = {}
        self.spans: dict[tuple[str, bool], list[tuple[int, int]]] = {}
        self.moved: dict[tuple[str, bool], int] = {}

    def run(self, given: Sequence[Any]) -> None:
        """Records all cores, one after the other or, if they wait for one another, in turns."""
        soc, options = self.context.soc, self.kernel.options
        blocks = range(self.context.cores)
        mixed = soc.split_cores and (options.get("mixed") or mentions(self.kernel, given, MIXED))
        roles = [Role(block=block) for block in blocks]
        if mixed:
            roles = []
            ratio = soc.vector_cores // soc.ai_cores
            for block in blocks:
                roles += [Role("aic", block), *[Role("aiv", block, sub, ratio) for sub in range(ratio)]]
        if mixed or options.get("together") or mentions(self.kernel, given, TOGETHER):
            self.together = True
            names = [str(role) for role in roles]
            crossing = Crossing(names, len(ON_CHIP) + len(self.arrays)) if self.values else None
            meeting = Meeting(roles, crossing)
            works = [partial(self._record, role, given, meeting, crossing) for role in roles]
            try:
                meeting.run(works)
            except MeetingError as error:
                if crossing is not None:
                    crossing.say()
                fault = Finding("deadlock", error.where, error.text, error.core, -1, MEET)
                raise FaultError(f"deadlock: {error.text}", fault, self.findings, MEET) from None
            if crossing is not None:
                crossing.say()
                crossing.left_set(self.findings)
            return
        for role in self._sequence(roles):
            self._record(role, given, None)

    def _sequence(self, roles: Sequence[Role]) -> Sequence[Role]:
        """Cores in the order in which they write global memory."""
        if self.order == "program" or not self.values:
            return roles
        if self.order == "late":
            return roles[::-1]
        return [roles[at] for at in np.random.default_rng(self.order).permutation(len(roles))]

    def _record(
        self, role: Role, given: Sequence[Any], meeting: Meeting | None, crossing: Crossing | None = None
    ) -> None:
        """Records one core, and evaluates it on the way."""
        core = role.block * role.ratio + role.sub
        before = self.rows if meeting is None else 0
        forms = self.context.forms.listed
        roller = Roller(forms)
        evaluator: Evaluator | None = None
        checker: CoreChecker | None = None
        scheduler: Scheduler | None = None
        if self.values:
            evaluator = Evaluator(
                CoreMemory(self.context.soc, self.outside, self.saturates), forms, core, self.findings
            )
            # cores that wait for one another have their columns apart: no order of theirs is known beforehand
            whole = self.checker if meeting is None else self.checked()
            number = 0 if meeting is None else meeting.roles.index(role)
            checker = whole.core(core, None if crossing is None else (crossing, number))
            if self.order != "program":
                scheduler = Scheduler(whole.tables, self.order, core, self.manual)

        def sink(rows: Any, values: Any, end: bool = False) -> None:
            roller.add(rows, values)
            if evaluator is None or checker is None:
                return
            checker.run(rows, values)
            if scheduler is not None:
                rows, values, _ = scheduler.run(rows, values, end or meeting is not None)
            evaluator.run(rows, values)

        def read(tensor: Any, address: int, where: str, element: str) -> Any:
            if evaluator is None:
                raise KernelError(
                    where, "needs values, but only the time was asked for", remedy="leave values=False out"
                )
            return self._element(evaluator, tensor, address, where, core, element)

        recorder = Recorder(self.context, core, sink, read, before, role=role, meeting=meeting)
        record(self.kernel, given, recorder)
        for (kind, where), note in recorder.notes.items():
            found = Finding(kind, where, note.text, core, note.row - before, note.remedy)
            self.findings.add(found, count=note.times)
        if checker is not None:
            sink(np.zeros(0, np.int32), np.zeros(0, np.int64), end=True)
            checker.end()
        self.rows += recorder.total - before
        nodes = roller.tree()
        self._account(nodes, ())
        coarse = _in_global_memory(nodes, forms)
        signature = roller.signature(coarse, TRANSACTION_BYTES)
        self.streams[role] = Stream(signature, nodes)

    def _element(
        self, evaluator: Evaluator, tensor: Any, address: int, where: str, core: int, element: str
    ) -> Any:
        box = Box(
            tensor.buffer, tensor.region.name if tensor.buffer is Buffer.GM else "", tensor.dtype.kind, ()
        )
        number = evaluator.memory.number(box)
        value, defined = evaluator.memory.element(number, address, tensor.dtype.kind.numpy)
        if not defined:
            place = f"{tensor.buffer.value} {address:#x}"
            text = f"reads {f'{element} ({place})' if element else place}, which nothing has written"
            self.findings.add(Finding("undefined", where, text, core, evaluator.done, "write it first"))
        return float(value) if tensor.dtype.kind.is_float else int(value)

    def _account(self, nodes: Sequence[Node], trips: tuple[int, ...]) -> None:
        """Adds what a stream moves to and from global memory."""
        for node in nodes:
            if isinstance(node, Repeat):
                self._account(node.body, (*trips, node.trips))
                continue
            effect = self.context.forms.listed[node.form].effect
            if effect is None or effect.kind == "scalar":
                continue
            for at, box in enumerate(effect.boxes):
                if box.buffer is not Buffer.GM:
                    continue
                key = box.name, at < len(effect.writes)
                moves = [(count - 1) * steps[at] for count, steps in zip(trips, node.steps, strict=True)]
                low = node.values[at] + box.span[0] + sum(min(0, move) for move in moves)
                high = node.values[at] + box.span[1] + sum(max(0, move) for move in moves)
                self.spans.setdefault(key, []).append((low, high))
                self.moved[key] = self.moved.get(key, 0) + box.bytes * int(np.prod(trips, dtype=np.int64))

    def finish(self, given: Sequence[Any]) -> None:
        """Adds to what was found what is known at the end: passes of loops, arrays that nobody touched."""
        boxes = [box for form in self.context.forms.listed if form.effect for box in form.effect.boxes]
        touched = {box.name for box in boxes if box.buffer is Buffer.GM}
        for one in self.arrays:
            name = one.region.name
            if self.values and name not in touched:
                text = f"neither reads nor writes {name}: an output that is never written"
                remedy = "write it, or leave the argument out"
                self.findings.add(
                    Finding("unwritten", f"kernel {self.kernel.name}", text, 0, -1, remedy), name
                )
        if self.together:
            return
        wanted: dict[int, dict[int, int]] = {}
        for found in self.findings.listed:
            line = found.where.split(":")[1:2]
            if found.row >= 0 and line and line[0].isdigit():
                wanted.setdefault(found.core, {})[found.row] = int(line[0])
        for core, rows in wanted.items():
            passes = loop_values(self.kernel, given, self.context, core, rows)
            self.findings.place(core, passes)

    def result(self) -> KernelResult:
        """The launch as a program, timed."""
        soc, name = self.context.soc, self.kernel.name
        if not self.rows:
            raise KernelError(
                f"kernel {name!r}", "does nothing", remedy="call asc.data_copy and others in it"
            )
        # in the order of the program, however they were run: the cube core of a team first
        streams = {role: self.streams[role] for role in sorted(self.streams)}
        kind, parts = grouped(streams, self.context.forms.listed, soc)
        accesses = tuple(
            [
                Access(
                    region, min(_covered(spans), self.moved[region, write]), self.moved[region, write], write
                )
                for (region, write), spans in self.spans.items()
            ]
        )
        sizes = {one.region.name: one.array.nbytes for one in self.arrays}
        task = Task(0, name, kind, groups=tuple([group for group, _ in parts]), accesses=accesses)
        program = Program((task,), MemoryPlan.in_a_row(sizes, "input"), info=ProgramInfo(soc.name, name))
        timed = Timed(
            program,
            [nodes for _, nodes in parts],
            [(role.block * role.ratio + role.sub, stream.nodes) for role, stream in streams.items()],
            self.context.forms.listed,
            soc,
            lambda other: run_machine(other, soc).cycles,
        )
        trace, found = run_machine(program, soc), self.findings.listed
        return KernelResult(name, soc, program, trace, found, self.rows, timed)


def _in_global_memory(nodes: Sequence[Node], forms: Sequence[Any]) -> list[bool]:
    """For every address of the first trips, in order, whether it is one of global memory."""
    flags: list[bool] = []
    for node in nodes:
        if isinstance(node, Repeat):
            flags += _in_global_memory(node.body, forms)
        else:
            effect = forms[node.form].effect
            flags += [box.buffer is Buffer.GM for box in (() if effect is None else effect.boxes)]
    return flags


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """Bytes that lie in at least one of some stretches."""
    total, reached = 0, -(1 << 62)
    for low, high in sorted(spans):
        start = max(low, reached)
        total += max(0, high - start)
        reached = max(reached, high)
    return total


@dataclass(frozen=True, repr=False)
class KernelResult:
    """One run of a kernel.

    Attributes:
        name: The kernel.
        soc: The chip.
        program: What the cores executed, re-rolled.
        trace: What happened when.
        findings: What is wrong with the kernel; empty if nothing was found.
        instructions: Calls on all cores.
        launch: What advice is made of.
    """

    name: str
    soc: SocSpec
    program: Program
    trace: Trace
    findings: tuple[Finding, ...]
    instructions: int
    launch: Timed = field(repr=False, compare=False)

    @property
    def duration_us(self) -> float:
        """Time from the task's start to its end in microseconds."""
        record = self.trace.tasks[0]
        return self.trace.us(record.end - record.start)

    def __repr__(self) -> str:
        cores = sum(group.count for group in self.program.tasks[0].groups)
        found = f", {len(self.findings)} findings" if self.findings else ""
        name = self.name if len(self.name) <= 24 else f"{self.name[:21]}..."
        return (
            f"KernelResult({name!r} on {cores} cores of {self.soc.name}: {self.duration_us:,.2f} us{found})"
        )

    @cached_property
    def advice(self) -> tuple[Finding, ...]:
        """What costs time and is no fault, with the cycles that are lost; made when it is first asked for."""
        return advice(self.launch)

    @cached_property
    def profile(self) -> profiling.ProfiledRun:
        """What the functions of `ascendsim.profiling` and `ascendsim.plot` take."""
        from ascendsim import profiling
        from ascendsim.opset import OpSet

        detailed = run_machine(self.program, self.soc, instructions=True)
        return profiling.ProfiledRun(Graph(self.name), self.program, detailed, self.soc, OpSet(()))

    def op_summary(self) -> Table:
        """One row for the kernel, msprof's columns for the chip's generation."""
        from ascendsim import profiling

        return profiling.op_summary(self.profile)

    def pipes(self) -> Mapping[str, float]:
        """Mean busy time of each pipe of a block in microseconds, on the kind of cores where it is more."""
        from ascendsim.profiling.view import NOT_KNOWN, TaskView

        view = TaskView(self.trace.tasks[0], self.program.tasks[0], (), NOT_KNOWN)
        mean = {
            pipe: max(
                part.busy.get(pipe, 0) / max(1, part.blocks) for part in (view.beside_vector, view.on_vector)
            )
            for pipe in view.record.busy
        }
        return {pipe: self.trace.us(1) * ticks * max(1, view.record.rounds) for pipe, ticks in mean.items()}

    def where_time_goes(self) -> Table:
        """One row a part of the time: launch, each pipe while it alone is busy, several pipes at once, and
        waiting; the parts add up to 100 %. Beside it how long each pipe is busy in all (`pipes`).

        Parts are those of the core that ends last.
        """
        from ascendsim.core.table import Table as Made
        from ascendsim.profiling.occupancy import occupancy

        run = self.profile
        parts = occupancy(run, run.tasks[0])
        busy, whole = self.pipes(), run.tasks[0].record.end - run.tasks[0].record.start
        listed: list[tuple[str, float | None, int]] = [("launch", None, parts.launch)]
        listed += [(pipe, busy[pipe], parts.alone.get(pipe, 0)) for pipe in busy]
        listed += [("several pipes at once", None, parts.several), ("waiting", None, parts.waiting)]
        rows = tuple(
            (
                name,
                own,
                None if own is None else 100 * own / self.duration_us,
                run.us(ticks),
                100 * ticks / whole,
            )
            for name, own, ticks in listed
        )
        columns = ("Pipe", "Busy(us)", "Busy(%)", "Alone(us)", "Of the time(%)")
        return Made("kernel_time", columns, rows)

    @checked()
    def plot_timeline(self, ax: Axes | None = None, **options: Any) -> TimelineDisplay:
        """All pipes of all cores over time.

        Args:
            ax: Axes to draw on; a new figure if None.
            **options: See `ascendsim.plot.plot_timeline`.
        """
        from ascendsim.plot import plot_timeline

        return plot_timeline(self.profile, ax, **options)

    @checked()
    def save_trace(self, path: str | PathLike[str], **options: Any) -> Path:
        """Writes what every pipe of every core did as a Chrome trace (.json or .json.gz).

        Args:
            path: File to write.
            **options: `level="task"` or `"instruction"` (the default), `window=(start_us, end_us)`; see
                `ascendsim.profiling.write_trace`.
        """
        from ascendsim import profiling

        refuse_unknown(profiling.write_trace, options)
        profiling.write_trace(self.profile, path, **{"level": "instruction", **options})
        return Path(path)
