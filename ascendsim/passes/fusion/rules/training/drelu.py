"""The gradient of Relu reads one bit an element instead of the activation.

    y = Relu(x);  ReluGrad(dy, y)      =>      y, mask = ReluV2(x);  ReluGradV2(dy, mask)

Exact: y > 0 exactly where x > 0. Other readers of y are served by ReluV2.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace


class DreluFusionPass(FusionRule):
    """Relu and ReluGrad."""

    name = "DreluFusionPass"
    patterns = {
        "DreluFusionPass": Op(
            "ReluGrad", Any("gradient"), Op("Relu", Any("x"), name="relu", shared=True), name="relu_grad"
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, relu = match.tensors["x"], match.nodes["relu"]
        if sum(use.node.op_type == "ReluGrad" for use in relu.output.uses) > 1:
            return "the activation serves several gradients"
        reason = not_static([x, match.tensors["gradient"]])
        if reason is None and match.tensors["gradient"].static_shape != x.static_shape:
            reason = "the gradient has another shape"
        return reason or ("the activation is a scalar" if not x.static_shape else None)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        relu, root = match.nodes["relu"], match.root
        forward = context.add(
            graph, "ReluV2", [match.tensors["x"]], 2, name=f"{relu.name}_ReluV2", like=relu, domain="ascend"
        )
        inputs = [match.tensors["gradient"], forward.outputs[1]]
        backward = context.add(
            graph, "ReluGradV2", inputs, 1, name=f"{root.name}_ReluGradV2", like=root, domain="ascend"
        )
        replace(graph, match.all_nodes, [(root.output, backward.output), (relu.output, forward.output)])


RULES = (DreluFusionPass(),)
