"""RotaryPositionEmbedding and its gradient (domain "ascend", CANN's prototypes; torch_npu's npu_rotary_mul).

    RotaryPositionEmbedding(x, cos, sin) -> x cos + turned(x) sin
    RotaryPositionEmbeddingGrad(dy, cos, sin, x) -> dx, dcos, dsin

turned(x) has the partner of each component with a sign: (-x2, x1) of the halves of the last axis with mode 0
("half"), of neighbours with mode 1 ("interleave"). cos and sin have x's rank and broadcast into it, but for
the last axis, which they have in full. Without x (it is optional) dcos and dsin are empty.

ONNX's RotaryEmbedding keeps angles of half the size in a cache by position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    elementwise_work,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    split_broadcast,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Ref, SequenceWork, Stream, VectorWork, Work

_INTERLEAVED = 1


def _mode(context: InferContext) -> None:
    mode = int(context.node.attr("mode", 0))
    if mode not in (0, _INTERLEAVED):
        raise context.fail("needs mode 0 (half) or 1 (interleave)", mode)


def _check(context: InferContext) -> None:
    _mode(context)
    data, angles = context.shape(0), context.shape(1)
    need_shape(context, 2, angles)
    if data is None:
        return
    if not data or (isinstance(data[-1], int) and data[-1] % 2):
        raise context.fail("needs a last axis of even size", list(data))
    if angles is not None and not (
        len(angles) == len(data)
        and may_equal(angles[-1:], data[-1:])
        and all(own == 1 or may_equal((own,), (dim,)) for own, dim in zip(angles, data, strict=True))
    ):
        raise context.fail(
            "needs cos and sin of the rank of x, each axis as there or 1, the last in full", angles
        )


def _infer(context: InferContext) -> None:
    _check(context)
    context.set(0, context.dtype(0), context.shape(0))


def _infer_gradient(context: InferContext) -> None:
    _infer(context)
    given = context.has(3)
    if given:
        need_shape(context, 3, context.shape(0))
    for port in (1, 2):
        context.set(port, context.dtype(port), context.shape(port) if given else (0,))


def _turned(node: Node, data: Array) -> Array:
    if int(node.attr("mode", 0)) == _INTERLEAVED:
        return np.stack([-data[..., 1::2], data[..., 0::2]], axis=-1).reshape(data.shape)
    first, second = np.split(data, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)


def _compute(node: Node, x: Array, cosine: Array, sine: Array) -> Array:
    return np.asarray(x * cosine + _turned(node, x) * sine)


def _gradient(node: Node, dy: Array, cosine: Array, sine: Array, x: Array | None = None) -> tuple[Array, ...]:
    """Turning is a rotation by a right angle, so its transpose turns the other way."""
    dx = dy * cosine - _turned(node, dy * sine)
    if x is None:
        return dx, np.zeros(0, dy.dtype), np.zeros(0, dy.dtype)
    axes = tuple(axis for axis, size in enumerate(cosine.shape) if size == 1)
    wide = dy.astype(np.float64)
    sums = [np.sum(wide * given, axis=axes, keepdims=True) for given in (x, _turned(node, x))]
    return dx, sums[0], sums[1]


def _steps(node: Node) -> tuple[StepSpec, ...]:
    """Partners change places (two copies of halves, or picked one by one), half of them change sign."""
    swap: StepSpec = "vgather" if int(node.attr("mode", 0)) == _INTERLEAVED else "vadds"
    return (swap, "vmuls", ("vmul", 2), "vadd")


def _on_ai_core(node: Node, context: LowerContext) -> bool:
    """Neighbours change places by vgather, which not all chips have."""
    inside = computing_type(node.output.element_type, context, wide=True)
    swaps = int(node.attr("mode", 0)) != _INTERLEAVED or context.supports("vgather", inside)
    return swaps and runs_on_ai_core(node)


def _lower(node: Node, context: LowerContext) -> Work:
    if not _on_ai_core(node, context):
        return on_ai_cpu(node, float(len(_steps(node))))
    return elementwise_work(node, context, _steps(node), wide=True)


def _lower_gradient(node: Node, context: LowerContext) -> Work:
    """Dx as forward; then the sums of dcos and dsin over the axes that angles lack."""
    dy, cosine, sine = (node.required(port) for port in range(3))
    if dy.elements == 0:
        return NoTask()
    if not _on_ai_core(node, context):
        return on_ai_cpu(node, float(len(_steps(node))))
    inside = computing_type(dy.element_type, context, wide=True)
    split = split_broadcast(dy.static_shape, [dy.static_shape, cosine.static_shape, sine.static_shape])
    big = [
        tensor.element_type
        for tensor, over in zip((dy, cosine, sine), split.overs, strict=True)
        if over == "all"
    ]
    dx = VectorWork(
        split.rows,
        split.cols,
        converted(make_steps(_steps(node), inside), big, node.output.element_type, inside),
        tuple(
            Stream(Ref.of(tensor), over) for tensor, over in zip((dy, cosine, sine), split.overs, strict=True)
        ),
        (Stream(Ref.of(node.output)),),
    )
    x = node.input(3)
    return (
        dx if x is None or len(node.outputs) < 2 else SequenceWork((dx, _sums(node, context, dy, x, cosine)))
    )


def _sums(node: Node, context: LowerContext, dy: Tensor, x: Tensor, angles: Tensor) -> VectorWork:
    inside = computing_type(dy.element_type, context, wide=True)
    shape = angles.static_shape
    specs: list[StepSpec] = [*_steps(node)[:2], ("vmul", 2), ("vadd", 2)]
    steps = converted(make_steps(specs, inside), [dy.element_type, x.element_type], inside, inside)
    kept = shape[-1] * dy.element_type.itemsize  # pieces that lie together, whatever is summed
    return VectorWork(
        dy.elements // angles.elements,
        math.prod(shape),
        steps,
        (Stream(Ref.of(dy)), Stream(Ref.of(x))),
        tuple(Stream(Ref.of(made), "col") for made in node.outputs[1:]),
        reduces="rows",
        gather_bytes=kept,
    )


def _links(node: Node) -> AxisMap:
    """Vectors are turned one by one, each as a whole; angles are read by the rule of broadcasting."""
    rank = rank_of(node, 0)
    if not rank:
        return NOTHING_SAID
    labels: Sequence[int] = range(rank)
    turned = by_labels(node, {0: labels}, {0: labels}, {rank - 1: WHOLE})
    return AxisMap({**by_labels(node, {1: labels, 2: labels}, {0: labels}).links, **turned.links})


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "RotaryPositionEmbedding",
        _infer,
        with_numpy(_compute),
        _lower,
        domain="ascend",
        most_inputs=3,
        facts=Facts(_links, Kind.ELEMENTWISE, Precision.GRAY),
    ),
    OpDef(
        "RotaryPositionEmbeddingGrad",
        _infer_gradient,
        with_numpy(_gradient),
        _lower_gradient,
        domain="ascend",
        most_inputs=4,
        facts=Facts(opaque(), Kind.ELEMENTWISE, Precision.GRAY),
    ),
)
