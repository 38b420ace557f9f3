"""Inputs that lie in the host's memory: copies in front of the network, their times, who waits for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import TaskKind
from ascendsim.passes.host_inputs import copy_us
from ascendsim.training.optimizers import Momentum

CHIP = "Ascend910A"
RATES = {"pinned": 23.4, "pageable": 13.0}  # GB/s, DeepSpeed issue 8531
BYTES = 64 * 1024 * 4


def line() -> Graph:
    """64 x 1024 values, and what is made of them."""
    builder = asim.GraphBuilder("line")
    builder.output(builder.op("Relu", builder.op("Neg", builder.input("x", (64, 1024)))))
    return builder.build()


def run(place: str, schedule: str = "sink", graph: Graph | None = None) -> Result:
    model = asim.compile(graph or line(), CHIP, host_inputs=place, schedule=schedule, fusion="off")
    return asim.simulate(model)


def copies(result: Result) -> list[str]:
    tasks = result.model.program.tasks
    return [task.name for task in tasks if task.kind is TaskKind.MEMCPY_ASYNC]


def test_inputs_that_lie_on_the_device_are_not_copied() -> None:
    assert copies(run("device")) == []


@pytest.mark.parametrize("place", RATES)
def test_an_input_is_copied_first_at_the_rate_of_its_memory(place: str) -> None:
    result = run(place)
    assert copies(result) == ["x_memcpy"]
    first, *_ = sorted(result.trace.tasks, key=lambda record: record.start)
    launch = asim.soc.load(CHIP).launch.task_launch_us
    taken = result.trace.us(first.end - first.start) - launch
    assert taken == pytest.approx(BYTES / (RATES[place] * 1e3), rel=1e-3)
    assert copy_us(BYTES, place, asim.soc.load(CHIP).launch) == pytest.approx(taken, rel=1e-3)
    assert all(record.start >= first.end for record in result.trace.tasks if record is not first)


def test_msprof_calls_it_a_task_of_the_runtime() -> None:
    result = run("pinned")
    (row,) = [row for row in result.to_dataframe().to_dict("records") if row["OP Type"] == "MemcpyAsync"]
    assert row["Task Type"] == "MEMCPY_ASYNC"
    view = result.profile.tasks[0]
    assert not view.on_ai_core
    assert not view.is_communication


def test_only_a_copy_out_of_pageable_memory_keeps_the_host() -> None:
    """The host launches Neg 88 us after the copy, or 88 us after its end."""
    gap = asim.soc.load(CHIP).launch.eager_launch_us
    spent = {}
    for place in RATES:
        result = run(place, "eager")
        by_name = {task.name: result.trace.tasks[i] for i, task in enumerate(result.model.program.tasks)}
        starts = [result.trace.us(record.start) for record in by_name.values()]
        spent[place] = starts[1] - starts[0]
    assert spent["pinned"] == pytest.approx(gap, abs=0.1)
    launch = asim.soc.load(CHIP).launch.task_launch_us
    assert spent["pageable"] == pytest.approx(gap + launch + BYTES / 13e3, abs=0.1)


def test_values_are_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    given, copied = (
        asim.run(asim.compile(line(), CHIP, host_inputs=place), {"x": x}).outputs
        for place in ("device", "pinned")
    )
    assert given is not None
    assert copied is not None
    assert list(given) == list(copied)
    for name, value in given.items():
        np.testing.assert_array_equal(value, copied[name])


@pytest.mark.parametrize("optimizer", [Momentum(0.9), None])
def test_a_training_step_copies_the_batch_and_keeps_weights_and_moments(
    models_dir: Path, optimizer: Momentum | None
) -> None:
    graph = asim.load(models_dir / "lenet5.onnx", batch=4)
    step = asim.training_step(graph, loss="cross_entropy", optimizer=optimizer)
    model = asim.compile(step.graph, CHIP, host_inputs="pinned", schedule="eager")
    names = [task.name for task in model.program.tasks if task.kind is TaskKind.MEMCPY_ASYNC]
    assert names == ["input_memcpy", "labels_memcpy"]
    assert [task.name for task in model.program.tasks][:2] == names


def test_a_single_number_goes_with_the_launch() -> None:
    builder = asim.GraphBuilder("scaled")
    x, factor = builder.input("x", (4, 16)), builder.input("factor", (1,))
    builder.output(builder.op("Mul", x, factor))
    assert copies(run("pinned", graph=builder.build())) == ["x_memcpy"]


def test_an_unknown_place_is_an_error() -> None:
    with pytest.raises(InputError, match="host_inputs must be one of device, pinned, pageable, not 'pined'"):
        asim.compile(line(), CHIP, host_inputs="pined")


def test_open_shapes_are_an_error() -> None:
    """Their pieces take what other pieces made."""
    builder = asim.GraphBuilder("open")
    builder.output(builder.op("Relu", builder.input("x", ("n", 64))))
    with pytest.raises(InputError, match="host_inputs goes with fixed shapes and without control flow"):
        asim.compile(builder.build(), CHIP, host_inputs="pinned")
