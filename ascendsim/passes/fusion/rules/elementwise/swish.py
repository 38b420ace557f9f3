"""Swish and HardSwish from their parts.

    Mul(x, Sigmoid(x))              =>      Swish(x)
    Mul(x, Sigmoid(Mul(x, a)))      =>      Swish(x, alpha=a)
    Mul(x, HardSigmoid(x, 1/6, 1/2))                       =>      HardSwish(x)
    x clip(x + 3, 0, 6) / 6, as products and a quotient    =>      HardSwish(x)

CANN has no graph pass of its own for either: it leaves Sigmoid and Mul to UB fusion (57 times on YOLOv5s),
which the counts of other passes on that network show. SwishFusionPass is therefore off unless a switch names
it; what it saves without UB fusion is one task and one round trip of the activation. float32 results agree to
a few units in the last place.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import not_float, not_scalar, read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op, Term
from ascendsim.passes.rewriting.replace import replace_root


def _mul(left: Term, right: Term, name: str) -> Op:
    return Op("Mul", left, right, commutative=True, name=name, shared=True)


class SwishFusionPass(FusionRule):
    """Mul of a tensor with its own Sigmoid."""

    name = "SwishFusionPass"
    patterns = {
        "SwishFusionPass": _mul(Any("x"), Op("Sigmoid", Any("x"), name="sigmoid", shared=True), "root"),
        "SwishFusionPassScaled": _mul(
            Any("x"),
            Op("Sigmoid", _mul(Any("x"), Const("alpha"), "scaled"), name="sigmoid", shared=True),
            "root",
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        if "alpha" in match.tensors and scalar(match.tensors["alpha"]) is None:
            return "alpha is not one known number"
        if match.root.output.shape != match.tensors["x"].shape:
            return "alpha broadcasts the result"
        return read_outside(match) or not_float(match.tensors["x"])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        alpha = scalar(match.tensors["alpha"]) if "alpha" in match.tensors else 1.0
        assert alpha is not None
        root = match.root
        made = context.add(
            graph, "Swish", [match.tensors["x"]], name=f"{root.name}_Swish", like=root, alpha=alpha
        )
        replace_root(graph, root, made.output)


def _gate(types: str = "Clip") -> Op:
    """The part clip(x + 3, 0, 6)."""
    shifted = Op("Add", Any("x"), Const("three"), commutative=True, name="shifted", shared=True)
    return Op(types, shifted, Const("zero"), Const("six"), name="gate", shared=True)


class HardSwishFusionPass(FusionRule):
    """Mul of a tensor with its own HardSigmoid, or with its parts."""

    name = "HardSwishFusionPass"
    patterns = {
        "HardSwishFusionPass": _mul(
            Any("x"), Op("HardSigmoid", Any("x"), name="hard_sigmoid", shared=True), "root"
        ),
        "HardSwishFusionPassGate": _mul(
            Any("x"), Op("Div", _gate(), Const("divisor"), name="divided", shared=True), "root"
        ),
        "HardSwishFusionPassProduct": Op(
            "Div", _mul(Any("x"), _gate(), "product"), Const("divisor"), name="root"
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        hard = match.nodes.get("hard_sigmoid")
        if hard is not None:
            reason = _coefficients(float(hard.attr("alpha", 0.2)), float(hard.attr("beta", 0.5)))
        else:
            reason = (
                not_scalar(match, "three", 3)
                or not_scalar(match, "zero", 0)
                or not_scalar(match, "six", 6)
                or not_scalar(match, "divisor", 6)
            )
        if reason is None and match.root.output.shape != match.tensors["x"].shape:
            reason = "a constant broadcasts the result"
        return reason or read_outside(match) or not_float(match.tensors["x"])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root = match.root
        made = context.add(graph, "HardSwish", [match.tensors["x"]], name=f"{root.name}_HardSwish", like=root)
        replace_root(graph, root, made.output)


def _coefficients(alpha: float, beta: float) -> str | None:
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        return f"the coefficients are {alpha:g} and {beta:g}, not 1/6 and 1/2"
    return None


RULES = (SwishFusionPass(), HardSwishFusionPass())
