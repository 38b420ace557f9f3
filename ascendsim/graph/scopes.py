"""Scopes: nodes that stay visible but run as one task (UB fusion). A scope is a number in
`Node.origin["scope"]`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.ordering import stable_order

SCOPE = "scope"
SECOND_STAGE = "l1_second"  # key in Node.origin: the second convolution of a scope of L1 fusion
FUSED_SEPARATOR = "+"  # between the names of nodes in the name of their task


def within(name: str, scope: str) -> bool:
    """Whether the name of a node is a shell pattern's, or lies below a scope of the framework.

    >>> [within("/layer1/0/conv", scope) for scope in ("layer1/0", "/layer1/*", "/layer")]
    [True, True, False]
    """
    return fnmatchcase(name, scope) or name.strip("/").startswith(scope.strip("/") + "/")


def clear_scopes(graph: Graph) -> None:
    """Forgets all scopes."""
    for node in graph.nodes:
        node.origin.pop(SCOPE, None)


def next_scope(graph: Graph) -> int:
    """The first number behind those of all scopes."""
    return 1 + max((int(node.origin[SCOPE]) for node in graph.nodes if SCOPE in node.origin), default=-1)


def internal_tensors(nodes: Sequence[Node]) -> tuple[Tensor, ...]:
    """Tensors that are made in a scope and that nobody outside reads."""
    inside = set(nodes)
    graph = nodes[0].graph
    outputs: Collection[Tensor] = () if graph is None else graph.outputs
    return tuple(
        tensor
        for node in nodes
        for tensor in node.outputs
        if tensor not in outputs and all(consumer in inside for consumer in tensor.consumers)
    )


def scopes_of(graph: Graph) -> dict[int, tuple[Node, ...]]:
    """Nodes of every scope in execution order, by number."""
    scopes: dict[int, list[Node]] = {}
    for node in graph.topological():
        if SCOPE in node.origin:
            scopes.setdefault(node.origin[SCOPE], []).append(node)
    return {number: tuple(nodes) for number, nodes in scopes.items()}


def units_in_order(graph: Graph) -> list[tuple[Node, ...]]:
    """Nodes and scopes in an order in which they can run; each scope as one unit. Ties keep the order of last
    nodes.

    Raises:
        GraphError: If scopes wait for each other.
    """
    order = graph.topological()
    scopes = scopes_of(graph)
    if not scopes:
        return [(node,) for node in order]
    units: list[tuple[Node, ...]] = list(
        dict.fromkeys(scopes[node.origin[SCOPE]] if SCOPE in node.origin else (node,) for node in order)
    )
    position = {node: number for number, node in enumerate(order)}
    units.sort(key=lambda unit: position[unit[-1]])
    unit_of = {node: number for number, unit in enumerate(units) for node in unit}
    needs = [
        {unit_of[other] for node in unit for other in graph.predecessors(node) if other in unit_of} - {number}
        for number, unit in enumerate(units)
    ]
    result, stuck = stable_order(range(len(units)), needs.__getitem__)
    if stuck:
        raise GraphError(
            "scopes", "must not wait for each other", ", ".join(units[number][0].name for number in stuck[:8])
        )
    return [units[number] for number in result]
