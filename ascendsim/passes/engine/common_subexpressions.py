"""CommonSubexpressionEliminationPass: nodes that compute the same from the same are merged.

Two nodes are the same if they have equal keys and equally many outputs. As in GE a key holds the type, for
each input the value that it reads with its shapes, types and format, the names of control inputs and all
attributes; only siblings (readers of one value) are candidates, and only operators that could be folded, so
that random generators are safe. GE looks again at the readers of the survivor after each merge; walking in
execution order finds the same: what a node reads has been merged before its own key is made.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ascendsim.core.keys import key_of
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet
from ascendsim.passes.rewriting.folding import KEEP
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.replace import replace


@dataclass(frozen=True, slots=True)
class CommonSubexpressionEliminationPass:
    """Merges equal nodes of each graph and subgraph; the one that runs first stays.

    Attributes:
        opset: Says which operators could be folded.
    """

    opset: OpSet
    name: str = "CommonSubexpressionEliminationPass"

    def run(self, graph: Graph) -> PassResult:
        merged, kept = _merge_in(graph, self.opset)
        return PassResult.of({"merged nodes": merged, "left: both name outputs": kept})


def _merge_in(graph: Graph, opset: OpSet) -> tuple[int, int]:
    found: dict[Hashable, list[Node]] = {}  # different nodes by what they do and read
    outputs = set(graph.outputs)
    merged = kept = 0
    for node in graph.topological():
        if node.subgraphs:
            for _, subgraph in node.subgraphs:
                inner_merged, inner_kept = _merge_in(subgraph, opset)
                merged, kept = merged + inner_merged, kept + inner_kept
            continue
        definition = opset.find(node.op_type, node.domain)
        if definition is None or not definition.foldable or node.attr(KEEP, 0) or not any(node.inputs):
            continue
        alike = found.setdefault((node.domain, node.op_type, node.inputs), [])
        first = next((other for other in alike if _rest(other) == _rest(node)), None)
        if first is None:
            alike.append(node)
            continue
        if any(
            old in outputs and new in outputs for old, new in zip(node.outputs, first.outputs, strict=True)
        ):
            kept += 1
            continue
        pairs = list(zip(node.outputs, first.outputs, strict=True))
        outputs.update(new for old, new in pairs if old in outputs)
        replace(graph, [node], pairs, [first], deep=False)
        merged += 1
    return merged, kept


def _rest(node: Node) -> Hashable:
    """What of a node's key nodes with the same inputs may differ in."""
    return (
        tuple((tensor.dtype, tensor.origin_dtype, tensor.shape, tensor.format) for tensor in node.outputs),
        tuple(sorted(before.name for before in node.control)),
        key_of(node.attributes),
    )
