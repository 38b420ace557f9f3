"""Gradients of activations, softmax, normalisation, embeddings and slices, by CANN's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, Converter, axis_of
from ascendsim.frontends.torch.families.normalise import affine
from ascendsim.graph.ir import Tensor

Mask = Sequence[bool]  # which gradients are asked for


def of_argument(op_type: str) -> Converter:
    """A gradient from dy and x."""
    return lambda call, dy, x: call.chip(op_type, dy, x)[0]


def of_result(op_type: str) -> Converter:
    """A gradient from dy and y, which CANN takes in the other order."""
    return lambda call, dy, y: call.chip(op_type, y, dy)[0]


def threshold(call: Call, dy: Tensor, x: Tensor, border: float) -> Tensor:
    """Of ReLU, with any border."""
    if border == 0:
        return call.chip("ReluGrad", dy, x)[0]
    return call.chip("ThresholdGradV2D", dy, x, threshold=float(border))[0]


def gelu(call: Call, dy: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """GeluGrad reads the result too, as CANN's does; only x counts."""
    made = (node.output for node in x.consumers if node.op_type == "Gelu")
    y = next(made, None) or call.op("Gelu", x, approximate=approximate)
    return call.chip("GeluGrad", dy, x, y, approximate=approximate)[0]


def hard_sigmoid(call: Call, dy: Tensor, x: Tensor) -> Tensor:
    """Dy / 6 between the borders."""
    return call.chip("HardSigmoidGrad", dy, x, alpha=1 / 6, beta=0.5)[0]


def hard_tanh(call: Call, dy: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """Dy between the borders."""
    return call.chip("HardtanhGrad", x, dy, min_val=float(low), max_val=float(high))[0]


def leaky_relu(call: Call, dy: Tensor, x: Tensor, slope: float, _is_result: bool) -> Tensor:
    """dy, or slope dy below zero."""
    return call.chip("LeakyReluGrad", dy, x, negative_slope=float(slope))[0]


def elu(
    call: Call, dy: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, given: Tensor
) -> Tensor:
    """Of ELU and SELU."""
    numbers: dict[str, Any] = {
        "alpha": float(alpha),
        "scale": float(scale),
        "input_scale": float(input_scale),
    }
    return call.chip("EluGradV2", dy, given, is_result=int(is_result), **numbers)[0]


def softplus(call: Call, dy: Tensor, x: Tensor, beta: float, border: float) -> Tensor:
    """Dy times a sigmoid."""
    return call.chip("SoftplusV2Grad", dy, x, beta=float(beta), threshold=float(border))[0]


def softmax(call: Call, dy: Tensor, y: Tensor, axis: int, _dtype: Any) -> Tensor:
    """(dy - sum(dy y)) y."""
    return call.of_type(call.chip("SoftmaxGrad", y, call.of_type(dy, y.dtype), axis=axis_of(y, axis))[0])


def log_softmax(call: Call, dy: Tensor, y: Tensor, axis: int, _dtype: Any) -> Tensor:
    """Dy - sum(dy) e^y."""
    return call.of_type(call.chip("LogSoftmaxGrad", dy, y, axis=axis_of(y, axis))[0])


def layer_norm(
    call: Call,
    dy: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    _bias: Tensor | None,
    _mask: Mask,
) -> list[Tensor]:
    """Of rows, and of scale and offset."""
    if weight is None:
        weight = call.array(np.ones([int(size) for size in shape]), "ones", x.element_type.numpy)
    return call.chip("LayerNormGrad", dy, x, inverse, mean, weight, outputs=3)


def batch_norm(
    call: Call,
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    batch_mean: Tensor | None,
    inverse: Tensor | None,
    training: bool,
    eps: float,
    _mask: Mask,
) -> list[Tensor]:
    """CANN's operator wants the variance; where only the inverse deviation came along, it follows from it."""
    scale, _ = affine(call, x, weight, None)
    if training:
        assert inverse is not None
        mean, variance = batch_mean, call.facts.get(inverse)
        if variance is None:
            square = call.op("Mul", inverse, inverse)
            variance = call.op("Sub", call.op("Reciprocal", square), call.of_type(float(eps), inverse.dtype))
    options: dict[str, Any] = {"epsilon": float(eps), "training_mode": int(training)}
    return call.chip("BatchNormGrad", dy, x, scale, mean, variance, outputs=3, **options)


def group_norm(
    call: Call,
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    _batch: int,
    _channels: int,
    _size: int,
    groups: int,
    _mask: Mask,
) -> list[Tensor]:
    """Of groups of channels."""
    scale, _ = affine(call, x, weight, None)
    return call.chip("GroupNormGrad", dy, mean, inverse, x, scale, outputs=3, num_groups=int(groups))


def embedding(
    call: Call, dy: Tensor, indices: Tensor, count: int, padding: int, by_frequency: bool
) -> Tensor:
    """Rows added up by their index, which the chip wants in 32 bits."""
    options = {"num_weights": int(count), "padding_idx": int(padding)}
    frequency = int(by_frequency)
    places = call.of_type(indices, DType.INT32)
    return call.chip("EmbeddingDenseGrad", dy, places, scale_grad_by_freq=frequency, **options)[0]


def sliced(
    call: Call, dy: Tensor, sizes: Sequence[int], axis: int, start: int, end: int, step: int
) -> Tensor:
    """Zeros, and dy where the slice was taken."""
    shape = [int(size) for size in sizes]
    axis %= len(shape)
    first, last, step = slice(start, end, step).indices(shape[axis])
    if (first, last, step) == (0, shape[axis], 1):
        return dy
    begins, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    begins[axis], ends[axis], steps[axis] = first, last, step
    return call.chip("StridedSliceGrad", shape, begins, ends, steps, dy)[0]


def selected(call: Call, dy: Tensor, sizes: Sequence[int], axis: int, place: int) -> Tensor:
    """Zeros, and dy at one place."""
    axis, shape = axis % len(sizes), [int(size) for size in sizes]
    place %= shape[axis]
    wide = call.op("Unsqueeze", dy, [axis])
    return sliced(call, wide, shape, axis, place, place + 1, 1)
