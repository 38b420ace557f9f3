"""What operator families share: shape rules, number conversions and descriptions of elementwise vector
work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Union

import numpy as np

from ascendsim.core.dtypes import DType, saturates
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import FRACTAL_ROWS, REPEAT_BYTES, Format, align, c0
from ascendsim.graph.ir import Array, Dim, Node, Shape, Tensor
from ascendsim.opset.definition import Compute, Infer, InferContext, Lower
from ascendsim.opset.work import AiCpuWork, LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork, Work

# ---- shape rules


def broadcast_dims(dims: Iterable[Dim]) -> Dim:
    """One dimension of a broadcast result; unknown if it cannot be told.

    Raises:
        GraphError: If two numbers differ and neither is 1.

    >>> broadcast_dims([1, "batch"]), broadcast_dims([None, 4]), broadcast_dims(["a", "b"])
    ('batch', 4, None)
    """
    others = [d for d in dict.fromkeys(dims) if d != 1]
    if len(others) == 1:
        return others[0]
    numbers = [d for d in others if isinstance(d, int)]
    if len(numbers) > 1:
        raise GraphError(
            "shapes", "must broadcast: dimensions must be equal or 1", " and ".join(map(str, numbers))
        )
    if numbers:
        return numbers[0]
    return None if others else 1


def broadcast_shapes(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that NumPy broadcasting gives; None if the rank of an input is unknown.

    Raises:
        GraphError: If the shapes do not broadcast.

    >>> broadcast_shapes([("n", 3, 1), (1, 5)])
    ('n', 3, 5)
    """
    return _broadcast(tuple([None if shape is None else tuple(shape) for shape in shapes]))


