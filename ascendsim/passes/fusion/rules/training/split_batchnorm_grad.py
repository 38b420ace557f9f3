"""Split fusion of the gradient of batch normalisation in training: the sums come apart from what needs them.

    BatchNormGrad(dy, x, scale, mean, variance) -> dx, dscale, doffset
    =>  BNTrainingUpdateGrad(dy, x, mean, variance) -> dscale, doffset
        BNTrainingReduceGrad(dy, x, dscale, doffset, scale, mean, variance) -> dx

Each half runs as one sweep in its own task, and UB fusion may join the second one with its neighbours. On its
own the split saves nothing.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_float, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_batchnorm import DEFAULT_EPSILON
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_outputs


class FusedBatchNormGradFusionPass(FusionRule):
    """The gradient of batch normalisation becomes its two halves."""

    name = "FusedBatchNormGradFusionPass"
    patterns = {"PATTERN_FUSEDBATCHNORMGRAD": Op("BatchNormGrad", name="grad")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses inference, whose statistics are constants, and parameters that the halves do not take."""
        grad = match.root
        if not grad.attr("training_mode", 1):
            return "the normalisation is in inference mode"
        if any(grad.required(port).dtype is not DType.FLOAT32 for port in (2, 3, 4)):
            return "the parameters are not float32"
        return not_float(grad.required(0)) or not_static(grad.inputs)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts both halves in its place."""
        grad = match.root
        dy, x, scale, mean, variance = (grad.required(port) for port in range(5))
        epsilon = float(grad.attr("epsilon", DEFAULT_EPSILON))
        name, inputs = f"{grad.name}_update", [dy, x, mean, variance]
        sums = context.add(
            graph, "BNTrainingUpdateGrad", inputs, 2, name=name, like=grad, domain="ascend", epsilon=epsilon
        )
        name, inputs = f"{grad.name}_reduce", [dy, x, *sums.outputs, scale, mean, variance]
        data = context.add(
            graph, "BNTrainingReduceGrad", inputs, 1, name=name, like=grad, domain="ascend", epsilon=epsilon
        )
        replace_outputs(graph, grad, (data.output, *sums.outputs)[: len(grad.outputs)])


RULES = (FusedBatchNormGradFusionPass(),)
