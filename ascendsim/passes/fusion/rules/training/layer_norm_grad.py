"""The gradient of layer normalisation comes apart, so that its two halves run each along the axis that suits
it.

    LayerNormGrad(dy, x, inverse, mean, gamma)  ->  dx, dgamma, dbeta
        =>   LayerNormXBackpropV2(dy, x, inverse, mean, gamma)   ->  dx, n
             LayerNormBetaGammaBackpropV2(dy, n)                 ->  dgamma, dbeta

A split: alone it costs the round trip of n (float32); each half then works row by row or column by column.
The algebra stays.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace


class LayerNormGradFusionPass(FusionRule):
    """Split of LayerNormGrad."""

    name = "LayerNormGradFusionPass"
    patterns = {"LayerNormGradFusionPass": Op("LayerNormGrad", name="grad")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        return not_static(match.root.inputs)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root = match.root
        first = context.add(
            graph,
            "LayerNormXBackpropV2",
            root.inputs,
            2,
            name=f"{root.name}_x_backprop",
            like=root,
            domain="ascend",
        )
        second = context.add(
            graph,
            "LayerNormBetaGammaBackpropV2",
            [root.input(0), first.outputs[1]],
            2,
            name=f"{root.name}_beta_gamma_backprop",
            like=root,
            domain="ascend",
            shape_gamma=root.required(4).static_shape,
        )
        replace(graph, match.all_nodes, list(zip(root.outputs, (first.output, *second.outputs), strict=True)))


RULES = (LayerNormGradFusionPass(),)
