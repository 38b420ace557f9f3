"""A composite in the place of its members."""

from __future__ import annotations

from collections.abc import Iterable

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
    members = list(nodes)
    body, inputs, outputs = body_graph(members, name)
    order = {node: place for place, node in enumerate(graph.nodes)}
    last = max(members, key=lambda node: order[node])
    with replacing(graph, members[::-1]):
        for tensor in outputs:
            assert tensor.producer is not None
            tensor.producer.outputs.remove(tensor)
            tensor.producer = None
        composite = graph.add_node(GRAPH_KERNEL, inputs, outputs, name=graph.fresh(name), domain=DOMAIN)
        composite.attributes.update({BODY: body, NAME: name})
        graph.place_before(composite, last)
        for node in reversed(members):
            drop_constants(graph, remove(node))
    return composite
