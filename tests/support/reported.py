"""Subjects of reports for tests: made-up runs, and a small network with and without fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import ascendsim as asim
from ascendsim.profiling.view import ProfiledRun
from ascendsim.report import Subject
from tests.support.synthetic_run import synthetic_run

EVIL = (
    "</script><img src=x onerror=alert(1)>",
    '"quoted", ;comma\n',
    "\u202eabc \u05d0\u05d1",
    "\U0001f600",
    "nul\0 and \ud800",
    "x" * 10_000,
)


def subject(run: ProfiledRun, name: str = "run") -> Subject:
    return Subject(name, run, run.graph)


def renamed(names: Sequence[str]) -> ProfiledRun:
    """A made-up run whose first tasks and nodes have given names."""
    run = synthetic_run(12)
    tasks = list(run.program.tasks)
    for index, name in enumerate(names):
        node = run.graph.topological()[index]
        node.name = name
        tasks[index] = replace(tasks[index], name=name)
    run.graph.name = names[0]
    return replace(run, program=replace(run.program, tasks=tuple(tasks)))


@cache
def comparison() -> asim.Comparison:
    """Conv and Relu, a product and Relu: fusion makes two tasks of four."""
    builder = asim.GraphBuilder("net")
    x = builder.input("x", (1, 16, 14, 14))
    y = builder.op("Conv", x, builder.weight("w", (16, 16, 3, 3)), name="conv", pads=[1, 1, 1, 1])
    y = builder.op("Relu", y, name="relu")
    builder.output(builder.op("Sigmoid", builder.op("Flatten", y, name="flat"), name="sigmoid"), "y")
    graph = builder.build()
    models = {level: asim.compile(graph, "Ascend310P3", fusion=level) for level in ("off", "all")}
    return asim.compare(models)
