"""Which node is visited next: all of a graph in execution order, and again those that somebody asks for,
until nobody asks any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.rewriting.removal import all_graphs

VISITS_PER_NODE = 10  # of a graph on average; GE stops there too


class When(Enum):
    """When a node is visited again (GE's three kinds of re-queueing)."""

    IMMEDIATE = "immediate"  # next, if it was visited before; else its turn comes anyway
    DEFERRED = "deferred"  # after all nodes of this graph
    GLOBAL = "global"  # after all nodes of the outermost graph


class Worklist:
    """The nodes of one graph that are still to be visited; iterating visits them.

    Args:
        graph: May change meanwhile; nodes that are gone are passed over.
        outer: The worklist whose visit leads to this one, if `graph` is a subgraph.

    Attributes:
        visits: How many nodes were visited so far.
        stopped: Whether they ended since there were too many of them.
    """

    def __init__(self, graph: Graph, outer: Worklist | None = None) -> None:
        self.graph = graph
        self.visits, self.stopped = 0, False
        self._root: Worklist = outer._root if outer is not None else self
        self._queue: deque[Node] = deque()
        self._waiting: set[Node] = set()  # in the queue
        self._deferred: dict[Node, None] = {}
        self._owners: dict[Graph, Node] = {}  # the node of this graph that holds a subgraph, at any depth

    def __iter__(self) -> Iterator[Node]:
        nodes = self.graph.topological()
        most = VISITS_PER_NODE * len(nodes)
        self._enqueue(nodes)
        while self._queue:
            if self.visits >= max(most, VISITS_PER_NODE * len(self.graph)):
                self.stopped = True
                self._queue.clear()
                return
            node = self._queue.popleft()
            self._waiting.discard(node)
            if node.graph is self.graph:
                self.visits += 1
                yield node
            if not self._queue:
                self._enqueue([node for node in self._deferred if node.graph is self.graph])
                self._deferred.clear()

    def again(self, node: Node, when: When = When.IMMEDIATE) -> None:
        """Asks for a node to be visited again; a reader inside a subgraph, or a producer around this one, is
        visited after all others.
        """
        if when is When.GLOBAL or node.graph is not self.graph:
            self._root._defer(node)
        elif when is When.DEFERRED:
            self._deferred[node] = None
        elif node not in self._waiting:
            self._queue.appendleft(node)
            self._waiting.add(node)

    def visit_new(self, nodes: list[Node]) -> None:
        """Asks for nodes that were just made to be visited next, in this order."""
        self._queue.extendleft(reversed(nodes))
        self._waiting.update(nodes)

    def _defer(self, node: Node) -> None:
        """Visits a node of the outermost graph, or the one there whose subgraphs hold the node, after all
        others.
        """
        if node.graph is None:
            return
        if node.graph is not self.graph and node.graph not in self._owners:
            self._owners = {
                inner: owner
                for owner in self.graph.nodes
                for _, body in owner.subgraphs
                for inner in all_graphs(body)
            }
        found = node if node.graph is self.graph else self._owners.get(node.graph)
        if found is not None:
            self._deferred[found] = None

    def _enqueue(self, nodes: Sequence[Node]) -> None:
        self._queue.extend(nodes)
        self._waiting.update(nodes)
