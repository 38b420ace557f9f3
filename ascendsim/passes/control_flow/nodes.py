"""Which nodes run subgraphs by a condition or a number of times (in contrast to composites, whose body is
their own program).
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.verify import nodes_in

CONTROL_FLOW = frozenset(
    {
        ("", "If"),
        ("", "Loop"),
        ("", "Scan"),
        ("ascend", "PartitionedCall"),
        ("ascend", "Case"),
        ("ascend", "While"),
    }
)


def is_control_flow(node: Node) -> bool:
    """Whether a node runs subgraphs."""
    return (node.domain, node.op_type) in CONTROL_FLOW


def control_flow_nodes(graph: Graph) -> Iterator[Node]:
    """Every such node of a graph and of the subgraphs inside it."""
    return (node for node in nodes_in(graph) if is_control_flow(node))
