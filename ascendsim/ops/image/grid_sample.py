"""GridSample: values at the positions that a grid names; nearest, linear and cubic over 1 to 3 spatial
axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX, transpose_work
from ascendsim.ops.shared.common import (
    as_float32,
    computing_type,
    finish,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import movement
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
    workspace_of,
)

CUBIC_A = -0.75  # ONNX fixes it
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def _mode(node: Node) -> str:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        str(node.attr("mode", "linear")), str(node.attr("mode", "linear"))
    )
    if mode not in _TAPS:
        raise InferContext(node).fail("needs mode nearest, linear or cubic", mode)
    if node.attr("padding_mode", "zeros") not in ("zeros", "border", "reflection"):
        raise InferContext(node).fail(
            "needs padding_mode zeros, border or reflection", node.attr("padding_mode")
        )
    return mode


def _infer(context: InferContext) -> None:
    _mode(context.node)
    x, grid = context.shape(0), context.shape(1)
    if x is not None and grid is not None:
        if len(x) != len(grid) or len(x) < 3:
            raise context.fail("needs input and grid of equal rank >= 3", f"{len(x)} and {len(grid)}")
        if isinstance(grid[-1], int) and grid[-1] != len(x) - 2:
            raise context.fail(f"needs {len(x) - 2} coordinates a position", grid[-1])
        if isinstance(x[0], int) and isinstance(grid[0], int) and x[0] != grid[0]:
            raise context.fail("needs as many grids as images", f"{grid[0]} and {x[0]}")
    known = x is not None and grid is not None
    context.set(
        0, context.dtype(0), (*x[:2], *grid[1:-1]) if known and x is not None and grid is not None else None
    )


def _reflect(values: Array, low: float, high: float) -> Array:
    """Values mirrored at the borders until they lie between them."""
    span = high - low
    if span <= 0:
        return np.full_like(values, low)
    turned = np.mod(values - low, 2 * span)
    inside = np.minimum(turned, 2 * span - turned) + low
    return np.where((values < low) | (values > high), inside, values)


def _pad(values: Array, size: int, mode: str, corners: bool) -> Array:
    """Coordinates or indices brought into the input as padding_mode says ("zeros" leaves them)."""
    if mode == "border":
        return np.clip(values, 0, size - 1)
    if mode == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        return _reflect(values, low, high)
    return values


def _weights(fraction: Array, taps: int) -> list[Array]:
    """Factors of the neighbours (from floor - taps / 2 + 1 on) at a fraction behind floor."""
    if taps == 2:
        return [1 - fraction, fraction]
    a, result = CUBIC_A, []
    for offset in (-1, 0, 1, 2):
        d = np.abs(fraction - offset)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        result.append(np.where(d <= 1, near, far))
    return result


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: coordinates, weights and sums in float32, one rounding."""
    mode, padding, corners = (
        _mode(node),
        node.attr("padding_mode", "zeros"),
        bool(node.attr("align_corners", 0)),
    )
    image = (
        as_float32(inputs[0])
        if inputs[0].dtype.kind == "f" or inputs[0].dtype.name == "bfloat16"
        else inputs[0].astype(np.float64)
    )
    grid = as_float32(inputs[1])
    sizes = image.shape[2:]
    taps = _TAPS[mode]
    result = np.zeros((*image.shape[:2], math.prod(grid.shape[1:-1])), image.dtype)
    for n in range(image.shape[0] if image.size else 0):
        indices: list[list[Array]] = []
        factors: list[list[Array]] = []
        for axis, size in enumerate(sizes):
            stated = grid[n, ..., len(sizes) - 1 - axis].reshape(-1)  # x names the last axis
            position = (stated + 1) / 2 * (size - 1) if corners else ((stated + 1) * size - 1) / 2
            if mode == "nearest":
                position = np.rint(position)
            if (
                mode != "cubic"
            ):  # PyTorch, whence the operator comes, brings only the neighbours of cubic samples inside
                position = _pad(position, size, padding, corners)
            base = np.floor(position)
            offsets = range(1) if taps == 1 else range(1 - taps // 2, taps // 2 + 1)
            indices.append([base + offset for offset in offsets])
            factors.append([np.ones_like(base)] if taps == 1 else _weights(position - base, taps))
        for choice in itertools.product(range(taps), repeat=len(sizes)):
            factor = np.ones(result.shape[2], image.dtype)
            address = np.zeros(result.shape[2], np.int64)
            for axis, size in enumerate(sizes):
                at = _pad(indices[axis][choice[axis]], size, padding, corners)
                factor = factor * factors[axis][choice[axis]].astype(image.dtype)
                if padding == "zeros":
                    factor = np.where((at >= 0) & (at < size), factor, 0)
                address = address * size + np.clip(at, 0, size - 1).astype(np.int64)
            result[n] += image[n].reshape(image.shape[1], -1)[:, address] * factor
    return [finish(result.reshape(*image.shape[:2], *grid.shape[1:-1]), wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    """The image with its channels last, then a burst of channels for every neighbour and their weighted sum.

    So CANN's GridSample on 910B (profiles show its Transpose in front); the AI CPU where it is quicker.
    """
    image, grid, output = node.required(0), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    spatial = len(image.static_shape) - 2
    neighbours = _TAPS[_mode(node)] ** spatial
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(neighbours))
    inside = computing_type(image.element_type, context)
    source, target = Ref.of(image), Ref.of(output)
    channels, last = image.static_shape[1], replace(source, region=workspace_of(image.name))
    order = (0, *range(2, spatial + 2), 1)
    turned = transpose_work(source, last, image.static_shape, order, context)
    burst = channels * image.element_type.itemsize
    positions = output.elements // channels
    # an instruction takes the channels of one neighbour
    sums = (Step("vmuls", inside, run=channels), Step("vadd", inside, run=channels))
    gathered = MoveWork(
        (Copy(last, target, positions * neighbours * burst, burst, target.bytes, write_bytes=target.bytes),),
        sums,
        scalar_per_burst=SCALAR_CYCLES_PER_INDEX * spatial,
        extra_inputs=(),
    )
    coordinates = VectorWork(
        1,
        grid.elements,
        make_steps((("vmuls", 1), ("vadds", 1), ("vconv", 2), ("vmul", neighbours)), DType.FLOAT32),
        (Stream(Ref.of(grid)),),
        (),
    )
    work = SequenceWork((turned, coordinates, gathered), workspace_bytes=source.bytes)
    return WorkChoice((work, on_ai_cpu(node, float(neighbours))))


def _cann(node: Node) -> str:
    shape = node.required(0).shape
    return "GridSampler3D" if shape is not None and len(shape) == 5 else "GridSampler2D"


def _links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None or rank < 2:
        return NOTHING_SAID
    places = [("at", axis) for axis in range(rank - 2)]
    image = by_labels(node, {0: ("n", "c", *places)}, {0: ("n", "c", *places)}, dict.fromkeys(places, CHOSEN))
    return AxisMap(
        {**image.links, **by_labels(node, {1: ("n", *places, "xy")}, {0: ("n", "c", *places)}).links}
    )


OPERATORS = (
    OpDef(
        "GridSample",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        "GridSampler2D",
        cann_of=_cann,
        most_inputs=2,
        facts=movement(_links),
    ),
)
