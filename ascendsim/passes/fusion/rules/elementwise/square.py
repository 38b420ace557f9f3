"""Products with itself and second powers become Square: one operand is read instead of two, and no power has
to be computed.

    Mul(x, x)      =>      Square(x)
    Pow(x, 2)      =>      Square(x)

Exact: all three are one product. CANN looks at every Mul (on YOLOv5s 69 matches without effect) and every
Pow.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_float, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class MulSquareFusionPass(FusionRule):
    """Mul of a tensor with itself."""

    name = "MulSquareFusionPass"
    patterns = {"MulSquareFusionPass": Op("Mul", name="mul")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        left, right = match.root.required(0), match.root.required(1)
        if left is not right:
            return "the factors are two tensors"
        return None if left.dtype is DType.INT32 else not_float(left)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        _square(graph, match, context)


class Pow2SquareFusionPass(FusionRule):
    """Pow with the constant exponent 2."""

    name = "Pow2SquareFusionPass"
    patterns = {"Pow2SquareFusionPass": Op("Pow", Any("x"), Any("exponent"), name="pow")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        if match.tensors["exponent"].element_type not in (DType.FLOAT32, DType.FLOAT16):
            return "the exponent is no float"
        if scalar(match.tensors["exponent"]) != 2:
            return "the exponent is not the constant 2"
        if match.root.output.shape != match.tensors["x"].shape:
            return "the exponent broadcasts the result"
        return not_float(match.tensors["x"])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        _square(graph, match, context)


def _square(graph: Graph, match: Match, context: FusionContext) -> None:
    root = match.root
    made = context.add(
        graph, "Square", [root.input(0)], name=f"{root.name}_Square", like=root, domain="ascend"
    )
    replace_root(graph, root, made.output)


RULES = (MulSquareFusionPass(), Pow2SquareFusionPass())
