"""Operators that keep the elements and change what they are called: Reshape, Flatten, Squeeze, Unsqueeze,
Identity, Dropout, Shape, Size.

Their result is the input's memory (compute may return views), so they ask for no task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.shared.bursts import filling, moving
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.ops.shared.dims import (
    known_ints,
    need_vectors,
    product,
    ratio,
    unknown_shape,
    vector_length,
    wrapped_axes,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision, movement
from ascendsim.opset.structure import constant_ints, elementwise, regrouping, unread
from ascendsim.opset.work import Copy, LowerContext, MoveWork, NoTask, Ref, Work

Wanted = Sequence["np.dtype[Any]"]


def _alias(node: Node, _ctx: LowerContext) -> NoTask:
    return NoTask(((node.output.name, node.required(0).name),))


def _reshape_infer(ctx: InferContext) -> None:
    need_vectors(ctx, (1,))
    source, target = ctx.shape(0), known_ints(ctx, 1)
    if target is None:
        ctx.set(0, ctx.dtype(0), unknown_shape(vector_length(ctx, 1)))
        return
    ctx.set(0, ctx.dtype(0), _reshaped(ctx, source, target, bool(ctx.node.attr("allowzero", 0))))


def _reshaped(ctx: InferContext, source: Shape | None, target: tuple[int, ...], allow_zero: bool) -> Shape:
    if (
        any(dim < -1 for dim in target)
        or target.count(-1) > 1
        or (allow_zero and 0 in target and -1 in target)
    ):
        raise ctx.fail("needs a shape of sizes with at most one -1", target)
    dims: list[Dim] = []
    for axis, dim in enumerate(target):
        if dim != 0 or allow_zero:
            dims.append(dim)
        elif source is None:
            dims.append(None)
        elif axis < len(source):
            dims.append(source[axis])
        else:
            raise ctx.fail("can copy only dimensions that its input has", target)
    if source is None:
        return tuple(None if dim == -1 else dim for dim in dims)
    if -1 in dims:
        at = dims.index(-1)
        others = dims[:at] + dims[at + 1 :]
        dims[at] = ratio(source, others)
        if dims[at] is None and all(isinstance(dim, int) for dim in (*source, *others)):
            raise ctx.fail(f"cannot fit {math.prod(source)} elements into shape", target)  # type: ignore[arg-type]
    before, after = product(source), product(dims)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        raise ctx.fail(
            "must keep the number of elements",
            f"{before} -> {after} (shape {list(target)})",
            "correct the shape input",
        )
    return tuple(dims)


def _reshape(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, allow_zero = inputs[0], bool(node.attr("allowzero", 0))
    target = [int(dim) for dim in inputs[1].reshape(-1)]
    if not allow_zero:
        target = [
            data.shape[axis] if dim == 0 and axis < data.ndim else dim for axis, dim in enumerate(target)
        ]
    if -1 in target and math.prod(dim for dim in target if dim != -1) == 0:
        target[target.index(-1)] = 0
    try:
        return [data.reshape(target)]
    except ValueError:
        raise GraphError(
            f"node {node.name!r} (Reshape)", "must keep the number of elements", f"{data.shape} -> {target}"
        ) from None


def _flatten_axis(node: Node, rank: int) -> int:
    axis = int(node.attr("axis", 1))
    if not -rank <= axis <= rank:
        raise GraphError(f"node {node.name!r} (Flatten)", f"needs an axis from {-rank} to {rank}", axis)
    return axis + rank if axis < 0 else axis


def _flatten_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is None:
        ctx.set(0, ctx.dtype(0), (None, None))
        return
    axis = _flatten_axis(ctx.node, len(source))
    ctx.set(0, ctx.dtype(0), (product(source[:axis]), product(source[axis:])))


def _flatten(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data = inputs[0]
    axis = _flatten_axis(node, data.ndim)
    return [data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))]


def _squeeze_infer(ctx: InferContext) -> None:
    source, axes = ctx.shape(0), known_ints(ctx, 1)
    if source is None or (ctx.has(1) and axes is None):
        length = vector_length(ctx, 1) if ctx.has(1) else None
        ctx.set(
            0, ctx.dtype(0), None if source is None or length is None else unknown_shape(len(source) - length)
        )
        return
    if not axes:  # onnxruntime takes an empty list for none
        known = all(isinstance(dim, int) for dim in source)
        ctx.set(0, ctx.dtype(0), tuple(dim for dim in source if dim != 1) if known else None)
        return
    dropped = wrapped_axes(ctx, axes, len(source))
    for axis in dropped:
        if isinstance(source[axis], int) and source[axis] != 1:
            raise ctx.fail("can drop only axes of size 1", f"axis {axis} of {list(source)}")
    ctx.set(0, ctx.dtype(0), tuple(dim for axis, dim in enumerate(source) if axis not in dropped))


def _squeeze(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data = inputs[0]
    if len(inputs) < 2 or inputs[1] is None or not inputs[1].size:
        return [data.reshape([dim for dim in data.shape if dim != 1])]
    axes = {int(axis) % data.ndim for axis in inputs[1].reshape(-1)} if data.ndim else set()
    if any(data.shape[axis] != 1 for axis in axes):
        raise GraphError(
            f"node {node.name!r} (Squeeze)",
            "can drop only axes of size 1",
            f"axes {sorted(axes)} of {data.shape}",
        )
    return [data.reshape([dim for axis, dim in enumerate(data.shape) if axis not in axes])]


def _unsqueeze_infer(ctx: InferContext) -> None:
    source, axes = ctx.shape(0), known_ints(ctx, 1)
    if source is None or axes is None:
        length = vector_length(ctx, 1)
        ctx.set(
            0, ctx.dtype(0), None if source is None or length is None else unknown_shape(len(source) + length)
        )
        return
    added = wrapped_axes(ctx, axes, len(source) + len(axes))
    rest = iter(source)
    ctx.set(
        0, ctx.dtype(0), tuple(1 if axis in added else next(rest) for axis in range(len(source) + len(axes)))
    )


def _unsqueeze(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, axes = inputs
    rank = data.ndim + axes.size
    added = {int(axis) % rank for axis in axes.reshape(-1)}
    rest = iter(data.shape)
    return [data.reshape([1 if axis in added else next(rest) for axis in range(rank)])]


def _identity_infer(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), ctx.shape(0))


def _identity(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [inputs[0]]


def _dropout_infer(ctx: InferContext) -> None:
    for port, what in ((1, "ratio"), (2, "training mode")):
        if ctx.has(port) and ctx.shape(port) not in (None, ()):
            raise ctx.fail(
                f"needs a scalar as its {what} (input {port})", f"shape {list(ctx.shape(port) or ())}"
            )
    ctx.set(0, ctx.dtype(0), ctx.shape(0))
    ctx.set(1, DType.BOOL, ctx.shape(0))


def _dropout_ratio(node: Node, ratio: Any, training: Any) -> float:
    """Share of elements that are dropped: 0 unless training mode is on."""
    if training is None or not bool(np.asarray(training).item()):
        return 0.0
    share = 0.5 if ratio is None else float(np.asarray(ratio).item())
    if not 0 <= share < 1:
        raise GraphError(f"node {node.name!r} (Dropout)", "needs a ratio in [0, 1)", share)
    return share


def _dropout(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, rate, training = (*inputs, None, None)[:3]
    share = _dropout_ratio(node, rate, training)
    if share == 0:
        return [data, np.ones(data.shape, np.bool_)][: len(wanted)]
    # the ONNX reference draws so
    draws = np.random.RandomState(int(node.attr("seed", 0))).uniform(0, 1, data.shape)
    mask = draws >= share
    return [finish(mask * as_float32(data) * (1 / (1 - share)), wanted[0]), mask][: len(wanted)]


def _dropout_lower(node: Node, ctx: LowerContext) -> Work:
    """In inference the data stay in place and a mask, if somebody reads it, is filled with ones; in training
    the mask is a third stream.
    """
    data, result = Ref.of(node.required(0)), Ref.of(node.output)
    if data.bytes == 0:
        return NoTask()
    training = node.input(2)
    trains = training is not None and not (
        training.constant is not None and training.constant.available and not training.constant.array().any()
    )
    masks = [
        Ref.of(tensor)
        for tensor in node.outputs[1:]
        if tensor.uses or (node.graph is not None and tensor in node.graph.outputs)
    ]
    if not trains and not masks:
        return _alias(node, ctx)
    copies = [Copy(data, result, data.bytes, data.bytes, result.bytes)]
    copies += [Copy(data, mask, 0, data.bytes, mask.bytes, write_bytes=mask.bytes) for mask in masks]
    return MoveWork(tuple(copies), (filling(DType.BOOL), *((moving(data.dtype),) if trains else ())))


def _shape_slice(node: Node, rank: int) -> slice:
    start, end = int(node.attr("start", 0)), node.attr("end")
    clamp = [
        min(max(bound + rank if bound < 0 else bound, 0), rank)
        for bound in (start, rank if end is None else int(end))
    ]
    return slice(clamp[0], max(clamp))


def _shape_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    ctx.set(
        0, DType.INT64, (None,) if source is None else (len(source[_shape_slice(ctx.node, len(source))]),)
    )


def _shape(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [np.array(inputs[0].shape[_shape_slice(node, inputs[0].ndim)], np.int64)]


def _size_infer(ctx: InferContext) -> None:
    ctx.set(0, DType.INT64, ())


def _size(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [np.array(inputs[0].size, np.int64)]


def _constant_result(_node: Node, _ctx: LowerContext) -> NoTask:
    return NoTask()  # shapes are static when a graph is lowered


def _dropout_links(node: Node) -> AxisMap:
    """Element by element in inference; in training what is dropped depends on the place."""
    training = node.input(2)
    values = None if training is None else constant_ints(training)
    return (
        elementwise(0)(node) if training is None or (values is not None and not any(values)) else NOTHING_SAID
    )


_REGROUPED = movement(regrouping(), parameters=(1,), kept=(0,))

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Reshape",
        _reshape_infer,
        _reshape,
        _alias,
        most_inputs=2,
        facts=replace(_REGROUPED, shape_port=1),
    ),
    OpDef("Flatten", _flatten_infer, _flatten, _alias, facts=movement(regrouping(), kept=(0,))),
    OpDef("Squeeze", _squeeze_infer, _squeeze, _alias, most_inputs=2, facts=_REGROUPED),
    OpDef(
        "Unsqueeze",
        _unsqueeze_infer,
        _unsqueeze,
        _alias,
        mindspore="ExpandDims",
        most_inputs=2,
        facts=_REGROUPED,
    ),
    OpDef(
        "Identity",
        _identity_infer,
        _identity,
        _alias,
        Layout.FOLLOW,
        facts=movement(elementwise(), pattern=OpPattern.OPAQUE, kept=(0,)),
    ),
    OpDef(
        "Dropout",
        _dropout_infer,
        _dropout,
        _dropout_lower,
        Layout.FOLLOW,
        foldable=False,
        most_inputs=3,
        facts=Facts(
            _dropout_links, Kind.ELEMENTWISE, Precision.GRAY, pattern=OpPattern.OPAQUE, parameters=(1, 2)
        ),
    ),
    OpDef("Shape", _shape_infer, _shape, _constant_result, facts=movement(unread())),
    OpDef("Size", _size_infer, _size, _constant_result, facts=movement(unread())),
)
