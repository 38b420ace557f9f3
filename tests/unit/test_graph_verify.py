"""Every rule of `verify`, broken once."""

from __future__ import annotations

import re

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, UnsupportedOperatorError
from ascendsim.graph.ir import Graph, Tensor, Use
from ascendsim.graph.text import parse_text
from ascendsim.graph.verify import MAX_NESTING, verify

GOOD = """\
graph good {
  input %x: float32[2]
  const %w: float32[2] = [1.0, 2.0]
  add: %y: float32[2] = Add(%x, %w)
  relu: %z: float32[2] = Relu(%y)
  output %z
}
"""


def good() -> Graph:
    return parse_text(GOOD)


def broken(change) -> str:
    graph = good()
    change(graph)
    with pytest.raises(GraphError) as caught:
        verify(graph)
    return str(caught.value)


def test_a_good_graph_passes():
    verify(good())


def test_no_output():
    assert "graph 'good' must have an output" in broken(lambda g: g.outputs.clear())


def test_no_input_and_no_source():
    text = "graph g { n: %y: float32[2] = Relu(%y) output %y }"
    with pytest.raises(GraphError, match=r"graph 'g' must have an input, a constant or a source node"):
        verify(parse_text(text))


@pytest.mark.parametrize(
    "text",
    [
        "graph g { r: %y: float32[2] = RandomNormal() {shape = [2]} output %y }",
        "graph g { const %w: float32[1] = [1.0] r: %y: float32[1] = Relu(%w) output %y }",
        "graph g { const %w: float32[1] = [1.0] output %w }",
        "graph g { input %x: float32[1] output %x }",
    ],
)
def test_graphs_without_inputs_but_with_a_source_pass(text):
    verify(parse_text(text))


def test_an_input_that_is_a_node_output():
    assert "input 'y' of graph 'good' must not be the output of a node too" in broken(
        lambda g: g.inputs.append(g.tensors["y"])
    )


def test_an_input_that_is_a_constant():
    assert "must not be a constant too" in broken(lambda g: g.inputs.append(g.tensors["w"]))


def test_an_input_listed_twice():
    assert "must be listed once" in broken(lambda g: g.inputs.append(g.inputs[0]))


def test_a_foreign_input():
    assert "must be a tensor of this graph" in broken(
        lambda g: g.inputs.append(Tensor("q", DType.FLOAT32, (2,)))
    )


def test_a_foreign_output():
    message = broken(lambda g: g.outputs.append(Tensor("q", DType.FLOAT32, (2,))))
    assert "output 'q' of graph 'good' must be a tensor of this graph" in message


def test_a_renamed_tensor_that_is_not_registered_again():
    assert "must be registered under its own name" in broken(
        lambda g: setattr(g.tensors["y"], "name", "other")
    )


def test_a_tensor_without_source():
    assert "tensor 'x' has no source" in broken(lambda g: g.inputs.clear())


def test_a_constant_with_a_producer():
    def change(graph):
        graph.tensors["y"].constant = graph.tensors["w"].constant

    assert "tensor 'y' must not be both a constant and the output of a node" in broken(change)


def test_a_producer_that_does_not_list_the_tensor():
    assert "tensor 'y' must be output 0 of node 'add'" in broken(lambda g: g.node("add").outputs.clear())


def test_a_use_that_is_not_there():
    def change(graph):
        graph.tensors["x"]._uses[Use(graph.node("relu"), 0)] = None

    assert "is listed as input 0 of node 'relu', which reads something else" in broken(change)


def test_a_missing_use():
    message = broken(lambda g: g.tensors["w"]._uses.clear())
    assert "input 1 of node 'add' (Add) is missing in the use list of tensor 'w'" in message


def test_an_input_port_of_a_tensor_outside():
    def change(graph):
        graph.node("relu").set_input(0, Tensor("q", DType.FLOAT32, (2,)))

    assert "reads tensor 'q', which is in no graph around it" in broken(change)


def test_a_node_registered_under_another_name():
    graph = good()
    graph.node("relu").name = "wrong"
    with pytest.raises(GraphError, match="'wrong'"):
        verify(graph)


def test_one_tensor_made_by_two_nodes():
    def change(graph):
        graph.node("relu").outputs.append(graph.tensors["y"])

    assert "output 1 of node 'relu' (Relu) must be made by this node alone: 'y'" in broken(change)


def test_a_control_edge_from_another_graph():
    other = good()
    assert "control edge from a node outside its graph" in broken(
        lambda g: g.node("relu").add_control(other.node("add"))
    )


def test_an_isolated_node():
    def change(graph):
        graph.add_node("RandomNormal", [], name="alone")

    assert "node 'alone' (RandomNormal) has no edge at all" in broken(change)


def test_a_negative_dimension():
    assert "must have dimensions that are not negative, not [-2]" in broken(
        lambda g: setattr(g.tensors["y"], "shape", (-2,))
    )


def test_a_cycle():
    assert "has a cycle through nodes add, relu" in broken(
        lambda g: g.node("add").set_input(0, g.tensors["z"])
    )


def test_no_operator_type():
    assert "must have an operator type" in broken(lambda g: setattr(g.node("relu"), "op_type", ""))


NESTED = """\
graph outer {{
  input %c: bool[]
  if: %z: float32[2] = If(%c) {{then_branch = graph inner {{
    input %i: float32[2]
    id: %p: float32[2] = Identity(%{name})
    output %p
  }}}}
  output %z
}}
"""


def test_subgraphs_are_verified_too():
    graph = parse_text(NESTED.format(name="c"))
    verify(graph)
    dict(graph.node("if").subgraphs)["then_branch"].outputs.clear()
    with pytest.raises(GraphError, match="graph 'inner' must have an output"):
        verify(graph)


def test_a_captured_tensor_must_not_be_hidden():
    graph = parse_text(NESTED.format(name="c"))
    inner = dict(graph.node("if").subgraphs)["then_branch"]
    inner.add_tensor(Tensor("c", DType.BOOL, ()))
    with pytest.raises(GraphError, match=re.escape("is hidden by another tensor named 'c' in graph 'inner'")):
        verify(graph)


def test_nesting_is_bounded():
    graph = Graph("deep")
    inner = graph
    for _ in range(MAX_NESTING + 2):
        x = inner.add_input("x", DType.BOOL, ())
        body = Graph("body")
        node = inner.add_node("If", [x], then_branch=body)
        inner.outputs.append(node.output)
        inner = body
    inner.outputs.append(inner.add_input("x", DType.BOOL, ()))
    with pytest.raises(GraphError, match="must not nest deeper"):
        verify(graph)


class Known:
    def __contains__(self, node):
        return node.op_type == "Add"


def test_unknown_operators_are_listed_at_once_with_those_in_subgraphs():
    with pytest.raises(UnsupportedOperatorError, match=r"Relu \(nodes relu\)"):
        verify(good(), Known())
    with pytest.raises(UnsupportedOperatorError) as caught:
        verify(parse_text(NESTED.format(name="c")), Known())
    assert caught.value.operators == [("Identity", "id"), ("If", "if")]
