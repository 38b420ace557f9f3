"""Resize: nearest, linear and cubic along any axes, all coordinate transformations, antialias, crop.

Interpolation is separable: along every resized axis each output point is a weighted sum of a few input points
(`AxisPlan`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.formats import Format, c0, ceil_div
from ascendsim.graph.ir import Array, Dim, Node, Tensor
from ascendsim.ops.shared.common import (
    AI_CORE_TYPES,
    as_float32,
    computing_type,
    converted,
    finish,
    normalise_axis,
    on_ai_cpu,
)
from ascendsim.ops.shared.dims import vector_length
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import shape_of
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import along_axes
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
# Scalar cycles of one output point of one C0 block: coordinates, four addresses, issue of the products.
# Derived from the tuning guide's Interp example: 20 ms before, 1.6 ms after, 350 * 350 points of 2 channel
# blocks on 2 cores at 680 MHz.
_SCALAR_CYCLES = 100


@dataclass(frozen=True, slots=True)
class _Target:
    """What a node asks for: for every resized axis its number, scale and output size."""

    axes: tuple[int, ...]
    scales: tuple[float, ...]
    sizes: tuple[int, ...]


def _target(node: Node, shape: tuple[int, ...], scales: Any, sizes: Any) -> _Target:
    """Scales and sizes of the resized axes, from whichever of the two inputs is given.

    Raises:
        GraphError: If not exactly one of scales and sizes is given, or their length or values do not fit.
    """
    context = InferContext(node)
    rank = len(shape)
    order = [normalise_axis(int(axis), rank) for axis in node.attr("axes", ()) or range(rank)]
    has_scales, has_sizes = (
        scales is not None and np.size(scales) > 0,
        sizes is not None and np.size(sizes) > 0,
    )
    if has_scales == has_sizes:
        raise context.fail("needs exactly one of scales and sizes", "both" if has_scales else "none")
    given = np.asarray(scales if has_scales else sizes).reshape(-1)
    if len(given) != len(order):
        raise context.fail(f"needs {len(order)} scales or sizes", len(given))
    if has_scales:
        factors = [float(s) for s in given]
        if any(not s > 0 or math.isinf(s) for s in factors):
            raise context.fail("needs positive scales", factors)
        made = [math.floor(shape[axis] * s) for axis, s in zip(order, factors, strict=True)]
    else:
        made = [int(s) for s in given]
        if any(s < 0 for s in made):
            raise context.fail("needs sizes >= 0", made)
        factors = [s / max(1, shape[axis]) for axis, s in zip(order, made, strict=True)]
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(order)
            made = [math.floor(factor * shape[axis] + 0.5) for axis in order]
    by_axis = sorted(zip(order, factors, made, strict=True))
    return _Target(
        tuple(a for a, _, _ in by_axis), tuple(f for _, f, _ in by_axis), tuple(s for _, _, s in by_axis)
    )


def _infer(context: InferContext) -> None:
    shape = context.shape(0)
    transform = context.node.attr("coordinate_transformation_mode", "half_pixel")
    if transform not in TRANSFORMS:
        raise context.fail(
            f"needs a coordinate_transformation_mode out of {', '.join(TRANSFORMS)}", transform
        )
    if shape is None:
        context.set(0, context.dtype(0), None)
        return
    rank = len(shape)
    order = [normalise_axis(int(axis), rank) for axis in context.node.attr("axes", ()) or range(rank)]
    for port in (2, 3):
        count = vector_length(context, port) if context.has(port) else None
        if count not in (None, 0, len(order)):
            raise context.fail(f"needs {len(order)} scales or sizes", count)
    scales, sizes = (context.value(port) if context.has(port) else None for port in (2, 3))
    result: list[Dim] = list(shape)
    if all(isinstance(shape[axis], int) for axis in order) and (scales is not None or sizes is not None):
        target = _target(context.node, tuple(d if isinstance(d, int) else 1 for d in shape), scales, sizes)
        made: list[Dim] = [dict(zip(target.axes, target.sizes, strict=True))[axis] for axis in order]
    elif scales is not None and scales.size == len(order):
        made = [
            _scaled(shape[axis], float(factor))
            for axis, factor in zip(order, scales.reshape(-1), strict=True)
        ]
    elif (
        sizes is not None
        and sizes.size == len(order)
        and context.node.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    ):
        made = [int(size) for size in sizes.reshape(-1)]
    else:
        made = [None] * len(order)
    for axis, dim in zip(order, made, strict=True):
        result[axis] = dim
    context.set(0, context.dtype(0), tuple(result))


def _scaled(size: Dim, factor: float) -> Dim:
    """A scaled dimension; an unknown one stays what it is under scale 1."""
    if isinstance(size, int):
        return math.floor(size * factor)
    return size if factor == 1.0 else None


def source_positions(transform: str, size: int, made: int, scale: float, roi: tuple[float, float]) -> Array:
    """Position in the input (float64) of each of `made` output points; formulas of the ONNX specification.

    Args:
        transform: coordinate_transformation_mode.
        size: Input size.
        made: Output size.
        scale: Stated scale; size * scale may differ from `made` by rounding.
        roi: Start and end of the crop, as parts of the input (tf_crop_and_resize only).
    """
    x = np.arange(made, dtype=np.float64)
    exact = size * scale
    if transform == "align_corners":
        return np.zeros(made) if exact == 1 else x * (size - 1) / (exact - 1)
    if transform == "asymmetric":
        return x / scale
    if transform == "tf_crop_and_resize":
        start, end = roi
        if exact == 1:
            return np.full(made, 0.5 * (end - start) * (size - 1)) + start * (size - 1)
        return x * (end - start) * (size - 1) / (exact - 1) + start * (size - 1)
    if transform == "pytorch_half_pixel" and exact == 1:
        return np.full(made, -0.5)
    offset = size / 2 * (1 - made / exact) if transform == "half_pixel_symmetric" else 0.0
    return np.asarray(offset + (x + 0.5) / scale - 0.5)


ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda positions: np.ceil(positions - 0.5),
    "round_prefer_ceil": lambda positions: np.floor(positions + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _nearest(positions: Array, mode: str, size: int) -> Array:
    rounded = ROUNDINGS[mode](positions)
    return np.clip(rounded, 0, size - 1).astype(np.int64)


def _cubic(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel at |distance|."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One axis: output point i = sum over t of weights[i, t] * input[taps[i, t]]; `outside` points take the
    extrapolation value.
    """

    taps: Array
    weights: Array
    outside: Array | None


