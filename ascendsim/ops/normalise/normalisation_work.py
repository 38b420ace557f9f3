"""Vector work of the normalisations: which instructions run on every element, on one value a row, on one
value a channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, Format, c0
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.normalise.softmax import axis_work
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    elementwise_work,
    in_turn,
    make_steps,
    normalise_axes,
    on_ai_cpu,
    runs_on_ai_core,
    split_broadcast,
    walking_shape,
)
from ascendsim.opset.expansion import Writer
from ascendsim.opset.work import LowerContext, Maps, NoTask, Over, Ref, Step, Stream, VectorWork, Work

_AI_CPU_OPERATIONS = 8.0  # subtract, square, add, root, divide, scale, shift, store


def channel_split(data: Tensor) -> tuple[int, int, Over]:
    """Rows, columns and the place of one value a channel: a column in blocked storage, a row of the plane
    else.
    """
    shape = walking_shape(data)
    if len(shape) == 2 or (data.format is Format.NC1HWC0 and len(shape) == 4):
        return math.prod(shape[:-1]), shape[-1], "col"
    return shape[0] * shape[1], math.prod(shape[2:]), "row"


def maps_of(data: Tensor, split: Literal["images", "images or blocks", "sums"]) -> Maps | None:
    """How the rows and columns of `channel_split` are feature maps; None where data is row-major."""
    if data.format is not Format.NC1HWC0 or len(data.static_shape) != 4 or not data.elements:
        return None
    _, cols, _ = channel_split(data)
    return Maps(data.static_shape[0], cols // c0(data.element_type), split)


def summing_type(dtype: DType, context: LowerContext) -> DType:
    """The type of sums over a batch, whose squares leave the range of float16: float32 wherever the chip adds
    it.
    """
    return DType.FLOAT32 if context.supports("vadd", DType.FLOAT32) else computing_type(dtype, context)


def batch_norm_lower(node: Node, context: LowerContext) -> Work:
    """Factor and offset of each channel from its four parameters, then one multiply and one add on every
    element.

    In training mode the statistics come first: sums of x and of x^2 over everything but the channel.
    """
    data, target = node.required(0), node.output
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, _AI_CPU_OPERATIONS)
    rows, cols, over = channel_split(data)
    inside = computing_type(data.element_type, context)
    factor = make_steps(["vadds", "vsqrt", "vdiv", "vmul", "vsub"], inside, over)
    training = bool(node.attr("training_mode", 0))
    statistics = (
        make_steps(
            ["vadd" if over == "col" else "vcadd", "vmul", "vadd" if over == "col" else "vcadd"], inside
        )
        if training
        else ()
    )
    steps = converted(
        statistics + factor + make_steps(["vmul", "vadd"], inside),
        [data.element_type],
        target.element_type,
        inside,
    )
    parameters = tuple(Stream(Ref.of(node.required(index)), over) for index in range(1, 5))
    outputs = (Stream(Ref.of(target)), *(Stream(Ref.of(tensor), over) for tensor in node.outputs[1:]))
    return VectorWork(
        rows,
        cols,
        steps,
        (Stream(Ref.of(data)), *parameters),
        outputs,
        reduces=("rows" if over == "col" else "cols") if training else "none",
        sweeps=2 if training else 1,
    )


def rows_work(
    node: Node,
    context: LowerContext,
    rows: int,
    cols: int,
    *,
    statistics: Sequence[Step],
    tail: Sequence[StepSpec],
    overs: Sequence[Over],
) -> Work:
    """Rows that are normalised as a whole: statistics, then `tail` on every element; parameters lie as
    `overs` says.
    """
    data, target = node.required(0), node.output
    inside = computing_type(data.element_type, context, wide=True)
    steps = converted(
        (*statistics, *make_steps(tail, inside)), [data.element_type], target.element_type, inside
    )
    tensors = [tensor for tensor in node.inputs[1:] if tensor is not None]
    parameters = tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, overs, strict=True))
    outputs = (Stream(Ref.of(target)), *(Stream(Ref.of(tensor), "row") for tensor in node.outputs[1:]))
    return VectorWork(
        rows,
        cols,
        steps,
        (Stream(Ref.of(data)), *parameters),
        outputs,
        reduces="cols",
        sweeps=3,
        in_turn=in_turn(data, context),
    )


def row_statistics(
    node: Node, context: LowerContext, centred: bool, by_number: bool = False
) -> tuple[Step, ...]:
    """Mean of a row, its subtraction, mean of squares, 1 / root, product; this one by a number in a register
    (`by_number`) where rows are gone through one by one.
    """
    inside = computing_type(node.required(0).element_type, context, wide=True)
    mean = (
        (*make_steps(["vcadd"], inside), *make_steps(["vmuls"], inside, "row"), *make_steps(["vsub"], inside))
        if centred
        else ()
    )
    spread = (
        *make_steps(["vmul", "vcadd"], inside),
        *make_steps(["vmuls", "vadds", "vsqrt", "vrec"], inside, "row"),
    )
    return (*mean, *spread, *make_steps(["vmuls" if by_number else "vmul"], inside))


def layer_norm_lower(node: Node, context: LowerContext) -> Work:
    """Layer and root-mean-square normalisation over the axes from `axis` on; scale and bias are one value a
    column.
    """
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, _AI_CPU_OPERATIONS)
    shape = walking_shape(data)
    axis = int(node.attr("axis", -1)) % len(data.static_shape) if data.format is not Format.NC1HWC0 else 1
    centred = node.op_type == "LayerNormalization"
    tail: list[StepSpec] = ["vmul"] if node.input(2) is None else ["vmul", "vadd"]
    rows, cols = math.prod(shape[:axis]), math.prod(shape[axis:])
    overs = split_broadcast(
        (rows, cols),
        [(1, cols) if tensor.elements > 1 else (1,) for tensor in node.inputs[1:] if tensor is not None],
    ).overs
    statistics = row_statistics(node, context, centred, by_number=not centred and rows_apart(cols))
    work = rows_work(node, context, rows, cols, statistics=statistics, tail=tail, overs=overs)
    return work if centred else root_norm_kernel(work)


# Rows up to this length are normalised many at a time, longer ones one by one (ops-nn, rms_norm_tiling.cpp:
# SMALL_REDUCE_NUM; the kernels with a sum before have the same)
SHORT_ROW = 2000


def rows_apart(cols: int) -> bool:
    """Whether CANN's kernels of root-mean-square normalisation go through rows one by one."""
    return cols > SHORT_ROW


