"""ConvertPotentialConstantToOfficialPass: values that the traversal found become constants of the graph.

While shapes are still being inferred nothing is folded for good: a value that is known is kept beside the
node that makes it (its tensor has a producer and a `constant`), where shape rules see it. Should other shapes
be tried, for the next round of a loop or the next gear, it is simply forgotten. This pass runs after the
traversal.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Graph
from ascendsim.passes.rewriting.folding import KEEP
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.removal import drop_constants


@dataclass(frozen=True, slots=True)
class ConvertPotentialConstantToOfficialPass:
    """Replaces nodes by their known values; nodes that must stay (`no_const_folding`) lose the value that was
    kept beside them.
    """

    name: str = "ConvertPotentialConstantToOfficialPass"

    def run(self, graph: Graph) -> PassResult:
        return PassResult.of({"folded nodes": _convert(graph)})


def _convert(graph: Graph) -> int:
    folded = 0
    for node in graph.nodes:
        known = [tensor.constant for tensor in node.outputs if tensor.constant is not None]
        if known and len(known) == len(node.outputs) and not node.attr(KEEP, 0):
            inputs = node.inputs
            graph.make_constant(node, known)
            drop_constants(graph, (*inputs, *node.outputs))
            folded += 1
            continue
        for tensor in node.outputs:
            tensor.constant = None
        for _, subgraph in node.subgraphs:
            folded += _convert(subgraph)
    return folded
