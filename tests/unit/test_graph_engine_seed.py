"""The examples of CANN's introduction to the graph engine, each on its own small graph."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder as PlainBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.onnx_models import model, node, value


def shape_chain() -> Graph:
    """Data -> Shape -> Gather([1, 0, 2, 3]) -> Reshape(Data, .), nothing inferred yet."""
    b = PlainBuilder("seed")
    x = b.input("x", (2, 3, 4, 5))
    order = b.op("Gather", b.op("Shape", x, name="shape"), np.array([1, 0, 2, 3]), name="gather")
    b.output(b.op("Reshape", x, order, name="reshape"), "y")
    return b.build()


def test_two_plus_three_is_five():
    b = asim.GraphBuilder()
    x = b.input("x", (2,))
    b.output(b.op("Mul", x, b.op("Add", b.constant(2.0), b.constant(3.0))), "y")
    result = asim.optimize(b.build())
    (node,) = result.graph.nodes
    assert node.op_type == "Mul"
    assert [tensor.constant.array() for tensor in result.graph.constants] == [5.0]


def test_shape_gather_reshape_of_known_shape_disappears():
    result = asim.optimize(shape_chain())
    (node,) = result.graph.nodes
    assert node.op_type == "Reshape"
    assert node.output.shape == (3, 2, 4, 5)
    assert node.required(1).constant.array().tolist() == [3, 2, 4, 5]
    assert result.graph.inputs[0].shape == (2, 3, 4, 5)
    assert [tensor.name for tensor in result.graph.constants] == [node.required(1).name]


def test_inference_alone_leaves_the_output_unknown():
    """Without folding the second input of Reshape is no constant, so nobody can tell the shape: the two need
    each other."""
    result = asim.optimize(shape_chain(), passes=[])
    assert [node.op_type for node in result.graph.nodes] == ["Shape", "Gather", "Reshape"]
    assert result.graph.outputs[0].shape == (None,) * 4


def test_common_subexpressions_collapse_along_the_chain():
    b = asim.GraphBuilder()
    x = b.input("x", (4, 4))
    left, right = (b.op("Tanh", b.op("Exp", b.op("Add", x, 1.5))) for _ in range(2))
    b.output(b.op("Sub", left, right), "y")
    result = asim.optimize(b.build())
    assert sorted(node.op_type for node in result.graph.nodes) == ["Add", "Exp", "Sub", "Tanh"]
    assert result.report.totals()["CommonSubexpressionEliminationPass"]["merged nodes"] == 3


def test_pruning_keeps_what_the_named_output_needs():
    b = asim.GraphBuilder()
    x, unused = b.input("x", (4,)), b.input("z", (4,))
    wanted = b.op("Relu", x, name="wanted")
    b.output(b.op("Add", b.op("Exp", unused, name="exp"), wanted, name="sum"), "y")
    result = asim.optimize(b.build(), outputs=["wanted:0"])
    assert [node.name for node in result.graph.nodes] == ["wanted"]
    assert [tensor.name for tensor in result.graph.inputs] == ["x", "z"], "inputs of the model do not change"


def branches() -> tuple[Graph, Graph]:
    made = []
    for name, op_type in (("then", "Abs"), ("otherwise", "Neg")):
        made.append(Graph(name))
        made[-1].metadata["op"] = op_type
    return made[0], made[1]


def conditional(condition: object) -> Graph:
    """If(condition) then Abs(x) else Neg(x); behind it a Relu."""
    graph = Graph("conditional")
    x = graph.add_input("x", DType.FLOAT32, (3, 4))
    cond = (
        graph.add_input("cond", DType.BOOL, ())
        if condition is None
        else graph.add_constant("cond", np.array(condition))
    )
    then, otherwise = branches()
    for body in (then, otherwise):
        node = body.add_node(body.metadata["op"], [x], [f"{body.name}_out"], name=f"{body.name}_node")
        body.outputs.append(node.output)
    node = graph.add_node("If", [cond], ["chosen"], name="if", then_branch=then, else_branch=otherwise)
    result = graph.add_node("Relu", [node.output], ["y"], name="relu")
    graph.outputs.append(result.output)
    return graph


@pytest.mark.parametrize(("condition", "kept"), [(True, "Abs"), (False, "Neg")])
def test_a_constant_condition_leaves_one_branch(condition, kept):
    graph = conditional(condition)
    result = asim.optimize(graph)
    assert [node.op_type for node in result.graph.nodes] == [kept, "Relu"]
    assert result.graph.outputs[0].name == "y"
    assert result.graph.outputs[0].shape == (3, 4)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (y,) = evaluate(result.graph, default_opset(), {"x": x})
    np.testing.assert_array_equal(y, np.maximum(np.abs(x) if condition else -x, 0))
    totals = result.report.totals()
    assert totals["CondRemovePass"]["calls made"] == 1
    assert totals["InlinePartitionedCallPass"]["inlined calls"] == 1


def test_dead_edge_elimination_leaves_a_partitioned_call():
    result = asim.optimize(conditional(True), passes=["CondRemovePass"])
    call = result.graph.node("if")
    assert (call.domain, call.op_type) == ("ascend", "PartitionedCall")
    assert [inner.op_type for inner in call.attributes["f"].nodes] == ["Abs"]
    assert call.input_count == 0


def test_an_unknown_condition_keeps_both_branches():
    graph = conditional(None)
    result = asim.optimize(graph)
    assert [node.op_type for node in result.graph.nodes] == ["If", "Relu"]
    assert result.report.totals()["CondRemovePass"]["left: condition not constant"] >= 1


def test_the_switch_of_dead_edge_elimination():
    result = asim.optimize(conditional(True), oo_dead_code_elimination=False)
    assert "If" in [node.op_type for node in result.graph.nodes]


def test_equal_constants_become_one():
    b = asim.GraphBuilder()
    x = b.input("x", (8, 8))
    weights = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    first = b.op("MatMul", x, b.constant(weights, "w1"))
    b.output(b.op("MatMul", first, b.constant(weights.copy(), "w2")), "y")
    result = asim.optimize(b.build())
    assert [tensor.name for tensor in result.graph.constants] == ["w1"]
    assert result.before.constant_bytes == 2 * result.after.constant_bytes


def test_the_given_graph_stays_as_it_is():
    graph = shape_chain()
    twin = copy_graph(graph)
    asim.optimize(graph)
    assert [node.op_type for node in graph.nodes] == [node.op_type for node in twin.nodes]
    assert graph.outputs[0].shape is None


def test_outputs_named_on_loading_drop_operators_that_are_not_supported():
    proto = model(
        [node("Relu", "x", "body"), node("Nobody", "body", "y", domain="custom")],
        [value("x", (2, 3))],
        ["y"],
        domains=[("custom", 1)],
    )
    with pytest.raises(asim.UnsupportedOperatorError, match="custom::Nobody"):
        asim.load(proto)
    graph = asim.load(proto, outputs=["body"])
    assert [item.op_type for item in graph.nodes] == ["Relu"]


def test_loading_without_folding_keeps_every_node_of_the_file():
    proto = model(
        [node("Shape", "x", "s"), node("Gather", "s i", "g"), node("Reshape", "x g", "y")],
        [value("x", (2, 3, 4, 5))],
        ["y"],
        {"i": np.array([1, 0, 2, 3])},
    )
    graph = asim.load(proto, fold=False)
    assert [item.op_type for item in graph.nodes] == ["Shape", "Gather", "Reshape"]
    assert graph.outputs[0].shape == (3, 2, 4, 5)
    assert [item.op_type for item in asim.load(proto).nodes] == ["Reshape"]
    assert [item.op_type for item in asim.optimize(graph).graph.nodes] == ["Reshape"]
