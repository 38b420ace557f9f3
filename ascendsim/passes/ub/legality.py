"""What may share a task: nodes of one engine that no node outside ties to each other in a circle."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Protocol

from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.scopes import SCOPE, clear_scopes, internal_tensors


class ScopeProgram(Protocol):
    """A scope that has a program."""

    @property
    def saved_bytes(self) -> int:
        """Moves to and from global memory that are gone."""
        ...

    @property
    def operand_bytes(self) -> int:
        """Bytes of operands that move more often than before (negative: less often)."""
        ...


class ScopeMaker(Protocol):
    """What makes programs for scopes (`lower.ScopeLowering`)."""

    def fusible(self, node: Node) -> bool:
        """Whether a node runs a task on the AI Core."""
        ...

    def lower(self, nodes: Sequence[Node]) -> ScopeProgram:
        """The program of a scope, its nodes in execution order.

        Raises:
            CompileError: If there is none; says why.
        """
        ...


class Scopes:
    """The scopes of one graph while they are found.

    Args:
        graph: The device graph; scopes that it has from before are forgotten.
        maker: Makes programs.
    """

    def __init__(self, graph: Graph, maker: ScopeMaker) -> None:
        self.graph, self.maker = graph, maker
        self.order = {node: number for number, node in enumerate(graph.topological())}
        self.members: dict[int, tuple[Node, ...]] = {}
        # by place in the order: the first place of all that run with a node from there on
        self._reach = list(range(len(self.order)))
        self._fusible: dict[Node, bool] = {}
        self._next: dict[Node, tuple[Node, ...]] = {}  # what a node leads to
        clear_scopes(graph)

    def free(self, node: Node) -> bool:
        """Whether a node may join a scope: it runs on the AI Core, is in no scope yet, and no control edge
        holds it.
        """
        if SCOPE in node.origin or node._control:
            return False
        known = self._fusible.get(node)
        if known is None:
            known = self._fusible[node] = (
                node.graph is self.graph and not any(node.subgraphs) and self.maker.fusible(node)
            )
        return known

    def sorted(self, nodes: Collection[Node]) -> tuple[Node, ...]:
        """Nodes in execution order."""
        return tuple(sorted(nodes, key=self.order.__getitem__))

    def join(self, nodes: Sequence[Node], number: int | None = None) -> int:
        """Makes a scope, or lets an old one have other members; returns its number."""
        number = len(self.members) if number is None else number
        self.members[number] = tuple(nodes)
        places = [self.order[node] for node in nodes]
        first = min(places)
        begin, end = bisect_right(self._reach, first), max(places) + 1  # they rise
        self._reach[begin:end] = [first] * (end - begin)
        for node in nodes:
            node.origin[SCOPE] = number
        return number

    def circle(self, nodes: Sequence[Node]) -> str | None:
        """Why nodes cannot run as one: something outside needs one of them and is needed by another. None if
        nothing is.

        Only tensors that are read outside and inside, and control edges, can begin such a way round, so most
        scopes need no search.
        """
        inside = set(nodes)
        private = set(internal_tensors(nodes))
        ends = [node for node in nodes if inside.isdisjoint(self._readers(node))]
        stack = [
            consumer
            for node in nodes
            if node not in ends
            for tensor in node.outputs
            if tensor not in private
            for consumer in tensor.consumers
            if consumer not in inside
        ]
        if len(ends) > 1:
            stack += [consumer for node in ends for tensor in node.outputs for consumer in tensor.consumers]
        stack += [follower for node in nodes for follower in node.followers if follower not in inside]
        last = max(self.order[node] for node in inside)
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in inside:
                return f"a node outside lies between its nodes and {node.name!r}"
            if node in seen or self._is_behind(node, last):
                continue
            unit = self.members[node.origin[SCOPE]] if SCOPE in node.origin else (node,)
            seen.update(unit)
            for member in unit:
                stack += self._after(member)
        return None

    def _is_behind(self, node: Node, last: int) -> bool:
        """Whether nothing that a node leads to, by scopes that exist, stands at a place or before it."""
        place = self.order.get(node, -1)  # of a subgraph: has no place
        while place > last and self._reach[place] < place:
            place = self._reach[place]
        return place > last

    def _after(self, node: Node) -> tuple[Node, ...]:
        """What a node leads to; edges stay as they are while scopes are found."""
        known = self._next.get(node)
        if known is None:
            readers = [reader for reader in self._readers(node) if reader.graph is self.graph]
            known = self._next[node] = (*readers, *node.followers)
        return known

    def _readers(self, node: Node) -> list[Node]:
        return [reader for tensor in node.outputs for reader in tensor.consumers]
