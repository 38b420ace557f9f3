"""Inference batch normalisation that no convolution takes in: fewer operations a channel, in two steps.

BatchNormBnInferFusionPass   BatchNormalization(x, scale, offset, mean, var)  =>  BNInference(x, mean, var,
                             scale, offset)
HostBNFusionPass             BNInference(x, mean, var, scale, offset)         =>  BNInferenceD(x, alpha, beta)

alpha = scale / sqrt(var + epsilon),  beta = offset - mean * alpha            computed by the host (BnHost)
                                      before the run
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Array, Graph
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_batchnorm import DEFAULT_EPSILON
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class BatchNormBnInferFusionPass(FusionRule):
    """BatchNormalization in inference mode becomes BNInference."""

    name = "BatchNormBnInferFusionPass"
    patterns = {"BatchNormBnInferFusionPass": Op("BatchNormalization", name="norm")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses statistics of the batch itself."""
        return "the normalisation is in training mode" if match.root.attr("training_mode", 0) else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts the inference form in its place."""
        norm = match.root
        x, scale, offset, mean, variance = (norm.required(port) for port in range(5))
        epsilon = float(norm.attr("epsilon", DEFAULT_EPSILON))
        inputs = [x, mean, variance, scale, offset]
        made = context.add(
            graph,
            "BNInference",
            inputs,
            name=f"{norm.name}_infer",
            like=norm,
            domain="ascend",
            epsilon=epsilon,
        )
        replace_root(graph, norm, made.output)


class HostBNFusionPass(FusionRule):
    """BNInference with constant parameters becomes one multiply and one add."""

    name = "HostBNFusionPass"
    patterns = {"HostBNFusionPass": Op("BNInference", name="norm")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses parameters that the host does not know."""
        known = all(
            tensor is not None and tensor.is_constant and tensor.is_static for tensor in match.root.inputs[1:]
        )
        return None if known else "a parameter of the normalisation is not constant"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Joins the parameters."""
        norm = match.root
        epsilon = float(norm.attr("epsilon", DEFAULT_EPSILON))
        x, mean, variance, scale, offset = (norm.required(port) for port in range(5))

        def alpha(scale: Array, variance: Array) -> Array:
            return np.asarray(scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon))

        def beta(offset: Array, mean: Array, scale: Array, variance: Array) -> Array:
            return np.asarray(offset.astype(np.float64) - mean.astype(np.float64) * alpha(scale, variance))

        kind, shape = scale.element_type, scale.static_shape
        factor = lazy_constant(graph, f"{norm.name}_alpha", kind, shape, [scale, variance], alpha)
        summand = lazy_constant(
            graph, f"{norm.name}_beta", kind, shape, [offset, mean, scale, variance], beta
        )
        made = context.add(
            graph, "BNInferenceD", [x, factor, summand], name=f"{norm.name}_host", like=norm, domain="ascend"
        )
        replace_root(graph, norm, made.output)


RULES = (BatchNormBnInferFusionPass(), HostBNFusionPass())
