"""What rules around operators with several outputs share."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.rule import remove_dead_from


def replace_outputs(graph: Graph, node: Node, tensors: Sequence[Tensor]) -> None:
    """Lets tensors stand for the outputs of a node, names of graph outputs included, and removes the node and
    what became dead.
    """
    seen = {id(tensor) for tensor in graph.outputs}
    names = [(old.name, new) for old, new in zip(node.outputs, tensors, strict=True) if id(old) in seen]
    for old, new in zip(node.outputs, tensors, strict=True):
        graph.replace_uses(old, new)
    remove_dead_from(graph, node)
    for name, new in names:
        graph.rename_tensor(new, name)
