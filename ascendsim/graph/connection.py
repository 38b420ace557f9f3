"""Whether a graph hangs together, and where two nodes are joined more than once.

Data edges, control edges, graph inputs that several nodes read and what a subgraph reads from outside join
nodes. Constants do not: that two networks hold the same number says nothing of either.
"""

from __future__ import annotations

from collections import Counter

from ascendsim.graph.ir import Graph, Node, Tensor

SHOWN = 3  # parts in one line


def connected_parts(graph: Graph) -> tuple[tuple[Node, ...], ...]:
    """The nodes of a graph by connected component, direction of edges aside; both in insertion order."""
    nodes = graph.nodes
    root: dict[Node, Node] = {node: node for node in nodes}

    def find(node: Node) -> Node:
        while root[node] is not node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    reader: dict[Tensor, Node] = {}  # of a graph input: who was met first
    for node in nodes:
        read = [tensor for tensor in node.inputs if tensor is not None]
        for _, subgraph in node.subgraphs:
            read += subgraph.captured()
        joined = [
            tensor.producer for tensor in read if tensor.producer is not None and tensor.producer in root
        ]
        joined += [before for before in node.control if before in root]
        joined += [
            reader.setdefault(tensor, node)
            for tensor in read
            if tensor.producer is None and not tensor.constant
        ]
        for other in joined:
            root[find(other)] = find(node)
    parts: dict[Node, list[Node]] = {}
    for node in nodes:
        parts.setdefault(find(node), []).append(node)
    return tuple(tuple(part) for part in parts.values())


def multi_edges(graph: Graph) -> dict[tuple[str, str], int]:
    """How many data edges join two nodes, by names of producer and consumer; only those with more than one.

    x * x reads its producer twice, and so does an Add of both outputs of one Split.
    """
    counts = Counter(
        (tensor.producer.name, node.name)
        for node in graph.nodes
        for tensor in node.inputs
        if tensor is not None and tensor.producer is not None
    )
    return {ends: count for ends, count in counts.items() if count > 1}


def parts_text(parts: tuple[tuple[Node, ...], ...]) -> str:
    """The parts in one line, each by its first and last node."""
    named = [
        f"{part[0].name}" if len(part) == 1 else f"{part[0].name} to {part[-1].name} ({len(part)} nodes)"
        for part in parts[:SHOWN]
    ]
    more = len(parts) - SHOWN
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")
