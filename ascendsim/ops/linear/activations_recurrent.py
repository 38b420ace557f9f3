"""Activation functions that ONNX names for recurrent cells, and their vector instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.opset import InferContext
from ascendsim.opset.work import Step

Function = Callable[[Array, float, float], Array]


def _sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))  # no overflow on either side


def _softplus(x: Array, alpha: float, beta: float) -> Array:
    return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))


# Name -> (function, default alpha and beta or None where it takes none, vector instructions).
_TABLE: dict[str, tuple[Function, float | None, float | None, tuple[str, ...]]] = {
    "sigmoid": (_sigmoid, None, None, ("vmuls", "vexp", "vadds", "vrec")),
    "tanh": (lambda x, a, b: np.tanh(x), None, None, ("vmuls", "vexp", "vadds", "vadds", "vdiv")),
    "relu": (lambda x, a, b: np.maximum(x, 0), None, None, ("vrelu",)),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0, ("vmuls", "vadds")),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 0.01, None, ("vmuls", "vmax")),
    "thresholdedrelu": (lambda x, a, b: np.where(x >= a, x, 0), 1.0, None, ("vcmpv", "vsel")),
    "scaledtanh": (
        lambda x, a, b: a * np.tanh(b * x),
        1.0,
        1.0,
        ("vmuls", "vexp", "vadds", "vadds", "vdiv", "vmuls"),
    ),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5, ("vmuls", "vadds", "vmins", "vmaxs")),
    "elu": (
        lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
        1.0,
        None,
        ("vmins", "vexp", "vadds", "vmuls", "vmaxs", "vadd"),
    ),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), None, None, ("vabs", "vadds", "vdiv")),
    "softplus": (_softplus, None, None, ("vexp", "vadds", "vln")),
}


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation with its parameters: call it on an array."""

    name: str
    alpha: float
    beta: float

    def __call__(self, values: Array) -> Array:
        return np.asarray(_TABLE[self.name][0](values, self.alpha, self.beta)).astype(
            values.dtype, copy=False
        )


def activations(node: Node, default: tuple[str, ...], directions: int) -> tuple[tuple[Activation, ...], ...]:
    """The activations of each direction.

    activation_alpha and activation_beta are handed out in order to those functions that take them, as
    onnxruntime does.

    Raises:
        GraphError: If a name is unknown or the count does not fit.
    """
    names = tuple(node.attr("activations", ()) or default * directions)
    if node.op_type == "RNN" and len(names) == 2 and directions == 1:
        names = names[:1]  # the schema's default lists two whatever the direction
    if len(names) != len(default) * directions:
        raise InferContext(node).fail(f"needs {len(default) * directions} activations", len(names))
    alphas, betas = (
        iter(node.attr("activation_alpha", ()) or ()),
        iter(node.attr("activation_beta", ()) or ()),
    )
    result = []
    for name in names:
        key = str(name).lower()
        if key not in _TABLE:
            raise InferContext(node).fail(f"needs activations out of {', '.join(sorted(_TABLE))}", name)
        _, alpha, beta, _ = _TABLE[key]
        result.append(
            Activation(
                key,
                0.0 if alpha is None else float(next(alphas, alpha)),
                0.0 if beta is None else float(next(betas, beta)),
            )
        )
    each = len(default)
    return tuple(tuple(result[start : start + each]) for start in range(0, len(result), each))


def activation_steps(activation: Activation, dtype: DType) -> list[Step]:
    """Vector instructions of one activation on every element."""
    return [Step(op, dtype) for op in _TABLE[activation.name][3]]
