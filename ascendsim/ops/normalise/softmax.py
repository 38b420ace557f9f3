"""Softmax, LogSoftmax and Hardmax along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import saturates
from ascendsim.core.formats import FRACTAL_ROWS, Format, c0
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    finish,
    in_turn,
    make_steps,
    normalise_axis,
    on_ai_cpu,
    runs_on_ai_core,
    walking_shape,
    with_numpy,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.expansion import Writer
from ascendsim.opset.facts import Elements, Facts, Kind, Precision, Sign
from ascendsim.opset.structure import along
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work


def _infer(context: InferContext) -> None:
    shape = context.shape(0)
    if shape is not None:
        normalise_axis(
            int(context.node.attr("axis", -1)),
            len(shape),
            f"axis of node {context.node.name!r} ({context.node.op_type})",
        )
    context.set(0, context.dtype(0), shape)


def _stepwise(array: Array, axis: int, logarithm: bool) -> Array:
    """As the jitted kernel, for types that it does not take: every step, each addition of the sum too, rounds
    to the array's own type.
    """
    own = array.dtype
    shifted = array - np.max(array, axis=axis, keepdims=True)
    powers = np.exp(shifted).astype(own)
    total = np.sum(powers, axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(total).astype(own) if logarithm else powers / total)


def _softmax(logarithm: bool) -> Callable[[Node, Sequence[Any], Sequence[np.dtype[Any]]], Sequence[Any]]:
    """Values: the jitted kernel for float16 and float32, NumPy for bfloat16 and float64."""

    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        array, axis = inputs[0], int(node.attr("axis", -1))
        if array.size == 0 or array.dtype not in (np.float16, np.float32):
            with np.errstate(all="ignore"):
                return [finish(_stepwise(array, axis, logarithm) if array.size else array, wanted[0])]
        from ascendsim_kernels.softmax import softmax

        most = 65504.0 if saturates(wanted[0]) else np.inf
        return [finish(softmax(array, axis, logarithm, most), wanted[0])]

    return compute


def _hardmax(node: Node, array: Array) -> Array:
    """1 at the first largest element, 0 elsewhere."""
    axis = int(node.attr("axis", -1))
    result = np.zeros_like(array)
    if not array.size:
        return result
    np.put_along_axis(result, np.expand_dims(np.argmax(array, axis=axis), axis), 1, axis=axis)
    return result


def walking_axis(tensor: Tensor, axis: int) -> int:
    """Where an axis lies in `walking_shape`: channels are last in NC1HWC0."""
    return (
        {0: 0, 1: 3, 2: 1, 3: 2}[axis]
        if tensor.format is Format.NC1HWC0 and len(tensor.static_shape) == 4
        else axis
    )


def axis_work(
    node: Node,
    context: LowerContext,
    reductions: Sequence[tuple[str, str]],
    stages: Sequence[Sequence[StepSpec]],
    sweeps: int,
    narrow: Sequence[StepSpec] = (),
) -> Work:
    """Vector work that normalises along the node's `axis`: stages of elementwise instructions with reductions
    between them.

    Args:
        node: The node, with one big input and output.
        context: The chip.
        reductions: Pairs: instruction that folds a row, instruction that adds rows up.
        stages: One more than reductions.
        sweeps: Reads of the input if a row does not fit into UB.
        narrow: Instructions behind the first reduction that run in the input's own type, as that reduction
            then does.
    """
    source, target = node.required(0), node.output
    if source.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(sum(len(stage) for stage in stages) + len(reductions)))
    shape = walking_shape(source)
    rank = len(source.static_shape)
    axis = walking_axis(source, int(node.attr("axis", -1)) % rank) if rank else 0
    length, elements = (shape[axis], int(np.prod(shape, dtype=np.int64))) if rank else (1, 1)
    behind = int(np.prod(shape[axis + 1 :], dtype=np.int64)) if rank else 1
    inside = computing_type(source.element_type, context, wide=True)
    own = computing_type(source.element_type, context) if narrow else inside
    folds = [
        Step(names[0 if behind == 1 else 1], own if number == 0 else inside)
        for number, names in enumerate(reductions)
    ]
    first = (*make_steps(stages[0], own), folds[0], *make_steps(narrow, own))
    rest: list[Step] = []
    for stage, fold in zip(stages[1:], [*folds[1:], None], strict=True):
        rest += [*make_steps(stage, inside), *([fold] if fold is not None else [])]
    given = [source.element_type]
    if narrow:
        steps = converted(first, given, own, own) + converted(tuple(rest), [own], target.element_type, inside)
    else:
        steps = converted((*first, *rest), given, target.element_type, inside)
    rows, cols = (elements // length, length) if behind == 1 else (length, elements // length)
    piece = behind * source.element_type.itemsize if behind > 1 and behind != elements // length else 0
    streams = (Stream(Ref.of(source)),), (Stream(Ref.of(target)),)
    return VectorWork(
        rows,
        cols,
        steps,
        *streams,
        reduces="cols" if behind == 1 else "rows",
        sweeps=sweeps,
        gather_bytes=piece,
        in_turn=in_turn(source, context),
        own_tiling=context.open_shapes,
    )


def rows_in_blocks(node: Node, format: Format) -> bool:
    """Whether rows can be reduced in a blocked format: along the last axis of FRACTAL_NZ, if no fractal is
    padded.

    Padding would have to be masked out of every reduction; CANN's operators fall back to ND for such shapes.
    """
    shape = node.required(0).static_shape
    if (
        format is not Format.FRACTAL_NZ
        or len(shape) < 2
        or int(node.attr("axis", -1)) % len(shape) != len(shape) - 1
    ):
        return False
    return shape[-1] % c0(node.required(0).element_type) == 0 and shape[-2] % FRACTAL_ROWS == 0


def softmax_in_blocks(node: Node, format: Format) -> bool:
    """As `rows_in_blocks`, and for tensors of rank 3 or more with padded fractals too: CANN's kernel sets the
    padding itself.
    """
    shape = node.required(0).static_shape
    last = len(shape) > 2 and int(node.attr("axis", -1)) % len(shape) == len(shape) - 1
    return rows_in_blocks(node, format) or (format is Format.FRACTAL_NZ and last)


_MAX, _SUM = ("vcmax", "vmax"), ("vcadd", "vadd")


def _softmax_lower(node: Node, context: LowerContext) -> Work:
    """Maximum; subtract, exp; sum; divide.

    In CANN's high-performance form (its default) maximum and difference stay in the input's type. On
    fractals, and on m200 in every format, rows are multiplied by the reciprocal of their sum, so that there
    is one division a row (too few to count).
    """
    exact = context.form("SoftmaxV2") == "high_precision"
    once = context.softmax_multiplies or node.required(0).format is Format.FRACTAL_NZ
    return axis_work(
        node,
        context,
        (_MAX, _SUM),
        ((), ("vsub", "vexp") if exact else ("vexp",), ("vmul" if once else "vdiv",)),
        sweeps=3,
        narrow=() if exact else ("vsub",),
    )


def _log_softmax_lower(node: Node, context: LowerContext) -> Work:
    """Maximum; subtract, exp; sum; subtract its logarithm."""
    return axis_work(node, context, (_MAX, _SUM), ((), ("vsub", "vexp"), ("vsub",)), sweeps=3)


def _hardmax_lower(node: Node, context: LowerContext) -> Work:
    """Maximum; compare with it, select 1 or 0."""
    return axis_work(node, context, (_MAX,), ((), ("vcmp", "vsel")), sweeps=2)


def _softmax_written_out(w: Writer) -> Tensor | None:
    axis, x = w.axis(), w(0)
    if axis is None:
        return None
    powers = w.op("Exp", w.op("Sub", w.wide(x), w.wide(w.op("ReduceMax", x, [axis], keepdims=1))))
    return w.like_output(w.op("Div", powers, w.op("ReduceSum", powers, [axis], keepdims=1)))


def _log_softmax_written_out(w: Writer) -> Tensor | None:
    axis, x = w.axis(), w(0)
    if axis is None:
        return None
    shifted = w.op("Sub", w.wide(x), w.wide(w.op("ReduceMax", x, [axis], keepdims=1)))
    total = w.op("ReduceSum", w.op("Exp", shifted), [axis], keepdims=1)
    return w.like_output(w.op("Sub", shifted, w.op("Log", total)))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "Softmax",
        _infer,
        _softmax(logarithm=False),
        _softmax_lower,
        Layout.FOLLOW,
        "SoftmaxV2",
        expand=_softmax_written_out,
        in_blocks=softmax_in_blocks,
        facts=Facts(
            along(),
            Kind.REDUCTION,
            Precision.BLACK,
            sign=Sign.POSITIVE,
            elements=Elements.REAL,
            two_forms=True,
        ),
    ),
    OpDef(
        "LogSoftmax",
        _infer,
        _softmax(logarithm=True),
        _log_softmax_lower,
        Layout.FOLLOW,
        "LogSoftmaxV2",
        expand=_log_softmax_written_out,
        in_blocks=rows_in_blocks,
        facts=Facts(along(), Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "Hardmax",
        _infer,
        with_numpy(_hardmax),
        _hardmax_lower,
        Layout.ND,
        "HardMax",
        facts=Facts(along(), Kind.REDUCTION, Precision.GRAY),
    ),
)
