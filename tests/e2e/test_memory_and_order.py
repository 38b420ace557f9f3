"""Values come from the planned addresses, in the simulated order: a wrong plan and a wrong order give wrong
values, right ones never clash.

The checks of whole programs here share no code with the planner: they walk over the tasks' accesses and the
edges between tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import MemoryPlan, Program, Region
from ascendsim.runtime.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def residual() -> Graph:
    """Two blocks, each with a way around: what goes around is alive while others are made."""
    random = np.random.default_rng(5)
    b = asim.GraphBuilder("residual")
    x = b.input("x", (1, 16, 12, 12))
    for _ in range(2):
        y = x
        for _ in range(3):
            y = b.op(
                "Conv",
                y,
                b.constant(0.1 * random.standard_normal((16, 16, 3, 3)).astype(np.float32), "w"),
                pads=[1, 1, 1, 1],
            )
        x = b.op("Sigmoid", b.op("Add", x, y))
    b.output(x, "y")
    return b.build()


def values(
    model: CompiledModel, memory: MemoryPlan | None = None, order: list[int] | None = None
) -> Mapping[str, NDArray[np.generic]]:
    """Outputs of seeded inputs, with another plan or order than the model's own if one is given."""
    program = model.program if memory is None else replace(model.program, memory=memory)
    simulated = [record.task for record in asim.simulate(model).trace.tasks]
    with np.errstate(all="ignore"):
        return evaluate(
            model.graph, program, model.opset, order or simulated, asim.random_inputs(model), values="device"
        )


def moved(plan: MemoryPlan, name: str, onto: str) -> MemoryPlan:
    """The plan with one region at another one's address."""
    regions = dict(plan.regions)
    regions[name] = replace(regions[name], offset=regions[onto].offset)
    return replace(plan, regions=regions)


def activations(plan: MemoryPlan) -> list[Region]:
    return [
        r
        for r in plan.regions.values()
        if r.kind == "activation" and r.alias_of is None and r.in_place_of is None and r.bytes
    ]


def clobbering(model: CompiledModel) -> list[tuple[str, str]]:
    """Pairs (victim, other): other is written by a task between the one that writes the victim and one that
    reads it."""
    written = {
        access.region: number
        for number, task in enumerate(model.program.tasks)
        for access in task.accesses
        if access.write
    }
    pairs = []
    for victim in activations(model.program.memory):
        for other in activations(model.program.memory):
            at = written.get(other.name, -1)
            if victim is not other and other.name in written and victim.first < at < victim.last:
                pairs.append((victim.name, other.name))
    return pairs


@pytest.mark.parametrize("fusion", ["off", "all"])
def test_tensors_that_overlap_while_both_are_alive_spoil_the_values(fusion: str) -> None:
    model = asim.compile(residual(), soc="Ascend310", fusion=fusion, disable_reuse_memory=True)
    right = values(model)["y"]
    assert np.isfinite(right.astype(np.float32)).all()
    pairs = clobbering(model)
    assert len(pairs) >= 4
    for victim, other in pairs:
        wrong = values(model, moved(model.program.memory, victim, other))["y"]
        assert not np.array_equal(wrong, right), f"{victim} on top of {other} went unnoticed"


def test_tensors_that_follow_each_other_may_share_memory() -> None:
    """The same change does no harm where one is dead before the other is made."""
    model = asim.compile(residual(), soc="Ascend310", fusion="off", disable_reuse_memory=True)
    right, plan = values(model)["y"], model.program.memory
    found = [
        (a, b)
        for a in activations(plan)
        for b in activations(plan)
        if a.last < b.first and a.bytes >= b.bytes
    ]
    assert found
    for dead, later in found:
        np.testing.assert_array_equal(values(model, moved(plan, later.name, dead.name))["y"], right)


def test_a_task_that_runs_before_its_input_is_there_reads_garbage() -> None:
    model = asim.compile(residual(), soc="Ascend310", fusion="off")
    order = [record.task for record in asim.simulate(model).trace.tasks]
    right = values(model)["y"]
    for place in range(len(order) - 1):
        swapped = [*order[:place], order[place + 1], order[place], *order[place + 2 :]]
        wrong = values(model, order=swapped)["y"].astype(np.float32)
        assert not np.array_equal(wrong, right), f"tasks {order[place]} and {order[place + 1]}"


# ------------------------------------------------------------------------------------------------- whole prog


def root(plan: MemoryPlan, name: str) -> str:
    """The region whose memory a region is, or lies in."""
    while (above := plan.regions[name].alias_of) is not None:
        name = above
    return name


