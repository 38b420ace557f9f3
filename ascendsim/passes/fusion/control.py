"""Control edges around a match: what takes its place waits for what the match waited for, and is waited for in its stead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.pattern import Match


@dataclass(frozen=True, slots=True)
class ControlEdges:
    """Control edges that cross the border of a match.

    Attributes:
        inwards: (node outside that must finish first, node of the match).
        outwards: (node of the match, node outside that waits for it).
    """

    inwards: tuple[tuple[Node, Node], ...]
    outwards: tuple[tuple[Node, Node], ...]

    @classmethod
    def of(cls, match: Match) -> ControlEdges:
        """Those of a match as it stands."""
        if not any(node._control or node._followers for node in match.all_nodes):
            return NO_EDGES
        inside = set(match.all_nodes)
        inwards = tuple((before, node) for node in match.all_nodes for before in node.control if before not in inside)
        outwards = tuple((node, after) for node in match.all_nodes for after in node._followers if after not in inside)
        return cls(inwards, outwards)

    def refusal(self, match: Match) -> str | None:
        """Why the nodes of the match cannot run as one: a control edge makes one of them wait for what another one must precede."""
        if not self.inwards and not self.outwards:
            return None
        graph, inside = match.root.graph, set(match.all_nodes)
        assert graph is not None
        stack = [before for node in match.all_nodes for before in graph.predecessors(node) if before not in inside]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in inside:
                return f"a control edge lets {node.name} run before and after other nodes of the match"
            if node not in seen and node.graph is graph:
                seen.add(node)
                stack.extend(graph.predecessors(node))
        return None

    def restore(self, graph: Graph, made: Sequence[Node]) -> None:
        """Gives the edges of nodes that are gone to those in their place; with none, who waited waits for what they waited for.

        Args:
            graph: After the rewrite.
            made: Nodes that the rewrite made.
        """
        inwards = [before for before, node in self.inwards if node.graph is not graph and before.graph is graph]
        outwards = [after for node, after in self.outwards if node.graph is not graph and after.graph is graph]
        for node in made:
            for before in inwards:
                node.add_control(before)
            for after in outwards:
                after.add_control(node)
        if not made:
            for after in outwards:
                for before in inwards:
                    after.add_control(before)


NO_EDGES = ControlEdges((), ())
