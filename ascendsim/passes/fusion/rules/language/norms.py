"""Root-mean-square normalisation from its parts, and together with what stands before and behind it.

    x / sqrt(mean(x^2) + e) gamma           =>      RMSNormalization(x, gamma)     (with Casts around it, too)
    RMSNormalization(x1 + x2, gamma)        =>      AddRmsNorm(x1, x2, gamma), which hands on the sum
    DynamicQuant(AddRmsNorm(..))            =>      AddRmsNormDynamicQuant(..)
    DynamicQuant(RMSNormalization(..))      =>      RmsNormDynamicQuant(..)
    AscendQuantV2(AddRmsNorm(..))           =>      AddRmsNormQuant(..)

AddRmsNorm and AddRmsNormDynamicQuant are CANN's passes; the others are this project's: frameworks for
language models call those kernels by name. The algebra stays; sums are rounded once, and gamma is multiplied
before results are rounded, where a Cast stood between.
"""

from __future__ import annotations

from itertools import product

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import (
    closes_cycle,
    known_values,
    not_static,
    read_outside,
    scalar,
)
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.language.checks import (
    GENERATIONS,
    SPLIT,
    needed_outside,
    no_kernel,
    no_real,
)
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op, Term
from ascendsim.passes.rewriting.replace import replace, replace_root

_NORMS = "RMSNormalization|RmsNorm"


# ---- from its parts


def _normalised(given: Term, square: str, inverse: str) -> Op:
    squares = (
        Op("Mul", given, given, name="squared")
        if square == "Mul"
        else Op("Pow", given, Const("two"), name="squared")
    )
    mean = Op("ReduceMean", squares, name="mean")
    shifted = Op("Add", mean, Const("epsilon"), commutative=True, name="shifted")
    if inverse == "power":
        factor = Op("Pow", shifted, Const("minus_half"), name="inverse")
    else:
        root = Op("Sqrt", shifted, name="deviation")
        if inverse == "quotient":
            return Op("Div", given, root, name="normalised")
        factor = (
            Op("Reciprocal", root, name="inverse")
            if inverse == "reciprocal"
            else Op("Div", Const("one"), root, name="inverse")
        )
    return Op("Mul", given, factor, commutative=True, name="normalised")


def _scaled(normal: Op) -> Op:
    return Op("Mul", normal, Any("gamma"), commutative=True, name="root")


def _forms() -> dict[str, Op]:
    forms = {}
    for square, inverse in product(("Pow", "Mul"), ("quotient", "reciprocal", "fraction", "power")):
        name = f"RmsNormFusionPass{square}{inverse.title()}"
        forms[name] = _scaled(_normalised(Any("x"), square, inverse))
        wide = Op("Cast", Any("x"), name="widened", shared=True)
        back = Op("Cast", _normalised(wide, square, inverse), name="narrowed")
        forms[f"{name}Cast"] = _scaled(back)
    return forms


