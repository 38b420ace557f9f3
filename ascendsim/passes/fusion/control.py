"""Control edges around a match: what takes its place waits for what the match waited for, and is waited for
in its stead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.pattern import Match

Edge = tuple[Node, Node]  # (node that must finish first, node that waits for it)


@dataclass(frozen=True, slots=True)
class ControlEdges:
    """Control edges at the nodes of a match.

    Attributes:
        inwards: From nodes outside.
        outwards: To nodes outside.
        inside: Between nodes of the match.
        sources: Nodes outside that make what the match reads; kept only where there are edges, like
            `readers`.
        readers: Nodes outside that read what the match makes.
    """

    inwards: tuple[Edge, ...] = ()
    outwards: tuple[Edge, ...] = ()
    inside: tuple[Edge, ...] = ()
    sources: tuple[Node, ...] = ()
    readers: tuple[Node, ...] = ()

    @classmethod
    def of(cls, match: Match) -> ControlEdges:
        """Those of a match as it stands."""
        nodes = match.all_nodes
        if not any(node.control or node.followers for node in nodes):
            return NO_EDGES
        inside = set(nodes)
        before = [(first, node) for node in nodes for first in node.control]
        made = (tensor.producer for node in nodes for tensor in node.inputs if tensor is not None)
        return cls(
            tuple(edge for edge in before if edge[0] not in inside),
            tuple((node, after) for node in nodes for after in node.followers if after not in inside),
            tuple(edge for edge in before if edge[0] in inside),
            tuple(dict.fromkeys(source for source in made if source is not None and source not in inside)),
            tuple(
                dict.fromkeys(
                    reader
                    for node in nodes
                    for t in node.outputs
                    for reader in t.consumers
                    if reader not in inside
                )
            ),
        )

    def refusal(self, match: Match) -> str | None:
        """Why the nodes of the match cannot run as one: a control edge makes one of them wait for what
        another one must precede.
        """
        if not self.inwards and not self.outwards:
            return None
        graph, inside = match.root.graph, set(match.all_nodes)
        assert graph is not None
        stack = [
            before for node in match.all_nodes for before in graph.predecessors(node) if before not in inside
        ]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in inside:
                return f"a control edge lets {node.name} run before and after other nodes of the match"
            if node not in seen and node.graph is graph:
                seen.add(node)
                stack.extend(graph.predecessors(node))
        return None

    def detach(self) -> None:
        """Takes the edges off, so that the nodes of the match can go; others that are waited for stay
        (`rule.remove_dead_from`).
        """
        for before, node in (*self.inwards, *self.outwards, *self.inside):
            node.remove_control(before)

    def restore(self, graph: Graph, match: Match, made: Sequence[Node]) -> None:
        """Puts the edges back; those of nodes that are gone to what was made in their place, else to what is
        left of the match.

        With neither, who waited for the match waits for all that the match waited for, and so does who read
        its results.

        Args:
            graph: After the rewrite.
            match: As it was before.
            made: Nodes that the rewrite made.
        """
        left = [node for node in match.all_nodes if node.graph is graph]
        heirs = list(made) or left
        sources = [source for source in self.sources if source.graph is graph]
        readers = [reader for reader in self.readers if reader.graph is graph]
        first = [before for before, node in self.inwards if node not in left]
        for before, node in self.inside:
            if before in left and node in left:
                node.add_control(before)
        for before, node in self.inwards:
            for heir in [node] if node in left else heirs or readers:
                heir.add_control(before)
        for node, after in self.outwards:
            for heir in [node] if node in left else heirs or (*first, *sources):
                after.add_control(heir)


NO_EDGES = ControlEdges()
