"""TbeConvFixPipeFusionPass: a convolution and what its FIXPIPE stage does besides storing are one task.

The stage is a part of the convolution here since the rules of `fusion/rules/conv/fixpipe_conv.py` made it
one, so the pass counts them; a convolution whose stage only stores has nothing to be joined with.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.rewriting.pattern import single
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import rewrite_found

NAME = "TbeConvFixPipeFusionPass"
PATTERN = "conv_fixpipe"
STORE = "store"
JOINED = "fixpipe_task"  # key in Node.origin: what the stage does in the convolution's task


def join_fixpipe(graph: Graph) -> PatternRecord:
    """Notes the stages that belong to their convolution's task."""
    stages = (node for node in graph.topological() if node.attr("fixpipe", STORE) != STORE)

    def refusal(node: Node) -> str | None:
        return "the stage belongs to the task already" if node.origin.get(JOINED) else None

    return rewrite_found(
        PatternRecord("ub", NAME, PATTERN),
        (single(PATTERN, node) for node in stages),
        lambda match: refusal(match.root),
        lambda match: match.root.origin.update({JOINED: match.root.attr("fixpipe")}),
    )