def plan_of(
    node: Node, mode: str, size: int, made: int, scale: float, roi: tuple[float, float] = (0.0, 1.0)
) -> AxisPlan:
    """How a resizing node makes one axis.

    Args:
        node: Its attributes say how positions are found.
        mode: nearest, linear or cubic.
        size, made: Of the axis, before and after.
        scale: As stated.
        roi: Start and end of the crop, as parts of the input.
    """
    transform = node.attr("coordinate_transformation_mode", "half_pixel")
    positions = source_positions(transform, size, made, scale, roi)
    outside = (positions < 0) | (positions > size - 1) if transform == "tf_crop_and_resize" else None
    if mode == "nearest":
        nearest = _nearest(positions, node.attr("nearest_mode", "round_prefer_floor"), size)[:, None]
        return AxisPlan(nearest, np.ones(nearest.shape), outside)
    shrink = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    base = np.floor(positions)
    offsets = np.arange(-math.ceil(reach) + 1, math.ceil(reach) + 1)
    points = base[:, None] + offsets
    distance = (points - positions[:, None]) * shrink
    weights = (
        np.clip(1 - np.abs(distance), 0, 1)
        if mode == "linear"
        else _cubic(distance, float(node.attr("cubic_coeff_a", -0.75)))
    )
    if node.attr("exclude_outside", 0):
        weights = np.where((points < 0) | (points >= size), 0.0, weights)
    total = weights.sum(axis=1, keepdims=True)
    return AxisPlan(
        np.clip(points, 0, size - 1).astype(np.int64), weights / np.where(total == 0, 1, total), outside
    )


