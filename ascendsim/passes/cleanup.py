"""Removing what nobody uses: dead nodes and dead constants."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.base import PassResult


def remove_dead(graph: Graph) -> tuple[int, int]:
    """Removes nodes whose outputs nobody reads and constants that nobody reads (operators have no side
    effects).

    Subgraphs are cleaned as well. A node that another one waits for by a control edge stays.

    Returns:
        How many nodes and how many constants went.
    """
    nodes = constants = 0
    kept: set[Tensor] = set(graph.outputs)
    stack = list(graph.nodes)  # last node first, so that whole dead chains go
    while stack:
        node = stack.pop()
        if node.graph is not graph:
            continue
        if _is_dead(node, kept):
            inner = [tensor for _, subgraph in node.subgraphs for tensor in subgraph.captured()]
            producers = [
                t.producer for t in [*node.inputs, *inner] if t is not None and t.producer is not None
            ]
            for _, subgraph in node.subgraphs:
                _disconnect(subgraph)
            graph.remove_node(node)
            nodes += 1
            stack.extend(dict.fromkeys(producers))
            continue
        for _, subgraph in node.subgraphs:
            inner_nodes, inner_constants = remove_dead(subgraph)
            nodes, constants = nodes + inner_nodes, constants + inner_constants
    for tensor in tuple(graph.constants):
        if not tensor.uses and tensor not in kept:
            graph.remove_tensor(tensor)
            constants += 1
    return nodes, constants


def _is_dead(node: Node, kept: set[Tensor]) -> bool:
    return not node.followers and all(not tensor.uses and tensor not in kept for tensor in node.outputs)


def _disconnect(subgraph: Graph) -> None:
    """Takes the uses of a subgraph that goes away off the tensors around it."""
    for node in subgraph.nodes:
        for index in range(node.input_count):
            node.set_input(index, None)
        for _, inner in node.subgraphs:
            _disconnect(inner)


@dataclass(frozen=True, slots=True)
class RemoveDead:
    """Pass form of `remove_dead`."""

    name: str = "remove-dead"

    def run(self, graph: Graph) -> PassResult:
        nodes, constants = remove_dead(graph)
        return PassResult(bool(nodes or constants), {"removed nodes": nodes, "removed constants": constants})