class RmsNormFusionPass(FusionRule):
    """One task that holds a row takes the place of six to nine."""

    name = "RmsNormFusionPass"
    patterns = _forms()

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, root, gamma = match.tensors["x"], match.root, match.tensors["gamma"]
        return (
            no_kernel(context)
            or not_static([x, root.output, gamma])
            or no_real(x, gamma, root.output)
            or (None if root.output.shape == x.shape else "the result has another shape")
            or _number_refusal(match)
            or _axes_refusal(match.nodes["mean"], x)
            or _gamma_refusal(x, gamma, _axes(match.nodes["mean"]))
            or read_outside_wide(match)
            or closes_cycle(match, [gamma])
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        x, root, epsilon = match.tensors["x"], match.root, scalar(match.tensors["epsilon"])
        assert epsilon is not None
        axis = min(_axes(match.nodes["mean"]) or ()) - len(x.static_shape)
        made = context.add(
            graph,
            "RMSNormalization",
            [x, match.tensors["gamma"]],
            name=f"{root.name}_RmsNorm",
            like=root,
            axis=axis,
            epsilon=epsilon,
        )
        replace_root(graph, root, made.output)


def read_outside_wide(match: Match) -> str | None:
    """Which inner result somebody outside reads; what is only widened may have other readers."""
    widened = match.nodes.get("widened")
    provided = [match.root.output] if widened is None else [match.root.output, widened.output]
    return read_outside(match, provided)


def _number_refusal(match: Match) -> str | None:
    if scalar(match.tensors["epsilon"]) is None:
        return "epsilon is not one known number"
    for name, wanted in (("two", 2.0), ("minus_half", -0.5), ("one", 1.0)):
        if name in match.tensors and scalar(match.tensors[name]) != wanted:
            return f"{name} is not the number {wanted:g}"
    return None


def _axes(mean: Node) -> tuple[int, ...] | None:
    """The axes that a ReduceMean folds, counted from the front; None if they are not known."""
    rank = len(mean.required(0).static_shape)
    values = known_values(mean.input(1)) if mean.input(1) is not None else None
    if values is None:
        return None
    return tuple(sorted(int(axis) % rank for axis in values.ravel()))


def _axes_refusal(mean: Node, x: Tensor) -> str | None:
    axes = _axes(mean)
    if not axes or axes != tuple(range(axes[0], len(x.static_shape))):
        return "the mean is not over the last axes"
    return None if mean.attr("keepdims", 1) else "the mean drops its axes"


def _gamma_refusal(x: Tensor, gamma: Tensor, axes: tuple[int, ...] | None) -> str | None:
    if gamma.shape != x.static_shape[min(axes or (0,)) :]:
        return "gamma is not one value for each normalised element"
    return None


# ---- with the sum before it


class AddRmsNormFusionGraphPass(FusionRule):
    """The residual connection and the norm behind it."""

    name = "AddRmsNormFusionGraphPass"
    patterns = {
        "AddRmsNormFusionGraphPass": Op(
            _NORMS, Op("Add", Any("x1"), Any("x2"), name="sum", shared=True), Any("gamma"), name="norm"
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        norm, x1, x2, gamma = match.root, match.tensors["x1"], match.tensors["x2"], match.tensors["gamma"]
        total = match.nodes["sum"].output
        reason = no_kernel(context) or not_static([x1, x2, gamma]) or no_real(x1, x2, gamma, norm.output)
        if reason is None and not x1.shape == x2.shape == total.shape:
            reason = "the sum repeats an operand"
        return reason or _whole_rows(norm, total, gamma) or closes_cycle(match, [gamma])

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        norm, total = match.root, match.nodes["sum"]
        made = context.add(
            graph,
            "AddRmsNorm",
            [match.tensors["x1"], match.tensors["x2"], match.tensors["gamma"]],
            3,
            name=f"{norm.name}_AddRmsNorm",
            like=norm,
            domain="ascend",
            epsilon=_epsilon(norm),
        )
        pairs = list(zip(norm.outputs, made.outputs[:2], strict=False))
        replace(graph, [norm, total], [*pairs, (total.output, made.outputs[2])])


def _epsilon(norm: Node) -> float:
    return float(norm.attr("epsilon", 1e-6 if norm.op_type == "RmsNorm" else 1e-5))


def _whole_rows(norm: Node, x: Tensor, gamma: Tensor) -> str | None:
    """Why gamma does not span what a node normalises."""
    if norm.op_type == "RmsNorm":
        return None  # what gamma spans is what it normalises
    if norm.attr("stash_type", 1) != 1:
        return "its statistics are not float32"
    axis = int(norm.attr("axis", -1)) % max(1, len(x.static_shape))
    return _gamma_refusal(x, gamma, (axis,))


# ---- with what makes it int8


class _QuantRule(FusionRule):
    """A norm whose only reader makes it int8.

    Class attributes:
        made: The kernel.
        generations: That have it.
        summed: Whether the norm has a sum before it, which it hands on.
    """

    made: str
    generations = SPLIT
    summed = True

    def check(self, match: Match, context: FusionContext) -> str | None:
        norm, quant = match.nodes["norm"], match.root
        x, gamma = norm.required(0), norm.required(2 if self.summed else 1)
        if norm.outputs[0] is not quant.required(0):
            return "what is made int8 is not the norm"
        smooth = quant.input(1)
        return (
            no_kernel(context, self.generations)
            or not_static([x, gamma, smooth])
            or needed_outside(norm.outputs[0])
            or (None if len(norm.outputs) < 2 else needed_outside(norm.outputs[1], readers=0))
            or (None if self.summed else _whole_rows(norm, x, gamma))
            or self.fits(quant, gamma)
            or closes_cycle(match, [tensor for tensor in (gamma, *quant.inputs[1:]) if tensor is not None])
        )

    def fits(self, quant: Node, gamma: Tensor) -> str | None:
        """Why the kernel does not make int8 as the operator does."""
        return None if len(gamma.static_shape) == 1 else "rows of the norm are not those of the scales"

    def inputs(self, norm: Node, quant: Node) -> list[Tensor | None]:
        """Of the kernel."""
        return [*norm.inputs, quant.input(1)]

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        norm, quant = match.nodes["norm"], match.root
        count = (5 if len(quant.outputs) > 1 else 3) if self.summed else 2
        more = {} if len(quant.outputs) > 1 else {"div_mode": 0}
        made = context.add(
            graph,
            self.made,
            self.inputs(norm, quant),
            count,
            name=f"{quant.name}_{self.made}",
            like=quant,
            domain="ascend",
            epsilon=_epsilon(norm) if not self.summed else float(norm.attr("epsilon", 1e-6)),
            **more,
        )
        pairs = [(quant.outputs[0], made.outputs[0])]
        if len(quant.outputs) > 1:
            pairs.append((quant.outputs[1], made.outputs[3 if self.summed else 1]))
        if self.summed:
            pairs.append((norm.outputs[2], made.outputs[2]))
        replace(graph, match.all_nodes, pairs)


def _quantised(quant: str, norms: str) -> Op:
    return Op(quant, Op(norms, name="norm", shared=True), name="quant")


class AddRmsNormDynamicQuantFusionPass(_QuantRule):
    """By the largest of each row."""

    name = "AddRmsNormDynamicQuantFusionPass"
    made = "AddRmsNormDynamicQuant"
    patterns = {"AddRmsNormDynamicQuantFusionPass": _quantised("DynamicQuant", "AddRmsNorm")}


class RmsNormDynamicQuantFusionPass(_QuantRule):
    """The same without a sum."""

    name = "RmsNormDynamicQuantFusionPass"
    made = "RmsNormDynamicQuant"
    summed = False
    patterns = {"RmsNormDynamicQuantFusionPass": _quantised("DynamicQuant", _NORMS)}


class AddRmsNormQuantFusionPass(_QuantRule):
    """By scales that are known."""

    name = "AddRmsNormQuantFusionPass"
    made = "AddRmsNormQuant"
    generations = GENERATIONS
    patterns = {"AddRmsNormQuantFusionPass": _quantised("AscendQuantV2", "AddRmsNorm")}

    def fits(self, quant: Node, gamma: Tensor) -> str | None:
        """Columns of a row have scales, or all one; halves are rounded to the even number."""
        if quant.attr("round_mode", "round") != "round" or quant.attr("sqrt_mode", 0):
            return "the kernel rounds to the nearest number and scales once"
        data = quant.required(0)
        for tensor in quant.inputs[1:]:
            if tensor is not None and tensor.shape != (1,) and tensor.shape != gamma.shape:
                return f"{tensor.name} is not one value a column"
        axis = int(quant.attr("axis", -1)) % len(data.static_shape)
        single = all(tensor is None or tensor.shape == (1,) for tensor in quant.inputs[1:])
        return None if single or axis == len(data.static_shape) - 1 else "scales lie along another axis"

    def inputs(self, norm: Node, quant: Node) -> list[Tensor | None]:
        """Scales and zero points of the first of two results."""
        return [*norm.inputs, quant.input(1), None, quant.input(2)]


RULES = (
    RmsNormFusionPass(),
    AddRmsNormFusionGraphPass(),
    AddRmsNormDynamicQuantFusionPass(),
    RmsNormDynamicQuantFusionPass(),
    AddRmsNormQuantFusionPass(),
)
