"""Modes: who launches tasks, what it costs, and that it hides behind execution where tasks are long."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError, SimulationError
from ascendsim.graph.ir import Tensor
from ascendsim.graph.sorting import called_nodes
from ascendsim.machine.clock import Clock
from ascendsim.machine.launches import launch_ticks
from ascendsim.profiling.chrome_trace import chrome_trace
from tests.support.toy_programs import copy_block, program_of, task_of
from tests.support.toy_soc import bare


def three_tasks(mode: str) -> list[int]:
    soc = bare(launch={"host_launch_us": 5, "eager_launch_us": 50})
    tasks = [replace(task_of((copy_block(1), 1), id=number), name=name) for number, name in enumerate("aab")]
    return launch_ticks(program_of(*tasks, mode=mode), soc.launch, Clock.of(soc))


def test_the_device_has_everything_at_once_when_the_graph_is_sunk() -> None:
    assert three_tasks("sink") == [0, 0, 0]


def test_the_host_launches_task_after_task() -> None:
    assert three_tasks("host") == [5000, 10000, 15000]


def test_a_framework_pays_once_an_operator_and_a_launch_for_its_further_tasks() -> None:
    assert three_tasks("eager") == [50000, 55000, 105000]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(SimulationError, match="must be one of sink, host, eager"):
        three_tasks("lazy")


def graph(rows: int) -> asim.Graph:
    builder = asim.GraphBuilder("chain")
    value = builder.input("x", (rows, 1024))
    for _ in range(6):
        value = builder.op("Exp", value)
        value = builder.op("Softmax", value)
    builder.output(value)
    return builder.build()


def duration(rows: int, schedule: str) -> float:
    return asim.simulate(asim.compile(graph(rows), "Ascend310P3", schedule=schedule)).duration_us


def test_host_launches_show_where_tasks_are_short_and_hide_where_they_are_long() -> None:
    assert duration(1, "host") > 2 * duration(1, "sink")
    assert duration(20_000, "host") < 1.02 * duration(20_000, "sink")


@pytest.mark.parametrize("schedule", ["host", "eager"])
def test_launches_of_the_host_follow_each_other_and_end_before_their_tasks_start(schedule: str) -> None:
    result = asim.simulate(asim.compile(graph(1), "Ascend310P3", schedule=schedule))
    tasks = sorted(result.trace.tasks, key=lambda record: record.task)
    assert tasks[0].launch_start == 0
    assert all(
        before.launch_end == after.launch_start < after.launch_end for before, after in pairwise(tasks)
    )
    assert all(record.launch_end <= record.start for record in tasks)
    host, *others = result.plot_timeline().lanes
    assert (host.name, len(host)) == ("Host launches", len(tasks))
    assert others[0].name == "Stream 0"
    late = result.plot_timeline(window=(result.duration_us - 1, result.duration_us)).lanes[0]
    assert 0 < len(late) < len(tasks)
    events = chrome_trace(result.profile)["traceEvents"]
    assert sum(event.get("cat") == "launch" for event in events) == len(tasks)


def test_a_sunk_graph_has_no_launches_of_the_host() -> None:
    result = asim.simulate(asim.compile(graph(1), "Ascend310P3"))
    assert {(record.launch_start, record.launch_end) for record in result.trace.tasks} == {(-1, -1)}
    assert result.plot_timeline().lanes[0].name == "Stream 0"
    assert "Host" not in [event["args"].get("name") for event in chrome_trace(result.profile)["traceEvents"]]


def test_eager_fuses_nothing() -> None:
    eager, sink = (asim.compile(graph(1), "Ascend310P3", schedule=schedule) for schedule in ("eager", "sink"))
    assert eager.program.mode == "eager"
    assert len(eager.program.tasks) == len(eager.graph.nodes) > len(sink.program.tasks)


def test_an_unknown_schedule_names_those_that_exist() -> None:
    with pytest.raises(
        InputError, match="schedule must be one of sink, host, eager, not 'sunk'; did you mean sink"
    ):
        asim.compile(graph(1), schedule="sunk")


def late_cast() -> asim.Graph:
    """A chain, and two nodes of another that could run before it ends."""
    builder = asim.GraphBuilder("late")
    first = builder.op("Exp", builder.input("x", (64, 1024)), name="first")
    other = builder.op("Neg", builder.input("y", (64, 1024)), name="other")
    builder.output(builder.op("Abs", other, name="last"))
    graph = builder.build()
    changed = graph.add_tensor(Tensor("changed", other.dtype, other.shape))
    assert other.producer is not None
    graph.add_node("Relu", [first], [changed], name="put in later")
    graph.outputs.append(changed)
    other.producer.set_input(0, changed)
    return graph


def test_a_framework_calls_in_the_order_of_the_program() -> None:
    """What was put in later, here a Relu, is called when somebody needs it, not after all that is ready."""
    graph = late_cast()
    extra = graph.add_tensor(Tensor("extra", graph.tensors["x"].dtype, graph.tensors["x"].shape))
    node = graph.add_node("Sqrt", [graph.tensors["x"]], [extra], name="ready at once")
    graph.place_before(node, graph.tensors["changed"].producer)
    assert [node.name for node in called_nodes(graph)] == [
        "first",
        "put in later",
        "other",
        "last",
        "ready at once",
    ]
    assert [node.name for node in graph.topological()] == [
        "first",
        "ready at once",
        "put in later",
        "other",
        "last",
    ]


def test_a_framework_updates_weights_behind_all_gradients(models_dir: Path) -> None:
    """Updates are ready early, and run early where the device has the whole graph."""
    network = asim.load(models_dir / "lenet5.onnx", batch=8)
    step = asim.training_step(network, loss="cross_entropy", optimizer="adam")
    places = {}
    for schedule in ("sink", "eager"):
        model = asim.compile(step.graph, "Ascend910A", schedule=schedule, fusion="off")
        names = [task.name for task in model.program.tasks]
        updates = [place for place, name in enumerate(names) if name.startswith("Optimizer/")]
        gradients = [place for place, name in enumerate(names) if "Backprop" in name or "GradWith" in name]
        places[schedule] = updates[0], gradients[-1]
    assert places["sink"][0] < places["sink"][1]
    assert places["eager"][0] > places["eager"][1]