def root_norm_kernel(work: Work) -> Work:
    """Work of root-mean-square normalisation as CANN's kernels do it: rows go to all cores, and queues have
    one buffer (BUFFER_NUM in the same file). That of long rows is free as soon as a row is converted, so that
    the next row comes while this one is worked on. Short rows that fill no whole blocks are padded on the way
    (rms_norm_merge_n.h).
    """
    if not isinstance(work, VectorWork):
        return work
    in_turn = work.in_turn or rows_apart(work.cols)
    pads = not in_turn and work.cols * work.inputs[0].ref.dtype.itemsize % BLOCK_BYTES != 0
    return replace(work, in_turn=in_turn, cores="shares", overlaps=in_turn, pads_rows=pads)


def channel_norm_lower(node: Node, context: LowerContext) -> Work:
    """Group and instance normalisation: a row is a group; scale and bias are one value a channel, that is a
    few a row.
    """
    data = node.required(0)
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, _AI_CPU_OPERATIONS)
    shape = data.static_shape
    groups = shape[1] if node.op_type == "InstanceNormalization" else int(node.attr("num_groups"))
    rows = shape[0] * groups
    return rows_work(
        node,
        context,
        rows,
        data.elements // rows,
        statistics=row_statistics(node, context, centred=True),
        tail=["vmul", "vadd"],
        overs=("row", "row"),
    )


def local_response_lower(node: Node, context: LowerContext) -> Work:
    """Squares, a sum over `size` channels, and (bias + alpha / size * sum) ^ -beta as e^(-beta ln(..))."""
    size = int(node.attr("size"))
    return elementwise_work(
        node,
        context,
        ["vmul", ("vadd", max(1, size - 1)), "vmuls", "vadds", "vln", "vmuls", "vexp", "vmul"],
        wide=True,
    )


def lp_norm_lower(node: Node, context: LowerContext) -> Work:
    """Norm of a row, then a division by it."""
    first: tuple[StepSpec, ...] = ("vabs",) if int(node.attr("p", 2)) == 1 else ("vmul",)
    return axis_work(node, context, (("vcadd", "vadd"),), (first, ("vdiv",)), sweeps=2)


def mean_variance_lower(node: Node, context: LowerContext) -> Work:
    """Mean and variance over some axes, as a reduction over rows or columns with two sums."""
    data, target = node.required(0), node.output
    if data.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, _AI_CPU_OPERATIONS)
    shape = data.static_shape
    axes = normalise_axes(node.attr("axes", (0, 2, 3)), len(shape), f"axes of node {node.name!r}")
    kept = math.prod(size for axis, size in enumerate(shape) if axis not in axes)
    run = math.prod(
        shape[axis] for axis in range(len(shape)) if all(later in axes for later in range(axis, len(shape)))
    )
    inside = computing_type(data.element_type, context, wide=True)
    steps = converted(
        row_statistics(node, context, centred=True), [data.element_type], target.element_type, inside
    )
    cols = data.elements // kept
    gather = 0 if run == cols else run * data.element_type.itemsize
    return VectorWork(
        kept,
        cols,
        steps,
        (Stream(Ref.of(data)),),
        (Stream(Ref.of(target)),),
        reduces="cols",
        sweeps=3,
        gather_bytes=gather,
    )


def layer_norm_written_out(w: Writer) -> Tensor | None:
    """Mean and variance over the last axes, then scale and shift; only where nobody reads mean and
    deviation.
    """
    axis = w.axis()
    if axis is None or any(tensor.uses for tensor in w.node.outputs[1:]):
        return None
    x = w.wide(w(0))
    shape = x.static_shape
    axes = list(range(axis, len(shape)))
    part = 1.0 / math.prod(shape[axis:])
    centred = w.op("Sub", x, w.op("Mul", w.op("ReduceSum", x, axes, keepdims=1), part))
    variance = w.op("Mul", w.op("ReduceSum", w.op("Mul", centred, centred), axes, keepdims=1), part)
    deviation = w.op("Sqrt", w.op("Add", variance, float(w.node.attr("epsilon", 1e-5))))
    result = w.op("Mul", w.op("Div", centred, deviation), w.wide(w(1)))
    if w.node.input(2) is not None:
        result = w.op("Add", result, w.wide(w(2)))
    return w.like_output(result)
