"""Removing what nobody uses: dead nodes, and constants that nobody reads (operators have no side effects)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.outputs import is_output


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and every subgraph in it, outer ones first."""
    yield graph
    for node in graph.holders:
        for _, subgraph in node.subgraphs:
            yield from all_graphs(subgraph)


def is_dead(node: Node) -> bool:
    """Whether nobody reads a result of a node or waits for it; so is one that is gone already."""
    if node.followers:
        return False
    return not any(tensor._uses or is_output(node.graph, tensor) for tensor in node.outputs)


def disconnect(subgraph: Graph) -> None:
    """Takes the uses of a subgraph that goes away off the tensors around it."""
    for scope in all_graphs(subgraph):
        for node in scope.nodes:
            for index in range(node.input_count):
                node.set_input(index, None)


def remove(node: Node) -> tuple[Tensor, ...]:
    """Removes a node whose outputs nobody reads, with its subgraphs; returns what it read, each once."""
    graph = node.graph
    assert graph is not None
    read = [tensor for tensor in node.inputs if tensor is not None]
    for _, subgraph in node.subgraphs:
        read.extend(subgraph.captured())
        disconnect(subgraph)
    graph.remove_node(node)
    return tuple(dict.fromkeys(read))


def remove_unread(node: Node) -> None:
    """Removes a node if it is dead, and the constants that only it read."""
    graph = node.graph
    if graph is not None and is_dead(node):
        drop_constants(graph, remove(node))


def remove_dead_from(*nodes: Node) -> int:
    """Removes those of some nodes that are dead, then their producers and constants as far as they are dead
    too; returns how many nodes.
    """
    removed = 0
    stack = list(nodes)
    while stack:
        node = stack.pop()
        graph = node.graph
        if graph is None or not is_dead(node):
            continue
        read = remove(node)
        removed += 1
        drop_constants(graph, read)
        stack.extend(tensor.producer for tensor in read if tensor.producer is not None)
    return removed


def drop_constants(graph: Graph, tensors: Iterable[Tensor | None]) -> int:
    """Removes those of some tensors that are constants of the graph which nobody reads; returns how many."""
    dropped = 0
    for tensor in tuple(tensors):
        if tensor is None or tensor.constant is None or tensor.producer is not None or tensor._uses:
            continue
        if graph.tensors.get(tensor.name) is tensor and not is_output(graph, tensor):
            graph.remove_tensor(tensor)
            dropped += 1
    return dropped


def drop_unread_constants(graph: Graph) -> int:
    """Removes all constants of one graph that nobody reads; returns how many."""
    return drop_constants(graph, graph.tensors.values())


def remove_dead(graph: Graph) -> tuple[int, int]:
    """Removes dead nodes and the constants that nobody reads, in subgraphs as well.

    Returns:
        How many nodes and how many constants went.
    """
    held = sum(1 for _ in graph.constants)
    nodes = constants = 0
    for node in reversed(graph.nodes):  # last node first, so that whole dead chains go
        nodes += remove_dead_from(node)
        for _, subgraph in node.subgraphs if node.graph is graph else ():
            inner_nodes, inner_constants = remove_dead(subgraph)
            nodes, constants = nodes + inner_nodes, constants + inner_constants
    drop_unread_constants(graph)
    return nodes, constants + held - sum(1 for _ in graph.constants)