def before(program: Program) -> list[set[int]]:
    """By task, all tasks that have ended for sure when it starts: those before it in its stream, those it
    waits for, and theirs."""
    number = {task.id: place for place, task in enumerate(program.tasks)}
    last: dict[int, int] = {}
    known: list[set[int]] = []
    for place, task in enumerate(program.tasks):
        direct = [number[other] for other in task.waits_for] + (
            [last[task.stream]] if task.stream in last else []
        )
        known.append(set(direct).union(*(known[other] for other in direct)))
        last[task.stream] = place
    return known


def clashes(program: Program) -> list[str]:
    """Accesses of two tasks that nothing orders, to the same bytes, one of them a write."""
    plan, ended, found = program.memory, before(program), []
    spans = [
        [
            (r.offset, r.offset + r.bytes, access)
            for access in task.accesses
            if (r := plan.regions[access.region]).kind != "weight"
        ]
        for task in program.tasks
    ]
    for one in range(len(spans)):
        for other in range(one + 1, len(spans)):
            if one in ended[other]:
                continue
            for low, high, first in spans[one]:
                for start, stop, second in spans[other]:
                    if low < stop and start < high and (first.write or second.write):
                        found.append(
                            f"{program.tasks[one].name}: {first.region}, {program.tasks[other].name}: "
                            f"{second.region}"
                        )
    return found


def stale_reads(model: CompiledModel, order: list[int]) -> list[str]:
    """Reads of bytes that another tensor was written over since, in an order of execution; and reads of what
    nobody wrote."""
    program, plan, found = model.program, model.program.memory, []
    owners: list[tuple[int, int, str]] = []

    def own(region: Region) -> None:
        low, high, name = region.offset, region.offset + region.bytes, root(plan, region.name)
        kept = []
        for start, stop, owner in owners:
            if start < low:
                kept.append((start, min(stop, low), owner))
            if stop > high:
                kept.append((max(start, high), stop, owner))
        owners[:] = [piece for piece in kept if piece[0] < piece[1]] + [(low, high, name)]

    for tensor in model.graph.inputs:
        own(plan.regions[tensor.name])
    tasks = {task.id: task for task in program.tasks}
    for number in order:
        task = tasks[number]
        for access in task.accesses:
            region = plan.regions[access.region]
            if (
                access.write
                or region.kind in ("weight", "workspace")
                or plan.regions[root(plan, region.name)].kind == "weight"
            ):
                continue
            low, high, name = region.offset, region.offset + region.bytes, root(plan, region.name)
            here = [owner for start, stop, owner in owners if start < high and low < stop]
            if name not in here or any(owner != name for owner in here):
                found.append(f"{task.name} reads {region.name}: {sorted(set(here))}")
        for access in task.accesses:
            if access.write:
                own(plan.regions[access.region])
    return found


IN_GATE = {"": "squeezenet1_1", "cv": "bert_tiny_s64", "LoadBalance:3": "squeezenet1_1"}


@pytest.mark.parametrize(
    ("network", "chip", "mode"),
    [
        pytest.param(*where, mode, marks=() if IN_GATE.get(mode) == where[0] else pytest.mark.slow)
        for where in (
            ("squeezenet1_1", "Ascend310"),
            ("resnet18", "Ascend310P3"),
            ("bert_tiny_s64", "Ascend910A"),
            ("ghostnet", "Ascend910B1"),
            ("googlenet", "Ascend910B1"),
            ("se_resnet50", "Ascend310"),
            ("yolov5s", "Ascend310P3"),
        )
        for mode in ("", "cv", "LoadBalance:3")
    ],
)
def test_programs_never_touch_memory_that_others_need(
    network: str, chip: str, mode: str, models_dir: Path
) -> None:
    graph = asim.load(models_dir / f"{network}.onnx")
    model = asim.compile(graph, soc=chip, multi_stream_parallel_mode=mode)
    assert clashes(model.program) == []
    order = [record.task for record in asim.simulate(model).trace.tasks]
    assert sorted(order) == [task.id for task in model.program.tasks]
    assert stale_reads(model, order) == []


def test_the_checks_see_clashes(models_dir: Path) -> None:
    """A plan with every activation at address 0, and a program without its events."""
    model = asim.compile(
        asim.load(models_dir / "squeezenet1_1.onnx"),
        soc="Ascend310",
        multi_stream_parallel_mode="LoadBalance:3",
    )
    plan = model.program.memory
    piled = replace(
        plan,
        regions={
            name: replace(r, offset=0) if r.kind == "activation" else r for name, r in plan.regions.items()
        },
    )
    order = [record.task for record in asim.simulate(model).trace.tasks]
    assert stale_reads(replace(model, program=replace(model.program, memory=piled)), order)
    unordered = replace(
        model.program, tasks=tuple(replace(task, waits_for=()) for task in model.program.tasks)
    )
    assert clashes(unordered)
