"""The phases of a task: emit, read, compute, write (E, R, C, W).

What a fusion saves can be read off them: it deletes the write of one operator and the emit and read of the
next.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.table import Row, Table
from ascendsim.isa.program import TaskKind
from ascendsim.profiling.view import ProfiledRun, TaskView
from ascendsim.trace.records import TaskRecord


@dataclass(frozen=True, slots=True)
class Phases:
    """Emit, read, compute, write of one task, in ticks.

    `emit`, `read`, `compute` and `write` follow one another and add up to `end - ready`: what a task costs on
    the clock. `read_busy`, `compute_busy` and `write_busy` are what the pipes worked, overlapped or not, on
    an average core.

    Attributes:
        emit: From `ready` until the blocks run on their cores: waiting for the launch, dispatch, start of the
            block.
        read: From there to the first Cube or Vector instruction.
        compute: From there to the end of the last one; reads and writes overlap with it.
        write: From there to `end`.
    """

    emit: int
    read: int
    compute: int
    write: int
    read_busy: int
    compute_busy: int
    write_busy: int


def phases(record: TaskRecord, launch: int = 0) -> Phases:
    """Phases of a task.

    A task that does not run on the cores only emits and computes.
    A task that moves data without computing has no compute phase; its
    time is cut into read and write in the proportion of the work of MTE2 and of MTE3 (all read if there was
    none).

    Args:
        record: The task.
        launch: Ticks after `start` that belong to the launch (see `launch_ticks`); 0 counts them as read.
    """
    busy = record.busy
    rounds, blocks = max(record.rounds, 1), max(record.blocks, 1)
    read_busy, write_busy = busy.get("MTE2", 0), busy.get("MTE3", 0) + busy.get("FIX", 0)
    compute_busy = busy.get("M", 0) + busy.get("V", 0)
    span = record.end - record.start
    works = record.first_compute >= 0
    launch = max(min(launch, record.first_compute - record.start if works else span), 0)
    emit, span = record.start - record.ready + launch, span - launch
    if not TaskKind(record.kind).on_cores:
        return Phases(emit, 0, span, 0, 0, span, 0)
    if works:
        read, compute = (
            record.first_compute - record.start - launch,
            record.last_compute - record.first_compute,
        )
        write = record.end - record.last_compute
    else:
        read = span * read_busy // (read_busy + write_busy) if read_busy + write_busy else span
        compute, write = 0, span - read
    per_core = [ticks * rounds // blocks for ticks in (read_busy, compute_busy, write_busy)]
    return Phases(emit, read, compute, write, *per_core)


def launch_ticks(run: ProfiledRun, view: TaskView) -> int:
    """Ticks from the start of a task to work on its cores: task launch, dispatch of the blocks that start
    together and start of a block, or the dispatch to the AI CPU.
    """
    if view.for_images:
        return 0
    launch = run.soc.launch
    us = run.soc.ai_cpu.dispatch_us if view.on_ai_cpu else launch.task_launch_us
    if view.on_ai_core:
        us += launch.kernel_init_ns / 1000
    return round(us / 1e6 / run.trace.tick_seconds) + view.record.dispatch


def task_phases(run: ProfiledRun) -> Table:
    """Phases of every task in us: on the clock (they add up to the time from ready to end), and busy on an
    average core.
    """
    columns = ("Task ID", "Op Name", "OP Type", "Emit(us)", "Read(us)", "Compute(us)", "Write(us)")
    busy = ("Read busy(us)", "Compute busy(us)", "Write busy(us)")
    rows: list[Row] = []
    for view in run.tasks:
        p = phases(view.record, launch_ticks(run, view))
        ticks = (p.emit, p.read, p.compute, p.write, p.read_busy, p.compute_busy, p.write_busy)
        rows.append((view.id, view.name, view.op_type, *map(run.us, ticks)))
    return Table("task_phases", (*columns, *busy), tuple(rows))
