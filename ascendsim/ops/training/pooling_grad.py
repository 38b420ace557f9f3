"""Pooling in training (domain "ascend"), in two dimensions.

    MaxPoolWithArgmax(x) -> y, mask                    one bit for every tap of every window: whether it holds
                                                       the maximum (the first of equal ones)
    MaxPoolGradWithArgmax(x, dy, mask) -> dx           of x only the shape counts
    AvgPoolV2Grad(dy) -> dx                            the shape of x is `orig_input_shape`
    AdaptiveAvgPool2dGrad(dy) -> dx                    the same; window i of n goes from floor(i size / n) to
                                                       ceil((i + 1) size / n), one window is global pooling

MaxPoolWithArgmaxV1 and MaxPoolGradWithArgmaxV1 are the same under the names of CANN's later kernels. A mask
is uint16 (N, C, taps, words): bit b of word w belongs to window 16 w + b in row-major order, and there is one
word more than is needed, as CANN has it. Windows are spelt as ONNX's MaxPool and AveragePool spell them; -1
as the first number of `orig_input_shape` is the batch of dy. Sums are float64 with one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, ceil_div
from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.reduce.pooling import (
    over_windows,
    plane_bytes,
    pool_axes,
    rows_and_lanes,
    uneven,
    window_counts,
)
from ascendsim.ops.shared.bursts import DUPLICATE, moving
from ascendsim.ops.shared.common import (
    computing_type,
    converted,
    on_ai_cpu,
    runs_on_ai_core,
    select_by_bits,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal
from ascendsim.ops.shared.windows import Axis, outputs, taps, window_links
from ascendsim.ops.training.close_windows import are_close, tap_by_tap
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, UNREAD, AxisMap, Label, Link, by_labels, rank_of, shape_of
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work

WORD = 16  # bits
_RANK = 4
Spans = tuple[Any, ...]  # an index of the last axes


# ------------------------------------------------------------------------------------------------- windows


def _seen(axes: Sequence[Axis], sizes: Sequence[int]) -> Iterator[tuple[Spans, Spans]]:
    """For every tap in row-major order: the windows that it is inside of the map for, and what it sees."""
    for tap in product(*(range(axis.kernel) for axis in axes)):
        windows, seen = [], []
        for axis, place, size in zip(axes, tap, sizes, strict=True):
            start = place * axis.dilation - axis.before
            low = max(0, -(start // axis.stride))
            high = max(low, min(axis.output or 0, (size - 1 - start) // axis.stride + 1))
            windows.append(slice(low, high))
            seen.append(slice(start + low * axis.stride, start + high * axis.stride, axis.stride))
        yield (..., *windows), (..., *seen)


def _words(positions: int) -> int:
    return ceil_div(positions, WORD) + 1


def _packed(hits: Array) -> Array:
    """(..., positions) as words of bits."""
    room = _words(hits.shape[-1]) * WORD
    filled = np.zeros((*hits.shape[:-1], room), bool)
    filled[..., : hits.shape[-1]] = hits
    return np.packbits(filled, axis=-1, bitorder="little").view("<u2").astype(np.uint16)


def _unpacked(mask: Array, positions: int) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(mask, "<u2").view(np.uint8), axis=-1, bitorder="little")
    return bits[..., :positions].astype(bool)


def _with_argmax(node: Node, x: Array) -> tuple[Array, Array]:
    axes = pool_axes(node, x.shape[2:])
    made = (*x.shape[:2], *(axis.output or 0 for axis in axes))
    best = np.full(made, -np.inf, x.dtype)
    for windows, seen in _seen(axes, x.shape[2:]):
        best[windows] = np.maximum(best[windows], x[seen])
    open_, hits = np.ones(made, bool), np.zeros((*made[:2], taps(axes), *made[2:]), bool)
    for tap, (windows, seen) in enumerate(_seen(axes, x.shape[2:])):
        first = open_[windows] & (x[seen] == best[windows])
        hits[:, :, tap][windows] = first
        open_[windows] &= ~first
    return best, _packed(hits.reshape(*hits.shape[:3], math.prod(hits.shape[3:])))


def _from_mask(node: Node, x: Array, dy: Array, mask: Array) -> Array:
    axes, result = pool_axes(node, x.shape[2:]), np.zeros(x.shape)
    hits = _unpacked(mask, math.prod(dy.shape[2:])).reshape(*mask.shape[:3], *dy.shape[2:])
    for tap, (windows, seen) in enumerate(_seen(axes, x.shape[2:])):
        result[seen] += np.where(hits[:, :, tap][windows], dy[windows], 0)
    return result


def _average(node: Node, dy: Array) -> Array:
    sizes = tuple(int(size) for size in node.attr("orig_input_shape")[2:])
    axes, result = pool_axes(node, sizes), np.zeros((*dy.shape[:2], *sizes))
    counts = window_counts(axes, sizes, bool(node.attr("count_include_pad", 0)))
    share = dy.astype(np.float64) / np.maximum(counts, 1)
    for windows, seen in _seen(axes, sizes):
        result[seen] += share[windows]
    return result


def _bounds(size: int, windows: int) -> list[tuple[int, int]]:
    return [(i * size // windows, ceil_div((i + 1) * size, windows)) for i in range(windows)]


def _adaptive(node: Node, dy: Array) -> Array:
    """Every axis by itself: what each window spreads evenly over its positions."""
    result = dy.astype(np.float64)
    for axis, size in zip((2, 3), node.attr("orig_input_shape")[2:], strict=True):
        spread = np.zeros((dy.shape[axis], int(size)))
        for row, (first, end) in zip(spread, _bounds(int(size), dy.shape[axis]), strict=True):
            row[first:end] = 1 / (end - first)
        result = np.moveaxis(np.tensordot(result, spread, axes=(axis, 0)), -1, axis)
    return result


# --------------------------------------------------------------------------------------------------- shapes


def _need_maps(context: InferContext, *ports: int) -> None:
    for port in ports:
        shape = context.shape(port)
        if shape is not None and len(shape) != _RANK:
            raise context.fail("needs maps of rank 4", list(shape))


def _mask_shape(pooled: Shape, axes: Sequence[Axis]) -> Shape:
    sizes = [size for size in pooled[2:] if isinstance(size, int)]
    return (*pooled[:2], taps(tuple(axes)), _words(math.prod(sizes)) if len(sizes) == 2 else None)


def _infer_max(context: InferContext) -> None:
    _need_maps(context, 0)
    shape = context.shape(0) or (None,) * _RANK
    axes = pool_axes(context.node, shape[2:])
    pooled: Shape = (*shape[:2], *outputs(axes))
    context.set(0, context.dtype(0), pooled)
    context.set(1, DType.UINT16, _mask_shape(pooled, axes))


def _infer_max_grad(context: InferContext) -> None:
    _need_maps(context, 0, 1, 2)
    shape = context.shape(0)
    axes = pool_axes(context.node, (None, None) if shape is None else shape[2:])
    pooled: Shape = (None,) * _RANK if shape is None else (*shape[:2], *outputs(axes))
    for port, wanted in ((1, pooled), (2, _mask_shape(pooled, axes))):
        if not may_equal(context.shape(port), wanted):
            raise context.fail(f"needs input {port} of shape {wanted}", context.shape(port))
    context.set(0, context.dtype(1), shape)


def original_shape(context: InferContext) -> Shape:
    """The shape of x."""
    _need_maps(context, 0)
    sizes = tuple(int(size) for size in context.node.attr("orig_input_shape", ()) or ())
    if len(sizes) != _RANK or sizes[0] < -1 or any(size < 1 for size in sizes[1:]):
        raise context.fail("needs 4 positive sizes in orig_input_shape", sizes or None)
    gradient = context.shape(0)
    batch = sizes[0] if sizes[0] != -1 else None if gradient is None else gradient[0]
    return (batch, *sizes[1:])


def _infer_average(context: InferContext) -> None:
    shape = original_shape(context)
    pooled = (*shape[:2], *outputs(pool_axes(context.node, shape[2:])))
    if not may_equal(context.shape(0), pooled):
        raise context.fail(f"needs a gradient of shape {pooled}", context.shape(0))
    context.set(0, context.dtype(0), shape)


def _infer_adaptive(context: InferContext) -> None:
    shape, gradient = original_shape(context), context.shape(0)
    if not may_equal(gradient, (*shape[:2], None, None)):
        raise context.fail(f"needs a gradient of shape {(*shape[:2], None, None)}", gradient)
    context.set(0, context.dtype(0), shape)


# ----------------------------------------------------------------------------------------------------- work


def _run(axes: Sequence[Axis], lanes: int) -> int:
    """Windows that are apart end an instruction with their row."""
    return lanes if any(axis.stride > 1 for axis in axes) else 0


def _lower_max(node: Node, context: LowerContext) -> Work:
    """A vmax a tap; then a comparison with the maximum a tap, whose bits go out once earlier ones are taken
    out of them: three instructions on a sixteenth of the bytes, each of which waits for the one before.

    Kernels that start a block for each map unfold the windows first, from L1 to UB, and have one buffer for
    them: nothing else goes on meanwhile (opp, max_pool_with_argmax_resnet50.py). It is timed as a copy by the
    vector unit at the rate of that way. Of other kernels neither is known, and they are left out.
    """
    source, result = node.required(0), node.output
    if result.elements == 0:
        return NoTask()
    axes = pool_axes(node, source.static_shape[2:])
    if source.element_type not in _FLOATS:
        return on_ai_cpu(node, 2.0 * taps(axes))
    inside = computing_type(source.element_type, context)
    rows, lanes = rows_and_lanes(result)
    steps = over_windows([Step("vmax", inside), Step("vcmpv", inside)], axes, lanes, positions=True)
    blocks = _blocks(result, context)
    if blocks:
        unfolding = replace(moving(inside), count=_UNFOLDING * taps(axes))
        bits = [Step(op, DType.INT16, "row", taps(axes)) for op in ("vnot", "vor", "vand")]
        steps = (unfolding, *(replace(step, run=0) for step in steps), *bits)  # taps lie one after the other
    return VectorWork(
        rows,
        lanes,
        converted(steps, (source.element_type,), result.element_type, inside),
        (Stream(Ref.of(source)),),
        tuple(Stream(Ref.of(tensor)) for tensor in node.outputs),
        gather_bytes=plane_bytes(source),
        blocks=blocks,
        live_bytes=2 * taps(axes) * inside.itemsize if blocks else 0,
    )


def _blocks(maps: Tensor, context: LowerContext) -> int:
    """Blocks that kernels with masks start: one for each image and channel block (profiles of ResNet-50, 64
    to 256 blocks on 30 cores).
    """
    if not context.map_blocks or maps.format is not Format.NC1HWC0:
        return 0
    return math.prod(maps.storage_shape[:2])


_UNFOLDING = 2  # cycles for 256 B from L1 to UB (`ports.l1_to_ub` of the first generation: 128 B a cycle)
_FLOATS = frozenset({DType.FLOAT16, DType.FLOAT32, DType.BFLOAT16})


def _spreading(
    node: Node,
    context: LowerContext,
    gradient: Tensor,
    axes: Sequence[Axis],
    first: Sequence[Step],
    blocks: int = 0,
) -> Work:
    """The windows of dy one after the other: `first` makes what a tap gets, which is added in float32 to the
    map in UB; the map is set to zero first and rounded at the end.
    """
    result = node.output
    rows, lanes = rows_and_lanes(gradient)
    wide = DType.FLOAT32 if context.supports("vadd", DType.FLOAT32) else gradient.element_type
    count, run = taps(tuple(axes)), _run(axes, lanes)
    ratio = ceil_div(result.elements, gradient.elements)
    steps = [Step(DUPLICATE, wide, count=ratio), *first]
    if wide is not gradient.element_type:
        steps.append(Step("vconv", wide, count=count, run=0 if blocks else run))
    # a position takes two blocks of float32, which instructions fill one after the other
    half = run // 2 if blocks and wide is DType.FLOAT32 else run
    steps.append(Step("vadd", wide, count=count, run=half))
    if wide is not result.element_type:
        steps.append(Step("vconv", wide, count=ratio))
    inputs = tuple(Stream(Ref.of(tensor)) for tensor in (gradient, node.input(2)) if tensor is not None)
    return VectorWork(
        rows,
        lanes,
        tuple(steps),
        inputs,
        (Stream(Ref.of(result)),),
        gather_bytes=plane_bytes(gradient),
        live_bytes=wide.itemsize * ratio,
        blocks=blocks,
    )


def _lower_max_grad(node: Node, context: LowerContext) -> Work:
    gradient, result = node.required(1), node.output
    if result.elements == 0:
        return NoTask()
    axes = pool_axes(node, result.static_shape[2:])
    if gradient.elements == 0 or gradient.element_type not in _FLOATS:
        return on_ai_cpu(node, 2.0 * taps(axes))
    inside = computing_type(gradient.element_type, context)
    _, lanes = rows_and_lanes(gradient)
    blocks = _blocks(gradient, context)
    if blocks and are_close(axes):
        return tap_by_tap(node, context, gradient, axes, inside, blocks)
    first = Step("vsel", inside, count=taps(axes), run=_run(axes, lanes))
    if blocks:  # a repeat waits for its mask
        chosen = select_by_bits(inside, context)
        first = replace(chosen, count=chosen.count * taps(axes), overruns=True)
    return _spreading(node, context, gradient, axes, [first], blocks)


def _lower_average(node: Node, context: LowerContext) -> Work:
    gradient, result = node.required(0), node.output
    if result.elements == 0:
        return NoTask()
    axes = pool_axes(node, result.static_shape[2:])
    if gradient.elements == 0 or not runs_on_ai_core(node):
        return on_ai_cpu(node, float(taps(axes)))
    inside = computing_type(gradient.element_type, context)
    return _spreading(
        node, context, gradient, axes, [Step("vmul" if uneven(node, axes) else "vmuls", inside)]
    )


def _lower_adaptive(node: Node, context: LowerContext) -> Work:
    """Every element of dx is the sum of its windows' shares: one product, and an addition for each further
    window.
    """
    gradient, result = node.required(0), node.output
    if result.elements == 0:
        return NoTask()
    most = 1
    for size, windows in zip(result.static_shape[2:], gradient.static_shape[2:], strict=True):
        bounds = _bounds(size, windows)
        most *= max((sum(a <= at < b for a, b in bounds) for at in range(size)), default=1)
    if gradient.elements == 0 or not runs_on_ai_core(node):
        return on_ai_cpu(node, float(most))
    inside = computing_type(gradient.element_type, context)
    steps: tuple[Step, ...] = (Step("vmuls", inside, count=most),)
    if most > 1:
        steps += (Step("vadd", inside, count=most - 1),)
    rows, lanes = rows_and_lanes(result)
    return VectorWork(
        rows,
        lanes,
        converted(steps, (gradient.element_type,), result.element_type, inside),
        (Stream(Ref.of(gradient)),),
        (Stream(Ref.of(result)),),
        gather_bytes=plane_bytes(gradient),
    )


# ---------------------------------------------------------------------------------------------------- facts


def _max_links(node: Node) -> AxisMap:
    shape = shape_of(node, 0)
    if shape is None or len(shape) != _RANK:
        return NOTHING_SAID
    names = ("n", "c", "h", "w")
    links = window_links(node, pool_axes(node, shape[2:]))
    special: dict[Label, Link] = dict(zip(("h", "w"), links, strict=True))
    pooled = by_labels(node, {0: names}, {0: names}, special).links
    return AxisMap({**pooled, **by_labels(node, {0: names}, {1: ("n", "c", "tap", "word")}).links})


def spread_links(*ports: int) -> Callable[[Node], AxisMap]:
    """Batch and channels parallel; where windows lie along an axis of dx is not said."""

    def rule(node: Node) -> AxisMap:
        given = {port: ("n", "c", "y", "x") for port in ports}
        links = dict(by_labels(node, given, {0: ("n", "c", "h", "w")}).links)
        if 0 not in ports:
            links[0, 0] = (UNREAD,) * (rank_of(node, 0) or 0)
        return AxisMap(links)

    return rule


def _max(name: str) -> OpDef:
    return OpDef(
        name,
        _infer_max,
        with_numpy(_with_argmax),
        _lower_max,
        Layout.FEATURE,
        domain="ascend",
        facts=Facts(_max_links, Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.OPAQUE),
    )


def _max_grad(name: str) -> OpDef:
    return OpDef(
        name,
        _infer_max_grad,
        with_numpy(_from_mask),
        _lower_max_grad,
        Layout.FEATURE,
        domain="ascend",
        most_inputs=3,
        facts=Facts(
            spread_links(1, 2), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.OPAQUE, maps=(0, 1, 2)
        ),
    )


def _average_grad(name: str, infer: Any, function: Any, lower: Any) -> OpDef:
    facts = Facts(spread_links(0), Kind.REDUCTION, Precision.GRAY, pattern=OpPattern.OPAQUE)
    return OpDef(name, infer, with_numpy(function), lower, Layout.FEATURE, domain="ascend", facts=facts)


OPERATORS: tuple[OpDef, ...] = (
    *(_max(name) for name in ("MaxPoolWithArgmax", "MaxPoolWithArgmaxV1")),
    *(_max_grad(name) for name in ("MaxPoolGradWithArgmax", "MaxPoolGradWithArgmaxV1")),
    _average_grad("AvgPoolV2Grad", _infer_average, _average, _lower_average),
    _average_grad("AdaptiveAvgPool2dGrad", _infer_adaptive, _adaptive, _lower_adaptive),
)