@lru_cache(maxsize=4096)  # a graph has few
def _broadcast(shapes: tuple[Shape | None, ...]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max([len(shape) for shape in known], default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in known]
    return tuple([broadcast_dims(dims) for dims in zip(*padded, strict=True)])


def normalise_axis(axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from the front.

    Raises:
        GraphError: If it is not in [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise GraphError(what, f"must be in [{-rank}, {rank})", axis)
    return axis % rank


def normalise_axes(axes: Iterable[int], rank: int, what: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, sorted.

    Raises:
        GraphError: If one is out of range or named twice.
    """
    result = sorted(normalise_axis(int(axis), rank, what) for axis in axes)
    if len(set(result)) != len(result):
        raise GraphError(what, "must name every axis once", result)
    return tuple(result)


def same_as(index: int = 0, dtype: DType | None = None, check: Infer | None = None) -> Infer:
    """A shape rule: the first output has the shape of input `index`, and its type unless `dtype` is given;
    `check` looks at the others.
    """

    def infer(context: InferContext) -> None:
        if check is not None:
            check(context)
        context.set(0, dtype or context.dtype(index), context.shape(index))

    return infer


def check_channels(context: InferContext) -> None:
    """Checks that the first input has channels and each other one is a list of one value a channel, as far as
    shapes are known.

    Raises:
        GraphError: If not; names the node and the input.
    """
    shape = context.shape(0)
    if shape is None:
        return
    if len(shape) < 2:
        raise context.fail("needs an input of rank 2 or more", list(shape))
    for tensor in context.node.inputs[1:]:
        if (
            tensor is not None
            and tensor.is_static
            and isinstance(shape[1], int)
            and tensor.static_shape != (shape[1],)
        ):
            rule = f"needs one value a channel, shape [{shape[1]}], in input {tensor.name!r}"
            raise context.fail(rule, list(tensor.static_shape), "check the model")


def infer_broadcast(dtype: DType | None = None, type_from: int = 0) -> Infer:
    """A shape rule: all inputs broadcast; the type is that of input `type_from` unless `dtype` is given."""

    def infer(context: InferContext) -> None:
        shapes = [tensor.shape for tensor in context.node.inputs if tensor is not None]
        try:
            shape = broadcast_shapes(shapes)
        except GraphError as error:
            raise context.fail("needs inputs that broadcast", " and ".join(str(s) for s in shapes)) from error
        context.set(0, dtype or context.dtype(type_from), shape)

    return infer


# ---- numbers


def as_float32(array: Array) -> Array:
    """float16 and bfloat16 arrays as float32 (exact); all others as they are."""
    if array.dtype == np.float16:
        from ascendsim_kernels.half import widen

        return widen(array)
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def finish(array: Array, dtype: np.dtype[Any]) -> Array:
    """The result in its wanted type: one rounding to nearest even; overflow gives infinity, silently."""
    array = np.asarray(array)
    if array.dtype == dtype:
        return array
    if dtype == np.float16 and array.dtype == np.float32:
        from ascendsim_kernels.half import narrow

        return narrow(array)
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def settled(array: Array, dtype: np.dtype[Any]) -> Array:
    """A result as the chip keeps it: where its type saturates (`core.dtypes.saturates`), infinities are the
    last number and NaN is 0. Operators leave that to who runs them, who can see so what would have been.
    """
    if not saturates(dtype) or array.dtype != np.float16:
        return array
    from ascendsim_kernels.half import saturate
    from ascendsim_kernels.watch import scan

    if array.size and not math.isfinite(scan(array)[0]):
        array = saturate(array)
    return array.view(np.float16)  # arrays of NumPy's own type: nobody else has to know of the other


def own_type(array: Array, wanted: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """An operand's type, to which an operator rounds on its way to a result: as the wanted types of results
    have it, which say whether it saturates.
    """
    return next((one for one in wanted if one == array.dtype), array.dtype)


def rounded_within(array: Array, own: np.dtype[Any]) -> Array:
    """What an operator rounds on its way to a result, in `own_type`."""
    return settled(finish(array, own), own)


def with_numpy(function: Callable[..., Any]) -> Compute:
    """Values by a NumPy function (node, *arrays) -> array or tuple of arrays.

    16-bit floats enter as float32 and leave with one rounding; other types stay as they are. Floating-point
    warnings are off: infinities and NaN are results.
    """

    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            result = function(node, *[None if a is None else as_float32(a) for a in inputs])
        results = result if isinstance(result, tuple) else (result,)
        return [finish(array, dtype) for array, dtype in zip(results, wanted, strict=False)]

    return compute


# ---- work

on_ai_cpu = AiCpuWork.of
StepSpec = Union[str, tuple[str, int]]
AI_CORE_TYPES = frozenset(
    {
        DType.FLOAT16,
        DType.FLOAT32,
        DType.BFLOAT16,
        DType.INT32,
        DType.INT16,
        DType.INT8,
        DType.UINT8,
        DType.BOOL,
    }
)
_NARROW = frozenset({DType.INT8, DType.UINT8, DType.BOOL})


@dataclass(frozen=True, slots=True)
class Split:
    """An iteration space rows x cols and how each input lies in it."""

    rows: int
    cols: int
    overs: tuple[Over, ...]


def walking_shape(tensor: Tensor, like: Tensor | None = None) -> tuple[int, ...]:
    """Storage shape with the blocks joined to their axis: (N, H, W, C1*C0) for NC1HWC0, (..., M, N) padded
    for FRACTAL_NZ.

    Vector work walks storage, padding included; this order keeps "one value a channel" a column.

    Args:
        tensor: Any tensor.
        like: The blocked tensor that a row-major one (a constant) meets element by element: its axes in the
            same order, those that are not broadcast padded alike.
    """
    if (
        like is not None
        and tensor.format in (Format.ND, Format.NCHW)
        and len(tensor.static_shape) <= len(like.static_shape)
    ):
        shape = (1,) * (len(like.static_shape) - len(tensor.static_shape)) + tensor.static_shape
        block = c0(like.element_type)
        if like.format is Format.NC1HWC0 and len(shape) == 4:
            n, c, h, w = shape
            return (n, h, w, align(c, block) if c > 1 else 1)
        if like.format is Format.FRACTAL_NZ and len(shape) >= 2:
            m, n = shape[-2:]
            return (*shape[:-2], align(m, FRACTAL_ROWS) if m > 1 else 1, align(n, block) if n > 1 else 1)
    shape = tensor.storage_shape
    if tensor.format is Format.NC1HWC0 and len(shape) == 5:
        n, c1, h, w, inner = shape
        return (n, h, w, c1 * inner)
    if tensor.format is Format.FRACTAL_NZ and len(shape) >= 4:
        *batch, n1, m1, m0, n0 = shape
        return (*batch, m1 * m0, n1 * n0)
    return shape


def split_broadcast(output: tuple[int, ...], inputs: Sequence[tuple[int, ...]]) -> Split:
    """Cuts an elementwise iteration space so that inputs smaller than it are "one", "row" or "col" where
    possible.

    The first partly broadcast input decides the cut: where its last axis is kept, the run of kept axes at the
    end makes the columns; where it is 1, the run of ones does. What fits neither way is read in full ("all").

    >>> split_broadcast((2, 8, 5, 5), [(2, 8, 5, 5), (8, 1, 1)])
    Split(rows=16, cols=25, overs=('all', 'row'))
    """
    rank = len(output)
    kept = []  # per input: which axes of the output it has
    for shape in inputs:
        padded = (1,) * (rank - len(shape)) + tuple(shape[-rank:] if rank else ())
        kept.append([o == 1 or p == o for p, o in zip(padded, output, strict=True)])
    sizes = [math.prod(shape) for shape in inputs]
    cut = 0
    for flags, size in zip(kept, sizes, strict=True):
        if size > 1 and not all(flags):
            big = [axis for axis in range(rank) if output[axis] > 1]
            last = flags[big[-1]]
            for axis in reversed(big):
                if flags[axis] is not last:
                    cut = axis + 1
                    break
            break
    overs: list[Over] = []
    for flags, size in zip(kept, sizes, strict=True):
        trailing = [flags[axis] for axis in range(cut, rank) if output[axis] > 1]
        if size <= 1:
            overs.append("one")
        elif all(flags):
            overs.append("all")
        elif all(trailing):
            overs.append("col")
        elif not any(trailing):
            overs.append("row")
        else:
            overs.append("all")
    return Split(math.prod(output[:cut]), math.prod(output[cut:]), tuple(overs))


def runs_on_ai_core(node: Node, ignored: Collection[int] = ()) -> bool:
    """Whether the AI Core has vector instructions for the types of all outputs and inputs but those ports
    (axes and the like).
    """
    inputs = [
        tensor for index, tensor in enumerate(node.inputs) if tensor is not None and index not in ignored
    ]
    return all(tensor.element_type in AI_CORE_TYPES for tensor in (*inputs, *node.outputs))


def in_turn(data: Tensor, context: LowerContext) -> bool:
    """Whether a kernel that normalises rows goes through them one by one: where the chip's kernels do so, and
    rows and the axes in front of them do not fill fractals.

    The axes between the first and the last count as one: networks of images have their tokens on one axis or
    on two, by the exporter. Data that fills them lies in FRACTAL_NZ in the networks whose times were
    published (BERT on Ascend910A), and kernels go through that block by block; where it is row-major here, it
    is timed as if it were not.
    """
    shape = data.static_shape
    tokens = math.prod(shape[1:-1] or shape[:1])
    fills = len(shape) > 1 and shape[-1] % c0(data.element_type) == 0 and tokens % FRACTAL_ROWS == 0
    return context.rows_in_turn and not fills


def computing_type(dtype: DType, context: LowerContext, wide: bool = False) -> DType:
    """The type in which a vector program for `dtype` computes.

    8-bit types compute in float16; bfloat16 in float32; `wide` asks for float32 instead of float16 for the
    sake of accuracy, as CANN's operators do on chips whose vexp takes float32 (cost_models section 12: all
    but Ascend310).
    """
    if dtype in _NARROW:
        return DType.FLOAT16
    if dtype is DType.BFLOAT16 or (
        wide and dtype is DType.FLOAT16 and context.supports("vexp", DType.FLOAT32)
    ):
        return DType.FLOAT32
    return dtype


TANH_STEPS: tuple[StepSpec, ...] = ("vmins", "vmaxs", "vmuls", "vexp", ("vadds", 2), "vdiv")
"""Clamp, e^2x, (e^2x - 1) / (e^2x + 1)."""


def make_steps(specs: Iterable[StepSpec], dtype: DType, over: Over = "all") -> tuple[Step, ...]:
    """Steps of one type from names or (name, count) pairs."""
    return tuple(
        Step(spec, dtype, over) if isinstance(spec, str) else Step(spec[0], dtype, over, spec[1])
        for spec in specs
    )


# set_cmpmask and vsel of a repeat wait for each other: 12 to 14 cycles in published steps of ResNet-50 and
# ViT on the first Ascend910B (ReluGradV2 of 14.1, 26.3, 196.6 and 304.2 us, DropoutDoMask of 12.5 to 86.5),
# as long as four instructions that do not wait
_SELECTING = 4


def select_by_bits(dtype: DType, context: LowerContext) -> Step:
    """Elements or zeros, as the bits of a mask in memory say."""
    step = Step("vsel", dtype)
    return _by_repeat(step) if context.select_sets_mask else step


def _by_repeat(step: Step) -> Step:
    """A selection that has the mask of one repeat in a register, and so waits for it each time."""
    return replace(step, count=_SELECTING * step.count, run=REPEAT_BYTES // step.dtype.itemsize)


def _chosen(steps: tuple[Step, ...], context: LowerContext) -> tuple[Step, ...]:
    """The steps as the chip's kernels select: TBE's compare a repeat, take its mask and select."""
    if not context.selects_by_repeat:
        return steps
    return tuple([_by_repeat(step) if step.op == "vsel" else step for step in steps])


def converted(
    steps: tuple[Step, ...], inputs: Sequence[DType], output: DType, inside: DType
) -> tuple[Step, ...]:
    """The steps between the vconv instructions that bring every input to the computing type and the result
    back.
    """
    before = tuple(Step("vconv", inside) for dtype in inputs if dtype is not inside)
    after = (Step("vconv", inside),) if output is not inside else ()
    return before + steps + after


def elementwise_work(
    node: Node,
    context: LowerContext,
    specs: Sequence[StepSpec],
    wide: bool = False,
    type_from: int = 0,
    long: bool = False,
) -> Work:
    """Vector work on every element of the first output, its inputs broadcast; on the AI CPU if a type asks
    for it.

    Args:
        node: The node.
        context: The chip.
        specs: Instructions in order.
        wide: Compute float16 in float32 where the chip can.
        type_from: The input whose type the instructions compute in.
        long: CANN's kernel takes int64 where the chip handles it on the AI Core at all (its vconv takes it).
    """
    output = node.output
    if output.elements == 0:
        return NoTask()
    whole = long and output.element_type is DType.INT64 and context.supports("vconv", DType.INT64)
    if not whole and not runs_on_ai_core(node):
        return on_ai_cpu(node, max(1.0, float(len(specs))))
    tensors = [tensor for tensor in node.inputs if tensor is not None]
    split = split_broadcast(walking_shape(output), [walking_shape(tensor, output) for tensor in tensors])
    inside = computing_type(node.required(type_from).element_type, context, wide)
    big = [tensor.element_type for tensor, over in zip(tensors, split.overs, strict=True) if over == "all"]
    steps = converted(_chosen(make_steps(specs, inside), context), big, output.element_type, inside)
    streams = tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, split.overs, strict=True))
    return VectorWork(split.rows, split.cols, steps, streams, (Stream(Ref.of(output)),))


def elementwise_lower(specs: Sequence[StepSpec], wide: bool = False, long: bool = False) -> Lower:
    """A `lower` function: these intrinsics on every element (names, or pairs of name and count).

    Args:
        specs: Instructions in order.
        wide: Compute float16 input in float32 where the chip can (transcendental functions).
        long: See `elementwise_work`.
    """

    def lower(node: Node, context: LowerContext) -> Work:
        return elementwise_work(node, context, specs, wide, long=long)

    return lower
