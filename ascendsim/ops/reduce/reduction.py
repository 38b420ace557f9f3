"""Reductions over axes.

Sums of 16- and 32-bit floats are accumulated in float64 and rounded once; the chip accumulates in float32,
which differs far below a unit in the last place of its float16 results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import REPEAT_BYTES, Format, c0
from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    computing_type,
    converted,
    finish,
    make_steps,
    normalise_axes,
    on_ai_cpu,
    runs_on_ai_core,
    walking_shape,
)
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.expansion import Writer
from ascendsim.opset.facts import Elements, Facts, Kind, OpPattern, Precision, Sign
from ascendsim.opset.steps import REGISTER
from ascendsim.opset.structure import constant_ints, reduction
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

# ------------------------------------------------------------------------------------------------------------


def reduced_axes(node: Node, given: Array | None, rank: int) -> tuple[int, ...]:
    """The axes that a reduction folds: all if none are given, none if the node says so."""
    if given is None or given.size == 0:
        return () if node.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    return normalise_axes(given.reshape(-1), rank, f"axes of node {node.name!r} ({node.op_type})")


def _infer(context: InferContext) -> None:
    node = context.node
    shape, keep = context.shape(0), bool(node.attr("keepdims", 1))
    axes = context.value(1) if context.has(1) else None
    known = axes is not None or not context.has(1)
    if shape is None or (not known and not keep):
        context.set(0, context.dtype(0), None)
        return
    result: Shape
    if not known:
        result = (None,) * len(shape)
    else:
        folded = reduced_axes(node, axes, len(shape))
        result = tuple(
            1 if axis in folded else dim for axis, dim in enumerate(shape) if keep or axis not in folded
        )
    context.set(0, context.dtype(0), result)


# ------------------------------------------------------------------------------------------------------------


def fold(kind: str, array: Array, axes: tuple[int, ...], mean: bool = False) -> Array:
    """A fold of a float16 or float32 array by the jitted kernel; the axes stay with size 1.

    Args:
        kind: Name in `ascendsim_kernels.reduce.Reduction`.
        array: What to fold.
        axes: Axes to fold, counted from the front.
        mean: Divide by the number of folded elements.
    """
    from ascendsim_kernels.reduce import Reduction, reduce

    kept = [axis for axis in range(array.ndim) if axis not in axes]
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(array.shape))
    length = math.prod(array.shape[axis] for axis in axes)
    scale = 1.0 / length if mean and length else 1.0
    inside = [axis for axis in range(array.ndim) if array.shape[axis] > 1 or axis in axes]
    first, last = (min(axes), max(axes)) if axes else (0, -1)
    if all(axis in axes or axis not in inside for axis in range(first, last + 1)):
        outer, inner = math.prod(array.shape[:first]), math.prod(array.shape[last + 1 :]) if axes else 1
        outer = outer if axes else array.size
    else:
        array = array.transpose(*kept, *axes)
        outer, inner = math.prod(array.shape[: len(kept)]), 1
    return reduce(Reduction[kind], array, outer, length, inner, scale).reshape(shape)


# CANN, cce_schedule_distribution_rules.py: for so many planes of channel blocks there is a schedule of its
# own
HALVED_PLANES = 32
Folder = Callable[[Array, tuple[int, ...]], Array]


@dataclass(frozen=True, slots=True)
class FoldCompute:
    """Values by `kernel` for float16 and float32 and by `function` (NumPy) for the rest; both keep folded
    axes with size 1.
    """

    kernel: Folder | None
    function: Folder

    def by_kernel(self, dtype: np.dtype[Any]) -> bool:
        """Whether the kernel folds a type: in an order that kept axes of two elements and more have no say
        in.
        """
        return self.kernel is not None and dtype.name in ("float16", "float32")

    def __call__(self, node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        """As `OpDef.compute`."""
        array = inputs[0]
        axes = reduced_axes(node, inputs[1] if len(inputs) > 1 else None, array.ndim)
        with np.errstate(all="ignore"):
            if self.kernel is not None and self.by_kernel(array.dtype):
                result = self.kernel(array, axes)
            else:
                result = self.function(as_float32(array), axes)
        shape = tuple(
            1 if a in axes else size
            for a, size in enumerate(array.shape)
            if node.attr("keepdims", 1) or a not in axes
        )
        return [finish(np.asarray(result).reshape(shape), wanted[0])]


def _extreme(name: str) -> Folder:
    """np.max or np.min with the value that ONNX gives to an empty set."""
    function = {"max": np.max, "min": np.min}[name]

    def folder(array: Array, axes: tuple[int, ...]) -> Array:
        start: Any
        if array.dtype == np.bool_:
            start = name == "min"
        elif np.issubdtype(array.dtype, np.integer):
            limits = np.iinfo(array.dtype)
            start = limits.min if name == "max" else limits.max
        else:
            start = -np.inf if name == "max" else np.inf
        return np.asarray(function(array, axis=axes, keepdims=True, initial=start))

    return folder


def _sum(array: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.sum(array, axis=axes, keepdims=True, dtype=array.dtype))


def _product(array: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.prod(array, axis=axes, keepdims=True, dtype=array.dtype))


def _mean(array: Array, axes: tuple[int, ...]) -> Array:
    """Integers are cut off towards zero."""
    return np.asarray(np.mean(array, axis=axes, keepdims=True)).astype(array.dtype)


def _log_sum_exp(array: Array, axes: tuple[int, ...]) -> Array:
    """The maximum + ln(sum(e^(x - max))): no overflow inside."""
    peak = _extreme("max")(array, axes) if np.issubdtype(array.dtype, np.floating) else np.zeros(1)
    peak = np.where(np.isfinite(peak), peak, np.zeros_like(peak))
    return np.asarray(np.log(np.sum(np.exp(array - peak), axis=axes, keepdims=True)) + peak)


def _root_of_squares(array: Array, axes: tuple[int, ...]) -> Array:
    return np.sqrt(fold("SUM_SQUARE", as_float32(array), axes))


# -----------------------------------------------------------------------------------------------------------


def reduction_work(
    node: Node,
    context: LowerContext,
    axes: tuple[int, ...],
    *,
    before: Sequence[StepSpec],
    across: str,
    along: str,
    after: Sequence[StepSpec],
    halves: bool = False,
    open_shapes: bool = True,
) -> Work:
    """Vector work of a reduction of input 0 into output 0.

    Folded axes at the end: every row becomes one value. Folded axes at the front, or in the middle with kept
    axes behind them: rows are added up element by element, read in pieces as long as the kept run. In NC1HWC0
    that is done as TBE's schedule does it (`mix_reduce_nlast_schedule`): plane by plane, a repeat for every
    position; means of a few planes in float16 are folded in halves.

    Args:
        node: The node.
        context: The chip.
        axes: Folded axes, counted from the front.
        before: Instructions on every element first.
        across: Instruction that folds a row into one value ("vcadd").
        along: Instruction that folds a row into another row ("vadd").
        after: Instructions on every result.
        halves: Whether few planes in float16 are folded in halves.
        open_shapes: Whether CANN's kernel is one of TBE for open shapes.
    """
    source, target = node.required(0), node.output
    shape = walking_shape(source)
    if source.format is Format.NC1HWC0:  # walked as (N, H, W, C): channels stay, one value a column
        axes = tuple(axis - 1 for axis in axes)
    if target.elements == 0:
        return NoTask()
    if source.elements == 0 or not runs_on_ai_core(node, ignored=(1,)):
        return on_ai_cpu(node, 1.0 + len(before))
    dtype = source.element_type
    inside = computing_type(dtype, context, wide=along == "vadd")
    big = [axis for axis, size in enumerate(shape) if size > 1]
    folded = math.prod(shape[axis] for axis in axes)
    kept = math.prod(shape) // folded
    run, last = 1, bool(big) and big[-1] in axes
    for axis in reversed(big):
        if (axis in axes) is not last:
            break
        run *= shape[axis]
    whole = run == (folded if last else kept)
    gather = 0 if whole or (context.sums_in_turn and not last) else run * dtype.itemsize
    planes = source.format is Format.NC1HWC0 and not last and folded == math.prod(source.static_shape[2:])
    halving = halves and inside is dtype is DType.FLOAT16 and kept <= HALVED_PLANES * c0(dtype)
    fold = Step(across if last else along, inside, lanes=c0(dtype) if planes and not halving else 0)
    joined: tuple[Step, ...] = ()
    if last and context.register_moves and across == "vcadd" and folded * inside.itemsize > REPEAT_BYTES:
        # what a row comes to is added to what lay in its place, which a register has brought beside it
        # before; another one takes the sum there
        joined = (Step(across, inside, "row"), Step(REGISTER, inside, "row"))
    body = (*make_steps(before, inside), fold, *joined, *make_steps(after, inside, "row" if last else "col"))
    steps = converted(body, [dtype], inside, inside) + (
        (Step("vconv", inside, "row" if last else "col"),) if dtype is not inside else ()
    )
    return VectorWork(
        rows=kept if last else folded,
        cols=folded if last else kept,
        steps=steps,
        inputs=(Stream(Ref.of(source)),),
        outputs=(Stream(Ref.of(target), "row" if last else "col"),),
        reduces="cols" if last else "rows",
        gather_bytes=gather,
        planes=planes,
        in_turn=context.sums_in_turn,
        own_tiling=open_shapes and context.open_shapes,
        overlaps=last or planes or not context.sums_in_turn,
    )


def over_positions(node: Node, format: Format) -> bool:
    """Whether a reduction can work in NC1HWC0: it folds rows or columns, and they stay as axes of size 1."""
    axes = node.input(1)
    if (
        format is not Format.NC1HWC0
        or axes is None
        or axes.constant is None
        or not axes.constant.available
        or not node.attr("keepdims", 1)
    ):
        return False
    folded = reduced_axes(node, axes.constant.array(), len(node.required(0).static_shape))
    return bool(folded) and all(axis in (2, 3) for axis in folded)


def _lower(
    before: Sequence[StepSpec],
    across: str,
    along: str,
    after: Sequence[StepSpec],
    halves: bool = False,
    open_shapes: bool = True,
) -> Callable[[Node, LowerContext], Work]:
    def lower(node: Node, context: LowerContext) -> Work:
        given = node.input(1)
        values = (
            given.constant.array()
            if given is not None and given.constant is not None and given.constant.available
            else None
        )
        if given is not None and values is None:
            raise GraphError(
                f"node {node.name!r} ({node.op_type})",
                "needs constant axes",
                remedy="fold them into the model before compiling",
            )
        axes = reduced_axes(node, values, len(node.required(0).static_shape))
        return reduction_work(
            node,
            context,
            axes,
            before=before,
            across=across,
            along=along,
            after=after,
            halves=halves,
            open_shapes=open_shapes,
        )

    return lower


def _stated_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    given = node.input(1)
    values = None if given is None else constant_ints(given)
    return (
        None
        if given is not None and values is None
        else reduced_axes(node, None if values is None else np.array(values), rank)
    )


_SUM = Facts(
    reduction(_stated_axes),
    Kind.REDUCTION,
    Precision.BLACK,
    OpPattern.COMM_REDUCE,
    parameters=(1,),
    elements=Elements.COMPUTED,
    typed=(0,),
)
_EXTREME = replace(_SUM, precision=Precision.GRAY, elements=Elements.KEPT)
_NORM = Facts(
    reduction(_stated_axes),
    Kind.REDUCTION,
    Precision.BLACK,
    OpPattern.COMM_REDUCE,
    Sign.NEVER_NEGATIVE,
    parameters=(1,),
)
_LOGARITHM = Facts(reduction(_stated_axes), Kind.REDUCTION, Precision.BLACK, finite=False, parameters=(1,))


def _mean_written_out(w: Writer) -> Tensor | None:
    axes = w.folded_axes()
    if axes is None:
        return None
    part = 1.0 / math.prod(w(0).static_shape[axis] for axis in axes)
    total = w.op("ReduceSum", w.wide(w(0)), axes, keepdims=int(w.node.attr("keepdims", 1)))
    return w.like_output(w.op("Mul", total, part))


def _squares_written_out(w: Writer) -> Tensor | None:
    axes, x = w.folded_axes(), w(0)
    if axes is None:
        return None
    x = w.wide(x)
    return w.like_output(w.op("ReduceSum", w.op("Mul", x, x), axes, keepdims=int(w.node.attr("keepdims", 1))))


_REDUCTIONS: tuple[OpDef, ...] = (
    OpDef(
        "ReduceSum",
        _infer,
        FoldCompute(lambda x, a: fold("SUM", x, a), _sum),
        _lower((), "vcadd", "vadd", ()),
        Layout.FOLLOW,
        "ReduceSumD",
        in_blocks=over_positions,
        facts=_SUM,
    ),
    OpDef(
        "ReduceMean",
        _infer,
        FoldCompute(lambda x, a: fold("SUM", x, a, mean=True), _mean),
        # scaled first, so that a float16 sum stays in range
        _lower(("vmuls",), "vcadd", "vadd", (), halves=True),
        Layout.FOLLOW,
        "ReduceMeanD",
        expand=_mean_written_out,
        in_blocks=over_positions,
        facts=_SUM,
    ),
    OpDef(
        "ReduceMax",
        _infer,
        FoldCompute(lambda x, a: fold("MAX", x, a), _extreme("max")),
        _lower((), "vcmax", "vmax", ()),
        Layout.FOLLOW,
        "ReduceMaxD",
        in_blocks=over_positions,
        facts=_EXTREME,
    ),
    OpDef(
        "ReduceMin",
        _infer,
        FoldCompute(lambda x, a: fold("MIN", x, a), _extreme("min")),
        _lower((), "vcmin", "vmin", ()),
        Layout.FOLLOW,
        "ReduceMinD",
        in_blocks=over_positions,
        facts=_EXTREME,
    ),
    OpDef(
        "ReduceProd",
        _infer,
        FoldCompute(None, _product),
        _lower((), "vmul", "vmul", ()),
        cann="ReduceProdD",
        facts=_SUM,
    ),
    OpDef(
        "ReduceL1",
        _infer,
        FoldCompute(lambda x, a: fold("SUM_ABS", x, a), lambda x, a: _sum(np.abs(x), a)),
        _lower(("vabs",), "vcadd", "vadd", (), open_shapes=False),
        cann="LpNorm",
        facts=_NORM,
    ),
    OpDef(
        "ReduceL2",
        _infer,
        FoldCompute(_root_of_squares, lambda x, a: np.sqrt(_sum(x * x, a))),
        _lower(("vmul",), "vcadd", "vadd", ("vsqrt",), open_shapes=False),
        cann="LpNorm",
        facts=_NORM,
    ),
    OpDef(
        "ReduceSumSquare",
        _infer,
        FoldCompute(lambda x, a: fold("SUM_SQUARE", x, a), lambda x, a: _sum(x * x, a)),
        _lower(("vmul",), "vcadd", "vadd", ()),
        cann="SquareSumV1",
        mindspore="SquareSumV1",
        expand=_squares_written_out,
        facts=_NORM,
    ),
    OpDef(
        "ReduceLogSum",
        _infer,
        FoldCompute(lambda x, a: np.log(fold("SUM", as_float32(x), a)), lambda x, a: np.log(_sum(x, a))),
        _lower((), "vcadd", "vadd", ("vln",)),
        facts=_LOGARITHM,
    ),
    OpDef(
        "ReduceLogSumExp",
        _infer,
        FoldCompute(None, _log_sum_exp),
        _lower(("vexp",), "vcadd", "vadd", ("vln",)),
        facts=_LOGARITHM,
    ),
)

OPERATORS: tuple[OpDef, ...] = tuple(
    replace(definition, most_inputs=2, steered_by=(1,)) for definition in _REDUCTIONS
)
