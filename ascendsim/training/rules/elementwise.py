"""Gradients of arithmetic, element by element with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule, without

Grads = Sequence["Tensor | None"]
RELU6 = (0.0, 6.0)


def nothing(_step: Backward) -> Grads:
    """Of a function that is constant between its jumps."""
    return ()


@without(2)
def _one_hot(_step: Backward) -> Grads:
    return ()


_PRODUCTS = ("MatMul", "Gemm")


def _add(step: Backward) -> Grads:
    """What stands beside a product is its bias."""
    made = [tensor.producer for tensor in step.node.inputs if tensor is not None]
    sums = step.bias if any(node is not None and node.op_type in _PRODUCTS for node in made) else step.folded
    return [sums(step.grad, port) if step.needs(port) else None for port in range(step.node.input_count)]


def _mean(step: Backward) -> Grads:
    share = step.op("Mul", step.grad, 1.0 / step.node.input_count)
    return [step.folded(share, port) if step.needs(port) else None for port in range(step.node.input_count)]


def _sub(step: Backward) -> Grads:
    first = step.folded(step.grad, 0) if step.needs(0) else None
    return first, step.folded(step.op("Neg", step.grad), 1) if step.needs(1) else None


def _mul(step: Backward) -> Grads:
    x, y = step.node.required(0), step.node.required(1)
    first = step.folded(step.op("Mul", step.grad, y), 0) if step.needs(0) else None
    return first, step.folded(step.op("Mul", step.grad, x), 1) if step.needs(1) else None


def _div(step: Backward) -> Grads:
    """Dx = dy / b and db = -dy y / b."""
    divisor = step.node.required(1)
    share = step.op("Div", step.grad, divisor)
    first = step.folded(share, 0) if step.needs(0) else None
    if not step.needs(1):
        return first, None
    return first, step.folded(step.op("Neg", step.op("Mul", share, step.node.output)), 1)


def _pow(step: Backward) -> Grads:
    """Dx = dy e x^(e - 1), de = dy y ln x, which is 0 where x is."""
    x, exponent, y = step.node.required(0), step.node.required(1), step.node.output
    first = second = None
    if step.needs(0):
        constant = None if step.needs(1) else exponent.constant
        if constant is not None and constant.available and constant.array().size == 1:
            power = float(constant.array().reshape(-1)[0])
            lower = x if power == 2 else step.op("Pow", x, step.constant(power - 1, x))
            first = step.op("Mul", step.grad, step.op("Mul", lower, power))
        else:
            same = exponent if exponent.dtype is x.dtype else step.op("Cast", exponent, to=x.element_type)
            lower = step.op("Pow", x, step.op("Sub", same, 1.0))
            first = step.op("Mul", step.grad, step.op("Mul", same, lower))
        first = step.folded(first, 0)
    if step.needs(1):
        positive = step.op("Greater", x, 0.0)
        logs = step.op("Log", step.op("Where", positive, x, step.constant(1, x)))
        second = step.op("Mul", step.grad, step.op("Mul", y, logs))
        if exponent.dtype is not second.dtype:
            second = step.op("Cast", second, to=exponent.element_type)
        second = step.folded(second, 1)
    return first, second


def _where(step: Backward) -> Grads:
    condition, zero = step.node.required(0), step.constant(0, step.grad)
    first = step.op("Where", condition, step.grad, zero) if step.needs(1) else None
    second = step.op("Where", condition, zero, step.grad) if step.needs(2) else None
    return (
        None,
        None if first is None else step.folded(first, 1),
        None if second is None else step.folded(second, 2),
    )


def _extreme(step: Backward) -> Grads:
    """The gradient goes to the first operand that has the result."""
    count, zero = step.node.input_count, step.constant(0, step.grad)
    left, grads = step.grad, [None] * count
    result: list[Tensor | None] = list(grads)
    for port in range(count):
        operand = step.node.required(port)
        if port == count - 1:
            result[port] = step.folded(left, port) if step.needs(port) else None
            break
        chosen = step.op("Equal", operand, step.node.output)
        if step.needs(port):
            result[port] = step.folded(step.op("Where", chosen, left, zero), port)
        left = step.op("Where", chosen, zero, left)
    return result


@without(1, 2)
def _clip(step: Backward) -> Grads:
    """One kernel between two numbers, as the frameworks have for ReLU6 and Hardtanh: nothing passes on the
    bounds. Else the gradient passes inside a bound and on it, as of torch.clamp.
    """
    x, grad = step.node.required(0), step.grad
    low, high = (_known(step.node.input(port)) for port in (1, 2))
    if low is not None and high is not None:
        if (low, high) == RELU6:
            return (step.op("Relu6Grad", grad, x, domain=ASCEND),)
        return (step.op("HardtanhGrad", x, grad, domain=ASCEND, min_val=low, max_val=high),)
    for port, name in ((1, "GreaterOrEqual"), (2, "LessOrEqual")):
        bound = step.node.input(port)
        if bound is not None:
            grad = step.op("Where", step.op(name, x, bound), grad, step.constant(0, grad))
    return (grad,)


def _known(bound: Tensor | None) -> float | None:
    """A bound that is a number in the file."""
    constant = None if bound is None else bound.constant
    if constant is None or not constant.available or constant.array().size != 1:
        return None
    return float(constant.array().reshape(-1)[0])


def _cast(step: Backward) -> Grads:
    return (step.op("Cast", step.grad, to=step.node.required(0).element_type),)


def _times(step: Backward, factor: Tensor) -> Grads:
    return (step.op("Mul", step.grad, factor),)


def _erf(step: Backward) -> Grads:
    """2 / sqrt(pi) e^(-x^2)."""
    x = step.node.required(0)
    bell = step.op("Exp", step.op("Neg", step.op("Mul", x, x)))
    return _times(step, step.op("Mul", bell, float(2 / np.sqrt(np.pi))))


def _by_result(name: str) -> Rule:
    """CANN's gradient (y, dy)."""
    return lambda step: (step.op(name, step.node.output, step.grad, domain=ASCEND),)


def _x(step: Backward) -> Tensor:
    return step.node.required(0)


_ONNX: dict[str, Rule] = {
    "Add": _add,
    "Sum": _add,
    "Mean": _mean,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Pow": _pow,
    "Where": _where,
    "Max": _extreme,
    "Min": _extreme,
    "Clip": _clip,
    "Cast": _cast,
    "Identity": lambda step: (step.grad,),
    "Neg": lambda step: (step.op("Neg", step.grad),),
    "Abs": lambda step: _times(step, step.op("Sign", _x(step))),
    "Exp": lambda step: _times(step, step.node.output),
    "Log": lambda step: (step.op("Div", step.grad, _x(step)),),
    "Sin": lambda step: _times(step, step.op("Cos", _x(step))),
    "Cos": lambda step: _times(step, step.op("Neg", step.op("Sin", _x(step)))),
    "Erf": _erf,
    "Sqrt": _by_result("SqrtGrad"),
    "Reciprocal": _by_result("ReciprocalGrad"),
    "Tanh": _by_result("TanhGrad"),
    "Sigmoid": _by_result("SigmoidGrad"),
    "OneHot": _one_hot,
    "Floor": nothing,
    "Ceil": nothing,
    "Round": nothing,
    "Sign": nothing,
}
_CANN: dict[str, Rule] = {
    "Rsqrt": _by_result("RsqrtGrad"),
    "Square": lambda step: _times(step, step.op("Mul", _x(step), 2.0)),
}
RULES = {("", name): rule for name, rule in _ONNX.items()} | {
    (ASCEND, name): rule for name, rule in _CANN.items()
}
