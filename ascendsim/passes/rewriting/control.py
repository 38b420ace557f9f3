"""Control edges around nodes that go: what takes their place waits for what they waited for, and is waited
for in their stead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.rewriting.outputs import hand_out_copy

Edge = tuple[Node, Node]  # (node that must finish first, node that waits for it)


def way_back(graph: Graph, inside: Collection[Node], starts: Iterable[Node]) -> Node | None:
    """A node of a set that nodes outside it depend on, found by walking back from them; None if there is
    none. Where there is one, the set cannot run as one node.

    Step by step with that goes a walk ahead from the set: where it comes to its end first (an update of a
    weight stands at the end of a large graph) and met no start, there is none.
    """
    seen: set[Node] = set()
    stack = list(starts)
    ends, met = set(stack), set(inside)
    ahead = [reader for node in inside for reader in _readers(node)]
    walks_ahead = ends.isdisjoint(inside)
    while stack:
        node = stack.pop()
        if node in inside:
            return node
        if node not in seen and node.graph is graph:
            seen.add(node)
            stack.extend(graph.predecessors(node))
        while walks_ahead:
            if not ahead:
                return None
            reader = ahead.pop()
            if reader in ends or reader.graph is not graph:  # there is a way, or one through a subgraph
                walks_ahead = False
            elif reader not in met:
                met.add(reader)
                ahead.extend(_readers(reader))
                break
    return None


def _readers(node: Node) -> list[Node]:
    """Nodes that must wait for a node, those of subgraphs among them."""
    return [*(reader for tensor in node.outputs for reader in tensor.consumers), *node.followers]


@dataclass(frozen=True, slots=True)
class ControlEdges:
    """Control edges at some nodes.

    Attributes:
        nodes: Them.
        inwards: From nodes outside.
        outwards: To nodes outside.
        inside: Between the nodes.
        sources: Nodes outside that make what they read; kept only where there are edges, like the rest.
        readers: Nodes outside that read what they make; for one in a subgraph the node that holds it.
        results: Places of their tensors among the outputs of the graph.
    """

    nodes: tuple[Node, ...] = ()
    inwards: tuple[Edge, ...] = ()
    outwards: tuple[Edge, ...] = ()
    inside: tuple[Edge, ...] = ()
    sources: tuple[Node, ...] = ()
    readers: tuple[Node, ...] = ()
    results: tuple[int, ...] = ()

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> ControlEdges:
        """Those of some nodes of one graph as they stand."""
        if not any(node.control or node.followers for node in nodes):
            return NO_EDGES
        inside, graph = set(nodes), nodes[0].graph
        assert graph is not None
        before = [(first, node) for node in nodes for first in node.control]
        made = (tensor.producer for node in nodes for tensor in node.inputs if tensor is not None)
        results = [tensor for node in nodes for tensor in node.outputs]
        readers = (_in_graph(graph, reader) for tensor in results for reader in tensor.consumers)
        return cls(
            tuple(nodes),
            tuple(edge for edge in before if edge[0] not in inside),
            tuple((node, after) for node in nodes for after in node.followers if after not in inside),
            tuple(edge for edge in before if edge[0] in inside),
            tuple(dict.fromkeys(source for source in made if source is not None and source not in inside)),
            tuple(dict.fromkeys(reader for reader in readers if reader not in inside)),
            tuple(place for place, tensor in enumerate(graph.outputs) if tensor.producer in inside),
        )

    def refusal(self) -> str | None:
        """Why the nodes cannot run as one: a control edge makes one of them wait for what another one must
        precede.
        """
        if not self.inwards and not self.outwards:
            return None
        graph, inside = self.nodes[0].graph, set(self.nodes)
        assert graph is not None
        starts = (
            before for node in self.nodes for before in graph.predecessors(node) if before not in inside
        )
        node = way_back(graph, inside, starts)
        if node is None:
            return None
        return f"a control edge lets {node.name} run before and after other nodes of the match"

    def detach(self) -> None:
        """Takes the edges off, so that the nodes can go; others that are waited for stay."""
        for before, node in (*self.inwards, *self.outwards, *self.inside):
            node.remove_control(before)

    def restore(self, graph: Graph, made: Sequence[Node], sources: Sequence[Node] | None = None) -> None:
        """Puts the edges back; those of nodes that are gone to what was made in their place, else to what is
        left of them.

        With neither, who waited for the nodes waits for all that they waited for, and so does who read their
        results; an Identity waits in front of an output of the graph.

        Args:
            graph: After the rewrite.
            made: Nodes that stand in the place of those that are gone.
            sources: Nodes that make what is read in their stead; by default all that made what they read.
        """
        if not self.nodes:
            return
        left = [node for node in self.nodes if node.graph is graph]
        heirs = list(made) or left
        sources = self.sources if sources is None else sources
        given = [source for source in sources if source.graph is graph]
        first = [before for before, node in self.inwards if node not in left]
        waiting = heirs
        if not heirs and self.inwards:
            copies = [hand_out_copy(graph, place) for place in self.results]
            waiting = [*copies, *(reader for reader in self.readers if reader.graph is graph)]
        for before, node in self.inside:
            if before in left and node in left:
                node.add_control(before)
        for before, node in self.inwards:
            for heir in [node] if node in left else waiting:
                heir.add_control(before)
        for node, after in self.outwards:
            for heir in [node] if node in left else heirs or (*first, *given):
                after.add_control(heir)


def _in_graph(graph: Graph, node: Node) -> Node:
    """The node, or the one of a graph whose subgraphs hold it."""
    while node.graph is not None and node.graph is not graph:
        holder = next((item for item in graph.holders if _holds(item, node.graph)), None)
        if holder is None:
            break
        node = holder
    return node


def _holds(node: Node, wanted: Graph) -> bool:
    return any(
        subgraph is wanted or any(_holds(inner, wanted) for inner in subgraph.holders)
        for _, subgraph in node.subgraphs
    )


NO_EDGES = ControlEdges()
