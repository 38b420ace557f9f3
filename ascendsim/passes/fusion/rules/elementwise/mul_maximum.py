"""The larger one of x and a x is what LeakyRelu gives, if a < 1.

    Maximum(Mul(x, a), x)      =>      LeakyRelu(x, alpha=a)

Exact for a < 1: x < 0 means a x > x.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_float, read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class MulMaximumFusionPass(FusionRule):
    """Mul and Maximum of one tensor."""

    name = "MulMaximumFusionPass"
    patterns = {
        "MulMaximumFusion": Op(
            "Max",
            Op("Mul", Any("x"), Const("alpha"), commutative=True, name="mul", shared=True),
            Any("x"),
            commutative=True,
            name="maximum",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        if match.root.input_count != 2:
            return "Maximum has not two inputs"
        if match.tensors["alpha"].shape != ():
            return "alpha is no scalar"
        alpha = scalar(match.tensors["alpha"])
        if alpha is None:
            return "alpha has no known value"
        if not alpha < 1:
            return f"alpha is {alpha:g}, not less than 1"
        return read_outside(match) or not_float(match.tensors["x"])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        alpha = scalar(match.tensors["alpha"])
        assert alpha is not None
        made = context.add(
            graph,
            "LeakyRelu",
            [match.tensors["x"]],
            name=match.nodes["mul"].name,
            like=match.nodes["mul"],
            alpha=alpha,
        )
        replace_root(graph, match.root, made.output)


RULES = (MulMaximumFusionPass(),)
