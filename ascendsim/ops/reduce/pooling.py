"""MaxPool, AveragePool, LpPool and their global forms, 1-d to 3-d."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    AI_CORE_TYPES,
    as_float32,
    computing_type,
    converted,
    finish,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.ops.shared.cube import by_rank
from ascendsim.ops.shared.windows import Axis, as_volume, kernel_window, outputs, slide, taps, window_links
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import Link, shape_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import pooling
from ascendsim.opset.work import LowerContext, NoTask, Ref, RowWindows, Step, Stream, VectorWork, Work

Fold = Literal["max", "average", "lp"]


def pool_axes(node: Node, spatial: tuple[Any, ...]) -> tuple[Axis, ...]:
    """Windows of a pooling over spatial sizes, by its attributes."""
    kernel = tuple(int(k) for k in node.attr("kernel_shape", ()) or ())
    return slide(node, spatial, kernel, rounds_up=bool(node.attr("ceil_mode", 0)))


def _feature_shape(context: InferContext) -> tuple[Any, ...] | None:
    shape = context.shape(0)
    if shape is not None and len(shape) < 3:
        raise context.fail("needs an input of shape (batch, channels, spatial ...)", shape)
    return shape


def infer_pool(context: InferContext) -> None:
    """Shape of a pooling over windows."""
    shape = _feature_shape(context)
    pooled = None if shape is None else (*shape[:2], *outputs(pool_axes(context.node, shape[2:])))
    context.set(0, context.dtype(0), pooled)
    context.set(1, DType.INT64, pooled)


def infer_global(context: InferContext) -> None:
    """Shape of a pooling over all positions."""
    shape = _feature_shape(context)
    if shape is not None and 0 in shape[2:]:
        rule = "needs positions to pool over"
        raise context.fail(rule, f"shape {list(shape)}", "leave the operator out")
    context.set(0, context.dtype(0), None if shape is None else (*shape[:2], *(1 for _ in shape[2:])))


def _planes(array: Array) -> Array:
    """The array in its computing type as (planes, d, h, w)."""
    volume = as_volume(array, 2)
    floats = (
        as_float32(volume)
        if array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        else volume.astype(np.float32)
    )
    return np.ascontiguousarray(floats).reshape(math.prod(volume.shape[:2]), *volume.shape[2:])


def window_counts(axes: tuple[Axis, ...], sizes: tuple[int, ...], with_padding: bool) -> Array:
    """Divisor of every output position: input positions under the window, with padding (but not beyond it) if
    asked for.
    """
    result = np.ones((), np.int64)
    for axis, size in zip(axes, sizes, strict=True):
        start = np.arange(axis.output or 0) * axis.stride - axis.before
        bounds = (-axis.before, size + axis.after) if with_padding else (0, size)
        first, end = (np.clip(-((start - bound) // axis.dilation), 0, axis.kernel) for bound in bounds)
        result = np.multiply.outer(result, end - first)
    return result


def _compute_max(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    from ascendsim_kernels.pooling import window_argmax, window_max

    array = inputs[0]
    axes = pool_axes(node, array.shape[2:])
    image, window = _planes(array), kernel_window(axes)
    shape = (*array.shape[:2], *(axis.output for axis in axes))
    if len(wanted) < 2:
        return [finish(window_max(image, window).reshape(shape), wanted[0])]
    values, where = window_argmax(image, window, bool(node.attr("storage_order", 0)))
    return [finish(values.reshape(shape), wanted[0]), where.reshape(shape)]


def compute_average(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Sum in float32, divided by the count, one rounding."""
    from ascendsim_kernels.pooling import window_sum

    array = inputs[0]
    axes = pool_axes(node, array.shape[2:])
    image = _planes(array)
    total = window_sum(image, kernel_window(axes)).reshape(*array.shape[:2], *(axis.output for axis in axes))
    counts = window_counts(axes, array.shape[2:], bool(node.attr("count_include_pad", 0)))
    return [finish(total / np.maximum(counts, 1).astype(total.dtype), wanted[0])]


