"""Switch and Merge of TensorFlow 1: the dead side of a constant condition goes, other conditions are told."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph, Tensor


def switching(condition: bool | None, index_too: bool = False) -> Graph:
    """y = exp(x) + x if the condition holds, else -|x|; None makes the condition an input."""
    b = asim.GraphBuilder()
    x = b.input("x", (2, 3))
    pred: Tensor | np.ndarray = b.input("pred", (), "bool") if condition is None else np.array(condition)
    no, yes = b.ops("Switch", x, pred, outputs=2, name="switch", domain="ascend")
    sides = (
        b.op("Neg", b.op("Abs", no, name="abs"), name="neg"),
        b.op("Add", b.op("Exp", yes, name="exp"), yes, name="add"),
    )
    merged = b.ops("Merge", *sides, outputs=2, name="merge", domain="ascend")
    b.output(b.op("Relu", b.op("Neg", merged[0], name="back"), name="relu"), "y")
    if index_too:
        b.output(b.op("Add", merged[1], b.constant(np.array(10, np.int32)), name="number"), "n")
    return b.build()


@pytest.mark.parametrize(
    ("condition", "left"), [(True, ["Exp", "Add", "Neg", "Relu"]), (False, ["Abs", "Neg", "Neg", "Relu"])]
)
def test_only_the_side_that_is_alive_stays(condition: bool, left: list[str]) -> None:
    result = asim.optimize(switching(condition))
    assert [node.op_type for node in result.graph.topological()] == left
    assert result.report.totals()["SwitchDeadBranchElimination"]["dead nodes removed"] == 2
    assert result.graph.outputs[0].shape == (2, 3)
    model = asim.compile(switching(condition))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    expected = np.maximum(-(np.exp(x) + x) if condition else np.abs(x), 0)
    np.testing.assert_allclose(asim.run(model, {"x": x}, values="float32").outputs["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("condition", [False, True])
def test_the_number_of_the_side_becomes_a_constant(condition: bool) -> None:
    model = asim.compile(switching(condition, index_too=True))
    outputs = asim.run(model, {"x": np.ones((2, 3), np.float32)}).outputs
    assert outputs["n"] == 10 + condition


def test_a_second_run_changes_nothing() -> None:
    once = asim.optimize(switching(True)).graph
    assert [node.name for node in asim.optimize(once).graph.nodes] == [node.name for node in once.nodes]


def test_a_side_that_is_an_output_stays() -> None:
    b = asim.GraphBuilder()
    no, yes = b.ops("Switch", b.input("x", (2,)), np.array(True), outputs=2, name="switch", domain="ascend")
    b.output(b.op("Neg", no), "dead")
    b.output(b.op("Exp", yes), "alive")
    result = asim.optimize(b.build())
    assert "Switch" in {node.op_type for node in result.graph.nodes}
    assert any(kind.startswith("left") for kind in result.report.totals()["SwitchDeadBranchElimination"])


def test_a_condition_that_is_computed_is_told() -> None:
    with pytest.raises(asim.AscendSimError, match="its condition is not constant.*export the branches as If"):
        asim.compile(switching(None))


def test_dead_edges_stay_if_asked_for() -> None:
    result = asim.optimize(switching(True), oo_dead_code_elimination=False)
    assert {"Switch", "Merge"} <= {node.op_type for node in result.graph.nodes}


def test_a_switch_inside_the_dead_side_goes_with_it() -> None:
    b = asim.GraphBuilder()
    x, inner = b.input("x", (2,)), b.input("inner", (), "bool")
    no, yes = b.ops("Switch", x, np.array(True), outputs=2, name="outer", domain="ascend")
    sides = b.ops("Switch", no, inner, outputs=2, name="nested", domain="ascend")
    nested = b.op("Merge", b.op("Neg", sides[0]), b.op("Abs", sides[1]), name="joined", domain="ascend")
    b.output(b.op("Merge", nested, b.op("Exp", yes), name="merge", domain="ascend"), "y")
    result = asim.optimize(b.build())
    assert [node.op_type for node in result.graph.nodes] == ["Exp"]


def test_names_of_outputs_and_the_order_of_others_stay() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (2,))
    no, yes = b.ops("Switch", x, np.array(True), outputs=2, name="switch", domain="ascend")
    merged = b.ops("Merge", b.op("Neg", no, name="dead"), yes, outputs=2, name="merge", domain="ascend")
    b.output(merged[0], "y")
    b.output(merged[1], "n")
    early, late = b.op("Abs", x, name="early"), b.op("Sqrt", x, name="late")
    b.output(b.op("Add", early, late), "z")
    graph = b.build()
    graph.node("switch").add_control(graph.node("early"))
    graph.node("late").add_control(graph.node("switch"))
    result = asim.optimize(graph).graph
    assert [tensor.name for tensor in result.outputs] == ["y", "n", "z"]
    assert result.node("late").control == (result.node("early"),)
    outputs = asim.run(asim.compile(graph), {"x": np.ones(2, np.float32)}, values="float32").outputs
    assert outputs["n"] == 1
    np.testing.assert_array_equal(outputs["y"], np.ones(2, np.float32))
