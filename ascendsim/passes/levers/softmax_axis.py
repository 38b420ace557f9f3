"""Layout trick: Softmax on an axis in the middle, between two transposes.

Softmax(scores[b, h, s, t], axis=3)
becomes Transpose(0, 3, 1, 2) -> Softmax(axis=1) -> Transpose(0, 2, 3, 1)

A kernel that goes along the last axis takes the rows one by one where they do not fill 32-byte blocks; along
another axis it works on whole runs. READMEs of Swin and LV-ViT for Ascend 310 do so (fix_softmax.py),
together with shapes on the white list of the quick transpose.
"""

from __future__ import annotations

from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import insert_after

_BYTES = 2  # of an element on the device: float16


class SoftmaxAxis(Lever):
    """Puts Softmax on an axis in the middle."""

    name = "softmax-axis"
    title = "put Softmax over a ragged last axis on another axis, between transposes"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every Softmax along a last axis that does not fill blocks."""
        return tuple(site for node in graph.topological() for site in _site(node))

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Turns the scores there and back around one Softmax."""
        node = graph.node(site.node)
        rank = len(node.required(0).static_shape)
        there = (0, rank - 1, *range(1, rank - 1))
        back = (0, *range(2, rank), 1)
        turned = context.add(graph, "Transpose", node.required(0), stem=f"{node.name}_turned", perm=there)
        node.set_input(0, turned)
        node.attributes["axis"] = 1
        node.output.shape = turned.shape
        restored = context.add(graph, "Transpose", node.output, stem=f"{node.name}_restored", perm=back)
        insert_after(node.output, restored)


def _site(node: Node) -> tuple[Site, ...]:
    if node.op_type != "Softmax" or node.domain:
        return ()
    scores = node.required(0)
    if not scores.is_static or len(scores.static_shape) < 3:
        return ()
    rank = len(scores.static_shape)
    length = scores.static_shape[-1]
    if int(node.attr("axis", -1)) % rank != rank - 1 or length * _BYTES % BLOCK_BYTES == 0:
        return ()
    if is_output(node.graph, node.output):
        return (Site((node.name,), "its result is an output of the network itself"),)
    reason = (
        f"rows of {length} end inside a block of {BLOCK_BYTES} bytes, so the kernel takes them one by one"
    )
    return (Site((node.name,), reason, Relation.EXACT),)
