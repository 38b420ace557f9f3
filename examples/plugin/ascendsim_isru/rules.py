"""x / sqrt(1 + a * (x * x))      =>      Isru(x), alpha = a."""

from ascendsim.passes.fusion import Any, Const, FusionRule, Op, replace_root
from ascendsim.passes.fusion.checks import scalar
from ascendsim_isru.operators import DOMAIN

# CANN's own rules, which may run first, write x * x as a Square.
SQUARES = {"product": Op("Mul", Any("x"), Any("x")), "square": Op("Square", Any("x"))}
TERMS = {
    **SQUARES,
    **{
        f"scaled_{name}": Op("Mul", square, Const("alpha"), name="scale", commutative=True)
        for name, square in SQUARES.items()
    },
}


class JoinIsru(FusionRule):
    """Four or five operators as one."""

    name = "JoinIsru"
    patterns = {  # noqa: RUF012
        name: Op("Div", Any("x"), Op("Sqrt", Op("Add", term, Const("one"), commutative=True)))
        for name, term in TERMS.items()
    }

    def check(self, match, context):
        """Why a match stays as it is; None = it is joined."""
        if scalar(match.tensors["one"]) != 1:
            return "what is added is not 1"
        alpha = match.tensors.get("alpha")
        if alpha is not None and scalar(alpha) is None:
            return "the factor is no scalar"
        same = match.root.outputs[0].shape == match.tensors["x"].shape
        return None if same else "constants of more dimensions widen the result"

    def rewrite(self, graph, match, context):
        """Puts the one operator in place of the others."""
        x, alpha = match.tensors["x"], match.tensors.get("alpha")
        factor = 1.0 if alpha is None else scalar(alpha)
        made = context.add(graph, "Isru", [x], like=match.root, domain=DOMAIN, alpha=factor)
        replace_root(graph, match.root, made.output)


RULES = (JoinIsru(),)
