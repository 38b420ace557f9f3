"""Whether one node could stand for several: paths that leave a set and come back, on random graphs."""

from __future__ import annotations

import random

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.passes.graph_kernel.groups import Groups
from ascendsim.passes.rewriting.control import way_back
from tests.support.gate import in_one

SEEDS = range(30)


def network(seed: int) -> Graph:
    """Additions of earlier results, some with control edges."""
    source = random.Random(seed)
    graph = Graph("net")
    tensors = [graph.add_input("x", DType.FLOAT32, (4,))]
    for number in range(14):
        node = graph.add_node("Add", source.choices(tensors[-6:], k=2), [f"t{number}"], name=f"n{number}")
        node.output.shape, node.output.dtype = (4,), DType.FLOAT32
        if number > 3 and source.random() < 0.2:
            node.add_control(graph.nodes[source.randrange(number)])
        tensors.append(node.output)
    graph.outputs.append(tensors[-1])
    return graph


def paths_from(graph: Graph, node: Node) -> set[Node]:
    """All nodes that have to wait for a node."""
    found: set[Node] = set()
    for other in graph.nodes:  # in the order in which they were made
        before = graph.predecessors(other)
        if node in before or not found.isdisjoint(before):
            found.add(other)
    return found


def left_and_entered(graph: Graph, inside: set[Node]) -> set[Node]:
    behind = set().union(*(paths_from(graph, node) for node in inside)) - inside
    return {node for node in behind if not paths_from(graph, node).isdisjoint(inside)}


@in_one("seed", SEEDS)
def test_what_lies_between_members(seed: int) -> None:
    graph = network(seed)
    groups, source = Groups(graph, default_opset()), random.Random(seed)
    for _ in range(20):
        inside = set(source.sample(graph.nodes, source.randint(1, 5)))
        wanted = left_and_entered(graph, inside)
        assert groups.between(inside) == wanted
        assert groups.has_between(inside) == bool(wanted)


@in_one("seed", SEEDS)
def test_a_way_back_is_found_where_there_is_one(seed: int) -> None:
    graph, source = network(seed), random.Random(seed)
    answers = set()
    for _ in range(20):
        inside = set(source.sample(graph.nodes, source.randint(1, 4)))
        starts = {before for node in inside for before in graph.predecessors(node)} - inside
        found = way_back(graph, inside, starts)
        assert (found is not None) == bool(left_and_entered(graph, inside))
        assert found is None or found in inside
        answers.add(found is None)
    assert answers == {True, False}
