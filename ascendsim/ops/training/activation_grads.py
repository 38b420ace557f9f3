"""Gradients of activations, element by element (domain "ascend"; names, order of inputs and attributes are
those of CANN's prototypes).

Each is dy f'(x), written in what CANN's operator is given: the argument x, or the result y where f' follows
from it (y (1 - y) for Sigmoid, 1 - y^2 for Tanh). Where f has a corner, the side that PyTorch's gradients
take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.elementwise.activation import SIGMOID_STEPS
from ascendsim.ops.shared.common import TANH_STEPS, StepSpec, elementwise_lower, same_as, with_numpy
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Infer
from ascendsim.opset.facts import Facts
from ascendsim.opset.structure import ELEMENTWISE, PARTIAL

_SLOPE = 1.702  # of the sigmoid in FastGelu, x / (1 + e^(-1.702 x)): CANN's prototype
_KEEP: tuple[StepSpec, ...] = ("vcmp", "vsel")  # dy on one side of a border, zero on the other
_BETWEEN: tuple[StepSpec, ...] = (("vcmp", 2), ("vsel", 2))  # dy between two borders


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _number(node: Node, name: str, default: float) -> float:
    return float(node.attr(name, default))


def _gelu_grad(node: Node, dy: Array, x: Array, _y: Array) -> Array:
    form = node.attr("approximate", "none")
    if form == "tanh":
        inner = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return np.asarray(dy * (0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope))
    if form != "none":
        raise GraphError(f"node {node.name!r} (GeluGrad)", "needs approximate none or tanh", repr(form))
    from scipy.special import ndtr

    bell = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return np.asarray(dy * (ndtr(x) + x * bell))


def _fast_gelu_grad(_node: Node, dy: Array, x: Array) -> Array:
    gate = _sigmoid(_SLOPE * x)
    return np.asarray(dy * gate * (1 + _SLOPE * x * (1 - gate)))


def _silu_grad(dy: Array, x: Array, scale: float = 1.0) -> Array:
    gate = _sigmoid(scale * x)
    return np.asarray(dy * gate * (1 + scale * x * (1 - gate)))


def _hard_swish_grad(_node: Node, dy: Array, x: Array) -> Array:
    middle = dy * (x / 3 + 0.5)
    return np.where(x <= -3, dy.dtype.type(0), np.where(x < 3, middle, dy))


def _within(dy: Array, x: Array, low: float, high: float) -> Array:
    """Zero on the borders and beyond."""
    return np.where((x > low) & (x < high), dy, dy.dtype.type(0))


def _hard_sigmoid_grad(node: Node, dy: Array, x: Array) -> Array:
    alpha, beta = _number(node, "alpha", 0.16666666), _number(node, "beta", 0.5)
    return _within(dy * dy.dtype.type(alpha), alpha * x + beta, 0, 1)


def _hard_tanh_grad(node: Node, result: Array, dy: Array) -> Array:
    return _within(dy, result, _number(node, "min_val", -1.0), _number(node, "max_val", 1.0))


def _leaky_grad(node: Node, dy: Array, x: Array) -> Array:
    return np.where(x > 0, dy, dy * dy.dtype.type(_number(node, "negative_slope", 0.0)))


def _elu_grad(_node: Node, dy: Array, y: Array) -> Array:
    """With y = e^x - 1 where x is not positive."""
    return np.where(y > 0, dy, dy * (y + 1))


def _elu_grad_v2(node: Node, dy: Array, given: Array) -> Array:
    """From y = scale (x, or alpha (e^(input_scale x) - 1) where x is not positive); `is_result` gives y, else
    x.
    """
    alpha, scale = _number(node, "alpha", 1.0), _number(node, "scale", 1.0)
    steep = _number(node, "input_scale", 1.0)
    if node.attr("is_result", 0):
        below = dy * steep * (given + alpha * scale)
    else:
        below = dy * (steep * alpha * scale) * np.exp(steep * np.minimum(given, 0))
    return np.where(given > 0, dy * dy.dtype.type(scale), below)


def _softplus_grad_v2(node: Node, dy: Array, x: Array) -> Array:
    """From y = ln(1 + e^(beta x)) / beta, or x where beta x is above the threshold."""
    beta = _number(node, "beta", 1.0)
    return np.where(beta * x > _number(node, "threshold", 20.0), dy, dy * _sigmoid(beta * x))


def _threshold_grad(node: Node, dy: Array, x: Array) -> Array:
    return np.where(x > _threshold(node), dy, dy.dtype.type(0))


def _threshold(node: Node) -> float:
    border = node.attr("threshold")
    if border is None:
        raise GraphError(f"node {node.name!r} (ThresholdGradV2D)", "needs the attribute threshold")
    return float(border)


def _check(context: InferContext) -> None:
    for port in range(1, 3):
        need_shape(context, port, context.shape(0))


def _check_threshold(context: InferContext) -> None:
    _threshold(context.node)
    _check(context)


def _op(
    name: str,
    function: Callable[..., Any],
    steps: Sequence[StepSpec],
    *,
    wide: bool = False,
    inputs: int = 2,
    facts: Facts = ELEMENTWISE,
    check: Infer | None = None,
    mindspore: str = "",
) -> OpDef:
    return OpDef(
        name,
        same_as(check=check or _check),
        with_numpy(function),
        elementwise_lower(steps, wide),
        Layout.FOLLOW,
        domain="ascend",
        most_inputs=inputs,
        mindspore=mindspore,
        facts=facts,
    )


# s = sigmoid(a x); dy s (1 + a x (1 - s))
_GATED: tuple[StepSpec, ...] = (*SIGMOID_STEPS, "vmuls", "vadds", ("vmul", 2), "vadds", "vmul")
# tanh of the inner polynomial (CANN has one kernel, that of the form with tanh), its slope, and the product
# rule; x^2 serves both polynomials
_GELU: tuple[StepSpec, ...] = (
    *(("vmul", 2), "vmuls", "vadd", "vmuls"),
    *TANH_STEPS,
    *("vmuls", "vadds"),
    *("vadds", "vmul", "vmuls", "vadds", ("vmul", 2), "vadd", "vmuls", "vmul"),
)

OPERATORS: tuple[OpDef, ...] = (
    _op("GeluGrad", _gelu_grad, _GELU, wide=True, inputs=3, mindspore="GeLUGrad"),
    _op("FastGeluGrad", _fast_gelu_grad, _GATED, wide=True),
    _op(
        "TanhGrad",
        lambda _node, y, dy: dy * (1 - y * y),
        ("vmul", "vmuls", "vadds", "vmul"),
        wide=True,
    ),
    _op(
        "SigmoidGrad",
        lambda _node, y, dy: dy * (y * (1 - y)),
        ("vmuls", "vadds", ("vmul", 2)),
        wide=True,
    ),
    _op("SiluGrad", lambda _node, dy, x: _silu_grad(dy, x), _GATED, wide=True),
    _op(
        "SwishGrad",
        lambda node, dy, x, _y: _silu_grad(dy, x, _number(node, "scale", 1.0)),
        _GATED,
        wide=True,
        inputs=3,
    ),
    _op("HardSwishGrad", _hard_swish_grad, ("vmuls", "vadds", "vmul", *_BETWEEN), wide=True),
    _op("HardSigmoidGrad", _hard_sigmoid_grad, ("vmuls", "vadds", "vmuls", *_BETWEEN)),
    _op("HardtanhGrad", _hard_tanh_grad, _BETWEEN),
    _op("LeakyReluGrad", _leaky_grad, ("vmuls", *_KEEP)),
    _op("Relu6Grad", lambda _node, dy, x: _within(dy, x, 0, 6), _BETWEEN),
    _op("ThresholdGradV2D", _threshold_grad, _KEEP, check=_check_threshold),
    _op("EluGrad", _elu_grad, ("vadds", "vmul", *_KEEP), wide=True),
    _op("EluGradV2", _elu_grad_v2, ("vmins", "vmuls", "vexp", "vmuls", "vmul", "vmuls", *_KEEP), wide=True),
    _op("SoftplusGrad", lambda _node, dy, x: dy * _sigmoid(x), (*SIGMOID_STEPS, "vmul"), wide=True),
    _op("SoftplusV2Grad", _softplus_grad_v2, (*SIGMOID_STEPS, "vmul", *_KEEP), wide=True),
    _op(
        "SqrtGrad",
        lambda _node, y, dy: dy * y.dtype.type(0.5) / y,
        ("vmuls", "vdiv"),
        wide=True,
        facts=PARTIAL,
    ),
    _op("ReciprocalGrad", lambda _node, y, dy: -dy * (y * y), (("vmul", 2), "vmuls"), wide=True),
)
