"""Constant factors (and summands) behind a convolution move into filter and bias.

    AConv2dMulFusion      Conv(x, w, b) -> Mul(., f)                =>  Conv(x, w * f, b * f)
    ConvScaleFusionPass   Conv(x, w, b) -> Mul(., f) -> Add(., s)   =>  Conv(x, w * f, b * f + s)

A Mul and an Add by channel are what Caffe's Scale layer is in ONNX; an operator of that name is taken too.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import (
    PLANE_CONVOLUTIONS,
    ConvRule,
    channel_refusal,
    conv_refusal,
    fold_into,
    other_input,
)
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op


class AConv2dMulFusion(ConvRule):
    """A constant Mul behind a convolution scales its filter and bias."""

    name = "AConv2dMulFusion"
    patterns = {
        "AConv2dMulFusion": Op(
            "Mul", Op("Conv", name="conv", shared=True), Any("factor"), commutative=True, name="mul"
        )
    }
    kinds = frozenset({"Conv2D", "Conv3D"})

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses factors that are not constant (x * sigmoid(x)) or differ within a channel."""
        conv = match.nodes["conv"]
        return channel_refusal(self._factor(match), conv, "factor") or conv_refusal(conv)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Scales filter and bias."""
        fold_into(graph, match.nodes["conv"], match.root, [self._factor(match)], lambda factor: factor, None)

    @staticmethod
    def _factor(match: Match) -> Tensor:
        return other_input(match.nodes["mul"], match.nodes["conv"].output)


class ConvScaleFusionPass(ConvRule):
    """A Scale behind a convolution moves into filter and bias."""

    name = "ConvScaleFusionPass"
    patterns = {
        "ConvScaleFusion": Op("Scale", Op("Conv", name="conv", shared=True), Any("factor"), name="scale"),
        "ConvMulAddFusion": Op(
            "Add",
            Op("Mul", Op("Conv", name="conv", shared=True), Const("factor"), commutative=True, name="mul"),
            Const("summand"),
            commutative=True,
            name="scale",
        ),
    }
    kinds = PLANE_CONVOLUTIONS

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses factors and summands that are not constant or differ within a channel."""
        conv = match.nodes["conv"]
        if match.pattern == "ConvScaleFusion":
            parameters = [tensor for tensor in match.root.inputs[1:] if tensor is not None]
            if not all(tensor.is_constant for tensor in parameters):
                return "a parameter of the scale is not constant"
            return conv_refusal(conv)
        factor = channel_refusal(match.tensors["factor"], conv, "factor")
        return factor or channel_refusal(match.tensors["summand"], conv, "summand") or conv_refusal(conv)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Scales filter and bias, and adds the summand to the bias."""
        summand = match.root.input(2) if match.pattern == "ConvScaleFusion" else match.tensors["summand"]
        factor = match.tensors["factor"]
        if summand is None:
            fold_into(graph, match.nodes["conv"], match.root, [factor], lambda f: f, None)
        else:
            fold_into(
                graph, match.nodes["conv"], match.root, [factor, summand], lambda f, _: f, lambda _, s: s
            )


RULES = (AConv2dMulFusion(), ConvScaleFusionPass())
