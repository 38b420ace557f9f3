"""Execution order of a proto's nodes: files should be sorted, not all are, and some have cycles."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ascendsim.core.errors import GraphError
from ascendsim.graph.ordering import stable_order


def execution_order(nodes: Sequence[onnx.NodeProto], subject: str) -> list[onnx.NodeProto]:
    """The nodes so that producers come before consumers; a sorted list stays as it is.

    Raises:
        GraphError: If there is a cycle, or two nodes make the same value; names the nodes.
    """
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and producer.setdefault(name, index) != index:
                raise GraphError(
                    f"value {name!r} of {subject}",
                    "must be made by one node only",
                    remedy="the file is damaged; export it again",
                )
    needed = [{producer[name] for name in _reads(node) if name in producer} for node in nodes]
    order, stuck = stable_order(range(len(nodes)), needed.__getitem__)
    if stuck:
        names = ", ".join(nodes[index].name or nodes[index].op_type for index in stuck[:8])
        raise GraphError(
            subject, f"has a cycle through nodes {names}", remedy="the file is damaged; export it again"
        )
    return [nodes[index] for index in order]


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, from outside, those of its subgraphs included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            inner = set().union(
                *(_reads(item) for item in graph.node), {value.name for value in graph.output}
            )
            made = (
                {name for item in graph.node for name in item.output}
                | {t.name for t in graph.initializer}
                | {v.name for v in graph.input}
            )
            names |= inner - made
    return names
