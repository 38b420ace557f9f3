"""A constant summand behind a convolution becomes its bias, which the Cube holds in L0C from the start: no
vector task.

    Conv(x, w[, b]) -> Add(., c)      =>      Conv(x, w, b + c)

AABiasaddConvFusion takes what frameworks call BiasAdd: a convolution without bias and one value a channel.
TBEConvAddFusion takes any constant of one value a channel or one in all, also on top of a bias.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import (
    ConvRule,
    channel_refusal,
    conv_refusal,
    fold_into,
    other_input,
)
from ascendsim.passes.rewriting.pattern import Any, Match, Op

_ADD_AFTER_CONV = Op(
    "Add", Op("Conv", name="conv", shared=True), Any("summand"), commutative=True, name="add"
)


class AABiasaddConvFusion(ConvRule):
    """A BiasAdd behind a convolution becomes the convolution's third input."""

    name = "AABiasaddConvFusion"
    patterns = {"BiasaddFusion": _ADD_AFTER_CONV}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses summands that are no bias, and convolutions that have one."""
        conv, summand = match.nodes["conv"], _summand(match)
        if conv.input(2) is not None:
            return "the convolution has a bias already"
        reason = channel_refusal(summand, conv, "summand") or conv_refusal(conv)
        if reason is None and summand.elements != conv.required(1).static_shape[0]:
            return "the summand is not one value a channel"
        return reason

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Makes the summand the bias."""
        fold_into(graph, match.nodes["conv"], match.root, [_summand(match)], None, lambda summand: summand)


class TBEConvAddFusion(ConvRule):
    """A constant Add behind a convolution moves into its bias."""

    name = "TBEConvAddFusion"
    patterns = {"TBEConvAddFusion": _ADD_AFTER_CONV}
    kinds = frozenset({"Conv2D", "Conv3D"})

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses summands that are not constant or differ within a channel."""
        conv = match.nodes["conv"]
        return channel_refusal(_summand(match), conv, "summand") or conv_refusal(conv)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Adds the summand to the bias."""
        fold_into(graph, match.nodes["conv"], match.root, [_summand(match)], None, lambda summand: summand)


def _summand(match: Match) -> Tensor:
    return other_input(match.nodes["add"], match.nodes["conv"].output)


RULES = (AABiasaddConvFusion(), TBEConvAddFusion())
