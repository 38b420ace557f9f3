"""PRelu from the basic operators that frameworks write it in.

    Relu(x) + c * Relu(-x)                     =>      PRelu(x, -c)            PReluFusionPass (Keras)
    Relu(x) + (x - |x|) * c * 0.5              =>      PRelu(x, c)             PReluAbsFusionPass (TensorFlow)

`c` is constant. Exact up to one rounding: one of the summands is zero.
"""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.passes.fusion.checks import not_float, not_scalar, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

_X = Any("x")
_POSITIVE = Op("Relu", _X, name="positive")


class _PReluRule(FusionRule):
    """What both forms share: `sign` turns their constant into PRelu's slope."""

    sign = 1.0

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses slopes that PRelu does not broadcast, and other readers."""
        x, slope = match.tensors["x"], match.tensors["slope"]
        if not (x.is_static and slope.is_static) or not _broadcasts(slope, x):
            return "the slope does not broadcast to x"
        if match.root.output.shape != x.shape:
            return "a factor stretches x"
        return not_float(x) or read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """One operator with the slope of negative numbers."""
        root, slope = match.root, match.tensors["slope"]
        turn: Callable[[Array], Array] = lambda values: values * values.dtype.type(self.sign)  # noqa: E731
        wanted = slope
        if self.sign != 1:
            name = f"{root.name}_slope"
            wanted = lazy_constant(graph, name, slope.element_type, slope.static_shape, [slope], turn)
        made = context.add(graph, "PRelu", [match.tensors["x"], wanted], name=f"{root.name}_PRelu", like=root)
        replace_root(graph, root, made.output)


class PReluFusionPass(_PReluRule):
    """Two Relus of x and -x."""

    name = "PReluFusionPass"
    sign = -1.0
    patterns = {
        "PReluFusionPass": Op(
            "Add",
            _POSITIVE,
            Op(
                "Mul",
                Op("Relu", Op("Neg", _X, name="negated"), name="negative"),
                Const("slope"),
                commutative=True,
                name="scaled",
            ),
            commutative=True,
            name="sum",
        )
    }


class PReluAbsFusionPass(_PReluRule):
    """A Relu, and half of what x lacks to its magnitude."""

    name = "PReluAbsFusionPass"
    patterns = {
        "PReluAbsFusionPass": Op(
            "Add",
            _POSITIVE,
            Op(
                "Mul",
                Op(
                    "Mul",
                    Op("Sub", _X, Op("Abs", _X, name="magnitude"), name="twice"),
                    Const("slope"),
                    commutative=True,
                    name="scaled",
                ),
                Const("half"),
                commutative=True,
                name="halved",
            ),
            commutative=True,
            name="sum",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses factors other than one half."""
        return not_scalar(match, "half", 0.5) or super().check(match, context)


def _broadcasts(slope: Tensor, x: Tensor) -> bool:
    """Whether the slope stretches to x and not the other way round."""
    small, large = slope.static_shape, x.static_shape
    behind = large[len(large) - len(small) :] if len(small) <= len(large) else ()
    return len(small) <= len(large) and all(
        size in (1, whole) for size, whole in zip(small, behind, strict=True)
    )


RULES = (PReluFusionPass(), PReluAbsFusionPass())
