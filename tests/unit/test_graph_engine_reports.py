"""What passes of the graph engine say of themselves: that something changed if and only if the graph is
another one, and nothing any more the second time."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.engine.node_pass import NodePass
from ascendsim.passes.engine.stages import after_fusion
from ascendsim.passes.engine.traversal import Traversal
from ascendsim.passes.rewriting.passes import run_pass
from tests.unit.test_graph_engine_golden import BODIES

OPSET = default_opset()
STAGES = after_fusion(OPSET)
NODE_PASSES = {item.name: item for stage in STAGES for item in stage.node_passes}
PASSES = {item.name: item for stage in STAGES for item in (*stage.closing, *stage.passes)}


def graphs() -> dict[str, Graph]:
    """A small graph for each pass, and one in which all of them stand one behind the other."""
    found = {}
    for name, body in BODIES.items():
        b = asim.GraphBuilder(name)
        b.output(b.op("Relu", body(b, b.input("x", (2, 3))), name="relu"), "y")
        found[name] = b.graph
    return {**found, "open": open_shape(), "marked": marked()}


def open_shape() -> Graph:
    """A shape vector of which only a part is known."""
    b = asim.GraphBuilder("open")
    x = b.input("x", ("n", 3))
    target = b.op("Concat", b.op("Shape", x), b.constant([1]), axis=0)
    b.output(b.op("Reshape", x, target), "y")
    return b.graph


def marked() -> Graph:
    """A sum of constants that must stay, though its values are known."""
    b = asim.GraphBuilder("marked")
    total = b.op("Add", b.constant([1, 2]), b.constant([1, 1]))
    assert total.producer is not None
    total.producer.attributes["no_const_folding"] = 1
    b.output(b.op("Reshape", b.input("x", (6,)), total), "y")
    return b.graph


def changed(item: NodePass, graph: Graph) -> bool:
    """Whether a pass says that it changed something: in what it returns, and in what it counts."""
    traversal = Traversal(graph, [item], OPSET)
    said = traversal.run()
    assert traversal.tallies[item.name].result().changed == said
    return said


@pytest.mark.parametrize("name", NODE_PASSES)
def test_a_pass_of_single_nodes_says_whether_it_changed_anything(name: str) -> None:
    for body, graph in graphs().items():
        before = to_text(graph)
        said = changed(NODE_PASSES[name], graph)
        after = to_text(graph)
        assert said == (before != after), body
        verify(graph)
        if said:
            changed(NODE_PASSES[name], graph)
            again = to_text(graph)
            assert not changed(NODE_PASSES[name], graph), body
            assert to_text(graph) == again, body


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_of_whole_graphs_says_whether_it_changed_anything(name: str) -> None:
    for body, graph in graphs().items():
        before = to_text(graph)
        said = run_pass(PASSES[name], graph).changed
        assert said == (before != to_text(graph)), body
        verify(graph)
        assert not run_pass(PASSES[name], graph).changed, body