def _apply(array: Array, axis: int, plan: AxisPlan, value: float) -> Array:
    taps = plan.taps.shape[1]
    shape = [1] * array.ndim
    shape[axis] = plan.taps.shape[0]
    if taps == 1:
        result = array.take(plan.taps[:, 0], axis=axis)
    else:
        weights = plan.weights.astype(array.dtype)
        result = array.take(plan.taps[:, 0], axis=axis) * weights[:, 0].reshape(shape)
        for t in range(1, taps):
            result += array.take(plan.taps[:, t], axis=axis) * weights[:, t].reshape(shape)
    if plan.outside is not None and plan.outside.any():
        result = np.where(plan.outside.reshape(shape), np.asarray(value, result.dtype), result)
    return result


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: weights and sums in float32, one rounding; nearest copies."""
    ports = [*inputs, *(None for _ in range(4 - len(inputs)))]
    array = ports[0]
    mode = node.attr("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise InferContext(node).fail("needs mode nearest, linear or cubic", mode)
    target = _target(node, array.shape, ports[2], ports[3])
    transform = node.attr("coordinate_transformation_mode", "half_pixel")
    roi = _roi(node, ports[1], array.ndim)
    values = array if mode == "nearest" else as_float32(array)
    if mode != "nearest" and values.dtype.kind != "f":
        values = values.astype(np.float32)
    for axis, scale, made in zip(target.axes, target.scales, target.sizes, strict=True):
        size = array.shape[axis]
        if scale == 1.0 and made == size and transform != "tf_crop_and_resize":
            continue
        if size == 0:
            raise InferContext(node).fail("needs an input that is not empty", array.shape)
        values = _apply(
            values,
            axis,
            plan_of(node, mode, size, made, scale, roi.get(axis, (0.0, 1.0))),
            float(node.attr("extrapolation_value", 0.0)),
        )
    if values is array:
        values = array.copy()
    if np.issubdtype(wanted[0], np.integer) and values.dtype != wanted[0]:
        limits = np.iinfo(wanted[0])
        values = np.clip(values, limits.min, limits.max)
    return [finish(values, wanted[0])]


def _roi(node: Node, given: Any, rank: int) -> dict[int, tuple[float, float]]:
    """Start and end of the crop by axis."""
    if given is None or np.size(given) == 0:
        return {}
    axes = [normalise_axis(int(axis), rank) for axis in node.attr("axes", ()) or range(rank)]
    values = [float(v) for v in np.asarray(given).reshape(-1)]
    if len(values) != 2 * len(axes):
        raise InferContext(node).fail(f"needs {2 * len(axes)} numbers in roi", len(values))
    return {axis: (values[i], values[len(axes) + i]) for i, axis in enumerate(axes)}


def _regular(node: Node, source: tuple[int, ...], output: tuple[int, ...]) -> bool:
    """Whether addresses repeat along every resized axis, so that a vector form exists.

    With align_corners both (dst - 1) / (src - 1) must be integers (rule of the Interp operator); all other
    transformations step evenly.
    """
    if node.attr("coordinate_transformation_mode", "half_pixel") != "align_corners":
        return True
    return all(a == b or (a > 1 and (b - 1) % (a - 1) == 0) for a, b in zip(source, output, strict=True))


def _points(output: Tensor) -> int:
    """Output points that need an address: one for each block of C0 channels in images, one for each element
    else.
    """
    shape = output.static_shape
    if len(shape) != 4:
        return output.elements
    return shape[0] * ceil_div(shape[1], c0(output.element_type)) * shape[2] * shape[3]


def _lower(node: Node, context: LowerContext) -> Work:
    """Movement for nearest, vector work for linear and cubic.

    Nearest moves one element at a time (one C0 block in blocked maps, a whole row where rows are kept).
    Linear and cubic do the taps of one axis after the other; align_corners with a ratio that is no integer
    computes addresses point by point on the scalar unit.
    """
    source, output = node.required(0), node.output
    if output.elements == 0:
        return NoTask()
    if source.element_type not in AI_CORE_TYPES:
        return on_ai_cpu(node)
    mode = node.attr("mode", "nearest")
    a, b = Ref.of(source), Ref.of(output)
    item = source.element_type.itemsize
    lanes = (
        output.storage_shape[-1] if output.format is Format.NC1HWC0 and len(output.storage_shape) == 5 else 1
    )
    if mode == "nearest":
        if lanes == 1 and source.static_shape[-1] == output.static_shape[-1]:
            lanes = output.static_shape[-1]
        return MoveWork(
            (
                Copy(
                    a,
                    b,
                    b.bytes,
                    lanes * item,
                    max(lanes, output.static_shape[-1] * lanes if lanes > 1 else 1) * item,
                ),
            )
        )
    if not _regular(node, source.static_shape, output.static_shape):
        return ScalarWork(_points(output), _SCALAR_CYCLES, (a,), (b,))
    inside = computing_type(source.element_type, context)
    taps = 1
    steps: tuple[Step, ...] = ()
    for size, made in zip(source.static_shape, output.static_shape, strict=True):
        if size == made:
            continue
        shrink = min(1.0, made / size) if node.attr("antialias", 0) else 1.0
        taps = 2 * math.ceil((1 if mode == "linear" else 2) / shrink)
        steps += (Step("vmuls", inside), Step("vaxpy", inside, count=taps - 1))
    rows = math.prod(output.storage_shape[:-2]) if lanes > 1 else math.prod(output.static_shape[:-1])
    cols = output.storage_shape[-2] * lanes if lanes > 1 else output.static_shape[-1]
    return VectorWork(
        rows,
        cols,
        converted(steps or (Step("vadds", inside),), (source.element_type,), output.element_type, inside),
        (Stream(a),),
        (Stream(b),),
        gather_bytes=source.static_shape[-1] * lanes * item,
    )


def _cann(node: Node) -> str:
    """CANN's operator by mode."""
    return {"nearest": "ResizeNearestNeighborV2", "linear": "ResizeBilinearV2"}.get(
        str(node.attr("mode", "nearest")), "Resize"
    )


def _resized_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """All axes but those with a scale of exactly 1; a crop may move any of them."""
    order = [int(axis) % rank for axis in node.attr("axes", ()) or range(rank)]
    shape, result, scales = shape_of(node, 0), node.output.shape, node.input(2)
    if (
        node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
        or shape is None
        or result is None
    ):
        return None
    if scales is not None and scales.constant is not None and scales.constant.available and scales.elements:
        factors = scales.constant.array().reshape(-1)
        return tuple([axis for axis, factor in zip(order, factors, strict=False) if factor != 1])
    kept = node.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    return tuple(
        [
            axis
            for axis in order
            if not kept or not isinstance(shape[axis], int) or shape[axis] != result[axis]
        ]
    )


OPERATORS = (
    OpDef(
        "Resize",
        _infer,
        _compute,
        _lower,
        Layout.FEATURE,
        cann="Resize",
        cann_of=_cann,
        most_inputs=4,
        facts=movement(along_axes(_resized_axes), parameters=(1, 2, 3), shape_port=3),
    ),
)
