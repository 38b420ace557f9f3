"""Random numbers: dropout with its gradient, and Bernoulli's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.frontends.torch.call import Call
from ascendsim.graph.ir import Tensor


def dropout(call: Call, x: Tensor, share: float, training: bool) -> Tensor:
    """The form that modules call; in an inference graph there is nothing to do."""
    return native_dropout(call, x, share, training)[0]


def native_dropout(call: Call, x: Tensor, share: float, training: bool | None) -> list[Tensor]:
    """A mask of bits from the AI CPU, and what it keeps, scaled up.

    The second result is the mask as the chip has it, in bits: nobody reads it but the gradient.
    """
    if training is False or not share:
        return [x, call.array(np.full(_bytes(x), 255), "whole_mask", np.uint8)]
    keep = call.array(1 - share, "keep_prob", x.element_type.numpy)
    mask = call.chip("DropOutGenMask", [int(size) for size in x.static_shape], keep)[0]
    return [call.chip("DropOutDoMask", x, mask, keep)[0], mask]


def native_dropout_gradient(call: Call, dy: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Dy where the mask is set, scaled up as x was."""
    if not scale:
        return call.op("Mul", dy, call.of_type(0.0))
    keep = call.array(1 / scale, "keep_prob", dy.element_type.numpy)
    return call.chip("DropOutDoMask", dy, mask, keep)[0]


def _bytes(x: Tensor) -> int:
    """Of a mask: filled up to 128 elements."""
    return -(-x.elements // 128) * 16


def bernoulli(call: Call, x: Tensor, share: float = 0.5, **_options: Any) -> Tensor:
    """Ones with a probability, as stochastic depth draws them."""
    return call.op("Bernoulli", call.op("Expand", call.of_type(share, x.dtype), call.dims(call.shape())))
