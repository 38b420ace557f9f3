"""Gradients of group and root-mean-square normalisation (domain "ascend"): GroupNormGrad, RmsNormGrad.

    RmsNormGrad(dy, x, rstd, gamma) -> dx, dgamma                      y = n gamma, n = x rstd, over the last
                                                                       axes, those that gamma has
    GroupNormGrad(dy, mean, rstd, x, gamma) -> dx, dgamma, dbeta       y = n gamma + beta by channel,
                                                                       n = (x - mean) rstd by group

With h = dy gamma, dx = rstd (h - n mean of (h n)), and for groups also less the mean of h; dgamma is the sum
of dy n, dbeta that of dy. The statistics are what the forward operators hand on: rstd has one value a row
(RmsNorm), mean and rstd are (N, num_groups). dgamma of RmsNormGrad is float32. Sums are float64, results are
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Shape, Tensor
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import (
    StepSpec,
    computing_type,
    converted,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    with_numpy,
)
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, SequenceWork, Stream, VectorWork, Work

# n, its products with h, their mean, and what is left of h
_ROW: tuple[StepSpec, ...] = ("vmul", "vmul", "vmul", "vcadd", "vmul", "vsub", "vmul")
# Elements of the longest rows that Ascend910B's kernel of RmsNormGrad takes several of at a time (ops-nn,
# rms_norm_grad_split_n_high_precision.h)
_MANY_AT_A_TIME = 640
_CENTRED_ROW: tuple[StepSpec, ...] = ("vsub", *_ROW, "vcadd", "vsub")


def _wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


# ------------------------------------------------------------------------------------------------------ rms


def _rms_infer(context: InferContext) -> None:
    data, gamma = context.shape(1), context.shape(3)
    need_shape(context, 0, data)
    if data is not None and gamma is not None:
        if len(gamma) > len(data) or not may_equal(data[len(data) - len(gamma) :], gamma):
            raise context.fail("needs gamma of the shape of the last axes", f"{gamma} for {data}")
        rows = data[: len(data) - len(gamma)]
        if not any(may_equal(context.shape(2), (*rows, *end)) for end in ((), (1,) * len(gamma))):
            raise context.fail(f"needs one value of rstd a row, shape {rows}", context.shape(2))
    context.set(0, context.dtype(1), data)
    context.set(1, DType.FLOAT32, gamma)


def _rms(_node: Node, dy: Array, x: Array, rstd: Array, gamma: Array) -> tuple[Array, Array]:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    wide, data, inverse, scale = _wide(dy, x, rstd, gamma)
    inverse = inverse.reshape(*x.shape[: x.ndim - gamma.ndim], *(1,) * gamma.ndim)
    normal, h = data * inverse, wide * scale
    dx = inverse * (h - normal * (h * normal).mean(axis=axes, keepdims=True))
    return dx, np.sum(wide * normal, axis=tuple(range(x.ndim - gamma.ndim)))


def _rms_lower(node: Node, context: LowerContext) -> Work:
    """One sweep over rows: dx row by row, dgamma added up beside it."""
    dy, x, rstd, gamma = (node.required(port) for port in range(4))
    if x.elements == 0:
        return fill_work(Ref.of(node.outputs[1]))  # a sum over no rows is 0
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 8.0)
    cols = gamma.elements
    inside = computing_type(x.element_type, context, wide=True)
    steps = make_steps([*_ROW, "vmul", "vadd"], inside)
    steps = converted(steps, [dy.element_type, x.element_type], node.output.element_type, inside)
    inputs = _streams((dy, x, rstd, gamma), ("all", "all", "row", "col"))
    outputs = (
        *_streams(node.outputs[:1], ("all",)),
        *(Stream(Ref.of(made), "col") for made in node.outputs[1:]),
    )
    work = VectorWork(x.elements // cols, cols, steps, inputs, outputs, reduces="cols", sweeps=2)
    if not context.split_cores:
        return work
    return replace(work, in_turn=cols > _MANY_AT_A_TIME, cores="shares")


# ---------------------------------------------------------------------------------------------------- group


def _group_infer(context: InferContext) -> None:
    data, groups = context.shape(3), int(context.node.attr("num_groups"))
    if groups < 1:
        raise context.fail("needs positive num_groups", groups)
    need_shape(context, 0, data)
    channels = None if data is None or len(data) < 2 else data[1]
    if data is not None and len(data) < 2:
        raise context.fail("needs data of rank 2 or more", list(data))
    if isinstance(channels, int) and channels % groups:
        raise context.fail(f"needs channels that are a multiple of num_groups {groups}", channels)
    statistics: Shape = (None if data is None else data[0], groups)
    for port, wanted in ((1, statistics), (2, statistics), (4, (channels,))):
        need_shape(context, port, wanted)
    context.set(0, context.dtype(3), data)
    for index in (1, 2):
        context.set(index, context.dtype(4), context.shape(4))


def _group(node: Node, dy: Array, mean: Array, rstd: Array, x: Array, gamma: Array) -> tuple[Array, ...]:
    groups, shape = int(node.attr("num_groups")), x.shape
    wide, centre, inverse, data, scale = _wide(dy, mean, rstd, x, gamma)
    by_group = (shape[0], groups, math.prod(shape[1:]) // groups)
    h = (wide * scale.reshape(-1, *(1,) * (x.ndim - 2))).reshape(by_group)
    normal = (data.reshape(by_group) - centre[..., None]) * inverse[..., None]
    dx = inverse[..., None] * (
        h - h.mean(axis=-1, keepdims=True) - normal * (h * normal).mean(axis=-1, keepdims=True)
    )
    axes = (0, *range(2, x.ndim))
    return dx.reshape(shape), np.sum(wide * normal.reshape(shape), axis=axes), np.sum(wide, axis=axes)


def _group_lower(node: Node, context: LowerContext) -> Work:
    """Dx by groups, then the sums of every channel."""
    dy, mean, rstd, x, gamma = (node.required(port) for port in range(5))
    if x.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, 16.0)
    rows = x.static_shape[0] * int(node.attr("num_groups"))
    channels = x.static_shape[0] * x.static_shape[1]
    inside = computing_type(x.element_type, context, wide=True)
    big = [dy.element_type, x.element_type]
    data = VectorWork(
        rows,
        x.elements // rows,
        converted(make_steps(_CENTRED_ROW, inside), big, node.output.element_type, inside),
        _streams((dy, x, mean, rstd, gamma), ("all", "all", "row", "row", "row")),
        _streams(node.outputs[:1], ("all",)),
        reduces="cols",
        sweeps=3,
    )
    sums = VectorWork(
        channels,
        x.elements // channels,
        converted(make_steps(["vsub", "vmul", "vmul", ("vcadd", 2)], inside), big, inside, inside),
        _streams((dy, x, mean, rstd), ("all", "all", "row", "row")),
        tuple([Stream(Ref.of(made), "row") for made in node.outputs[1:]]),
        reduces="cols",
    )
    return SequenceWork((data, sums)) if len(node.outputs) > 1 else data


def _streams(tensors: Sequence[Tensor], overs: Sequence[Over]) -> tuple[Stream, ...]:
    return tuple(Stream(Ref.of(tensor), over) for tensor, over in zip(tensors, overs, strict=True))


def _op(name: str, inputs: int, infer: Any, function: Any, lower: Any) -> OpDef:
    facts = Facts(opaque(), Kind.REDUCTION, Precision.GRAY)
    return OpDef(name, infer, with_numpy(function), lower, domain="ascend", most_inputs=inputs, facts=facts)


OPERATORS: tuple[OpDef, ...] = (
    _op("RmsNormGrad", 4, _rms_infer, _rms, _rms_lower),
    _op("GroupNormGrad", 5, _group_infer, _group, _group_lower),
)
