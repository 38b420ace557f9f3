"""The gradient of softmax from its parts.

    (g - sum(g y)) y        =>      SoftmaxGrad(y, g)               on Atlas A2
    (g - sum(g y)) y z      =>      SoftmaxGradExt(g, y, z)         for one number z; a SoftmaxGrad counts as
                                                                    the formula that it stands for
    g - sum(g x)            =>      ConfusionSoftmaxGrad(g, x)      elsewhere, and where the last product is
                                                                    missing

The sum keeps its axis. The algebra stays; in float16 one rounding takes the place of three or four.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.checks import known_values, not_float, not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

LONGEST_ROW = 30000  # elements of the last axis that ConfusionSoftmaxGrad takes
SOFTMAX_GRAD_CHIPS = frozenset({"Ascend910B"})  # A2


def _difference(x: str) -> Op:
    product = Op("Mul", Any("grad"), Any(x), commutative=True, name="product", shared=True)
    return Op(
        "Sub", Any("grad"), Op("ReduceSum", product, name="sum", shared=True), name="difference", shared=True
    )


class SoftmaxGradFusionPass(FusionRule):
    """All of the gradient."""

    name = "SoftmaxGradFusionPass"
    patterns = {
        "SoftmaxGradFusionPass": Op(
            "Mul", _difference("softmax"), Any("softmax"), commutative=True, name="root"
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        if context.soc not in SOFTMAX_GRAD_CHIPS:
            return f"the reference does not list {context.soc}"
        reason = _operands_refusal(match, "softmax")
        if reason is not None:
            return reason
        axis = _axis(match.nodes["sum"])
        if axis is None:
            return "the sum is not over one known axis that stays"
        if match.tensors["grad"].static_shape[axis] == 1:
            return "the summed axis has one element"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        inputs, root = [match.tensors["softmax"], match.tensors["grad"]], match.root
        axis = _axis(match.nodes["sum"])
        assert axis is not None
        made = context.add(
            graph,
            "SoftmaxGrad",
            inputs,
            name=f"{root.name}_SoftmaxGrad",
            like=root,
            domain="ascend",
            axis=axis,
        )
        replace_root(graph, root, made.output)


class SoftmaxGradExtFusionV2(FusionRule):
    """All of the gradient, and the factor of what softmax was taken of."""

    name = "SoftmaxGradExtFusionV2"
    patterns = {
        "SoftmaxGradExtV2FusionPass": Op(
            "Mul",
            Op("Mul", _difference("softmax"), Any("softmax"), commutative=True, name="gradient"),
            Any("factor"),
            commutative=True,
            name="root",
        ),
        "SoftmaxGrad": Op(
            "Mul",
            Op("SoftmaxGrad", Any("softmax"), Any("grad"), name="gradient"),
            Any("factor"),
            commutative=True,
            name="root",
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        factor = match.tensors["factor"]
        reason = _operands_refusal(match, "softmax") or not_static([factor])
        if reason is not None:
            return reason
        if factor.elements != 1:
            return "the factor is not one number"
        if match.root.output.shape != match.tensors["grad"].shape:
            return "the factor has more axes than the gradient"
        if _gradient_axis(match) is None:
            return "the sum is not over one known axis that stays"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        inputs, root = [match.tensors[name] for name in ("grad", "softmax", "factor")], match.root
        axis = _gradient_axis(match)
        assert axis is not None
        made = context.add(
            graph,
            "SoftmaxGradExt",
            inputs,
            name=f"{root.name}_SoftmaxGradExt",
            like=match.nodes["gradient"],  # it is what stays in float32
            domain="ascend",
            axis=axis,
        )
        replace_root(graph, root, made.output)


class ZConfusionSoftmaxGradFusionPass(FusionRule):
    """The gradient up to the difference."""

    name = "ZConfusionSoftmaxGradFusionPass"
    patterns = {"ConfusionSoftmaxGradFusionPass": _difference("x")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        reason = _operands_refusal(match, "x")
        if reason is not None:
            return reason
        shape = match.tensors["grad"].static_shape
        if _axis(match.nodes["sum"]) != len(shape) - 1:
            return "the sum is not over the last axis, which stays"
        if shape[-1] > LONGEST_ROW:
            return f"the last axis is longer than {LONGEST_ROW}"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        inputs, root = [match.tensors["grad"], match.tensors["x"]], match.root
        made = context.add(
            graph,
            "ConfusionSoftmaxGrad",
            inputs,
            name=f"{root.name}_ConfusionSoftmaxGrad",
            like=root,
            domain="ascend",
        )
        replace_root(graph, root, made.output)


def _operands_refusal(match: Match, name: str) -> str | None:
    grad, other = match.tensors["grad"], match.tensors[name]
    reason = not_static([grad, other]) or not_float(grad)
    if reason is None and grad.shape != other.shape:
        reason = "the factors differ in shape"
    return reason


def _gradient_axis(match: Match) -> int | None:
    """The axis of softmax, counted from the front."""
    if "sum" in match.nodes:
        return _axis(match.nodes["sum"])
    return int(match.nodes["gradient"].attr("axis", -1)) % len(match.tensors["grad"].static_shape)


def _axis(node: Node) -> int | None:
    """The axis that a ReduceSum folds, counted from the front, if it is one and stays with size 1."""
    axes = known_values(node.input(1))
    if axes is None or axes.size != 1 or not node.attr("keepdims", 1):
        return None
    return int(axes.ravel()[0]) % len(node.required(0).static_shape)


RULES = (SoftmaxGradExtFusionV2(), SoftmaxGradFusionPass(), ZConfusionSoftmaxGradFusionPass())
