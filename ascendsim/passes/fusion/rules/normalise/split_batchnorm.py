"""Split fusion of batch normalisation in training: one operator becomes two, each of which may join its
neighbour.

    BatchNormalization(x, scale, offset, mean, var), training
    =>  BNTrainingReduce(x) -> sum, square_sum;  BNTrainingUpdate(x, sum, square_sum, scale, offset, mean,
                                                 var)

The sums want x as soon as it is made: UB fusion joins BNTrainingReduce with the convolution before it, and
BNTrainingUpdate with the elementwise operators behind it. On its own the split saves nothing.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_batchnorm import DEFAULT_EPSILON
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_outputs

DEFAULT_MOMENTUM = 0.9  # of ONNX's BatchNormalization


class FusedBatchnormFusionPass(FusionRule):
    """Batch normalisation in training becomes its two halves."""

    name = "FusedBatchnormFusionPass"
    patterns = {"FusedBatchnormFusionPass": Op("BatchNormalization", name="norm")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses inference, which needs no sums."""
        norm = match.root
        if not norm.attr("training_mode", 0):
            return "the normalisation is in inference mode"
        return None if norm.required(0).element_type.is_float else "the element type is not a float"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Puts both halves in its place; running mean and variance come from the second."""
        norm = match.root
        x, scale, offset, mean, variance = (norm.required(port) for port in range(5))
        sums = context.add(
            graph, "BNTrainingReduce", [x], 2, name=f"{norm.name}_reduce", like=norm, domain="ascend"
        )
        made = context.add(
            graph,
            "BNTrainingUpdate",
            [x, *sums.outputs, scale, offset, mean, variance],
            len(norm.outputs),
            name=f"{norm.name}_update",
            like=norm,
            domain="ascend",
            epsilon=float(norm.attr("epsilon", DEFAULT_EPSILON)),
            momentum=float(norm.attr("momentum", DEFAULT_MOMENTUM)),
        )
        replace_outputs(graph, norm, made.outputs)


RULES = (FusedBatchnormFusionPass(),)
