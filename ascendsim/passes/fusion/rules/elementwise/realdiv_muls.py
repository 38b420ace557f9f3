"""A division by one constant number becomes a product with its reciprocal: the vector unit has no division of
its own.

    RealDiv(x, c)      =>      Muls(x, value=1/c)

1/c is rounded to the type of x, so results may differ in the last place.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_static, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

SMALLEST = 1e-6  # divisors nearer to 0 stay divisors


class RealDiv2MulsFusionPass(FusionRule):
    """RealDiv by a float32 number."""

    name = "RealDiv2MulsFusionPass"
    patterns = {"RealDiv2MulsFusionPass": Op("Div", Any("x"), Any("divisor"), name="realdiv")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, divisor = match.tensors["x"], match.tensors["divisor"]
        reason = not_static([x])
        if reason is not None:
            return reason
        value = scalar(divisor)
        if value is None:
            return "the divisor is not one known number"
        if divisor.dtype is not DType.FLOAT32 or x.dtype is not DType.FLOAT32:
            return "the operands are not float32"
        if abs(value) <= SMALLEST:
            return "the divisor is too near to 0"
        return None if match.root.output.shape == x.shape else "the divisor broadcasts the result"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, value = match.root, scalar(match.tensors["divisor"])
        assert value is not None
        made = context.add(
            graph,
            "Muls",
            [match.tensors["x"]],
            name=f"{root.name}_Muls",
            like=root,
            domain="ascend",
            value=1 / value,
        )
        replace_root(graph, root, made.output)


RULES = (RealDiv2MulsFusionPass(),)
