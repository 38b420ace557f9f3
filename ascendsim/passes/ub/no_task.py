"""FusionVirtualOpSetSwitch: splits that need no task, since their parts lie one behind the other in the
memory of the whole.

    split_n        along the outermost axis
    split_c_to_n   along channels of a single image (the outermost axis that is not 1)

The mark is the attribute `no_task`; the operator's own `lower` gives its outputs the memory of its input. Not
marked: a split whose input is a constant or comes from another operator without a task, and one whose outputs
are outputs of the graph or go to another split.
"""

from __future__ import annotations

from ascendsim.core.formats import BLOCK_BYTES, Format, c0
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.rewriting.pattern import single
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import rewrite_found

NAME = "FusionVirtualOpSetSwitch"


def mark_no_task(graph: Graph) -> PatternRecord:
    """Marks splits of the device graph, in place."""
    outputs = {id(tensor) for tensor in graph.outputs}
    splits = (
        node
        for node in graph.topological()
        if node.op_type == "Split" and not node.attr("no_task", 0) and _axis_fits(node)
    )
    return rewrite_found(
        PatternRecord("ub", NAME, "virtual_split"),
        (single("virtual_split", node) for node in splits),
        lambda match: _refusal(match.root, outputs),
        lambda match: match.root.attributes.update({"no_task": 1}),
    )


def _axis_fits(node: Node) -> bool:
    """Whether the split is along the outermost axis, or along the second one of a single image."""
    shape = node.required(0).static_shape
    axis = _axis(node)
    return axis == 0 or (axis == 1 and shape[0] == 1)


def _axis(node: Node) -> int:
    return int(node.attr("axis", 0)) % max(1, len(node.required(0).static_shape))


def _refusal(node: Node, outputs: set[int]) -> str | None:
    source = node.required(0)
    producer = source.producer
    if source.is_constant:
        return "its input is a constant"
    if any(tensor.storage_bytes % BLOCK_BYTES for tensor in node.outputs):
        return "a part does not fill whole 32 B blocks"
    if not _in_pieces(node):
        return f"its parts are no pieces of memory in {source.format.value}"
    if producer is not None and producer.attr("no_task", 0):
        return f"its input comes from {producer.name!r}, which runs no task either"
    for tensor in node.outputs:
        if id(tensor) in outputs:
            return "an output of the graph needs memory of its own"
        if any(consumer.op_type == "Split" for consumer in tensor.consumers):
            return "a part is split again"
    return None


def _in_pieces(node: Node) -> bool:
    """Whether the format stores each part in one piece: cut before the blocked axes, or between blocks of
    channels.
    """
    source, axis = node.required(0), _axis(node)
    if any(tensor.format is not source.format for tensor in node.outputs):
        return False
    if source.format in (Format.ND, Format.NCHW):
        return True
    if axis == 0:
        return source.format is Format.NC1HWC0 or (
            source.format is Format.FRACTAL_NZ and len(source.static_shape) > 2
        )
    block = c0(source.element_type)
    return source.format is Format.NC1HWC0 and all(
        part.static_shape[1] % block == 0 for part in node.outputs[:-1]
    )
