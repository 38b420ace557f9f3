"""How a run goes on where values would decide and there are none, and what a look at a value costs where
there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.runtime.control_flow import MAX_ITERATIONS
from ascendsim.runtime.host_run import Choices, HostRun
from ascendsim.runtime.pieces import Pieces


def node_of(op_type: str) -> Node:
    return Graph("g").add_node(op_type, [], 1, name="n")


# ---------------------------------------------------------------------------------------- what the user asked


def chooser(**choices: Any) -> HostRun:
    def refuse(graph: Graph, inner: Sequence[int]) -> Any:
        raise AssertionError(graph)

    return HostRun(Pieces(default_opset(), refuse), None, Choices(**choices))


IF, CASE = ("then_branch", "else_branch"), ("b0", "b1", "b2")


@pytest.mark.parametrize(
    ("chosen", "other", "names", "wanted"),
    [
        ("then", None, IF, 0),
        ("else", None, IF, 1),
        ("else_branch", None, IF, 1),
        (1, None, IF, 1),
        (0, None, CASE, 0),
        (2, None, CASE, 2),
        ("b1", None, CASE, 1),
        (None, 1, CASE, 1),
        (None, 7, CASE, 2),
        (None, 7, IF, 1),
        (0, 1, IF, 0),
    ],
)
def test_a_branch_is_the_users_or_the_one_that_all_others_take(
    chosen: Any, other: int | None, names: tuple[str, ...], wanted: int
) -> None:
    branches = {} if chosen is None else {"n": chosen}
    assert chooser(branches=branches, other=other).choose(node_of("If"), names) == wanted


@pytest.mark.parametrize(
    ("chosen", "names", "op_type", "message"),
    [
        (2, IF, "If", "option branches of node 'n' must be one of then, else, not 2"),
        (-1, IF, "If", "must be one of then, else, not -1"),
        (3, CASE, "Case", "must be one of b0, b1, b2, not 3"),
        ("b3", CASE, "Case", "must be one of b0, b1, b2, not 'b3'"),
        (None, IF, "If", "branches={'n': 'then' or 'else'}"),
        (None, CASE, "Case", "branches={'n': a number from 0 to 2}"),
    ],
)
def test_a_branch_that_does_not_exist_or_is_not_named(
    chosen: Any, names: tuple[str, ...], op_type: str, message: str
) -> None:
    with pytest.raises(asim.InputError) as caught:
        chooser(branches={} if chosen is None else {"n": chosen}).choose(node_of(op_type), names)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("trips", "other", "limit", "wanted"),
    [
        (5, None, None, 5),
        (5, None, 3, 3),
        (2, None, 3, 2),
        (2, None, -4, 0),
        (None, None, 3, 3),
        (None, None, -3, 0),
        (None, None, MAX_ITERATIONS, MAX_ITERATIONS),
        (None, 2, None, 1),
        (None, 2, 9, 1),
        (None, 2, 0, 0),
        (4, 2, 9, 4),
    ],
)
def test_iterations_are_the_users_or_as_many_as_the_model_allows(
    trips: int | None, other: int | None, limit: int | None, wanted: int
) -> None:
    host = chooser(trips={} if trips is None else {"n": trips}, other=other)
    assert host.count(node_of("Loop"), limit) == wanted


@pytest.mark.parametrize("limit", [None, MAX_ITERATIONS + 1])
def test_a_number_of_iterations_that_nobody_knows(limit: int | None) -> None:
    with pytest.raises(
        asim.InputError, match=r"node 'n' \(Loop\) runs a number of iterations that depends on values"
    ):
        chooser().count(node_of("Loop"), limit)


# ------------------------------------------------------------------------------------- looks and decisions of


def counting_loop(open_rows: bool) -> onnx.ModelProto:
    """x / 2 as often as the sum of its elements is above 1 (at most 9 times), then Relu."""
    line = helper.make_tensor_value_info
    rows = "n" if open_rows else 2
    weights = [
        numpy_helper.from_array(np.array(value, np.float32), name)
        for value, name in ((0.5, "half"), (1, "one"))
    ]
    nodes = [
        helper.make_node("Mul", ["v", "half"], ["w"], name="mul"),
        helper.make_node("ReduceSum", ["w"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Greater", ["sum", "one"], ["go"], name="greater"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            line("i", TensorProto.INT64, []),
            line("c", TensorProto.BOOL, []),
            line("v", TensorProto.FLOAT, [rows, 4]),
        ],
        [line("go", TensorProto.BOOL, []), line("w", TensorProto.FLOAT, [rows, 4])],
        weights,
    )
    most = numpy_helper.from_array(np.array(9, np.int64), "most")
    loop = helper.make_node("Loop", ["most", "", "x"], ["y"], name="loop", body=body)
    graph = helper.make_graph(
        [loop, helper.make_node("Relu", ["y"], ["z"], name="relu")],
        "g",
        [line("x", TensorProto.FLOAT, [rows, 4])],
        [line("z", TensorProto.FLOAT, [rows, 4])],
        [most],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("open_rows", [False, True])
@pytest.mark.parametrize(("scale", "trips"), [(0.1, 1), (1, 3), (100, 9)])
def test_each_test_of_a_condition_on_the_device_is_a_look_of_the_host_or_a_decision_of_the_scheduler(
    open_rows: bool, scale: float, trips: int
) -> None:
    model = asim.compile(asim.load(counting_loop(open_rows)), soc="Ascend310P3")
    x = np.full((2, 4), scale, np.float32)
    result = asim.run(model, {"x": x}, values="float32")
    np.testing.assert_allclose(result.outputs["z"], x / 2**trips)
    first = [(task.read_backs, task.decisions) for task in result.model.program.tasks if "mul" in task.name]
    (last,) = [
        (task.read_backs, task.decisions) for task in result.model.program.tasks if "relu" in task.name
    ]
    ends_by_value = trips < 9
    if open_rows:  # nothing to look at before the first iteration; the limit of 9 needs no look
        assert first == [(0, 0)] + [(1, 0)] * (trips - 1)
        assert last == (int(ends_by_value), 0)
    else:
        assert first == [(0, 1)] * trips
        assert last == (0, int(ends_by_value))
    others = [
        task for task in result.model.program.tasks if "mul" not in task.name and "relu" not in task.name
    ]
    assert all((task.read_backs, task.decisions) == (0, 0) for task in others)
