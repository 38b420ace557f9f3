"""Lets reductions over the positions of maps work in NC1HWC0 where they drop the axes that they fold.

Before: y[N, C] = ReduceMean(TransData(x[N, C, H, W]), axes 2 and 3, keepdims=0), all of the map turned.
After:  y = Reshape(ReduceMean(x, keepdims=1), [N, C]), TransData of one value a channel.
CANN's kernels take NC1HWC0 whether axes stay or not (ge, nn_engine: reduce_process_5hd.cc asks for the folded
axes only); a tensor of two axes has no such format here, so the axes stay and a Reshape, which moves nothing,
drops them.
"""

from __future__ import annotations

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpDef
from ascendsim.passes.layout.fold_batch import reshaped
from ascendsim.passes.rewriting.outputs import set_aside
from ascendsim.passes.rewriting.replace import insert_after


def keep_axes(graph: Graph, node: Node, definition: OpDef) -> Node | None:
    """Keeps the axes that a reduction of a blocked map to [N, C] drops, in place.

    Args:
        graph: Holds the node.
        node: Its inputs have their formats.
        definition: Its operator.

    Returns:
        The Reshape that drops them; None if nothing was to be done.
    """
    if definition.in_blocks is None:
        return None
    x, result = node.input(0), node.output
    if (
        int(node.attr("keepdims", 1))
        or x is None
        or x.format is not Format.NC1HWC0
        or not result.is_static
        or len(result.static_shape) != 2
    ):
        return None
    node.attributes["keepdims"] = 1
    if not definition.in_blocks(node, Format.NC1HWC0):
        node.attributes["keepdims"] = 0
        return None
    shape = result.static_shape
    name = set_aside(graph, result, "kept")
    result.shape = (*shape, 1, 1)
    dropped = reshaped(graph, result, shape, name)
    insert_after(result, dropped)
    graph.outputs[:] = [dropped if tensor is result else tensor for tensor in graph.outputs]
    return dropped.producer
