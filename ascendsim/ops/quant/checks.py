"""What scales and zero points must be; damaged ones would silently give zeros, infinities or NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Shape, Tensor
from ascendsim.opset import InferContext


def check_step(
    context: InferContext,
    scale: int,
    zero: int | None = None,
    kind: DType | None = None,
    shape: Shape | None = None,
    axis: int | None = None,
) -> None:
    """Checks a scale and its zero point as far as they are known.

    Args:
        context: Of the node.
        scale: Input that holds the scale.
        zero: Input that holds the zero point.
        kind: Type of the integers, which the zero point must have; None = not checked.
        shape: Of what is quantised; with `axis`, a vector of scales must have as many as slices lie along it.
        axis: As the model has it.

    Raises:
        GraphError: If a scale is not above 0, a zero point is of another type, or they do not fit the axis.
    """
    step, point = context.node.input(scale), None if zero is None else context.node.input(zero)
    if step is None:
        return
    values = _known(step)
    if values is not None and values.dtype.kind == "f":
        bad = values[~(np.isfinite(values) & (values > 0))]
        if bad.size:
            rule = f"needs scales above 0 as input {scale}"
            raise context.fail(rule, f"{float(bad.reshape(-1)[0]):g}", "quantise the model again")
    if point is not None and kind is not None and point.origin_dtype not in (None, kind):
        whole = point.origin_dtype.value
        rule = f"needs zero points in the range of {kind.value}, of that type, as input {zero}"
        raise context.fail(rule, whole, "quantise the model again")
    if point is not None and point.is_static and step.is_static and point.elements not in (1, step.elements):
        rule = f"needs as many zero points (input {zero}) as scales (input {scale})"
        raise context.fail(rule, f"{point.elements} and {step.elements}")
    if shape is not None and axis is not None and step.is_static and len(step.static_shape) == 1:
        _check_axis(context, scale, step.elements, shape, axis)


def check_steps(context: InferContext, scales: Sequence[int]) -> None:
    """Checks scales of a QLinear operator, each with its zero point behind it."""
    for scale in scales:
        data = context.node.input(scale - 1) if scale < 6 else None
        check_step(context, scale, scale + 1, None if data is None else data.origin_dtype)


def _check_axis(context: InferContext, scale: int, count: int, shape: Shape, axis: int) -> None:
    if count == 1:
        return
    if not -len(shape) <= axis < len(shape):
        rule = f"needs an axis from {-len(shape)} to {len(shape) - 1}, since its data have {len(shape)}"
        raise context.fail(rule, axis)
    size = shape[axis]
    if isinstance(size, int) and size != count:
        rule = f"needs 1 or {size} scales as input {scale}, the slices of axis {axis}"
        raise context.fail(rule, count, "name the axis that the scales lie along")


def check_offset(context: InferContext) -> None:
    """Checks the numbers of an operator that holds them as attributes, `scale` and `offset`.

    Raises:
        GraphError: If the scale is not above 0, or the offset is no int8.
    """
    scale, offset = (
        float(context.node.attr(name, other)) for name, other in (("scale", 1.0), ("offset", 0.0))
    )
    if not 0 < scale < float("inf"):
        raise context.fail("needs a scale above 0", f"{scale:g}", "quantise the model again")
    if not -128 <= offset <= 127 or offset != int(offset):
        raise context.fail("needs a whole offset from -128 to 127", f"{offset:g}", "quantise the model again")


def _known(tensor: Tensor) -> Array | None:
    constant = tensor.constant
    return constant.array() if constant is not None and constant.available else None
