"""Gelu from its parts, in the form with tanh and in the form with erf.

    0.5 x (1 + tanh(0.797885 (x + 0.044715 x^3)))      =>      Gelu(x, approximate=tanh)
    0.5 x (1 + erf(x / 1.41421))                       =>      Gelu(x)

The 0.5 may stand at x, at the factor, or outside, as CANN's two patterns of each have it. Fewer roundings;
the algebra stays.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.checks import not_float, not_scalar, read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op, Term
from ascendsim.passes.rewriting.replace import replace_root

ROOT_TWO_OVER_PI, CUBE_FACTOR, ROOT_TWO = 0.7978845608, 0.044715, 1.4142135624
TOLERANCE = 1e-5  # of the constants, as CANN has it


def _op(types: str, left: Term, right: Term, name: str) -> Op:
    return Op(types, left, right, commutative=True, name=name, shared=True)


def _tanh_factor() -> Op:
    """The factor 1 + tanh(0.797885 (x + 0.044715 x^3))."""
    cube = Op("Pow", Any("x"), Const("exponent"), name="pow", shared=True)
    inner = _op("Add", Any("x"), _op("Mul", cube, Const("cube_factor"), "scaled_cube"), "inner")
    return _op(
        "Add",
        Op("Tanh", _op("Mul", inner, Const("scale"), "scaled"), name="tanh", shared=True),
        Const("one"),
        "factor",
    )


def _erf_factor() -> Op:
    """The factor 1 + erf(x / 1.41421)."""
    scaled = Op("Div", Any("x"), Const("root"), name="scaled", shared=True)
    return _op("Add", Op("Erf", scaled, name="erf", shared=True), Const("one"), "factor")


class _GeluRule(FusionRule):
    approximate: str

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root: Node = match.root
        x = match.tensors["x"]
        made = context.add(
            graph, "Gelu", [x], name=f"{root.name}_Gelu", like=root, approximate=self.approximate
        )
        replace_root(graph, root, made.output)

    def _common(self, match: Match) -> str | None:
        reason = (
            not_scalar(match, "one", 1)
            or not_scalar(match, "half", 0.5)
            or read_outside(match)
            or not_float(match.tensors["x"])
        )
        if reason is None and match.root.output.shape != match.tensors["x"].shape:
            return "a constant broadcasts the result"
        return reason


class GeluFusionPass(_GeluRule):
    """The form with tanh."""

    name = "GeluFusionPass"
    approximate = "tanh"
    patterns = {
        "GeluFusionPass": _op("Mul", Any("x"), _op("Mul", _tanh_factor(), Const("half"), "halved"), "root"),
        "GeluFusionPass2": _op("Mul", _op("Mul", Any("x"), Const("half"), "halved"), _tanh_factor(), "root"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        if scalar(match.tensors["exponent"]) != 3:
            return "the power is no cube"
        return (
            not_scalar(match, "cube_factor", CUBE_FACTOR, TOLERANCE)
            or not_scalar(match, "scale", ROOT_TWO_OVER_PI, TOLERANCE)
            or self._common(match)
        )


class GeluONNXFusionPass(_GeluRule):
    """The form with erf."""

    name = "GeluONNXFusionPass"
    approximate = "none"
    patterns = {
        "GeluONNXFusionPass": _op(
            "Mul", _op("Mul", Any("x"), Const("half"), "halved"), _erf_factor(), "root"
        ),
        "GeluONNXFusionPass2": _op(
            "Mul", _op("Mul", Any("x"), _erf_factor(), "product"), Const("half"), "root"
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        return not_scalar(match, "root", ROOT_TWO, TOLERANCE) or self._common(match)


RULES = (GeluFusionPass(), GeluONNXFusionPass())
