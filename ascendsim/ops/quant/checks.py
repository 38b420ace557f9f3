"""What scales and zero points must be; damaged ones would silently give zeros, infinities or NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Dim, Shape, Tensor
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


def check_blocks(context: InferContext, scale: int, axis: int, block: int) -> None:
    """Checks scales that have as many axes as what is quantised: one for each block along one of them.

    Args:
        context: Of the node; its input 0 is quantised.
        scale: Input that holds the scales.
        axis: Along which blocks lie, as the model has it.
        block: Elements of a block; 0 = as many as the scales leave.

    Raises:
        GraphError: If they do not fit, as far as shapes are known.
    """
    shape, steps = context.shape(0), context.shape(scale)
    if block < 0:
        raise context.fail("needs a block_size of 0 or more", block)
    if shape is None or steps is None or len(steps) == 0 or (len(steps) == 1 and not block):
        return
    if len(steps) != len(shape):
        rule = f"needs scales (input {scale}) of rank 0, 1 or {len(shape)}, as its data have"
        raise context.fail(rule, f"shape {list(steps)}", "quantise the model again")
    along = axis % len(shape) if -len(shape) <= axis < len(shape) else None
    if along is None:
        raise context.fail(f"needs an axis from {-len(shape)} to {len(shape) - 1}", axis)
    for place, (size, count) in enumerate(zip(shape, steps, strict=True)):
        if not isinstance(size, int) or not isinstance(count, int):
            continue
        most = -(-size // block) if block else size
        if (
            (count != size)
            if place != along
            else (count != most if block else not 1 <= count <= max(1, size))
        ):
            wanted = f"{most} blocks" if place == along else f"{size}"
            rule = f"needs scales (input {scale}) with {wanted} along axis {place}"
            raise context.fail(rule, f"shape {list(steps)}", "quantise the model again")


def check_steps(context: InferContext, scales: Sequence[int]) -> None:
    """Checks scales of a QLinear operator, each with its zero point behind it."""
    for scale in scales:
        data = context.node.input(scale - 1) if scale < 6 else None
        check_step(context, scale, scale + 1, None if data is None else data.origin_dtype)


def check_single(context: InferContext, ports: Sequence[int]) -> None:
    """Checks that the parameters at these ports, which hold for a whole tensor, are single numbers.

    Raises:
        GraphError: If one is not, as far as its shape is known.
    """
    for port in ports:
        shape = context.shape(port) if context.has(port) else None
        if shape is not None and any(isinstance(size, int) and size != 1 for size in shape):
            rule = f"needs one value for the whole tensor as input {port}"
            raise context.fail(rule, f"shape {list(shape)}", "give a scalar, or quantise the model again")


def check_slices(context: InferContext, port: int, size: Dim, what: str, stack: Shape | None = None) -> None:
    """Checks a parameter that is one number, or one for each slice of a tensor.

    Args:
        context: Of the node.
        port: Input that holds it.
        size: How many slices there are.
        what: What a slice is.
        stack: Form of a parameter that has the tensor's rank, where there may be one; its size along the
            slices is left out (None).

    Raises:
        GraphError: If it has another length, as far as that is known.
    """
    shape = context.shape(port) if context.has(port) else None
    if shape is None or not isinstance(size, int) or not all(isinstance(dim, int) for dim in shape):
        return
    count = math.prod(dim for dim in shape if isinstance(dim, int))
    if count == 1 or (len(shape) == 1 and count == size):
        return
    if stack is not None and len(shape) == len(stack) > 1:
        wanted = [size if dim is None else dim for dim in stack]
        if all(
            dim in (1, want) or not isinstance(want, int) for dim, want in zip(shape, wanted, strict=True)
        ):
            return
    rule = f"needs 1 or {size} values as input {port}, one a {what}"
    raise context.fail(rule, f"shape {list(shape)}", "quantise the model again")


def check_rows_and_columns(
    context: InferContext, operands: tuple[int, int], rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    """Checks parameters of a product of matrices: one number, one a row of the left one or a column of the
    right one, or so for each matrix of a stack.

    Args:
        context: Of the node.
        operands: Ports of the matrices.
        rows, columns: Ports of the parameters of the left and of the right one.

    Raises:
        GraphError: If a parameter has another length.
    """
    for operand, ports, axis, what in ((0, rows, -2, "row"), (1, columns, -1, "column")):
        shape = context.shape(operands[operand])
        if shape is None:
            continue
        if len(shape) < 2:  # a vector is one row, or one column
            check_single(context, ports)
            continue
        inside = (None, 1) if axis == -2 else (1, None)
        for port in ports:
            check_slices(context, port, shape[axis], what, (*shape[:-2], *inside))


def check_filters(
    context: InferContext, weight: int, single: tuple[int, ...], ports: tuple[int, ...]
) -> None:
    """Checks parameters of a convolution: one number for the data, one or one a filter for the filters.

    Raises:
        GraphError: If a parameter has another length.
    """
    check_single(context, single)
    shape = context.shape(weight)
    for port in ports:
        check_slices(context, port, None if shape is None else shape[0], "filter")


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
