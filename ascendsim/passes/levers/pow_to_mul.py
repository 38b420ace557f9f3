"""Operator replacement: Pow becomes products, roots and reciprocals.

Pow(x, 3) -> Mul(Mul(x, x), x); Pow(x, 0.5) -> Sqrt(x); Pow(x, -2) -> Reciprocal(Mul(x, x)); Pow(x, y) ->
Exp(Mul(y, Log(x))), x >= 0.

x^n takes floor(log2 n) squarings and at most as many further products; each rounds once, so the result is
within as many units in the last place. On releases whose Pow runs on the AI CPU (profile option aicpu_pow)
this moves the work to the AI Core; on later ones it replaces some 40 vector instructions by a few.
"""

from __future__ import annotations

import math

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset.facts import Sign
from ascendsim.passes.fusion.checks import scalar
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.replace import replace_root

MAX_POWER = 64  # products beyond that many round too often to be the same function


def products(power: int) -> int:
    """Number of products that square-and-multiply needs for x^power, power >= 1.

    >>> [products(n) for n in (1, 2, 3, 4, 10)]
    [0, 1, 2, 2, 4]
    """
    return power.bit_length() - 1 + power.bit_count() - 1


class PowToMul(Lever):
    """Replaces Pow by operators that the vector unit has."""

    name = "pow-to-mul"
    title = "replace Pow by Mul"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every Pow."""
        return tuple(
            self._site(node, context)
            for node in graph.topological()
            if node.op_type == "Pow" and not node.domain
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Replaces one Pow."""
        node = graph.node(site.node)
        base, exponent = node.required(0), scalar(node.input(1))
        if exponent is not None and _is_chain(exponent):
            result = _chain(graph, base, exponent, node.name, context)
        else:
            logarithm = context.add(graph, "Log", base, stem=f"{node.name}_log")
            scaled = context.add(graph, "Mul", logarithm, node.required(1), stem=f"{node.name}_mul")
            result = context.add(graph, "Exp", scaled, stem=f"{node.name}_exp")
        replace_root(graph, node, result)

    def _site(self, node: Node, context: LeverContext) -> Site:
        name = (node.name,)
        where = "runs on the AI CPU" if node.name in context.ai_cpu else "takes some 40 vector instructions"
        base, exponent = node.required(0), scalar(node.input(1))
        if node.output.shape != base.shape:
            return Site(name, "the exponent broadcasts the base to another shape")
        if exponent is not None and _is_chain(exponent):
            if (
                base.dtype is not None
                and not base.dtype.is_float
                and (exponent != int(exponent) or exponent < 1)
            ):
                return Site(name, f"x^{exponent:g} of integers is no product")
            count = products(max(1, int(abs(exponent))))
            return Site(name, f"{where}; x^{exponent:g} is {_words(exponent, count)}", Relation.EXACT)
        source, sign = base.producer, context.opset.sign_of(base)
        if base.dtype not in (DType.FLOAT32, DType.FLOAT16) or node.required(1).dtype is not base.dtype:
            return Site(name, "exp(y ln x) needs base and exponent of one floating-point type")
        if sign is Sign.POSITIVE or (sign is Sign.NEVER_NEGATIVE and exponent is not None and exponent > 0):
            return Site(
                name,
                f"{where}; x^y = exp(y ln x), as x comes from {source and source.op_type}",
                Relation.APPROXIMATE,
            )
        if exponent is None:
            return Site(name, "the exponent is not one known number and the base may be negative")
        return Site(name, f"x^{exponent:g} is no short product and the base may be negative")


def _is_chain(exponent: float) -> bool:
    """Whether the exponent is k or k + 1/2, of a size that products reach."""
    return (
        math.isfinite(exponent)
        and exponent != 0
        and abs(exponent) <= MAX_POWER
        and exponent * 2 == int(exponent * 2)
    )


def _words(exponent: float, count: int) -> str:
    parts = [f"{count} product{'s' * (count != 1)}"] if count else []
    if exponent != int(exponent):
        parts.append("a square root")
    if exponent < 0:
        parts.append("a reciprocal")
    return " and ".join(parts) or "x itself"


def _chain(graph: Graph, base: Tensor, exponent: float, stem: str, context: LeverContext) -> Tensor:
    """x^exponent by square-and-multiply, then root and reciprocal."""
    whole, half = divmod(abs(exponent), 1.0)
    result: Tensor | None = None
    square, power = base, int(whole)
    while power:
        if power & 1:
            result = (
                square if result is None else context.add(graph, "Mul", result, square, stem=f"{stem}_mul")
            )
        power >>= 1
        if power:
            square = context.add(graph, "Mul", square, square, stem=f"{stem}_square")
    if half:
        root = context.add(graph, "Sqrt", base, stem=f"{stem}_sqrt")
        result = root if result is None else context.add(graph, "Mul", result, root, stem=f"{stem}_mul")
    if result is None or result is base:
        result = context.add(graph, "Identity", base, stem=f"{stem}_same")
    return context.add(graph, "Reciprocal", result, stem=f"{stem}_reciprocal") if exponent < 0 else result
