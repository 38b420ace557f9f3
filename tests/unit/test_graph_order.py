"""Execution order: kept until something changes it, and found anew whatever changed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.verify import verify


def line(count: int) -> Graph:
    """Relu nodes in a row."""
    graph = Graph("line")
    tensor = graph.add_input("x", DType.FLOAT16, (4,))
    for number in range(count):
        tensor = graph.add_node("Relu", [tensor], name=f"n{number}").output
    graph.outputs.append(tensor)
    return graph


def plain_order(graph: Graph) -> list[Node]:
    """The definition: again and again the first node in insertion order whose predecessors have run."""
    done: list[Node] = []
    while len(done) < len(graph.nodes):
        done.append(
            next(
                node
                for node in graph.nodes
                if node not in done and all(before in done for before in graph.predecessors(node))
            )
        )
    return done


def test_insertion_order_that_can_run_is_execution_order() -> None:
    graph = line(5)
    assert graph.topological() == list(graph.nodes)


CHANGES: dict[str, Callable[[Graph], object]] = {
    "input": lambda graph: graph.node("n0").set_input(0, graph.node("n2").output),
    "control edge": lambda graph: graph.node("n0").add_control(graph.node("n3")),
    "new node": lambda graph: graph.add_node("Abs", [graph.inputs[0]], name="new"),
    "removed node": lambda graph: graph.remove_node(graph.node("n3")),
    "place": lambda graph: graph.place_before(graph.node("n3"), graph.node("n0")),
    "order": lambda graph: graph.reorder(graph.nodes[::-1]),
    "ports": lambda graph: graph.node("n3").truncate_inputs(0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_counts(change: str) -> None:
    graph = Graph("star")
    x = graph.add_input("x", DType.FLOAT16, (4,))
    for number in range(4):
        graph.add_node("Relu", [x], name=f"n{number}")
    graph.outputs.append(graph.node("n1").output)
    graph.topological()
    CHANGES[change](graph)
    assert graph.topological() == plain_order(graph)


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(seed: int) -> None:
    choice = random.Random(seed)
    graph = line(12)
    for _ in range(30):
        nodes = graph.topological()
        assert nodes == plain_order(graph)
        late, early = sorted(choice.sample(range(len(nodes)), 2), reverse=True)
        if choice.random() < 0.3:
            graph.place_before(nodes[late], nodes[early])
        elif choice.random() < 0.5:
            nodes[late].set_input(0, nodes[early].output)
        else:
            graph.add_node("Abs", [nodes[early].output])


def test_the_order_that_a_caller_got_is_its_own() -> None:
    graph = line(3)
    graph.topological().clear()
    assert len(graph.topological()) == 3


def test_verification_sorts_anew() -> None:
    graph = line(3)
    graph.topological()
    first = graph.node("n0")
    last = graph.node("n2").output
    first._inputs[0] = last  # behind the graph's back, as a broken pass might
    with pytest.raises(GraphError):
        verify(graph)
    with pytest.raises(GraphError, match="cycle"):
        graph.topological(anew=True)


def test_added_nodes_are_known() -> None:
    graph = line(2)
    before = graph.additions
    kept = graph.add_node("Abs", [graph.inputs[0]])
    graph.remove_node(graph.add_node("Exp", [graph.inputs[0]]))
    assert graph.added_since(before) == [kept]
    assert graph.added_since(graph.additions) == []
