"""The traversal: all node passes on one node, then on the next, in execution order, until nothing asks to be
visited again.

Shape inference and folding help each other only if they take turns: a Reshape whose shape comes from Shape ->
Gather has a known result once those two are folded, and they can be folded once the shapes before them are
known. GE therefore runs its passes node by node (base_pass.cc): a pass that changed something asks for
neighbours to be visited again, at once, after this graph, or after the outermost graph. A subgraph is
traversed when its node is visited, and the node once more if the types of the subgraph's results changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.branches import possible_subgraphs
from ascendsim.graph.ir import Dim, Graph, Node, Shape, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.engine.node_pass import NodePass, Tally
from ascendsim.passes.rewriting.runner import rewrite_at
from ascendsim.passes.rewriting.worklist import Worklist

MAX_DEPTH = 25  # of subgraphs in subgraphs


class Traversal:
    """One run of node passes over one graph and its subgraphs.

    Args:
        graph: Changed in place.
        passes: In the order in which they run on each node.
        opset: Operators.
        outer: The traversal that visits the node around `graph`, if it is a subgraph.

    Attributes:
        tallies: What each pass did, by name; shared with the traversals of subgraphs.
        parts: Elements of integer tensors that are known in part; shared with the traversals of subgraphs.
    """

    def __init__(
        self, graph: Graph, passes: Sequence[NodePass], opset: OpSet, outer: Traversal | None = None
    ) -> None:
        self.graph, self.opset, self.passes = graph, opset, tuple(passes)
        self.depth: int = outer.depth + 1 if outer is not None else 0
        self.tallies: dict[str, Tally] = (
            outer.tallies if outer is not None else {item.name: Tally.of(item.name) for item in passes}
        )
        self.tally = Tally.of("")
        self.parts: dict[Tensor, tuple[Dim, ...]] = outer.parts if outer is not None else {}
        self._worklist: Worklist = Worklist(graph, None if outer is None else outer._worklist)
        self.again, self.visit_new = self._worklist.again, self._worklist.visit_new
        self._by_type: dict[tuple[str, str], tuple[NodePass, ...]] = (
            outer._by_type if outer is not None else {}
        )

    def run(self) -> bool:
        """Visits every node, and again those that ask for it; tells whether anything changed.

        Raises:
            PassError: If subgraphs nest deeper than `MAX_DEPTH`, or a pass failed; names pass and node.
        """
        if self.depth > MAX_DEPTH:
            raise PassError(
                f"graph {self.graph.name!r}",
                f"must not nest deeper than {MAX_DEPTH} subgraphs",
                remedy="flatten the model",
            )
        changed = False
        for node in self._worklist:
            changed |= self._visit(node)
        if self._worklist.stopped:
            visits = f"stopped after {self._worklist.visits} visits of {len(self.graph)} nodes"
            self.tally.note(f"graph {self.graph.name!r}: {visits}")
        return changed

    def _visit(self, node: Node) -> bool:
        changed = self._run_passes(node)
        if node.graph is not self.graph or not node.attributes or not node.subgraphs:
            return changed
        before = _result_types(node)
        for _, subgraph in possible_subgraphs(node):
            changed |= Traversal(subgraph, self.passes, self.opset, self).run()
        if node.graph is self.graph and _result_types(node) != before:
            changed |= self._run_passes(node)
        return changed

    def _passes_for(self, node: Node) -> tuple[NodePass, ...]:
        key = (node.domain, node.op_type)
        found = self._by_type.get(key)
        if found is None:
            found = self._by_type[key] = tuple(
                item for item in self.passes if item.op_types is None or key in item.op_types
            )
        return found

    def _run_passes(self, node: Node) -> bool:
        changed = False
        started = perf_counter()
        for item in self._passes_for(node):
            self.tally = self.tallies[item.name]
            try:
                changed |= rewrite_at(self.tally, node, item.run, self)
            except PassError:
                raise
            except AscendSimError as error:
                raise PassError(f"pass {item.name!r}", f"failed at node {node.name!r}: {error}") from error
            ended = perf_counter()
            self.tally.seconds += ended - started
            started = ended
            if node.graph is not self.graph:
                break
        return changed


def _result_types(node: Node) -> list[tuple[object, Shape | None]]:
    """Types of what a node's subgraphs give."""
    return [
        (tensor.origin_dtype, tensor.shape) for _, subgraph in node.subgraphs for tensor in subgraph.outputs
    ]
