"""Zeros around a convolution's input become its `pads` attribute: the Cube's loads put them in for free.

Pad(x, zeros) -> Conv(., w)      =>      Conv(x, w, pads = own + added)
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import ConvRule
from ascendsim.passes.fusion.rules.pooling.pad_windows import constant_padding, merged_pads, window_refusal
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.removal import remove_dead_from

_PAD_BEFORE_CONV = Op("Conv", Op("Pad", name="pad", shared=True), name="conv")


class PadConv2dFusionPass(ConvRule):
    """Zero Pad before Conv2D."""

    name = "PadConv2dFusionPass"
    patterns = {"PadConv2dFusionPass": _PAD_BEFORE_CONV}
    kinds = frozenset({"Conv2D"})

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses everything but zeros around rows and columns."""
        padding = constant_padding(match.nodes["pad"])
        if isinstance(padding, str):
            return padding
        return "the padding is not zero" if padding.value != 0 else window_refusal(padding, match.root)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Widens the convolution's own padding; other readers of the Pad keep it."""
        pad, conv = match.nodes["pad"], match.root
        padding = constant_padding(pad)
        assert not isinstance(padding, str)
        pads = merged_pads(padding, conv)
        conv.attributes.pop("auto_pad", None)
        conv.attributes["pads"] = pads
        conv.set_input(0, pad.required(0))
        remove_dead_from(pad)


class PadDepthwiseConv2dFusionPass(PadConv2dFusionPass):
    """Zero Pad before DepthwiseConv2D."""

    name = "PadDepthwiseConv2dFusionPass"
    patterns = {"PadDepthwiseConv2dFusionPass": _PAD_BEFORE_CONV}
    kinds = frozenset({"DepthwiseConv2D"})


RULES = (PadConv2dFusionPass(), PadDepthwiseConv2dFusionPass())
