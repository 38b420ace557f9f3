"""What `torch.compile(optimizer.step)` captures of PyTorch's optimizers."""

from __future__ import annotations

from typing import Any

from ascendsim.frontends.torch.call import Call, Value
from ascendsim.graph.ir import Tensor

_HALF = 0.5  # from here on PyTorch comes from the other end, which keeps more digits


def lerp(call: Call, start: Tensor, end: Tensor, weight: Any) -> Tensor:
    """The point between two others, by a number or a tensor of numbers from 0 to 1."""
    way = call.op("Sub", end, start)
    if isinstance(weight, Tensor) or weight < _HALF:
        return call.op("Add", start, call.op("Mul", way, call.of_type(weight)))
    return call.op("Sub", end, call.op("Mul", way, call.of_type(1 - weight)))


def addcdiv(call: Call, x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> Tensor:
    """X + value a / b."""
    top = a if value == 1 else call.op("Mul", a, call.of_type(value))
    return call.op("Add", x, call.op("Div", top, b))


def fma(call: Call, a: Value, b: Value, c: Value) -> Tensor:
    """A b + c; on the chip the product is rounded before the sum."""
    return call.op("Add", call.op("Mul", call.of_type(a), call.of_type(b)), call.of_type(c))
