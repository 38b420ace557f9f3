"""Normalisation and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.call import Call, axis_of, rank
from ascendsim.graph.ir import Tensor


def softmax(op_type: str) -> Any:
    """Softmax or LogSoftmax along an axis, in the type of the result."""

    def convert(call: Call, x: Tensor, axis: int, *_rest: Any, **_options: Any) -> Tensor:
        if rank(x) == 0:
            return call.reshaped(convert(call, call.op("Reshape", x, [1]), 0), ())
        return call.op(op_type, call.of_type(x), axis=axis_of(x, axis))

    return convert


def safe_softmax(call: Call, x: Tensor, axis: int, *_rest: Any, **_options: Any) -> Tensor:
    """Softmax in which a row that is masked throughout gives zeros."""
    axis = axis_of(x, axis)
    result = call.op("Softmax", x, axis=axis)
    highest = call.op("ReduceMax", x, [axis], keepdims=1)
    nothing = call.op("Equal", highest, call.of_type(-math.inf))
    return call.op("Where", nothing, call.of_type(0.0), result)


def layer_norm(
    call: Call,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    _cudnn: bool = True,
) -> Tensor:
    """Rows over the last axes."""
    return native_layer_norm(call, x, shape, weight, bias, eps)[0]


def native_layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> list[Tensor]:
    """The rows, their means and the inverses of their deviations."""
    axis = rank(x) - len(shape)
    if weight is None:
        weight = _filled(call, shape, 1.0, x.element_type)
    return call.ops("LayerNormalization", x, weight, bias, outputs=3, axis=axis, epsilon=float(eps))


def rms_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Rows by their root mean square."""
    epsilon = float(np.finfo(np.float32).eps) if eps is None else float(eps)
    scale = _filled(call, shape, 1.0, x.element_type) if weight is None else weight
    return call.op("RMSNormalization", x, scale, axis=rank(x) - len(shape), epsilon=epsilon)


def group_norm(
    call: Call,
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    _cudnn: bool = True,
) -> Tensor:
    """Groups of channels."""
    channels = x.static_shape[1]
    scale = _filled(call, (channels,), 1.0, x.element_type) if weight is None else weight
    offset = _filled(call, (channels,), 0.0, x.element_type) if bias is None else bias
    return call.op("GroupNormalization", x, scale, offset, num_groups=int(groups), epsilon=float(eps))


def native_group_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    _channels: int,
    _size: int,
    groups: int,
    eps: float,
) -> list[Tensor]:
    """The result, and for the gradient the means and inverse deviations of the groups."""
    y = group_norm(call, x, groups, weight, bias, eps)
    rows = call.reshaped(x, (int(batch), int(groups), x.elements // (int(batch) * int(groups))))
    mean = call.op("ReduceMean", rows, [2], keepdims=1)
    centred = call.op("Sub", rows, mean)
    variance = call.op("ReduceMean", call.op("Mul", centred, centred), [2], keepdims=0)
    inverse = call.chip("Rsqrt", call.op("Add", variance, float(eps)))[0]
    return [y, call.reshaped(mean, (int(batch), int(groups))), inverse]


def batch_norm_inference(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    _momentum: float,
    eps: float,
) -> list[Tensor]:
    """Channels by running statistics."""
    scale, offset = affine(call, x, weight, bias)
    y = call.op("BatchNormalization", x, scale, offset, mean, variance, epsilon=float(eps))
    empty = call.array([], "no_statistics", np.float32)
    return [y, empty, empty]


def batch_norm_functional(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Tensor]:
    """Training: the result, mean and inverse deviation of the batch, and the new running statistics."""
    if not training:
        result = batch_norm_inference(call, x, weight, bias, mean, variance, momentum, eps)
        return [*result, mean, variance]
    y, *running, batch_mean, batch_variance = _trained(
        call, x, affine(call, x, weight, bias), (mean, variance), eps, momentum
    )
    return [y, batch_mean, _inverse(call, batch_variance, eps), *running]


def batch_norm_without_statistics(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    _training: bool,
    _momentum: float,
    eps: float,
) -> list[Tensor]:
    """Training without running statistics."""
    channels = x.static_shape[1]
    zeros, ones = (_filled(call, (channels,), value, DType.FLOAT32) for value in (0.0, 1.0))
    y, _, _, mean, variance = _trained(call, x, affine(call, x, weight, bias), (zeros, ones), eps, 0.0)
    return [y, mean, _inverse(call, variance, eps)]


def batch_norm(
    call: Call,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    _cudnn: bool = True,
) -> Tensor:
    """The form that modules call."""
    if mean is None or variance is None:
        return batch_norm_without_statistics(call, x, weight, bias, True, momentum, eps)[0]
    if training:
        return _trained(call, x, affine(call, x, weight, bias), (mean, variance), eps, momentum)[0]
    return batch_norm_inference(call, x, weight, bias, mean, variance, momentum, eps)[0]


def _trained(
    call: Call,
    x: Tensor,
    parameters: tuple[Tensor, Tensor],
    running: tuple[Tensor, Tensor],
    eps: float,
    momentum: float,
) -> list[Tensor]:
    """Both halves of CANN's: the result, running mean and variance, mean and variance of the batch.

    PyTorch's momentum is the share of what is new, and its running variance takes the unbiased one.
    """
    sums = call.chip("BNTrainingReduce", x, outputs=2)
    options: dict[str, Any] = {"epsilon": float(eps), "momentum": 1 - float(momentum), "unbiased": 1}
    return call.chip("BNTrainingUpdate", x, *sums, *parameters, *running, outputs=5, **options)


def _inverse(call: Call, variance: Tensor, eps: float) -> Tensor:
    """1 / deviation; which variance it is of is noted for the gradient, which wants that."""
    inverse = call.chip("Rsqrt", call.op("Add", variance, float(eps)))[0]
    call.facts[inverse] = variance
    return inverse


def affine(call: Call, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scale and offset of channels, one and zero where a module has none."""
    channels = (x.static_shape[1],)
    scale = _filled(call, channels, 1.0, DType.FLOAT32) if weight is None else weight
    return scale, _filled(call, channels, 0.0, DType.FLOAT32) if bias is None else bias


def _filled(call: Call, shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    return call.array(np.full(tuple(int(size) for size in shape), value), "fill", dtype.numpy)
