"""The graph IR: use lists, multiple edges, control edges, removal, copying."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Constant, Graph, Use
from ascendsim.graph.text import parse_text, to_text
from ascendsim.graph.verify import verify


def chain(length: int) -> Graph:
    graph = Graph("chain")
    tensor = graph.add_input("x", DType.FLOAT32, (4,))
    for _ in range(length):
        tensor = graph.add_node("Relu", [tensor]).output
    graph.outputs.append(tensor)
    return graph


def test_two_nodes_may_be_joined_by_several_edges():
    graph = chain(1)
    relu = graph.nodes[0]
    add = graph.add_node("Add", [relu.output, relu.output])
    assert relu.output.uses == (Use(add, 0), Use(add, 1))
    assert relu.output.consumers == (add,)


def test_replace_uses_moves_every_edge_and_the_graph_output():
    graph = chain(2)
    first, second = graph.nodes
    graph.replace_uses(second.output, first.output)
    assert graph.outputs == [first.output]
    graph.replace_uses(first.output, graph.inputs[0], outputs_too=False)
    assert first.output.uses == ()
    assert second.inputs == (graph.inputs[0],)
    assert graph.outputs == [first.output]


def test_a_used_node_cannot_be_removed():
    graph = chain(2)
    with pytest.raises(
        GraphError, match=r"node 'Relu' cannot be removed: its output 'Relu_out' is still used"
    ):
        graph.remove_node(graph.nodes[0])


def test_removing_a_node_takes_its_edges_off_both_ends():
    graph = chain(2)
    first, second = graph.nodes
    graph.outputs[:] = [first.output]
    first.add_control(second)
    graph.remove_node(second)
    assert first.control == ()
    assert first.output.uses == ()
    assert list(graph.tensors) == ["x", "Relu_out"]


def test_control_edges_order_nodes_that_share_no_data():
    graph = chain(1)
    late = graph.nodes[0]
    early = graph.add_node("Relu", [graph.inputs[0]])
    late.add_control(early)
    assert [node.name for node in graph.topological()] == [early.name, late.name]
    late.remove_control(early)
    assert graph.topological()[0] is late


def test_a_cycle_is_named():
    graph = chain(3)
    graph.nodes[0].set_input(0, graph.nodes[2].output)
    with pytest.raises(GraphError, match=r"graph 'chain' has a cycle through nodes Relu, Relu_1, Relu_2"):
        graph.topological()


def test_make_constant_keeps_name_and_uses():
    graph = chain(2)
    first, second = graph.nodes
    graph.make_constant(first, [Constant(np.ones(4, np.float32))])
    assert [node.name for node in graph.nodes] == [second.name]
    tensor = graph.tensors["Relu_out"]
    assert tensor.is_constant
    assert tensor.producer is None
    assert second.inputs == (tensor,)
    verify(graph)


def test_a_shape_only_constant_says_why_it_has_no_values():
    with pytest.raises(GraphError, match="file w.bin is missing.*weights"):
        Constant(absent_because="file w.bin is missing").array()


def test_a_loader_runs_once_and_only_when_asked():
    calls = []

    def load():
        calls.append(1)
        return np.zeros(2)

    constant = Constant(loader=load)
    assert constant.available
    assert not calls
    constant.array()
    constant.array()
    assert len(calls) == 1


def test_elements_of_a_huge_shape_do_not_overflow():
    graph = Graph()
    assert graph.add_input("x", DType.INT8, (1 << 40, 1 << 40)).elements == 1 << 80


CAPTURES = """\
graph outer {
  input %c: bool[]
  input %x: float32[2]
  relu: %y: float32[2] = Relu(%x)
  if: %z: float32[2] = If(%c) {else_branch = graph no {
    neg: %n: float32[2] = Neg(%y)
    output %n
  }, then_branch = graph yes {
    id: %p: float32[2] = Identity(%x)
    output %p
  }} after (relu)
  output %z
}
"""


def test_a_copy_is_independent_and_its_subgraphs_capture_the_copy():
    graph = parse_text(CAPTURES)
    twin = copy_graph(graph)
    verify(twin)
    assert to_text(twin) == CAPTURES
    inner = dict(twin.node("if").subgraphs)["else_branch"]
    assert inner.node("neg").inputs == (twin.tensors["y"],)
    twin.node("relu").attributes["alpha"] = 1.0
    assert to_text(graph) == CAPTURES


def test_captured_tensors_make_predecessors():
    graph = parse_text(CAPTURES)
    assert set(graph.predecessors(graph.node("if"))) == {graph.node("relu")}
    assert [node.name for node in graph.topological()] == ["relu", "if"]
    assert {tensor.name for _, sub in graph.node("if").subgraphs for tensor in sub.captured()} == {"x", "y"}


@pytest.mark.parametrize("length", [10_000])
def test_large_graphs_are_handled_in_linear_time(length):
    start = time.process_time()
    graph = chain(length)
    nodes = graph.topological()
    for before, after in pairwise(nodes):
        after.add_control(before)
    verify(graph)
    graph.outputs[:] = [graph.inputs[0]]
    for node in reversed(nodes):
        graph.remove_node(node)
    assert len(graph) == 0
    assert time.process_time() - start < 6  # a quadratic step takes half a minute


def test_who_waits_for_what_becomes_a_constant_waits_for_what_that_waited_for() -> None:
    graph = Graph("waiting")
    x = graph.add_input("x", DType.FLOAT32, (2,))
    first, folded, last = (graph.add_node("Relu", [x], name=name) for name in ("first", "folded", "last"))
    folded.add_control(first)
    last.add_control(folded)
    graph.make_constant(folded, [Constant(np.zeros(2, np.float32))])
    assert last.control == (first,)
