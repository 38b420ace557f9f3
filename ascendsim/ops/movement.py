"""Affine movement: Transpose, Concat, Split, Slice, Expand, Tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format, c0
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.ops.bursts import (
    DUPLICATE,
    cuts_whole_blocks,
    repacking,
    run_bytes,
    stored_axis,
    transpose_work,
    vector_dtype,
)
from ascendsim.ops.common import broadcast_shapes, split_broadcast
from ascendsim.ops.dims import (
    known_ints,
    merged,
    total,
    unknown_shape,
    vector_length,
    wrapped_axes,
    wrapped_axis,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import shape_of
from ascendsim.opset.facts import movement
from ascendsim.opset.structure import along, along_axes, constant_ints, elementwise, permutation
from ascendsim.opset.work import (
    Copy,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    Slice,
    Step,
    Stream,
    VectorWork,
    Work,
)

Wanted = Sequence["np.dtype[Any]"]
# beyond, what one block of a source becomes would crowd UB, so the result is walked instead of the source
MOST_GROWTH = 256


def _permutation(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(node.attr("perm", tuple(reversed(range(rank)))))


def _transpose_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is None:
        ctx.set(
            0,
            ctx.dtype(0),
            unknown_shape(len(ctx.node.attr("perm"))) if "perm" in ctx.node.attributes else None,
        )
        return
    permutation = _permutation(ctx.node, len(source))
    if sorted(permutation) != list(range(len(source))):
        raise ctx.fail(f"needs perm to be an order of the {len(source)} axes", permutation)
    ctx.set(0, ctx.dtype(0), tuple(source[axis] for axis in permutation))


def _transpose(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [inputs[0].transpose(_permutation(node, inputs[0].ndim)).copy(order="C")]


def _transpose_lower(node: Node, ctx: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    return transpose_work(
        source, Ref.of(node.output), source.shape, _permutation(node, len(source.shape)), ctx
    )


def _concat_infer(ctx: InferContext) -> None:
    shapes = [ctx.shape(index) for index in range(ctx.node.input_count)]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        ctx.set(0, ctx.dtype(0), None)
        return
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
    ctx.set(0, ctx.dtype(0), tuple(dims))


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
    sources = [Ref.of(tensor) for tensor in node.inputs if tensor is not None]
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


def _slices(
    node: Node, shape: Sequence[int], starts: Any, ends: Any, axes: Any, steps: Any
) -> tuple[slice, ...]:
    """Python slices, one an axis, with ONNX's clamping."""
    result = [slice(0, dim, 1) for dim in shape]
    names = range(len(starts)) if axes is None else [int(axis) for axis in axes]
    for number, axis in enumerate(names):
        size, step = shape[axis], 1 if steps is None else int(steps[number])
        if step == 0:
            raise GraphError(f"node {node.name!r} (Slice)", "needs steps other than 0")
        start, end = int(starts[number]), int(ends[number])
        start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
        if step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
            result[axis] = slice(start, max(start, end), step)
        else:
            start, end = min(max(start, -1), size - 1), min(max(end, -1), size - 1)
            result[axis] = slice(start, None if end < 0 else end, step) if start >= 0 else slice(0, 0, 1)
    return tuple(result)


def _slice_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    starts, ends = known_ints(ctx, 1), known_ints(ctx, 2)
    axes, steps = known_ints(ctx, 3), known_ints(ctx, 4)
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    if ctx.has(3) and axes is None:
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source)))
        return
    if axes is None:
        count = len(starts) if starts is not None else vector_length(ctx, 1)
        axes = tuple(range(count if count is not None else len(source)))
    if starts is not None and any(
        values is not None and len(values) != len(starts) for values in (ends, axes, steps)
    ):
        raise ctx.fail("needs as many ends, axes and steps as starts", len(starts))
    dims: list[Dim] = list(source)
    for number, axis in enumerate(wrapped_axes(ctx, axes, len(source))):
        if starts is None or ends is None or (ctx.has(4) and steps is None):
            dims[axis] = None
            continue
        dims[axis] = _sliced(
            ctx, source[axis], starts[number], ends[number], 1 if steps is None else steps[number]
        )
    ctx.set(0, ctx.dtype(0), tuple(dims))


