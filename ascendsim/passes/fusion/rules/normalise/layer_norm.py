"""Layer normalisation from its parts, as ONNX exporters and as TensorFlow write it.

    d = x - mean(x);  d / sqrt(mean(d^2) + e) [* gamma + beta]
    mean((x - mean(x))^2) = v;  (x - mean(x)) (gamma / sqrt(v + e)) + beta
        =>      LayerNorm(x, gamma, beta, epsilon=e)

One task that holds a row in the Unified Buffer takes the place of seven to nine. The algebra stays; sums are
rounded once. TensorFlow's SquaredDifference and Rsqrt arrive as Sub with Mul or Pow, and as Sqrt with
Reciprocal. CANN's two ONNX patterns that clip the variance in between are left alone: LayerNorm cannot clip.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values, not_float, not_static, read_outside, scalar
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


def _mean_of(of: Any | Op, name: str) -> Op:
    return Op("ReduceMean", of, name=name, shared=True)


def _centred(name: str = "centred") -> Op:
    return Op("Sub", Any("x"), _mean_of(Any("x"), "mean"), name=name, shared=True)


def _shifted_variance(squared: Op) -> Op:
    """Mean of squares plus epsilon."""
    return Op(
        "Add", _mean_of(squared, "variance"), Const("epsilon"), commutative=True, name="shifted", shared=True
    )


def _affine(normalised: Op) -> Op:
    scaled = Op("Mul", normalised, Any("gamma"), commutative=True, name="scaled", shared=True)
    return Op("Add", scaled, Any("beta"), commutative=True, name="root")


def _onnx_form(name: str, cast: bool = False) -> Op:
    centred = Op("Cast", _centred(), name="cast", shared=True) if cast else _centred()
    variance = _shifted_variance(Op("Pow|Square", centred, name="squared", shared=True))
    return Op("Div", _centred(), Op("Sqrt", variance, name="deviation", shared=True), name=name, shared=True)


def _tensorflow_form(difference: str, product: bool) -> Op:
    """The form of TensorFlow; `difference` names the node under the square, which may be the centred input
    itself.
    """
    inner = _centred(difference)
    squared = (
        Op("Mul", inner, inner, name="squared", shared=True)
        if product
        else Op("Pow|Square", inner, name="squared", shared=True)
    )
    inverse = Op(
        "Reciprocal",
        Op("Sqrt", _shifted_variance(squared), name="deviation", shared=True),
        name="inverse",
        shared=True,
    )
    factor = Op("Mul", inverse, Any("gamma"), commutative=True, name="factor", shared=True)
    scaled = Op("Mul", factor, _centred(), commutative=True, name="scaled", shared=True)
    return Op("Add", scaled, Any("beta"), commutative=True, name="root")


class _LayerNormRule(FusionRule):
    def check(self, match: Match, context: FusionContext) -> str | None:
        x = match.tensors["x"]
        return (
            not_static([x, match.root.output])
            or not_float(x)
            or _axes_refusal(match)
            or _square_refusal(match.nodes["squared"])
            or ("epsilon is not one known number" if scalar(match.tensors["epsilon"]) is None else None)
            or _parameter_refusal(match)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        x, root, epsilon = match.tensors["x"], match.root, scalar(match.tensors["epsilon"])
        assert epsilon is not None
        axis = min(_axes(match.nodes["mean"]) or ())
        shape = x.static_shape[axis:]
        gamma, beta = match.tensors.get("gamma"), match.tensors.get("beta")
        if gamma is None:
            gamma = graph.add_constant(
                graph.fresh(f"{root.name}_gamma"), np.ones(shape, x.element_type.numpy)
            )
            beta = graph.add_constant(graph.fresh(f"{root.name}_beta"), np.zeros(shape, x.element_type.numpy))
        made = context.add(
            graph,
            "LayerNormalization",
            [x, gamma, beta],
            name=f"{root.name}_LayerNorm",
            like=root,
            axis=axis - len(x.static_shape),
            epsilon=epsilon,
        )
        replace_root(graph, root, made.output)


class LayerNormONNXFusionPass(_LayerNormRule):
    """The form of ONNX exporters, with and without gamma and beta."""

    name = "LayerNormONNXFusionPass"
    patterns = {
        "LayerNormOnnxFusionPass": _affine(_onnx_form("normalised")),
        "LayerNormOnnxFusionPassPlain": _onnx_form("root"),
        "LayerNormOnnxFusionPassCast": _affine(_onnx_form("normalised", cast=True)),
        "LayerNormOnnxFusionPassCastPlain": _onnx_form("root", cast=True),
    }


class LayerNormFusionPass(_LayerNormRule):
    """The form of TensorFlow."""

    name = "LayerNormFusionPass"
    patterns = {
        "LayerNormFusionPass": _tensorflow_form("difference", product=True),
        "LayerNormFusionPassPow": _tensorflow_form("difference", product=False),
        "LayerNormFusionPassShared": _tensorflow_form("centred", product=True),
        "LayerNormFusionPassSharedPow": _tensorflow_form("centred", product=False),
    }


def _axes(node: Node) -> tuple[int, ...] | None:
    """The axes that a ReduceMean folds, counted from the front; None if they are not known."""
    rank = len(node.required(0).static_shape)
    if node.input(1) is None:
        return tuple(range(rank))
    values = known_values(node.input(1))
    return None if values is None else tuple(sorted(int(axis) % rank for axis in values.ravel()))


def _axes_refusal(match: Match) -> str | None:
    rank = len(match.tensors["x"].static_shape)
    mean, variance = (_axes(match.nodes[name]) for name in ("mean", "variance"))
    if not mean or mean != variance:
        return "the means are not over the same known axes"
    if mean != tuple(range(mean[0], rank)):
        return "the means are not over the last axes"
    if not all(match.nodes[name].attr("keepdims", 1) for name in ("mean", "variance")):
        return "the means drop their axes"
    return None


def _square_refusal(node: Node) -> str | None:
    return "the power is no square" if node.op_type == "Pow" and scalar(node.input(1)) != 2 else None


def _parameter_refusal(match: Match) -> str | None:
    """Gamma and beta must be one value for each normalised element."""
    x, axes = match.tensors["x"], _axes(match.nodes["mean"]) or ()
    shape = x.static_shape[min(axes) :]
    parameters: list[tuple[str, Tensor | None]] = [
        (name, match.tensors.get(name)) for name in ("gamma", "beta")
    ]
    for name, tensor in parameters:
        if tensor is not None and tensor.shape != shape:
            return f"{name} is not one value for each normalised element"
    if match.root.output.shape != x.shape:
        return "the result has another shape"
    return None


RULES = (LayerNormONNXFusionPass(), LayerNormFusionPass())
