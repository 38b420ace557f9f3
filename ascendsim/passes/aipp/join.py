"""TbeAippCommonFusionPass: the first convolution takes the image itself, AIPP converts it on the way from
global memory into L1.

Before: image -> Aipp -> Conv
After:  image -> AippConv

Only where the convolution is the one reader, takes whole images (one group) and is no operator of another
kind; else the Aipp stays a task of its own that writes its result.
"""

from __future__ import annotations

import math
from functools import partial

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Match, single
from ascendsim.passes.rewriting.removal import remove_unread
from ascendsim.passes.rewriting.replace import replacing
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import rewrite_found

NAME = "TbeAippCommonFusionPass"
MOST_CHANNELS = 4  # of an image; the whole depth of a convolution's input comes with every pixel


def join_aipp(graph: Graph) -> PatternRecord:
    """Joins Aipp nodes of the device graph (formats assigned) with the convolutions behind them, in place."""
    images = [node for node in graph.nodes if node.op_type == "Aipp"]
    found = [
        single("aipp_conv", node, *node.output.consumers)
        for node in images
        if any(reader.op_type == "Conv" for reader in node.output.consumers)
    ]
    record = PatternRecord("ub", NAME, "aipp_conv")
    return rewrite_found(record, found, partial(_refusal, graph), partial(_join, graph))


def _refusal(graph: Graph, match: Match) -> str | None:
    aipp, conv, *others = match.all_nodes
    if others or is_output(graph, aipp.output):
        return "its result is read by others too"
    if int(conv.attr("group", 1)) != 1:
        return "the convolution works in groups"
    if math.prod(conv.required(1).static_shape[2:]) == 1:
        return "a convolution without a window takes no rows"
    if conv.output.format is not Format.NC1HWC0 or aipp.output.static_shape[1] > MOST_CHANNELS:
        return "the convolution does not work on an image in NC1HWC0"
    return None


def _join(graph: Graph, match: Match) -> None:
    """The convolution becomes the joined operator: its name, place and outputs stay."""
    aipp, conv = match.all_nodes
    with replacing(graph, [conv, aipp]):
        conv.op_type, conv.domain = "AippConv", "ascend"
        conv.attributes.update(aipp.attributes)
        conv.set_input(0, aipp.required(0))
        remove_unread(aipp)
