"""Tensors that come from no tensor: filled, counted, empty. They are constants of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.frontends.torch.call import Call, Converter
from ascendsim.graph.ir import Tensor


def filled(value: float) -> Converter:
    """zeros, ones, new_zeros, zeros_like, empty ...: memory that nobody has written is zero here."""
    return lambda call, *_given, **_options: _full(call, value)


def full(call: Call, _like: Any, value: Any, **_options: Any) -> Tensor:
    """full, full_like, new_full, fill: one number everywhere."""
    if not isinstance(value, Tensor):
        return _full(call, value)
    number = call.of_type(value)
    return number if number.shape == call.shape() else call.op("Expand", number, call.dims(call.shape()))


def new_full(call: Call, _like: Tensor, _sizes: Any, value: Any, **_options: Any) -> Tensor:
    """One number everywhere."""
    return full(call, None, value)


def _full(call: Call, value: Any) -> Tensor:
    shape = call.shape()
    number = np.asarray(value).astype(call.dtype().numpy)
    if all(type(size) is int for size in shape):  # one number in memory however large the shape is
        return call.builder.constant(np.broadcast_to(number, shape), call.short)
    return call.op("ConstantOfShape", call.dims(shape), value=number.reshape(1))


def counted(call: Call, *limits: Any, **_options: Any) -> Tensor:
    """Arange."""
    if any(type(limit) not in (int, float) for limit in limits):
        whole = {1: (0, *limits, 1), 2: (*limits, 1), 3: limits}[len(limits)]
        return call.op("Range", *(call.reshaped(call.dims([limit]), ()) for limit in whole))
    return call.array(np.arange(*limits), "arange", call.dtype().numpy)


def scalar(call: Call, value: Any, **_options: Any) -> Tensor:
    """A number as a tensor."""
    return call.array(value, "scalar", call.dtype().numpy)
