"""Weights as int8: the largest magnitude becomes 127, so that nothing saturates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Array
from ascendsim.quantisation.thresholds import STEPS

_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Weights:
    """Constants of a layer in int8.

    Attributes:
        integers: The weights.
        scale: Their steps in float32: one number, or one a slice.
        bias: In units of the sums, int32; None if there is none that is one number a column.
        bias_scale: Step of the data times those of the weights, one a column.
    """

    integers: Array
    scale: Array
    bias: Array | None
    bias_scale: Array


def quantise_weights(
    weight: Array, axis: int | None, data_scale: float, bias: Array | None, columns: int
) -> Weights:
    """int8 weights with a step for every slice of an axis, and the bias that goes with them.

    A slice of zeros has the step 1. Where a bias would leave int32 (a slice of tiny weights), the step of the
    weights grows until it fits: what such weights add is far below the bias.

    Args:
        weight: In floating point.
        axis: Of the slices; None = one step for all.
        data_scale: Step of the data.
        bias: One number a column, or None.
        columns: Of the result.
    """
    others = None if axis is None else tuple(other for other in range(weight.ndim) if other != axis)
    largest = np.abs(weight).max(axis=others, initial=0.0).astype(np.float64)
    scale = np.where(largest > 0, largest / STEPS, 1.0)
    if bias is not None:
        needed = np.abs(bias.reshape(-1)).astype(np.float64) / data_scale / _INT32
        scale = np.maximum(scale, needed if axis is not None else needed.max(initial=0.0))
    step = scale.astype(np.float32)
    along = step if axis is None else step.reshape((-1,) + (1,) * (weight.ndim - axis - 1))
    integers = np.clip(np.rint(weight / along), -STEPS, STEPS).astype(np.int8)
    unit = np.broadcast_to((step * np.float32(data_scale)).reshape(-1), (columns,)).copy()
    if bias is None:
        return Weights(integers, step, None, unit)
    sums = np.rint(bias.reshape(-1).astype(np.float64) / unit)
    return Weights(integers, step, np.clip(sums, -_INT32, _INT32).astype(np.int32), unit)
