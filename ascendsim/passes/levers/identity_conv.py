"""Layout trick: a convolution that changes nothing, between a reflecting Pad and a Mul.

Pad(reflect) -> Mul   becomes   Pad(reflect) -> Conv(identity, 1x1) -> Mul

A convolution carries the blocked format of feature maps; the Mul behind it takes the format over and joins
the convolution's task by UB fusion (Conv + elementwise), so it needs no TransData before and after it. Every
output channel of the convolution is one input channel times 1 plus zeros: bit-equal for finite values (an
infinity anywhere would make NaN of 0 * inf).
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.replace import insert_after

# the identity costs C * C multiply-adds a position; beyond this it cannot be cheaper than two format
# conversions
MAX_CHANNELS = 512


class IdentityConv(Lever):
    """Inserts the identity convolution."""

    name = "identity-conv"
    title = "insert an identity convolution between MirrorPad and Mul"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every Pad that reflects and whose only reader is a Mul."""
        return tuple(site for node in graph.topological() for site in self._site(node, graph))

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Inserts one convolution."""
        padded = graph.node(site.node).output
        channels = padded.static_shape[1]
        kernel = np.eye(channels, dtype=padded.element_type.numpy).reshape(channels, channels, 1, 1)
        weight = graph.add_constant(graph.fresh(f"{site.node}_identity"), kernel)
        same = context.add(graph, "Conv", padded, weight, stem=f"{site.node}_identity_conv")
        insert_after(padded, same)

    def _site(self, node: Node, graph: Graph) -> tuple[Site, ...]:
        if node.op_type != "Pad" or node.domain or node.attr("mode", "constant") != "reflect":
            return ()
        readers = node.output.consumers
        if len(readers) != 1 or readers[0].op_type != "Mul":
            return ()
        names, padded = (node.name, readers[0].name), node.output
        if not padded.is_static or len(padded.static_shape) != 4:
            return (Site(names, "a convolution needs a feature map of four axes"),)
        if padded.dtype not in (DType.FLOAT32, DType.FLOAT16):
            return (Site(names, "a convolution needs floating-point values"),)
        if any(tensor is padded for tensor in graph.outputs):
            return (Site(names, "the padded map is an output of the network itself"),)
        if padded.static_shape[1] > MAX_CHANNELS:
            return (Site(names, f"{padded.static_shape[1]} channels make the identity too expensive"),)
        reason = (
            "Mul behind MirrorPad runs row-major and as a task of its own; behind a convolution it "
            "joins that one's task"
        )
        return (Site(names, reason, Relation.EXACT),)
