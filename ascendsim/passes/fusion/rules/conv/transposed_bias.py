"""A constant summand behind a transposed convolution becomes its bias.

    ConvTranspose(x, w) -> Add(., c)      =>      ConvTranspose(x, w, c)       c: one value a channel

As for convolutions: the Cube starts from the bias, no vector task.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_float, not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import is_per_channel, lazy_constant
from ascendsim.passes.rewriting.pattern import Const, Match, Op
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root

BIAS = 2  # input port


class Conv2DbpInputBiasAddFusionPass(FusionRule):
    """The bias of a transposed convolution."""

    name = "Conv2DbpInputBiasAddFusionPass"
    patterns = {
        "Conv2DbpInputBiasAddFusionPass": Op(
            "Add",
            Op("ConvTranspose", name="conv", shared=True),
            Const("summand"),
            commutative=True,
            name="add",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses convolutions that have a bias, and summands that are none."""
        conv, summand = match.nodes["conv"], match.tensors["summand"]
        if conv.input(BIAS) is not None:
            return "the convolution has a bias already"
        reason = not_static([conv.output, summand]) or not_float(conv.output)
        if reason is not None:
            return reason
        shape = conv.output.static_shape
        if not is_per_channel(summand, shape[1], len(shape)) or conv.output.dtype is not summand.dtype:
            return "the summand is not one value a channel"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Makes the summand the bias."""
        conv, summand = match.nodes["conv"], match.tensors["summand"]
        channels = conv.output.static_shape[1]
        bias = lazy_constant(
            graph,
            f"{conv.name}_bias",
            summand.element_type,
            (channels,),
            [summand],
            lambda values: np.broadcast_to(np.asarray(values).ravel(), (channels,)),
        )
        conv.set_input(BIAS, bias)
        replace_root(graph, match.root, conv.output)
        drop_constants(graph, (summand,))


RULES = (Conv2DbpInputBiasAddFusionPass(),)
