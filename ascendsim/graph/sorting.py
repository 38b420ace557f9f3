"""Orders in which nodes can run, as ATC's option `--topo_sorting_mode` numbers them.

    0  breadth first: nodes in the order in which they become ready
    1  depth first: as far along a branch as possible before the next branch begins
    2  reverse depth first: from the outputs backwards, each node right after all that it needs
    3  stable: ready nodes in the order in which the model lists them

A framework that calls operator by operator has none of these: its order is that of the program.

Which order is best is a matter of memory and of what is still in L2: depth first keeps few branches alive at
a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph, Node

MODES = (0, 1, 2, 3)
STABLE = 3


def sorted_nodes(graph: Graph, mode: int) -> list[Node]:
    """The nodes of a graph in an order in which they can run.

    Raises:
        InputError: If there is no such mode.
        GraphError: If the graph has a cycle.
    """
    if isinstance(mode, bool) or mode not in MODES:
        raise InputError(
            "option topo_sorting_mode", f"must be one of {', '.join(map(str, MODES))}", repr(mode)
        )
    stable = graph.topological()
    if mode == STABLE:
        return stable
    if mode == 2:
        producers = [tensor.producer for tensor in graph.outputs if tensor.producer is not None]
        return _backwards(graph, [*producers, *stable], stable)
    return _forwards(graph, stable, depth_first=mode == 1)


def called_nodes(graph: Graph) -> list[Node]:
    """The nodes of a graph as a program calls them: as they are listed, each after what it needs.

    What was put in later, such as a change of format, stands at the end of the list and is called for whoever
    needs it first; in a stable order everything else that is ready would come before.
    """
    return _backwards(graph, graph.nodes, graph.nodes)


def _forwards(graph: Graph, stable: list[Node], depth_first: bool) -> list[Node]:
    here = set(stable)
    waiting = {
        node: [before for before in dict.fromkeys(graph.predecessors(node)) if before in here]
        for node in stable
    }
    followers: dict[Node, list[Node]] = {node: [] for node in stable}
    for node in stable:
        for before in waiting[node]:
            followers[before].append(node)
    left = {node: len(before) for node, before in waiting.items()}
    first = [node for node in stable if not left[node]]
    ready = deque(reversed(first) if depth_first else first)
    order: list[Node] = []
    while ready:
        node = ready.pop() if depth_first else ready.popleft()
        order.append(node)
        freed = []
        for follower in followers[node]:
            left[follower] -= 1
            if not left[follower]:
                freed.append(follower)
        ready.extend(reversed(freed) if depth_first else freed)
    return order


def _backwards(graph: Graph, wanted: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Each node right after all that it needs, beginning with the first that is wanted (post-order without
    recursion); what one node needs, in the order of `nodes`.
    """
    place = {node: number for number, node in enumerate(nodes)}
    done: dict[Node, None] = {}
    for root in wanted:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in done or node not in place:
                continue
            if ready:
                done[node] = None
                continue
            stack.append((node, True))
            needed = dict.fromkeys(graph.predecessors(node))
            stack += [
                (before, False)
                for before in sorted(needed, key=lambda item: place.get(item, -1), reverse=True)
            ]
    return list(done)
