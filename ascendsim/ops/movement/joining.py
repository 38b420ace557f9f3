"""Concat and Split: tensors side by side along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format, c0
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.shared.bursts import (
    cuts_whole_blocks,
    repacking,
    run_bytes,
    stored_axis,
)
from ascendsim.ops.shared.dims import (
    known_ints,
    merged,
    total,
    wrapped_axis,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import along
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    Slice,
    Step,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]


def _concat_infer(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), concat_shape(ctx, range(ctx.node.input_count)))


def concat_shape(ctx: InferContext, ports: Sequence[int]) -> Shape | None:
    """Shape of the tensors at some ports side by side; None if no rank is known.

    Raises:
        GraphError: If they do not fit together.
    """
    shapes = [ctx.shape(port) for port in ports]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise ctx.fail("needs inputs of one rank", [list(shape) for shape in known])
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), rank)
    dims: list[Dim] = list(known[0])
    for shape in known[1:]:
        dims = [
            merged(ctx, a, b) if number != axis else None
            for number, (a, b) in enumerate(zip(dims, shape, strict=True))
        ]
    dims[axis] = total(shape[axis] for shape in known) if len(known) == len(shapes) else None
    return tuple(dims)


def _concat(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    try:
        return [np.concatenate(inputs, axis=int(node.attr("axis", 0)), dtype=wanted[0])]
    except ValueError as error:
        raise GraphError(
            f"node {node.name!r} (Concat)", "needs inputs that fit together", str(error)
        ) from None


def _concat_lower(node: Node, _ctx: LowerContext) -> Work:
    """Each input is read as it lies; its rows land between those of the others unless the axis is the
    outermost.

    With the attribute `no_task`, inputs are slices of the output already: along the outermost axis any, else
    those from StridedWrite.
    """
    target = Ref.of(node.output)
    axis = int(node.attr("axis", 0)) % len(target.shape)
    if node.attr("no_task", 0) and (
        _outermost(node.output, axis) or all(_made_by(tensor, "StridedWrite") for tensor in node.inputs)
    ):
        slices = _slices_of(node.output, [tensor for tensor in node.inputs if tensor is not None], axis)
        if slices is not None:
            return NoTask(slices=slices)
    return concat_work(node, [tensor for tensor in node.inputs if tensor is not None])


def concat_work(node: Node, parts: Sequence[Tensor]) -> MoveWork | NoTask:
    """Parts carried to their places in the node's output, along the attribute `axis`."""
    target = Ref.of(node.output)
    axis = int(node.attr("axis", 0)) % len(target.shape)
    sources = [Ref.of(tensor) for tensor in parts]
    copies: list[Copy] = []
    steps: list[Step] = []
    for source in sources:
        stored, at = stored_axis(source, axis)
        outermost = math.prod(stored[:at]) == 1
        run = source.bytes if outermost else run_bytes(stored, at, source.dtype.itemsize)
        if source.bytes:
            copies.append(Copy(source, target, source.bytes, source.bytes, run))
            steps += [] if outermost else repacking(run, source.dtype)
    return MoveWork(tuple(copies), tuple(steps[:1])) if copies else NoTask()


def _made_by(tensor: Tensor | None, operator: str) -> bool:
    return tensor is not None and tensor.producer is not None and tensor.producer.op_type == operator


def _outermost(whole: Tensor, axis: int) -> bool:
    """Whether parts along the axis lie one behind the other."""
    return math.prod(whole.static_shape[:axis]) == 1


def _slices_of(whole: Tensor, parts: Sequence[Tensor], axis: int) -> tuple[Slice, ...] | None:
    """The parts as slices of the whole; None if the formats do not let them lie inside it."""
    blocked = whole.format is Format.NC1HWC0
    if any(part.format is not whole.format or part.dtype is not whole.dtype for part in parts):
        return None
    stacked = axis == 0 and (blocked or (whole.format is Format.FRACTAL_NZ and len(whole.static_shape) > 2))
    if whole.format not in (Format.ND, Format.NCHW) and not stacked and not (blocked and axis == 1):
        return None
    slices, first = [], 0
    for part in parts:
        if blocked and axis == 1 and first % c0(whole.element_type):
            return None
        slices.append(Slice(part.name, whole.name, axis, first))
        first += part.static_shape[axis]
    return tuple(slices)


def _concat_in_blocks(node: Node, format: Format) -> bool:
    if any(tensor is None or tensor.is_constant for tensor in node.inputs):  # constants stay row-major
        return False
    axis = int(node.attr("axis", 0)) % len(node.output.static_shape)
    return cuts_whole_blocks([tensor for tensor in node.inputs if tensor is not None], axis, format)


