"""Gradients of activations, by CANN's operators where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule

Grads = Sequence["Tensor | None"]


def _by_argument(name: str, **renamed: tuple[str, float]) -> Rule:
    """CANN's gradient (dy, x); attributes by CANN's name: ONNX's name and default."""

    def rule(step: Backward) -> Grads:
        node = step.node
        attributes = {ours: float(node.attr(*theirs)) for ours, theirs in renamed.items()}
        return (step.op(name, step.grad, node.required(0), domain=ASCEND, **attributes),)

    return rule


def _gelu(step: Backward) -> Grads:
    x, form = step.node.required(0), str(step.node.attr("approximate", "none"))
    return (step.op("GeluGrad", step.grad, x, step.node.output, domain=ASCEND, approximate=form),)


def _swish(step: Backward) -> Grads:
    x, scale = step.node.required(0), float(step.node.attr("alpha", 1.0))
    return (step.op("SwishGrad", step.grad, x, step.node.output, domain=ASCEND, scale=scale),)


def _exponential(alpha: float, gamma: float, sharp: bool = False) -> Rule:
    """Of gamma (x, or alpha (e^x - 1) where x is negative); `sharp`: e^(x / alpha), as Celu has it."""

    def rule(step: Backward) -> Grads:
        node = step.node
        a, scale = float(node.attr("alpha", alpha)), float(node.attr("gamma", gamma))
        steep = 1 / a if sharp else 1.0
        x, attributes = node.required(0), {"alpha": a, "scale": scale, "input_scale": steep}
        return (step.op("EluGradV2", step.grad, x, domain=ASCEND, **attributes),)

    return rule


def _prelu(step: Backward) -> Grads:
    """CANN's operator takes one slope, or one a channel; other shapes are written out."""
    x, slope = step.node.required(0), step.node.required(1)
    shape, own = x.static_shape, slope.static_shape
    if slope.elements == 1 or own == (*shape[1:2], *(1,) * (len(shape) - 2)):
        weights = step.reshaped(slope, (slope.elements,))
        made = step.ops("PReluGrad", 2, step.grad, x, weights, domain=ASCEND)
        return made[0], step.reshaped(made[1], own)
    below, zero = step.op("Less", x, 0.0), step.constant(0, x)
    first = step.op("Where", below, step.op("Mul", step.grad, slope), step.grad) if step.needs(0) else None
    if not step.needs(1):
        return first, None
    return first, step.folded(step.op("Where", below, step.op("Mul", step.grad, x), zero), 1)


def _softsign(step: Backward) -> Grads:
    """1 / (1 + |x|)^2."""
    width = step.op("Add", step.op("Abs", step.node.required(0)), 1.0)
    return (step.op("Div", step.grad, step.op("Mul", width, width)),)


def _mish(step: Backward) -> Grads:
    """X tanh(s) with s = softplus(x): tanh(s) + x (1 - tanh(s)^2) sigmoid(x)."""
    x = step.node.required(0)
    gate = step.op("Tanh", step.op("Softplus", x))
    rest = step.op("Sub", step.constant(1, x), step.op("Mul", gate, gate))
    slope = step.op("Add", gate, step.op("Mul", step.op("Mul", x, rest), step.op("Sigmoid", x)))
    return (step.op("Mul", step.grad, slope),)


def _relu(step: Backward) -> Grads:
    return (step.op("ReluGrad", step.grad, step.node.output, domain=ASCEND),)


RULES: dict[tuple[str, str], Rule] = {
    ("", "Relu"): _relu,
    ("", "LeakyRelu"): _by_argument("LeakyReluGrad", negative_slope=("alpha", 0.01)),
    ("", "HardSigmoid"): _by_argument("HardSigmoidGrad", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    ("", "HardSwish"): _by_argument("HardSwishGrad"),
    ("", "Softplus"): _by_argument("SoftplusGrad"),
    ("", "ThresholdedRelu"): _by_argument("ThresholdGradV2D", threshold=("alpha", 1.0)),
    ("", "Gelu"): _gelu,
    ("", "Swish"): _swish,
    ("", "Elu"): _exponential(1.0, 1.0),
    ("", "Celu"): _exponential(1.0, 1.0, sharp=True),
    ("", "Selu"): _exponential(1.67326319217681884765625, 1.05070102214813232421875),
    ("", "PRelu"): _prelu,
    ("", "Softsign"): _softsign,
    ("", "Mish"): _mish,
}
