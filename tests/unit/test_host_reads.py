"""Values that the host reads in the middle of a graph: what is launched before, what after, and when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import TaskKind

CHIP = "Ascend910A"


def chain() -> Graph:
    """Eight long operators, with a value of one number in the middle."""
    builder = asim.GraphBuilder("chain")
    value = builder.input("x", (4096, 4096))
    for _ in range(4):
        value = builder.op("Exp", value)
    builder.output(builder.op("ReduceSum", value, [0, 1], keepdims=0), "total")
    for _ in range(4):
        value = builder.op("Tanh", value)
    builder.output(value, "y")
    return builder.build()


def run(reads: str | Sequence[str], schedule: str = "eager") -> Result:
    return asim.simulate(asim.compile(chain(), CHIP, schedule=schedule, host_reads=reads, fusion="off"))


def starts(result: Result) -> dict[str, tuple[float, float]]:
    """When the launch of a task begins and when the task ends, in us."""
    by_task = {record.task: record for record in result.trace.tasks}
    at = result.trace.us
    return {
        task.name: (at(by_task[task.id].launch_start), at(by_task[task.id].end))
        for task in result.model.program.tasks
    }


@pytest.mark.parametrize("schedule", ["host", "eager"])
def test_nothing_is_launched_until_the_value_is_there(schedule: str) -> None:
    without, read = run("", schedule), run("total", schedule)
    (copy,) = [task for task in read.model.program.tasks if task.kind is TaskKind.MEMCPY_ASYNC]
    assert copy.name == "total_memcpy"
    tasks = [task.name for task in read.model.program.tasks]
    after = tasks[tasks.index(copy.name) + 1]
    times, free = starts(read), starts(without)
    assert times[after][0] == pytest.approx(times[copy.name][1], abs=0.01)
    assert free[after][0] < times[after][0] - 100  # the host runs ahead
    launch = asim.soc.load(CHIP).launch
    cost = launch.host_launch_us if schedule == "host" else launch.eager_launch_us
    launches = 1 if schedule == "host" else 2  # so slow that the copy's own shows too
    assert read.duration_us - without.duration_us == pytest.approx(launches * cost, abs=0.2 * cost)


def test_later_tasks_are_late_by_as_much() -> None:
    tasks = [task.name for task in run("total").model.program.tasks]
    times = starts(run("total"))
    cost = asim.soc.load(CHIP).launch.eager_launch_us
    behind = tasks[tasks.index("total_memcpy") + 1 :]
    assert len(behind) >= 4
    first = times[behind[0]][0]
    assert [times[name][0] for name in behind] == pytest.approx(
        [first + cost * n for n in range(len(behind))]
    )


def test_names_are_text_or_a_list() -> None:
    assert run(["total", "y"]).duration_us == run("total, y").duration_us > run("total").duration_us


def test_values_are_the_same() -> None:
    x = np.zeros((4096, 4096), np.float32)
    plain, read = (
        asim.run(asim.compile(chain(), CHIP, schedule="eager", host_reads=names), {"x": x}).outputs
        for names in ("", "total")
    )
    assert plain is not None
    assert read is not None
    assert list(plain) == list(read) == ["total", "y"]
    for name, value in plain.items():
        np.testing.assert_array_equal(value, read[name])


def test_streams_of_their_own_wait_too() -> None:
    """Nothing of any stream starts before the host has read, if it comes later in the program."""
    builder = asim.GraphBuilder("two")
    x, y = builder.input("x", (4096, 4096)), builder.input("y", (4096, 4096))
    total = builder.output(builder.op("ReduceSum", builder.op("Exp", x), [0, 1], keepdims=0), "total")
    assert total is None or total
    builder.output(builder.op("Neg", y), "z")
    options = {"schedule": "host", "multi_stream_parallel_mode": "MainStream:2"}
    model = asim.compile(builder.build(), CHIP, fusion="off", host_reads="total", **options)
    result = asim.simulate(model)
    times = starts(result)
    names = [task.name for task in model.program.tasks]
    at = names.index("total_memcpy")
    assert len({task.stream for task in model.program.tasks}) == 2
    assert names[at + 1 :]
    assert all(times[name][0] >= times["total_memcpy"][1] - 0.01 for name in names[at + 1 :])


def test_errors_name_what_to_do() -> None:
    with pytest.raises(InputError, match='is for graphs that the host launches, not schedule "sink"'):
        run("total", "sink")
    with pytest.raises(InputError, match="must name a tensor that the compiled graph makes, not totl"):
        run("totl")
    with pytest.raises(InputError, match="must name a tensor that the compiled graph makes, not x"):
        run("x")
    with pytest.raises(InputError, match="host_reads must be text or a sequence of texts"):
        run([1])  # type: ignore[list-item]


def test_open_shapes_are_an_error() -> None:
    builder = asim.GraphBuilder("open")
    builder.output(builder.op("Relu", builder.input("x", ("n", 64))), "y")
    with pytest.raises(InputError, match="host_reads goes with fixed shapes and without control flow"):
        asim.compile(builder.build(), CHIP, schedule="host", host_reads="y")
