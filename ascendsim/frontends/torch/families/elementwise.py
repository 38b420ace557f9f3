"""Arithmetic, comparisons, activations and casts."""

from __future__ import annotations

import math
from typing import Any

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, Converter, Value
from ascendsim.graph.ir import Tensor


def same(_call: Call, x: Tensor, *_rest: Any, **_options: Any) -> Tensor:
    """Calls that hand on their input: detach, alias, clone ... ."""
    return x


def nothing(_call: Call, *_given: Any, **_options: Any) -> None:
    """Calls without a result."""


def unary(op_type: str) -> Converter:
    """An operator of one operand; integers are computed in the type of the result."""
    return lambda call, x: call.op(op_type, call.of_type(x))


def on_chip(op_type: str) -> Converter:
    """A unary operator that ONNX lacks."""
    return lambda call, x: call.chip(op_type, call.of_type(x))[0]


def binary(op_type: str) -> Converter:
    """Arithmetic in the type of the result; `alpha` scales the second operand."""

    def convert(call: Call, x: Value, y: Value, alpha: float = 1) -> Tensor:
        right = call.of_type(y)
        if alpha != 1:
            right = call.op("Mul", right, call.of_type(alpha))
        return call.op(op_type, call.of_type(x), right)

    return convert


def reversed_sub(call: Call, x: Value, y: Value, alpha: float = 1) -> Tensor:
    """The difference y - alpha x."""
    right = call.of_type(x)
    if alpha != 1:
        right = call.op("Mul", right, call.of_type(alpha))
    return call.op("Sub", call.of_type(y), right)


def divided(call: Call, x: Value, y: Value, rounding_mode: str | None = None) -> Tensor:
    """A true quotient, or one that is rounded."""
    if rounding_mode is not None and call.dtype().is_integer:
        if rounding_mode == "trunc":
            return call.op("Div", call.of_type(x), call.of_type(y))
        exact = [call.of_type(one, DType.FLOAT32) for one in (x, y)]
        return call.of_type(call.op("Floor", call.op("Div", *exact)))
    quotient = call.op("Div", call.of_type(x), call.of_type(y))
    if rounding_mode == "floor":
        return call.op("Floor", quotient)
    if rounding_mode == "trunc":
        return call.op("Mul", call.op("Sign", quotient), call.op("Floor", call.op("Abs", quotient)))
    return quotient


def compared(op_type: str, negated: bool = False) -> Converter:
    """A comparison in the wider type of both operands."""

    def convert(call: Call, x: Value, y: Value) -> Tensor:
        dtype = _common(x, y)
        result: Tensor = call.op(op_type, call.of_type(x, dtype), call.of_type(y, dtype))
        return call.op("Not", result) if negated else result

    return convert


def _common(x: Value, y: Value) -> DType:
    """The type in which two operands meet: floats before integers before booleans, the wider first; a number
    counts only where it is of a higher kind.
    """

    def order(dtype: DType) -> tuple[bool, bool, int]:
        return dtype.is_float, dtype.is_integer, dtype.itemsize

    kinds = [one.element_type for one in (x, y) if isinstance(one, Tensor)]
    widest = max(kinds, key=order)
    numbers = [one for one in (x, y) if not isinstance(one, Tensor)]
    if any(isinstance(one, float) for one in numbers) and not widest.is_float:
        return DType.FLOAT32
    if any(type(one) is int for one in numbers) and widest is DType.BOOL:
        return DType.INT64
    return widest


def logical(op_type: str) -> Converter:
    """An operation on truth values, which numbers become first."""

    def convert(call: Call, *operands: Value) -> Tensor:
        return call.op(op_type, *(call.of_type(one, DType.BOOL) for one in operands))

    return convert


def bitwise(on_bits: str, on_truth: str) -> Converter:
    """An operation on bits; that of truth values on booleans."""

    def convert(call: Call, *operands: Value) -> Tensor:
        op_type = on_truth if call.dtype() is DType.BOOL else on_bits
        return call.op(op_type, *(call.of_type(one) for one in operands))

    return convert


