"""What all folding passes do with the values that they found: keep them beside the node, or put them in its
place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Node
from ascendsim.passes.engine.node_pass import Site, again_readers
from ascendsim.passes.rewriting.folding import KEEP
from ascendsim.passes.rewriting.removal import drop_constants


def is_folded(node: Node) -> bool:
    """Whether the values of all outputs are known already."""
    return bool(node.outputs) and all([tensor.constant is not None for tensor in node.outputs])


def must_stay(node: Node) -> bool:
    """Whether a node is never folded: it carries the attribute for that, or has subgraphs."""
    return bool(node.attr(KEEP, 0)) or bool(node.subgraphs)


def keep_values(node: Node, values: Sequence[Constant], site: Site, potential: bool) -> None:
    """Notes the values of a node's outputs.

    Args:
        node: Not folded yet.
        values: One an output; their types and shapes are those of the outputs.
        site: The traversal; readers are visited again.
        potential: Keep the node and the values beside it (see `potential`); else constants take the node's
            place, and constants that only it read go. Nodes that must stay only ever get potential values.
    """
    again_readers(node, site)
    if not must_stay(node):
        site.tally.count("folded nodes")
    if potential or must_stay(node):
        for tensor, value in zip(node.outputs, values, strict=True):
            tensor.constant = value
        return
    graph, inputs = site.graph, node.inputs
    graph.make_constant(node, list(values))
    drop_constants(graph, (*inputs, *node.outputs))


def set_exact_type(node: Node, values: Sequence[Constant]) -> None:
    """Gives outputs the shapes of values that are at hand (a shape rule may know less than the values do)."""
    for tensor, value in zip(node.outputs, values, strict=True):
        array = value.array()
        tensor.shape = tuple(array.shape)
        kind = DType.of(array.dtype)
        if tensor.origin_dtype is not kind:
            tensor.dtype = tensor.origin_dtype = kind
