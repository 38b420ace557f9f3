"""Runs for tests of exports, and their databases read back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from ascendsim.isa.program import MemoryPlan, Program, Region, TaskKind
from ascendsim.profiling.view import ProfiledRun
from ascendsim.trace.records import Trace
from tests.support.synthetic_run import synthetic_run


def rows(source: Path | bytes, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query on a database."""
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(source if isinstance(source, bytes) else source.read_bytes())
        return base.execute(query).fetchall()


def renamed(run: ProfiledRun, number: int, name: str) -> ProfiledRun:
    """The run with another name of one node and its task."""
    node = next(node for node in run.graph.nodes if node.name == run.program.tasks[number].name)
    tasks = [replace(task, name=name) if task.id == number else task for task in run.program.tasks]
    records = [replace(record, name=name) if record.task == number else record for record in run.trace.tasks]
    node.name = name
    return replace(
        run, program=replace(run.program, tasks=tuple(tasks)), trace=replace(run.trace, tasks=tuple(records))
    )


def empty_run() -> ProfiledRun:
    """A run of a program without tasks."""
    run = synthetic_run(3)
    return replace(
        run,
        program=Program((), MemoryPlan({}, 0, 0)),
        trace=Trace(run.trace.tick_seconds, run.trace.core_ticks, ()),
    )


def slower(run: ProfiledRun, times: int) -> ProfiledRun:
    """The run on a clock so many times slower."""
    return replace(run, trace=replace(run.trace, tick_seconds=run.trace.tick_seconds * Fraction(times)))


def host_launched(run: ProfiledRun) -> ProfiledRun:
    """The run with each task launched by the host in the 1,000 ticks before it became ready."""
    records = [
        replace(record, launch_start=record.start - 1000 - record.task, launch_end=record.start - record.task)
        for record in run.trace.tasks
    ]
    return replace(run, trace=replace(run.trace, tasks=tuple(records)))


def communicating(run: ProfiledRun, number: int) -> ProfiledRun:
    """The run with one of its tasks turned into a collective."""
    kind = TaskKind.COMMUNICATION
    tasks = [
        replace(task, kind=kind, name="allreduce_0", groups=()) if task.id == number else task
        for task in run.program.tasks
    ]
    return replace(run, program=replace(run.program, tasks=tuple(tasks)))


def planned(run: ProfiledRun) -> ProfiledRun:
    """The run with a memory plan: two tensors that share time, a weight, and another name of the first."""
    regions = {
        "a": Region("a", 0, 1000, "activation", first=0, last=2),
        "b": Region("b", 1024, 4096, "activation", first=2, last=4),
        "again": Region("again", 0, 1000, "activation", alias_of="a", first=0, last=4),
        "w": Region("w", 8192, 2048, "weight"),
    }
    return replace(run, program=replace(run.program, memory=MemoryPlan(regions, 5120, 2048)))