def split_sizes(ctx: InferContext, length: Dim) -> tuple[Dim, ...]:
    """Lengths of a Split's parts along its axis.

    Raises:
        GraphError: If they do not add up to `length`.
    """
    parts = len(ctx.node.outputs)
    if ctx.has(1):
        sizes = known_ints(ctx, 1)
        if sizes is None:
            return (None,) * parts
        if (
            len(sizes) != parts
            or min(sizes, default=0) < 0
            or (isinstance(length, int) and sum(sizes) != length)
        ):
            raise ctx.fail(f"needs {parts} sizes that add up to {length}", sizes)
        return sizes
    if not isinstance(length, int):
        return (length,) if parts == 1 else (None,) * parts
    count = int(ctx.node.attr("num_outputs", parts))
    if count < 1:
        raise ctx.fail("needs a positive number of outputs", count)
    chunk = -(-length // count)
    even = tuple(max(0, min(chunk, length - number * chunk)) for number in range(parts))
    if sum(even) != length:
        raise ctx.fail(f"cannot cut {length} elements into", f"{parts} outputs")
    return even


def _split_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is None:
        for index in range(len(ctx.node.outputs)):
            ctx.set(index, ctx.dtype(0), None)
        return
    axis = wrapped_axis(ctx, int(ctx.node.attr("axis", 0)), len(source))
    for index, size in enumerate(split_sizes(ctx, source[axis])):
        ctx.set(index, ctx.dtype(0), (*source[:axis], size, *source[axis + 1 :]))


def _split(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, axis = inputs[0], int(node.attr("axis", 0))
    length, parts = data.shape[axis], len(wanted)
    if len(inputs) > 1 and inputs[1] is not None:
        ends = np.cumsum(inputs[1])
    else:
        ends = np.minimum(
            np.arange(1, parts + 1) * -(-length // int(node.attr("num_outputs", parts))), length
        )
    if len(ends) != parts or ends[-1] != length:
        raise GraphError(
            f"node {node.name!r} (Split)",
            f"needs {parts} sizes that add up to {length}",
            np.diff(ends, prepend=0).tolist(),
        )
    return [part.copy() for part in np.split(data, ends[:-1], axis)]


def _split_lower(node: Node, _ctx: LowerContext) -> Work:
    """Parts are written one after the other.

    With the attribute `no_task` they stay where they are: along the outermost axis all, else those that
    StridedRead takes.
    """
    source = Ref.of(node.required(0))
    axis = int(node.attr("axis", 0)) % len(source.shape)
    strided = all(use.node.op_type == "StridedRead" for part in node.outputs for use in part.uses)
    if node.attr("no_task", 0) and (_outermost(node.required(0), axis) or strided):
        slices = _slices_of(node.required(0), node.outputs, axis)
        if slices is not None:
            return NoTask(slices=slices)
    copies: list[Copy] = []
    steps: list[Step] = []
    for target in (Ref.of(tensor) for tensor in node.outputs):
        stored, at = stored_axis(target, axis)
        outermost = math.prod(stored[:at]) == 1
        run = target.bytes if outermost else run_bytes(stored, at, target.dtype.itemsize)
        if target.bytes:
            copies.append(Copy(source, target, target.bytes, run, target.bytes))
            steps += [] if outermost else repacking(run, target.dtype)
    return MoveWork(tuple(copies), tuple(steps[:1])) if copies else NoTask()


def _split_in_blocks(node: Node, format: Format) -> bool:
    axis = int(node.attr("axis", 0)) % len(node.required(0).static_shape)
    return cuts_whole_blocks(node.outputs, axis, format)


def _split_type(node: Node) -> str:
    return "SplitD" if len({tensor.shape for tensor in node.outputs}) == 1 else "SplitVD"


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Concat",
        _concat_infer,
        _concat,
        _concat_lower,
        Layout.FOLLOW,
        "ConcatD",
        in_blocks=_concat_in_blocks,
        most_inputs=None,
        facts=movement(along(default=0, ports=()), kept=()),
    ),
    OpDef(
        "Split",
        _split_infer,
        _split,
        _split_lower,
        Layout.FOLLOW,
        cann_of=_split_type,
        in_blocks=_split_in_blocks,
        most_inputs=2,
        facts=movement(along(default=0), parameters=(1,), kept=(0,)),
    ),
)