def _sliced(ctx: InferContext, dim: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(dim, int):
        return len(range(dim)[_slices(ctx.node, (dim,), (start,), (end,), None, (step,))[0]])
    if step == 1 and start == 0 and end >= 2**31 - 1:
        return dim
    return None


def _slice(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, starts, ends, axes, steps = (*inputs, None, None)[:5]
    return [data[_slices(node, data.shape, starts, ends, axes, steps)].copy(order="C")]


def _slice_lower(node: Node, ctx: LowerContext) -> Work:
    """Rows of the selected box; a step on the last axis reads whole spans and picks elements in UB."""
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    if target.bytes == 0:
        return NoTask()
    values = [
        tensor.constant.array()
        if tensor is not None and tensor.constant is not None and tensor.constant.available
        else None
        for tensor in node.inputs[1:]
    ]
    starts, ends, axes, steps = (*values, None, None)[:4]
    if starts is None or ends is None:
        run = run_bytes(target.shape, len(target.shape) - 1, target.dtype.itemsize)
        return MoveWork(
            (Copy(source, target, target.bytes, run, target.bytes),), repacking(run, target.dtype)
        )
    slices = _slices(node, source.shape, starts, ends, axes, steps)
    run, inner = target.dtype.itemsize, len(slices) - 1
    step = abs(slices[inner].step) if slices else 1
    if slices and slices[inner].step != 1:
        span = (target.shape[inner] - 1) * step * run + run
        rows = math.prod(target.shape[:inner])
        picking = vector_dtype(target.dtype)
        pick = Step(
            "vreducev2" if ctx.supports("vreducev2", picking) else "vgather", picking
        )  # patterns, else by index
        return MoveWork(
            (Copy(source, target, rows * span, span, target.bytes, write_bytes=target.bytes),), (pick,)
        )
    for axis in range(inner, -1, -1):
        run *= target.shape[axis]
        if target.shape[axis] != source.shape[axis]:
            break
    return MoveWork(
        (Copy(source, target, target.bytes, run, target.bytes),),
        repacking(run, target.dtype) if run < target.bytes else (),
    )


def _expand_infer(ctx: InferContext) -> None:
    source, target = ctx.shape(0), known_ints(ctx, 1)
    if source is None or target is None:
        length = vector_length(ctx, 1)
        ctx.set(
            0,
            ctx.dtype(0),
            None if source is None or length is None else unknown_shape(max(len(source), length)),
        )
        return
    if any(dim < 0 for dim in target):
        raise ctx.fail("needs sizes that are not negative", target)
    try:
        ctx.set(0, ctx.dtype(0), broadcast_shapes([source, target]))
    except GraphError:
        raise ctx.fail(
            "needs a shape that its input broadcasts to", f"{list(source)} -> {list(target)}"
        ) from None


def _expand(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    data, target = inputs[0], tuple(int(dim) for dim in inputs[1])
    try:
        return [np.broadcast_to(data, np.broadcast_shapes(data.shape, target)).copy(order="C")]
    except ValueError:
        raise GraphError(
            f"node {node.name!r} (Expand)",
            "needs a shape that its input broadcasts to",
            f"{data.shape} -> {target}",
        ) from None


def replicate_work(source: Ref, target: Ref, repeats: Sequence[int]) -> Work:
    """Work of repeating `source` along axes: read once, repeated in UB where the innermost repeat is not a
    whole block run.

    Args:
        source: What is repeated.
        target: The result.
        repeats: Repeats of each axis of the result's rank.
    """
    if target.bytes == 0:
        return NoTask()
    padded = (1,) * (len(repeats) - len(source.shape)) + source.shape
    if target.bytes > MOST_GROWTH * source.bytes:
        split = split_broadcast(target.shape, [padded])
        fill = Step(DUPLICATE, vector_dtype(source.dtype), count=max(1, source.dtype.itemsize // 4))
        return VectorWork(
            split.rows, split.cols, (fill,), (Stream(source, split.overs[0]),), (Stream(target),)
        )
    repeated = [axis for axis, count in enumerate(repeats) if count != 1]
    run = run_bytes(padded, repeated[-1], source.dtype.itemsize) if repeated else target.bytes
    steps: tuple[Step, ...] = ()
    if repeated and run <= source.dtype.itemsize:
        steps = (Step(DUPLICATE, vector_dtype(source.dtype)),)
    elif repeated and run < target.bytes:
        steps = repacking(run, source.dtype)
    return MoveWork(
        (Copy(source, target, source.bytes, source.bytes, target.bytes, write_bytes=target.bytes),), steps
    )


def _expand_lower(node: Node, _ctx: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    padded = (1,) * (len(target.shape) - len(source.shape)) + source.shape
    return replicate_work(
        source, target, [new // old if old else 1 for new, old in zip(target.shape, padded, strict=True)]
    )


def _tile_infer(ctx: InferContext) -> None:
    source, repeats = ctx.shape(0), known_ints(ctx, 1)
    if source is None or repeats is None:
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source) if source is not None else vector_length(ctx, 1)))
        return
    if len(repeats) != len(source) or any(count < 0 for count in repeats):
        raise ctx.fail(f"needs {len(source)} repeats that are not negative", repeats)
    dims: Shape = tuple(
        dim if count == 1 else dim * count if isinstance(dim, int) else 0 if count == 0 else None
        for dim, count in zip(source, repeats, strict=True)
    )
    ctx.set(0, ctx.dtype(0), dims)


def _tile(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    return [np.tile(inputs[0], inputs[1])]


def _tile_lower(node: Node, _ctx: LowerContext) -> Work:
    source, target = Ref.of(node.required(0)), Ref.of(node.output)
    return replicate_work(
        source,
        target,
        [new // old if old else 1 for new, old in zip(target.shape, source.shape, strict=True)],
    )


def _sliced_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """Axes that are cut; those of which everything is taken do not count."""
    starts, ends, steps = (constant_ints(node.input(port)) for port in (1, 2, 4))
    length, shape = shape_of(node, 1), shape_of(node, 0) or ()
    if not length or not isinstance(length[0], int):
        return None
    axes = tuple(range(length[0])) if node.input(3) is None else constant_ints(node.input(3))
    if axes is None:
        return None
    whole = [False] * len(axes)
    if starts is not None and ends is not None and (node.input(4) is None or steps is not None):
        sizes = [shape[axis] for axis in axes]
        whole = [
            start == 0 and step == 1 and isinstance(size, int) and end >= size
            for start, end, step, size in zip(starts, ends, steps or (1,) * len(axes), sizes, strict=True)
        ]
    return tuple([axis % rank for axis, everything in zip(axes, whole, strict=True) if not everything])


def _repeated_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    repeats = constant_ints(node.input(1))
    return (
        None
        if repeats is None or len(repeats) != rank
        else tuple([axis for axis, times in enumerate(repeats) if times != 1])
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Transpose",
        _transpose_infer,
        _transpose,
        _transpose_lower,
        cann="TransposeD",
        facts=movement(permutation(_permutation)),
    ),
    OpDef(
        "Concat",
        _concat_infer,
        _concat,
        _concat_lower,
        Layout.FOLLOW,
        "ConcatD",
        in_blocks=_concat_in_blocks,
        facts=movement(along(default=0, ports=())),
    ),
    OpDef(
        "Split",
        _split_infer,
        _split,
        _split_lower,
        Layout.FOLLOW,
        cann_of=_split_type,
        in_blocks=_split_in_blocks,
        facts=movement(along(default=0), parameters=(1,)),
    ),
    OpDef(
        "Slice",
        _slice_infer,
        _slice,
        _slice_lower,
        cann="StridedSliceD",
        facts=movement(along_axes(_sliced_axes), parameters=(1, 2, 3, 4)),
    ),
    OpDef(
        "Expand",
        _expand_infer,
        _expand,
        _expand_lower,
        cann="ExpandD",
        facts=movement(elementwise(0), parameters=(1,), shape_port=1),
    ),
    OpDef(
        "Tile",
        _tile_infer,
        _tile,
        _tile_lower,
        cann="TileD",
        facts=movement(along_axes(_repeated_axes), parameters=(1,)),
    ),
)
