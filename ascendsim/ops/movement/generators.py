"""Tensors made from little: ConstantOfShape, Range, EyeLike, OneHot, HannWindow, HammingWindow,
BlackmanWindow, AffineGrid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.bursts import SCALAR_CYCLES_PER_INDEX, fill_work, filling, vector_dtype
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu
from ascendsim.ops.shared.dims import (
    known_ints,
    need_numbers,
    need_shape,
    need_vectors,
    unknown_shape,
    vector_length,
    wrapped_axis,
)
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, Label, by_labels, rank_of
from ascendsim.opset.definition import Compute
from ascendsim.opset.facts import Facts, Kind, Precision, movement
from ascendsim.opset.steps import REGISTER, Step
from ascendsim.opset.structure import opaque, unread
from ascendsim.opset.work import (
    LowerContext,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    Stream,
    VectorWork,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]


def dtype_attribute(node: Node, name: str, default: DType) -> DType:
    """An element type given by an attribute, or the default if the attribute is left out."""
    value = node.attr(name)
    return value if isinstance(value, DType) else default


def _fill_lower(node: Node, _ctx: LowerContext) -> Work:
    return fill_work(Ref.of(node.output))


def _fill_value(node: Node) -> Array:
    value = node.attr("value")
    return np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(-1)


def _constant_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (0,))
    shape = known_ints(ctx, 0)
    if shape is not None and any(dim < 0 for dim in shape):
        raise ctx.fail("needs sizes that are not negative", shape)
    ctx.set(
        0,
        DType.of(_fill_value(ctx.node).dtype),
        shape if shape is not None else unknown_shape(vector_length(ctx, 0)),
    )


def _constant(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [np.full([int(dim) for dim in inputs[0].reshape(-1)], _fill_value(node), wanted[0])]


def _range_infer(ctx: InferContext) -> None:
    need_numbers(ctx, range(3))
    start, limit, delta = (ctx.value(index) for index in range(3))
    if start is None or limit is None or delta is None:
        ctx.set(0, ctx.dtype(0), (None,))
        return
    ctx.set(0, ctx.dtype(0), (range_length(ctx.node, start, limit, delta),))


def range_length(node: Node, start: Array, limit: Array, delta: Array) -> int:
    """max(0, ceil((limit - start) / delta)).

    Raises:
        GraphError: If delta is 0.
    """
    first, last, step = (array.item() for array in (start, limit, delta))
    if step == 0:
        raise GraphError(f"node {node.name!r} (Range)", "needs a delta other than 0")
    if isinstance(step, int):
        return int(max(0, -((first - last) // step)))
    return int(max(0, math.ceil((last - first) / step)))


def _range(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    start, limit, delta = inputs
    wide = as_float32(np.asarray(start).reshape(-1))[0], as_float32(np.asarray(delta).reshape(-1))[0]
    values = wide[0] + np.arange(range_length(node, start, limit, delta)).astype(wide[1].dtype) * wide[1]
    return [finish(values, wanted[0])]


def _range_lower(node: Node, _ctx: LowerContext) -> Work:
    """A first block of indices, then vadds doubles it."""
    return fill_work(Ref.of(node.output))


def _eye_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None and len(source) != 2:
        raise ctx.fail("needs a matrix", list(source))
    ctx.set(0, dtype_attribute(ctx.node, "dtype", ctx.dtype(0)), source)


def _eye(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    rows, cols = inputs[0].shape
    return [np.eye(rows, cols, int(node.attr("k", 0)), dtype=wanted[0])]


def _eye_lower(node: Node, _ctx: LowerContext) -> Work:
    target = Ref.of(node.output)
    fill = fill_work(target)
    if isinstance(fill, NoTask):
        return fill
    diagonal = ScalarWork(min(target.shape), SCALAR_CYCLES_PER_INDEX, (), (target,))
    return SequenceWork((fill, diagonal)) if isinstance(fill, VectorWork) else fill


def _one_hot_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (1,))
    indices, depth = ctx.shape(0), known_ints(ctx, 1)
    need_shape(ctx, 2, (2,))
    if indices is None:
        ctx.set(0, ctx.dtype(2), None)
        return
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", -1)), len(indices) + 1)
    size: Dim = None if depth is None else depth[0]
    ctx.set(0, ctx.dtype(2), (*indices[:axis], size, *indices[axis:]))


def _one_hot(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    indices, size, values = inputs
    depth = int(np.asarray(size).item())
    axis = int(node.attr("axis", -1)) % (indices.ndim + 1)
    if np.issubdtype(indices.dtype, np.signedinteger) or np.issubdtype(indices.dtype, np.floating):
        indices = np.where(indices < 0, indices + depth, indices)  # out of [-depth, depth) stays all "off"
    line = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - axis))
    return [np.where(np.expand_dims(indices, axis) == line, values[1], values[0])]


def _one_hot_lower(node: Node, ctx: LowerContext) -> Work:
    indices, target = Ref.of(node.required(0)), Ref.of(node.output)
    fill = fill_work(target)
    if not isinstance(fill, VectorWork):
        return fill
    last = int(node.attr("axis", -1)) % len(target.shape) == len(target.shape) - 1
    if ctx.register_moves and last and indices.shape:
        return _hot_rows(node, indices, target, ctx)
    return SequenceWork(
        (fill, ScalarWork(max(1, math.prod(indices.shape)), SCALAR_CYCLES_PER_INDEX, (indices,), (target,)))
    )


def _hot_rows(node: Node, indices: Ref, target: Ref, ctx: LowerContext) -> VectorWork:
    """Rows of the value for "off", in each of which the scalar unit stores the other one: OneHotD of static
    shapes, which takes as many cores as divide the first axis, if each has a block of 32 B to store (opp,
    one_hot_d.py).
    """
    rows, depth = math.prod(indices.shape), target.shape[-1]
    parts = next(n for n in range(ctx.cores, 0, -1) if indices.shape[0] % n == 0)
    if target.bytes // parts < BLOCK_BYTES:
        parts = 1
    steps = (filling(target.dtype), Step(REGISTER, vector_dtype(target.dtype), "row"))
    values = Ref.of(node.required(2))
    inputs = (Stream(indices, "row"), Stream(values, "one"))
    return VectorWork(rows, depth, steps, inputs, (Stream(target),), blocks=parts)


def _window_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (0,))
    size = known_ints(ctx, 0)
    if size is not None and size[0] < 0:
        raise ctx.fail("needs a size that is not negative", size[0])
    ctx.set(
        0, dtype_attribute(ctx.node, "output_datatype", DType.FLOAT32), (None if size is None else size[0],)
    )


def _window(coefficients: Sequence[float]) -> Compute:
    """Sum of (-1)^j * c_j * cos(2 pi j n / N), N = size (periodic) or size - 1 (symmetric)."""

    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
        size = int(np.asarray(inputs[0]).item())
        period = size if node.attr("periodic", 1) else size - 1
        angle = 2 * np.pi * np.arange(size) / max(1, period)
        values = sum((-1) ** order * c * np.cos(order * angle) for order, c in enumerate(coefficients))
        return [np.asarray(values).astype(wanted[0])]

    return compute


def _cosine_lower(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node, 20)


def _affine_grid_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1,))
    size = known_ints(ctx, 1)
    if size is None:
        length = vector_length(ctx, 1)
        ctx.set(0, ctx.dtype(0), unknown_shape(length))
    elif len(size) not in (4, 5):
        raise ctx.fail("needs a size of 4 or 5 numbers", size)
    else:
        need_shape(ctx, 0, (size[0], len(size) - 2, len(size) - 1))
        ctx.set(0, ctx.dtype(0), (size[0], *size[2:], len(size) - 2))


def _affine_grid(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    """Parameters theta (N, d, d + 1) applied to the homogeneous positions of an evenly spaced grid over [-1,
    1].
    """
    theta, size = as_float32(inputs[0]), [int(dim) for dim in inputs[1]]
    spatial = size[2:]
    axes = []
    for length in spatial:
        line = (
            np.linspace(-1, 1, length)
            if node.attr("align_corners", 0)
            else (2 * np.arange(length) + 1) / length - 1
        )
        axes.append(line if length > 1 else np.zeros(1))
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*reversed(mesh), np.ones(spatial)], axis=-1).astype(theta.dtype)
    grid = points.reshape(-1, len(spatial) + 1) @ theta.transpose(0, 2, 1)
    return [finish(grid.reshape(size[0], *spatial, len(spatial)), wanted[0])]


def _affine_grid_lower(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node, 2.0 * (node.required(0).static_shape[-1]))


_WINDOW = Facts(opaque(), Kind.ELEMENTWISE, Precision.GRAY, parameters=(0,))


def _make_window(name: str, coefficients: Sequence[float]) -> OpDef:
    return OpDef(name, _window_infer, _window(coefficients), _cosine_lower, facts=_WINDOW)


def _one_hot_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    if rank is None:
        return NOTHING_SAID
    labels: list[Label] = list(range(rank))
    labels.insert(int(node.attr("axis", -1)) % (rank + 1), "class")
    return by_labels(node, {0: range(rank)}, {0: labels})


def _affine_links(node: Node) -> AxisMap:
    result = node.output.shape
    if result is None:
        return NOTHING_SAID
    return by_labels(
        node, {0: ("n", "xy", "k")}, {0: ("n", *(("at", axis) for axis in range(len(result) - 2)), "xy")}
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ConstantOfShape",
        _constant_infer,
        _constant,
        _fill_lower,
        cann="FillD",
        facts=movement(opaque(), parameters=(0,), shape_port=0),
    ),
    OpDef(
        "Range",
        _range_infer,
        _range,
        _range_lower,
        cann="RangeD",
        most_inputs=3,
        facts=Facts(opaque(), Kind.ELEMENTWISE, Precision.GRAY, parameters=(0, 1, 2)),
    ),
    OpDef("EyeLike", _eye_infer, _eye, _eye_lower, cann="Eye", facts=movement(unread())),
    OpDef(
        "OneHot",
        _one_hot_infer,
        _one_hot,
        _one_hot_lower,
        cann="OneHotD",
        most_inputs=3,
        facts=movement(_one_hot_links, parameters=(1,), indices=(0,)),
    ),
    OpDef(
        "AffineGrid",
        _affine_grid_infer,
        _affine_grid,
        _affine_grid_lower,
        most_inputs=2,
        facts=Facts(_affine_links, Kind.ELEMENTWISE, Precision.GRAY, parameters=(1,)),
    ),
    _make_window("HannWindow", (0.5, 0.5)),
    _make_window("HammingWindow", (25 / 46, 21 / 46)),
    _make_window("BlackmanWindow", (0.42, 0.5, 0.08)),
)
