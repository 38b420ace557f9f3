"""An Unsqueeze that brings back what a Squeeze took away.

    Unsqueeze(Squeeze(x))      =>      x          if the shape is that of x

Exact: neither moves data.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class SqueezeUnsqueezeFusionPass(FusionRule):
    """Squeeze and Unsqueeze of the same axes."""

    name = "SqueezeUnsqueezeFusionPass"
    patterns = {
        "SqueezeUnsqueezeFusionPass": Op(
            "Unsqueeze", Op("Squeeze", Any("x"), name="squeeze", shared=True), name="unsqueeze"
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x = match.tensors["x"]
        reason = not_static([x])
        if reason is not None:
            return reason
        return None if match.root.output.shape == x.shape else "the pair changes the shape"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        replace_root(graph, match.root, match.tensors["x"])


RULES = (SqueezeUnsqueezeFusionPass(),)