def clamp(call: Call, x: Tensor, low: Value | None = None, high: Value | None = None) -> Tensor:
    """Values between two borders; either may be absent."""
    borders = [None if border is None else call.of_type(border) for border in (low, high)]
    if not any(border is not None and border.shape for border in borders):
        return call.op("Clip", call.of_type(x), *borders)
    found = call.of_type(x)
    for op_type, border in zip(("Max", "Min"), borders, strict=True):  # a border for each element
        found = found if border is None else call.op(op_type, found, border)
    return found


def clamp_min(call: Call, x: Tensor, low: Value) -> Tensor:
    """Values not below a border."""
    return clamp(call, x, low)


def clamp_max(call: Call, x: Tensor, high: Value) -> Tensor:
    """Values not above a border."""
    return clamp(call, x, None, high)


def hard_tanh(call: Call, x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """ReLU6 among others."""
    return clamp(call, x, low, high)


def relu6(call: Call, x: Tensor) -> Tensor:
    """Clip at 0 and 6."""
    return clamp(call, x, 0.0, 6.0)


def gelu(call: Call, x: Tensor, approximate: str = "none") -> Tensor:
    """Exact, or by tanh."""
    return call.op("Gelu", x, approximate=approximate)


def leaky_relu(call: Call, x: Tensor, slope: float = 0.01) -> Tensor:
    """Max(x, slope x)."""
    return call.op("LeakyRelu", x, alpha=float(slope))


def elu(call: Call, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """ELU; SELU is the form with a scale."""
    if input_scale != 1:
        raise call.unsupported("needs input_scale 1", input_scale)
    if scale != 1:
        return call.op("Selu", x, alpha=float(alpha), gamma=float(scale))
    return call.op("Elu", x, alpha=float(alpha))


def softplus(call: Call, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """ln(1 + e^(beta x)) / beta; above the threshold that is x in float32 too."""
    if float(threshold) < 20:
        raise call.unsupported("needs a threshold of at least 20", threshold)
    scaled = x if beta == 1 else call.op("Mul", x, call.of_type(beta))
    result = call.op("Softplus", scaled)
    return result if beta == 1 else call.op("Div", result, call.of_type(beta))


def hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    """Clip(x / 6 + 1/2, 0, 1)."""
    return call.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def power(call: Call, x: Value, exponent: Value) -> Tensor:
    """X to a power, a number or element by element."""
    return call.op("Pow", call.of_type(x), call.of_type(exponent))


def expm1(call: Call, x: Tensor) -> Tensor:
    """e^x - 1."""
    return call.op("Sub", call.op("Exp", x), call.of_type(1))


def log_of(base: float) -> Converter:
    """A logarithm of another base than e."""
    return lambda call, x: call.op("Div", call.op("Log", call.of_type(x)), call.of_type(math.log(base)))


def log1p(call: Call, x: Tensor) -> Tensor:
    """ln(1 + x)."""
    return call.op("Log", call.op("Add", x, call.of_type(1)))


def threshold(call: Call, x: Tensor, border: float, value: float) -> Tensor:
    """What is above the border, else a value."""
    return call.op("Where", call.op("Greater", x, call.of_type(border)), x, call.of_type(value))


def where(call: Call, condition: Tensor, x: Value, y: Value) -> Tensor:
    """A choice, element by element."""
    return call.op("Where", condition, call.of_type(x), call.of_type(y))


def masked_fill(call: Call, x: Tensor, mask: Tensor, value: Value) -> Tensor:
    """A number where the mask is set."""
    return call.op("Where", mask, call.of_type(value), call.of_type(x))


def cast(call: Call, x: Tensor, *_rest: Any, **_options: Any) -> Tensor:
    """A change of type; of layout and device there is nothing to do."""
    return call.of_type(x)


def addcmul(call: Call, x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> Tensor:
    """X + value a b."""
    product = call.op("Mul", a, b)
    return call.op("Add", x, product if value == 1 else call.op("Mul", product, call.of_type(value)))
