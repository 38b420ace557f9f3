"""Inference batch normalisation behind a convolution moves into its filter and bias.

    Conv(x, w, b) -> BatchNormalization(., gamma, beta, mean, var)
    =>  Conv(x, w * f, (b - mean) * f + beta)          f = gamma / sqrt(var + epsilon)

CANN computes the new constants by the host operators ConvBnFilterHost and ConvBnBiasHost, which are folded
afterwards.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Array, Graph
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import ConvRule, conv_refusal, fold_into
from ascendsim.passes.rewriting.pattern import Match, Op

DEFAULT_EPSILON = 1e-5  # of ONNX's BatchNormalization


class ConvBatchnormFusionPass(ConvRule):
    """Conv + BatchNorm becomes one convolution with other constants."""

    name = "ConvBatchnormFusionPass"
    patterns = {
        "ConvBatchnomFusion": Op("BatchNormalization", Op("Conv", name="conv", shared=True), name="norm")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses statistics of the batch itself and parameters that are not constant."""
        norm = match.root
        if norm.attr("training_mode", 0):
            return "the normalisation is in training mode"
        if not all(tensor is not None and tensor.is_constant for tensor in norm.inputs[1:5]):
            return "a parameter of the normalisation is not constant"
        return conv_refusal(match.nodes["conv"])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Folds the normalisation."""
        norm = match.root
        epsilon = float(norm.attr("epsilon", DEFAULT_EPSILON))
        sources = [norm.required(port) for port in range(1, 5)]

        def factor(gamma: Array, _beta: Array, _mean: Array, variance: Array) -> Array:
            return np.asarray(gamma / np.sqrt(variance + epsilon))

        def shift(gamma: Array, beta: Array, mean: Array, variance: Array) -> Array:
            return np.asarray(beta - mean * factor(gamma, beta, mean, variance))

        fold_into(graph, match.nodes["conv"], norm, sources, factor, shift)


RULES = (ConvBatchnormFusionPass(),)
