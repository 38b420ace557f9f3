"""Streams: which tasks part, which events are needed, orders of operators, and that values do not depend on
any of it."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.graph.sorting import sorted_nodes
from ascendsim.lower.streams import StreamOptions, needed_waits, task_dependencies
from ascendsim.lower.streams.engines import by_engine


def branches(count: int = 3, length: int = 3, rows: int = 4) -> asim.Graph:
    """Branches that leave one tensor and meet again."""
    builder = asim.GraphBuilder("branches")
    x = builder.op("Exp", builder.input("x", (rows, 256)))
    ends = []
    for head in ("Sin", "Cos", "Tanh")[:count]:  # equal branches would be merged
        value = builder.op(head, x)
        for _ in range(length):
            value = builder.op("Softmax", value)
        ends.append(value)
    builder.output(builder.op("Sum", *ends), "y")
    return builder.build()


@cache
def as_it_comes() -> asim.CompiledModel:
    return asim.compile(branches(), "Ascend310P3")


def test_branches_stay_on_one_stream_unless_asked_for() -> None:
    assert {task.stream for task in as_it_comes().program.tasks} == {0}


@pytest.mark.parametrize("mode", ["MainStream:3", "LoadBalance:3"])
def test_branches_part_and_overlap_where_cores_are_free(mode: str) -> None:
    graph = branches()
    single = asim.simulate(asim.compile(graph, "Ascend310P3"))
    parted = asim.simulate(asim.compile(graph, "Ascend310P3", multi_stream_parallel_mode=mode))
    assert {task.stream for task in parted.trace.tasks} == {0, 1, 2}
    assert parted.duration_us < 0.7 * single.duration_us
    pairs = itertools.combinations(parted.trace.tasks, 2)
    assert any(
        one.stream != other.stream and one.start < other.end and other.start < one.end for one, other in pairs
    )


def test_large_tasks_of_several_streams_share_the_cores() -> None:
    graph = branches(rows=4096)
    single = asim.simulate(asim.compile(graph, "Ascend310P3"))
    parted = asim.simulate(asim.compile(graph, "Ascend310P3", multi_stream_parallel_mode="MainStream:3"))
    assert parted.duration_us > 0.8 * single.duration_us


def test_the_main_stream_takes_what_runs_one_after_another() -> None:
    program = asim.compile(branches(), "Ascend310P3", multi_stream_parallel_mode="MainStream:4").program
    assert program.tasks[0].stream == program.tasks[-1].stream == 0
    balanced = asim.compile(branches(), "Ascend310P3", multi_stream_parallel_mode="LoadBalance:4").program
    assert len({task.stream for task in balanced.tasks}) == 4


def test_cube_and_vector_operators_get_a_stream_each() -> None:
    builder = asim.GraphBuilder("cv")
    x = builder.input("x", (64, 64))
    product = builder.op("MatMul", x, builder.weight("w", (64, 64), lambda: np.eye(64, dtype=np.float32)))
    builder.output(builder.op("Softmax", builder.op("Softmax", product)))
    program = asim.compile(builder.build(), "Ascend310P3", multi_stream_parallel_mode="cv").program
    engines = program.info.engines
    streams = {task.name: task.stream for task in program.tasks}
    assert len({streams[name] for name, engine in engines.items() if engine == "cube"}) == 1
    assert {streams[name] for name, engine in engines.items() if engine == "cube"}.isdisjoint(
        streams[name] for name, engine in engines.items() if engine == "vector" and name in streams
    )


def test_cube_vector_and_ai_cpu_have_three_streams_in_the_mode_by_units() -> None:
    builder = asim.GraphBuilder("three")
    x = builder.input("x", (64, 64))
    product = builder.op("MatMul", x, builder.weight("w", (64, 64)), name="product")
    builder.output(builder.op("Softmax", product, name="softmax"))
    builder.output(builder.op("Det", x, name="det"))
    program = asim.compile(builder.build(), "Ascend310P3", multi_stream_parallel_mode="cv").program
    streams = {
        name: {program.tasks[number].stream for number in program.info.tasks_of[name]}
        for name in ("product", "softmax", "det")
    }
    assert program.info.engines["det"] == "ai_cpu"
    assert [len(one) for one in streams.values()] == [1, 1, 1]
    assert len(set.union(*streams.values())) == 3


def test_the_ai_cpu_leaves_the_stream_only_if_something_can_run_beside_it() -> None:
    assert by_engine([False, True, False], [(), (0,), (1,)]) == [0, 0, 0]
    assert by_engine([False, True, False, False], [(), (0,), (0,), (1, 2)]) == [0, 1, 0, 0]
    assert by_engine([False] * 4, [(), (0,), (0,), (1, 2)]) == [0] * 4


def test_a_part_may_be_launched_before_the_first_task_of_a_part_that_it_needs() -> None:
    """The third core task needs both others; the one without predecessors is launched last of the three."""
    on_ai_cpu, needs = [True, False, False, False], [(), (0,), (), (1, 2)]
    streams = by_engine(on_ai_cpu, needs)
    assert streams[1] == streams[3] != streams[0]


def test_streams_by_engine_hold_for_every_graph_and_launch_order() -> None:
    """Every task gets a stream, and one stream serves both engines only if the one's tasks wait for the
    other's."""
    generator = np.random.default_rng(0)
    for count in np.repeat(range(2, 12), 20):
        on_ai_cpu = [bool(item) for item in generator.random(count) < 0.4]
        needs = [tuple(other for other in range(task) if generator.random() < 0.3) for task in range(count)]
        streams = by_engine(on_ai_cpu, needs)
        assert len(streams) == count
        reached: list[set[int]] = []
        for needed in needs:
            reached.append(set(needed).union(*(reached[other] for other in needed)))
        for stream in set(streams):
            tasks = [task for task in range(count) if streams[task] == stream]
            if len({on_ai_cpu[task] for task in tasks}) == 2:
                assert any(
                    one in reached[other] and on_ai_cpu[one] != on_ai_cpu[other]
                    for one in tasks
                    for other in tasks
                )


