"""Composites in the place of their members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ascendsim.graph.composites import BODY, DOMAIN, GRAPH_KERNEL, NAME, body_graph
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.rewriting.removal import drop_constants, remove
from ascendsim.passes.rewriting.replace import replacing


def outline(graph: Graph, nodes: Iterable[Node], name: str) -> Node:
    """Replaces some nodes by one composite, which makes the same tensors.

    Args:
        graph: Their graph; changed in place.
        nodes: In execution order; no path between two of them leads outside.
        name: Of the composite; the node takes it too, numbered if it is taken.

    Returns:
        The composite.
    """
    (made,) = outline_all(graph, [(list(nodes), name)])
    return made


def outline_all(graph: Graph, groups: Iterable[tuple[Sequence[Node], str]]) -> list[Node]:
    """Does the same with several groups of nodes, each with its name; returns the composites."""
    order = {node: place for place, node in enumerate(graph.nodes)}
    instead: dict[Node, list[Node]] = {}
    with keeping_places(graph, instead):
        for members, name in groups:
            last = max(members, key=lambda node: order[node])
            instead[last] = [_outlined(graph, members, name)]
    return [made for composites in instead.values() for made in composites]


@contextmanager
def keeping_places(graph: Graph, instead: Mapping[Node, Sequence[Node]]) -> Iterator[None]:
    """Nodes that are made within the block take the places in insertion order of those that went: all at
    once, since moving one looks at the whole graph.

    Args:
        graph: Changed in place.
        instead: By a node of the graph that goes: nodes that stand for it. Filled within the block.
    """
    before = graph.nodes
    yield
    moved = {node: None for made in instead.values() for node in made}
    order = dict.fromkeys(
        new
        for node in (*before, *(node for node in graph.nodes if node not in moved))
        for new in (*instead.get(node, ()), node)
        if new.graph is graph
    )
    graph.reorder(list(order))


def _outlined(graph: Graph, members: Sequence[Node], name: str) -> Node:
    body, inputs, outputs = body_graph(members, name)
    with replacing(graph, members[::-1]):
        for tensor in outputs:
            assert tensor.producer is not None
            tensor.producer.outputs.remove(tensor)
            tensor.producer = None
        composite = graph.add_node(GRAPH_KERNEL, inputs, outputs, name=graph.fresh(name), domain=DOMAIN)
        composite.attributes.update({BODY: body, NAME: name})
        for node in reversed(members):
            drop_constants(graph, remove(node))
    return composite
