"""TbeAippCommonFusionPass: the first convolution takes the image itself, AIPP converts it on the way from
global memory into L1.

Before: image -> Aipp -> Conv
After:  image -> AippConv

Only where the convolution is the one reader, takes whole images (one group) and is no operator of another
kind; else the Aipp stays a task of its own that writes its result.
"""

from __future__ import annotations

import math

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.report import PatternRecord, Refusal

NAME = "TbeAippCommonFusionPass"
MOST_CHANNELS = 4  # of an image; the whole depth of a convolution's input comes with every pixel


def join_aipp(graph: Graph) -> PatternRecord:
    """Joins Aipp nodes of the device graph (formats assigned) with the convolutions behind them, in place."""
    record = PatternRecord("ub", NAME, "aipp_conv")
    for aipp in [node for node in graph.nodes if node.op_type == "Aipp"]:
        readers = aipp.output.consumers
        if not any(node.op_type == "Conv" for node in readers):
            continue
        record.matched += 1
        reason = _refusal(graph, aipp, readers)
        if reason is not None:
            record.refusals.append(Refusal(aipp.name, reason))
            continue
        (conv,) = readers
        record.fused.append((aipp.name, conv.name))
        record.effected += 1
        _join(graph, aipp, conv)
    return record


def _refusal(graph: Graph, aipp: Node, readers: tuple[Node, ...]) -> str | None:
    if len(readers) > 1 or any(tensor is aipp.output for tensor in graph.outputs):
        return "its result is read by others too"
    conv = readers[0]
    if int(conv.attr("group", 1)) != 1:
        return "the convolution works in groups"
    if math.prod(conv.required(1).static_shape[2:]) == 1:
        return "a convolution without a window takes no rows"
    if conv.output.format is not Format.NC1HWC0 or aipp.output.static_shape[1] > MOST_CHANNELS:
        return "the convolution does not work on an image in NC1HWC0"
    return None


def _join(graph: Graph, aipp: Node, conv: Node) -> None:
    """The convolution becomes the joined operator: its name, place and outputs stay."""
    names = [name for node in (aipp, conv) for name in node.origin.get("source_names", (node.name,))]
    conv.op_type, conv.domain = "AippConv", "ascend"
    conv.attributes.update(aipp.attributes)
    conv.origin["source_names"] = tuple(dict.fromkeys(names))
    conv.set_input(0, aipp.required(0))
    graph.remove_node(aipp)