def _compute_lp(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """(sum |x|^p)^(1/p) in float32, one rounding."""
    from ascendsim_kernels.pooling import window_sum

    array, power = inputs[0], int(node.attr("p", 2))
    axes = pool_axes(node, array.shape[2:])
    total = window_sum(np.abs(_planes(array)) ** power, kernel_window(axes))
    return [
        finish(
            (total ** total.dtype.type(1.0 / power)).reshape(
                *array.shape[:2], *(axis.output for axis in axes)
            ),
            wanted[0],
        )
    ]


def compute_global(kind: Fold) -> Callable[[Node, Sequence[Any], Sequence[np.dtype[Any]]], Sequence[Any]]:
    """Values of a pooling over all positions."""

    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        array = inputs[0]
        planes = as_float32(array).reshape(*array.shape[:2], math.prod(array.shape[2:]))
        if kind == "max":
            result = planes.max(axis=-1)
        elif kind == "average":
            result = planes.mean(axis=-1)
        else:
            power = int(node.attr("p", 2))
            result = (np.abs(planes) ** power).sum(axis=-1) ** planes.dtype.type(1.0 / power)
        return [finish(result.reshape(*array.shape[:2], *(1,) * (array.ndim - 2)), wanted[0])]

    return compute


def _power_steps(power: int, dtype: DType) -> tuple[Step, ...]:
    """|x|^p on every element: nothing but vabs for p = 1, one product a further factor."""
    return (Step("vabs", dtype),) + ((Step("vmul", dtype, count=power - 1),) if power > 1 else ())


def _root_steps(power: int, dtype: DType, over: Literal["all", "row", "col"]) -> tuple[Step, ...]:
    """x^(1/p): square root for 2, exp(ln(x) / p) beyond."""
    if power == 1:
        return ()
    if power == 2:
        return (Step("vsqrt", dtype, over),)
    return (Step("vln", dtype, over), Step("vmuls", dtype, over), Step("vexp", dtype, over))


def rows_and_lanes(output: Tensor) -> tuple[int, int]:
    """Rows and elements a row of an output map: rows of out_w * C0 elements in blocked maps, of out_w
    elements else.
    """
    shape = output.storage_shape
    if output.format is Format.NC1HWC0 and len(shape) == 5:
        return math.prod(shape[:3]), shape[3] * shape[4]
    return math.prod(shape[:-1]), shape[-1]


def plane_bytes(source: Tensor) -> int:
    """Bytes of all positions of a channel, in blocked maps of a channel block."""
    return math.prod(source.storage_shape[2:]) * source.element_type.itemsize


def row_windows(source: Tensor, axes: Sequence[Axis]) -> RowWindows | None:
    """Windows over the rows of maps that follow each other; None where they have depth."""
    if len(axes) > 2:
        return None
    if len(axes) == 1:  # each row is a map
        return RowWindows(1, 1, 1, 1, 0)
    height, (axis, _) = source.static_shape[2], axes
    return RowWindows(height, axis.output or 1, axis.span, axis.stride, axis.before)


def over_windows(
    steps: Sequence[Step], axes: Sequence[Axis], lanes: int, positions: bool = False
) -> tuple[Step, ...]:
    """The steps for every tap of windows, in output rows of `lanes` elements.

    Windows that are apart end an instruction with their row; each row starts with its first tap, whatever the
    row before has written there. Not so where `positions` of maxima are kept, as bits, which follow each
    other without gaps from row to row: those kernels are measured to be slow (docs/validate.md).
    """
    apart, each = any(axis.stride > 1 for axis in axes), taps(tuple(axes))
    run = lanes if apart else 0
    return tuple(
        replace(step, count=step.count * each, run=run, overruns=apart and not positions) for step in steps
    )


def axis_by_axis(step: Step, axes: Sequence[Axis], lanes: int) -> tuple[Step, ...]:
    """The step for windows that are folded along one axis after the other, the innermost first, in output
    rows of `lanes` elements (TBE's pooling: rows of the window in all lines of the input, then those lines;
    so do public copies of max_pool3d).

    Folding k positions takes k - 1 steps, at least one. The axes further out still have their input
    positions, but no more of them than windows touch.
    """
    steps = []
    for place, axis in reversed(list(enumerate(axes))):
        touched = math.prod(min(outer.stride, outer.kernel) for outer in axes[:place])
        count, apart = max(1, axis.kernel - 1) * touched, axis.stride > 1
        steps.append(replace(step, count=step.count * count, run=lanes if apart else 0, overruns=apart))
    return tuple(steps)


def lower_window(kind: Fold) -> Callable[[Node, LowerContext], Work]:
    """Work of a pooling over windows."""

    def lower(node: Node, context: LowerContext) -> Work:
        """Maxima axis by axis; else one vector instruction a tap: vcmpv and vsel with vmax where positions
        are wanted, vadd and a final scale for averages (vmul where border counts differ).

        With strides it goes no further than an output row, whose windows are equally far apart; without, a
        tap is the plane shifted and one instruction runs over all rows. Input comes in pieces of a plane,
        whose rows follow each other; taps share them.
        """
        source, output = node.required(0), node.output
        if output.elements == 0:
            return NoTask()
        axes = pool_axes(node, source.static_shape[2:])
        if source.element_type not in AI_CORE_TYPES:
            return on_ai_cpu(node, float(taps(axes)))
        inside = computing_type(source.element_type, context)
        rows, lanes = rows_and_lanes(output)
        power = int(node.attr("p", 2))
        steps: tuple[Step, ...]
        if kind == "max" and len(node.outputs) == 1:
            steps = axis_by_axis(Step("vmax", inside), axes, lanes)
        elif kind == "max":
            # the first one against the lowest value, as padding has it; compare and select keep the position
            # of the maximum beside it
            ops = ("vmax", "vcmpv", "vsel")
            steps = over_windows([Step(op, inside) for op in ops], axes, lanes, positions=True)
        elif kind == "average":
            scale = Step("vmul" if uneven(node, axes) else "vmuls", inside)
            steps = (*over_windows([Step("vadd", inside)], axes, lanes), scale)
        else:
            powers = (*_power_steps(power, inside), Step("vadd", inside))
            steps = over_windows(powers, axes, lanes) + _root_steps(power, inside, "all")
        return VectorWork(
            rows,
            lanes,
            converted(steps, (source.element_type,), output.element_type, inside),
            (Stream(Ref.of(source)),),
            tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
            gather_bytes=plane_bytes(source),
            windows=row_windows(source, axes),
        )

    return lower


def uneven(node: Node, axes: tuple[Axis, ...]) -> bool:
    """Whether border windows divide by another count than inner ones."""
    return not node.attr("count_include_pad", 0) and any(axis.before or axis.after for axis in axes)


def _lower_global(kind: Fold) -> Callable[[Node, LowerContext], Work]:
    def lower(node: Node, context: LowerContext) -> Work:
        """A reduction over positions: down the rows of C0 lanes in blocked maps, along each plane's row
        else.
        """
        source, output = node.required(0), node.output
        if source.elements == 0:
            return NoTask()
        if not runs_on_ai_core(node):
            return on_ai_cpu(node)
        inside = computing_type(source.element_type, context)
        shape = source.static_shape
        positions = math.prod(shape[2:])
        blocked = source.format is Format.NC1HWC0 and len(shape) == 4
        over: Literal["row", "col"] = "col" if blocked else "row"
        planes = source.elements // positions if not blocked else math.prod(source.storage_shape) // positions
        fold = ("vmax" if blocked else "vcmax") if kind == "max" else ("vadd" if blocked else "vcadd")
        power = int(node.attr("p", 2))
        steps = (_power_steps(power, inside) if kind == "lp" else ()) + (Step(fold, inside),)
        if kind == "average":
            steps += (Step("vmuls", inside, over),)
        elif kind == "lp":
            steps += _root_steps(power, inside, over)
        return VectorWork(
            positions if blocked else planes,
            planes if blocked else positions,
            converted(steps, (source.element_type,), output.element_type, inside),
            (Stream(Ref.of(source)),),
            (Stream(Ref.of(output), over),),
            reduces="rows" if blocked else "cols",
        )

    return lower


def _max_type(node: Node) -> str:
    if len(node.outputs) > 1:
        return "MaxPoolWithArgmax"
    return by_rank("MaxPool", "MaxPool", "MaxPool3D")(node)


def pool_windows(node: Node) -> tuple[Link, ...]:
    """How positions of a pooling come from the input's; none where sizes are not known."""
    shape = shape_of(node, 0)
    return () if shape is None else window_links(node, pool_axes(node, shape[2:]))


_FACTS = Facts(pooling(), Kind.REDUCTION, Precision.GRAY)

OPERATORS = (
    OpDef(
        "MaxPool",
        infer_pool,
        _compute_max,
        lower_window("max"),
        Layout.FEATURE,
        cann="MaxPool",
        cann_of=_max_type,
        facts=Facts(pooling(pool_windows), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.MAX_POOL),
    ),
    OpDef(
        "AveragePool",
        infer_pool,
        compute_average,
        lower_window("average"),
        Layout.FEATURE,
        "AvgPool",
        cann_of=by_rank("AvgPool", "AvgPool", "AvgPool3D"),
        facts=Facts(pooling(pool_windows), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.POOL2D),
    ),
    OpDef(
        "LpPool",
        infer_pool,
        _compute_lp,
        lower_window("lp"),
        Layout.FEATURE,
        facts=Facts(pooling(pool_windows), Kind.REDUCTION, Precision.GRAY),
    ),
    OpDef(
        "GlobalMaxPool",
        infer_global,
        compute_global("max"),
        _lower_global("max"),
        Layout.FEATURE,
        "GlobalMaxPool",
        facts=_FACTS,
    ),
    OpDef(
        "GlobalAveragePool",
        infer_global,
        compute_global("average"),
        _lower_global("average"),
        Layout.FEATURE,
        "GlobalAveragePool",
        facts=_FACTS,
    ),
    OpDef(
        "GlobalLpPool",
        infer_global,
        compute_global("lp"),
        _lower_global("lp"),
        Layout.FEATURE,
        facts=_FACTS,
    ),
)