@pytest.mark.parametrize(
    ("streams", "needs", "waits"),
    [
        ([0, 0, 0], [(), (0,), (1,)], [(), (), ()]),  # one stream needs no events
        ([0, 1, 0], [(), (0,), (0, 1)], [(), (0,), (1,)]),
        ([0, 0, 1, 1], [(), (0,), (1,), (0, 1)], [(), (), (1,), ()]),  # the stream knows already
        ([0, 1, 2], [(), (0,), (0, 1)], [(), (0,), (1,)]),  # what follows from another wait
        ([0, 1, 2, 2], [(), (), (0, 1), (0,)], [(), (), (0, 1), ()]),
    ],
)
def test_only_events_that_nothing_else_implies_are_left(
    streams: list[int], needs: list[tuple[int, ...]], waits: list[tuple[int, ...]]
) -> None:
    assert needed_waits(streams, needs) == waits


def test_nodes_without_tasks_hand_on_what_they_need() -> None:
    builder = asim.GraphBuilder("alias")
    x = builder.op("Exp", builder.input("x", (4, 64)))
    builder.output(builder.op("Softmax", builder.op("Reshape", x, np.array([64, 4]))))
    model = asim.compile(builder.build(), "Ascend310P3", fusion="off")
    needs = task_dependencies(model.graph, model.program.tasks, model.program.info.tasks_of)
    assert needs[0] == ()
    assert all(needs[1:])


@pytest.mark.parametrize(
    "settings",
    [
        {"multi_stream_parallel_mode": "MainStream:2"},
        {"multi_stream_parallel_mode": "LoadBalance:3"},
        {"topo_sorting_mode": 0},
        {"topo_sorting_mode": 1},
        {"topo_sorting_mode": 2, "multi_stream_parallel_mode": "cv"},
        {"disable_reuse_memory": True},
        {"schedule": "host", "multi_stream_parallel_mode": "MainStream:3"},
    ],
)
def test_values_do_not_depend_on_scheduling(settings: dict[str, object]) -> None:
    plain = as_it_comes()
    other = asim.compile(plain.source, "Ascend310P3", **settings)  # type: ignore[arg-type]
    inputs = asim.random_inputs(plain)
    for values in ("device", "float32"):
        wanted, got = (asim.run(model, inputs, values=values).outputs for model in (plain, other))  # type: ignore[arg-type]
        assert all(np.array_equal(wanted[name], got[name], equal_nan=True) for name in wanted)
        assert not any(np.isnan(array).any() for array in got.values())


@pytest.mark.parametrize("mode", range(4))
def test_every_order_runs_nodes_after_what_they_need(mode: int) -> None:
    graph = asim.load("tests/data/models/googlenet.onnx")
    order = sorted_nodes(graph, mode)
    place = {node: number for number, node in enumerate(order)}
    assert len(place) == len(graph)
    assert all(place[before] < place[node] for node in order for before in graph.predecessors(node))


def test_depth_first_ends_a_branch_before_the_next_begins() -> None:
    graph = branches(count=2, length=2)
    breadth, depth, reverse = ([node.op_type for node in sorted_nodes(graph, mode)] for mode in range(3))
    assert breadth == ["Exp", "Sin", "Cos", *["Softmax"] * 4, "Sum"]
    assert depth == reverse == ["Exp", "Sin", "Softmax", "Softmax", "Cos", "Softmax", "Softmax", "Sum"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"multi_stream_parallel_mode": "Balance:4"},
            "must be cv, LoadBalance:N or MainStream:N, not 'Balance:4'",
        ),
        ({"multi_stream_parallel_mode": "MainStream:65"}, "needs a number from 1 to 64"),
        ({"multi_stream_parallel_mode": "MainStream"}, "needs a number from 1 to 64"),
        ({"multi_stream_parallel_mode": "MainStream:0"}, "needs a number from 1 to 64"),
        ({"multi_stream_parallel_mode": "cv:3"}, "must be cv, LoadBalance:N or MainStream:N, not 'cv:3'"),
        (
            {"multi_stream_parallel_mode": "cv", "enable_single_stream": True},
            "goes without enable_single_stream",
        ),
        ({"topo_sorting_mode": 4}, "topo_sorting_mode must be one of 0, 1, 2, 3, not 4"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        asim.compile(branches(), **options)  # type: ignore[arg-type]


def test_stream_options_read_the_number() -> None:
    assert StreamOptions.of(multi_stream_parallel_mode="LoadBalance:8") == StreamOptions(
        False, "LoadBalance", 8
    )
    assert StreamOptions.of(multi_stream_parallel_mode="MainStream:64") == StreamOptions(
        False, "MainStream", 64
    )
    assert StreamOptions.of(True) == StreamOptions(single=True)
    assert StreamOptions.of(multi_stream_parallel_mode="cv") == StreamOptions(mode="cv")
