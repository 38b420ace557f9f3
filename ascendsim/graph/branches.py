"""What is known about the subgraphs of a node before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.graph.ir import Graph, Node

IMPOSSIBLE = "impossible"  # key of Graph.metadata: why a branch cannot run with the input shapes at hand
ROUNDS = "rounds"  # key of Graph.metadata: what each round of a loop's shape inference opened, a text each


def possible_subgraphs(node: Node) -> Iterator[tuple[str, Graph]]:
    """The subgraphs of a node that may run: not those that a constant condition of an If never takes, or that
    do not fit its inputs.
    """
    taken = None
    if node.op_type == "If":
        condition = node.required(0).constant
        if condition is not None and condition.available:
            taken = "then_branch" if condition.array().all() else "else_branch"
    return (
        (name, graph)
        for name, graph in node.subgraphs
        if taken in (None, name) and IMPOSSIBLE not in graph.metadata
    )
