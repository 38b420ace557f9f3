"""BiasAddGrad (domain "ascend"): the sum of a gradient over everything but its channels.

Channels are the last axis, or axis 1 where `data_format` is "NCHW"; without `data_format` the last one, as in
CANN. The sum is float64, with one rounding into the gradient's type.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ascendsim.core.formats import BLOCK_BYTES, Format, ceil_div
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.normalise.normalisation_work import channel_split, summing_type
from ascendsim.ops.shared.common import on_ai_cpu, runs_on_ai_core, walking_shape, with_numpy
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork, Work


def _axis(node: Node, rank: int) -> int:
    """The axis of the channels."""
    return 1 if node.attr("data_format", "NHWC") == "NCHW" else rank - 1


def _infer(context: InferContext) -> None:
    written = context.node.attr("data_format", "NHWC")
    if written not in ("NHWC", "NCHW"):
        raise context.fail("needs data_format NHWC or NCHW", written)
    shape = context.shape(0)
    if shape is not None and len(shape) < 2:
        raise context.fail("needs a gradient of rank 2 or more", list(shape))
    result = (None,) if shape is None else (shape[_axis(context.node, len(shape))],)
    context.set(0, context.dtype(0), result)


def _sum(node: Node, gradient: Array) -> Array:
    kept = _axis(node, gradient.ndim)
    others = tuple(axis for axis in range(gradient.ndim) if axis != kept)
    return np.asarray(np.sum(gradient, axis=others, dtype=np.float64))


def _lower(node: Node, context: LowerContext) -> Work:
    """One sweep that adds up rows (or along them, where channels lie outside), in float32."""
    data, result = node.required(0), node.output
    if result.elements == 0:
        return NoTask()
    if data.elements == 0 or not runs_on_ai_core(node):
        return on_ai_cpu(node)
    rank = len(data.static_shape)
    rows, cols, over = _split(node, data.format, rank)
    inside = summing_type(data.element_type, context)
    steps = [Step("vadd" if over == "col" else "vcadd", inside)]
    if inside is not data.element_type:
        steps = [Step("vconv", inside), *steps, Step("vconv", inside, over)]
    ragged = data.format is Format.ND and over == "col" and cols * result.element_type.itemsize % BLOCK_BYTES
    apart = context.register_moves and ragged and rows > 1 and result.element_type.itemsize == 2
    # DMA does not add up float16, so that a core has some columns of all rows (blocks of [16, 100] to
    # [64, 100] on 30 cores: 7, of [64, 1001]: 30), and an instruction with a mask takes what it has of one
    if apart:
        run = max(BLOCK_BYTES // 2, ceil_div(cols, context.cores))
        steps = [replace(step, run=run) if step.over == "all" else step for step in steps]
    return VectorWork(
        rows,
        cols,
        tuple(steps),
        (Stream(Ref.of(data)),),
        (Stream(Ref.of(result), over),),
        reduces="rows" if over == "col" else "cols",
        overlaps=not (apart or (context.sums_in_turn and data.format is Format.FRACTAL_NZ)),
    )


def _split(node: Node, format: Format, rank: int) -> tuple[int, int, Over]:
    """Rows, columns, and where the channels are."""
    data = node.required(0)
    if format is Format.NC1HWC0 or _axis(node, rank) != rank - 1:
        return channel_split(data)
    shape = walking_shape(data)
    if shape[-1] == 1 and format is Format.ND:  # one row, which is added up along itself
        return 1, math.prod(shape), "row"
    return math.prod(shape[:-1]), shape[-1], "col"


def _in_blocks(node: Node, format: Format) -> bool:
    """Whether channels are columns of the blocks."""
    rank = len(node.required(0).static_shape)
    wanted = Format.NC1HWC0 if rank == 4 and _axis(node, rank) == 1 else Format.FRACTAL_NZ
    return format is wanted and (wanted is Format.NC1HWC0 or _axis(node, rank) == rank - 1)


def _links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    return NOTHING_SAID if rank is None else by_labels(node, {0: range(rank)}, {0: (_axis(node, rank),)})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "BiasAddGrad",
        _infer,
        with_numpy(_sum),
        _lower,
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK),
    ),
)
