"""Normalisation: batch, layer, root mean square, group, instance, local response, Lp and mean-variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.normalise.normalisation_work import (
    batch_norm_lower,
    channel_norm_lower,
    layer_norm_lower,
    layer_norm_written_out,
    local_response_lower,
    lp_norm_lower,
    mean_variance_lower,
)
from ascendsim.ops.normalise.softmax import rows_in_blocks
from ascendsim.ops.shared.common import (
    as_float32,
    check_channels,
    finish,
    normalise_axes,
    normalise_axis,
    same_as,
    with_numpy,
)
from ascendsim.ops.shared.dims import need_channels, need_rank, need_within, wrapped_axis
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import (
    NOTHING_SAID,
    WHOLE,
    AxisMap,
    Label,
    Labels,
    Link,
    Relation,
    by_labels,
    rank_of,
    shape_of,
)
from ascendsim.opset.facts import Facts, Kind, OpPattern, Precision
from ascendsim.opset.structure import along, along_axes, normalised_from, per_channel

Wanted = Sequence["np.dtype[Any]"]
_JITTED = frozenset({"float16", "float32"})


def _epsilon(node: Node) -> float:
    return float(node.attr("epsilon", 1e-5))


def _kernel_input(array: Array, wanted: np.dtype[Any]) -> Array:
    """The array in a type that the jitted kernels take: float16 where the result is, float32 else."""
    return array if array.dtype == wanted == np.float16 else as_float32(array).astype(np.float32, copy=False)


# ------------------------------------------------------------------------------------------------------------


def _batch_infer(context: InferContext) -> None:
    check_channels(context)
    context.set(0, context.dtype(0), context.shape(0))
    for index in (1, 2):
        context.set(index, context.dtype(3), context.shape(3))


def _batch(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """(x - mean) / sqrt(variance + epsilon) * scale + B; training mode takes both from the batch and returns
    running values.
    """
    x, scale, bias, mean, variance = (as_float32(array) for array in inputs)
    running: list[Array] = []
    if node.attr("training_mode", 0):
        axes = (0, *range(2, x.ndim))
        wide = x.astype(np.float64)
        batch_mean, batch_variance = wide.mean(axis=axes), wide.var(axis=axes)
        keep = float(node.attr("momentum", 0.9))
        running = [mean * keep + batch_mean * (1 - keep), variance * keep + batch_variance * (1 - keep)]
        mean, variance = batch_mean, batch_variance
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + _epsilon(node))
    if x.dtype == np.float64:
        along = (-1,) + (1,) * (x.ndim - 2)
        result = (x - mean.reshape(along)) * factor.reshape(along) + bias.reshape(along)
    else:
        from ascendsim_kernels.normalisation import affine_channels

        result = affine_channels(_kernel_input(inputs[0], wanted[0]), mean, factor, bias)
    return [finish(array, dtype) for array, dtype in zip([result, *running], wanted, strict=False)]


# ------------------------------------------------------------------------------------------------------ layer


def _layer_infer(context: InferContext) -> None:
    shape = context.shape(0)
    context.set(0, context.dtype(0), shape)
    reduced: Shape | None = None
    if shape is not None:
        axis = normalise_axis(
            int(context.node.attr("axis", -1)), len(shape), f"axis of node {context.node.name!r}"
        )
        reduced = (*shape[:axis], *(1,) * (len(shape) - axis))
    for port in (1, 2):
        need_within(context, port, shape)
    stash = DType.FLOAT32
    for index in (1, 2):
        context.set(index, stash, reduced)


def _rows(
    array: Array, count: int, scale: Array, bias: Array, *, epsilon: float, inner: int, centred: bool = True
) -> tuple[Array, Array, Array]:
    """Normalised rows, mean and 1 / standard deviation of each, by the jitted kernel or (float64) by
    NumPy.
    """
    if array.dtype.name in _JITTED:
        from ascendsim_kernels.normalisation import normalise_rows

        return normalise_rows(array, count, scale, bias, epsilon=epsilon, inner=inner, centred=centred)
    rows = array.reshape(count, -1, inner)
    mean = rows.mean(axis=(1, 2), keepdims=True) if centred else np.zeros((count, 1, 1), array.dtype)
    inverse = 1 / np.sqrt(np.square(rows - mean).mean(axis=(1, 2), keepdims=True) + epsilon)
    channels = [np.resize(v, count * rows.shape[1]).reshape(count, rows.shape[1], 1) for v in (scale, bias)]
    return (
        ((rows - mean) * inverse * channels[0] + channels[1]).reshape(array.shape),
        mean.reshape(-1),
        inverse.reshape(-1),
    )


def _layer(centred: bool) -> Any:
    """Values of layer normalisation, or without the mean and bias of root-mean-square normalisation."""

    def normalised(
        array: Array, count: int, scale: Array, bias: Array | None, epsilon: float
    ) -> tuple[Array, Array, Array]:
        if centred and array.dtype.name in _JITTED:  # the steps of `layer_norm_written_out`
            from ascendsim_kernels.normalisation import layer_norm_rows

            return layer_norm_rows(array, count, scale, bias, epsilon=epsilon)
        offsets = np.zeros(scale.size) if bias is None else bias
        return _rows(array, count, scale, offsets, epsilon=epsilon, inner=1, centred=centred)

    def compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
        x, scale, bias = (*inputs, None)[:3]
        axis = int(node.attr("axis", -1)) % x.ndim
        count, cols = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
        simple = math.prod(scale.shape) == cols and (bias is None or math.prod(bias.shape) == cols)
        wide = as_float32(x) if x.dtype == np.float64 else _kernel_input(x, wanted[0])
        if simple:
            offsets = None if bias is None else as_float32(bias).reshape(-1)
            factors = as_float32(scale).reshape(-1)
            result, mean, inverse = normalised(wide, count, factors, offsets, _epsilon(node))
        else:  # scale or bias broadcast into the rows, or along them
            x = as_float32(x)
            plain, mean, inverse = normalised(x, count, np.ones(cols, x.dtype), None, _epsilon(node))
            result = plain * as_float32(scale)
            if bias is not None:
                result = result + as_float32(bias)
        shape = (*x.shape[:axis], *(1,) * (x.ndim - axis))
        return [
            finish(array, dtype)
            for array, dtype in zip(
                [result, mean.reshape(shape), inverse.reshape(shape)], wanted, strict=False
            )
        ]

    return compute


# ------------------------------------------------------------------------------------------------- group and


def _group(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Any]:
    """Groups of channels are normalised together; instance normalisation has one channel a group."""
    x, scale, bias = inputs
    channels, inner = x.shape[1], math.prod(x.shape[2:])
    groups = channels if node.op_type == "InstanceNormalization" else int(node.attr("num_groups"))
    wide = as_float32(x) if x.dtype == np.float64 else _kernel_input(x, wanted[0])
    factors, offsets = as_float32(scale), as_float32(bias)
    if factors.size == groups != channels:  # opset 18 had one value a group
        factors, offsets = (np.repeat(values, channels // groups) for values in (factors, offsets))
    return [
        finish(
            _rows(wide, x.shape[0] * groups, factors, offsets, epsilon=_epsilon(node), inner=inner)[0],
            wanted[0],
        )
    ]


def _instance_check(context: InferContext) -> None:
    need_rank(context, 0, 2)
    need_channels(context, (1, 2))


def _rms_check(context: InferContext) -> None:
    need_rank(context, 0, 1)
    need_within(context, 1, context.shape(0))


def _group_infer(context: InferContext) -> None:
    shape = context.shape(0)
    groups = context.node.attr("num_groups", 1)
    need_rank(context, 0, 2)
    if shape is not None and isinstance(shape[1], int) and (groups < 1 or shape[1] % groups):
        raise context.fail(f"needs num_groups that divides {shape[1]} channels", groups)
    if context.shape(1) != (groups,):  # opset 18 had one value a group
        need_channels(context, (1, 2))
    context.set(0, context.dtype(0), shape)


# ------------------------------------------------------------------------------------------------------------


def _local_response(node: Node, x: Array) -> Array:
    """Divides: x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta."""
    size = int(node.attr("size"))
    alpha, beta, bias = (
        float(node.attr("alpha", 1e-4)),
        float(node.attr("beta", 0.75)),
        float(node.attr("bias", 1.0)),
    )
    before, channels = (size - 1) // 2, x.shape[1]
    squares = np.zeros((x.shape[0], channels + size - 1, *x.shape[2:]), x.dtype)
    squares[:, before : before + channels] = x * x
    total = np.zeros_like(x)
    for tap in range(size):
        total += squares[:, tap : tap + channels]
    return np.asarray(
        x / np.power(x.dtype.type(bias) + x.dtype.type(alpha / size) * total, x.dtype.type(beta))
    )


def _response_check(context: InferContext) -> None:
    need_rank(context, 0, 2)
    size = context.node.attr("size")
    if not isinstance(size, int) or size < 1:
        raise context.fail("needs a size of 1 or more channels", size)


def _lp_norm(node: Node, x: Array) -> Array:
    """Divides: x / |x|_p along an axis; 0 where the norm is 0."""
    axis, order = int(node.attr("axis", -1)), int(node.attr("p", 2))
    norm = (
        np.sum(np.abs(x), axis=axis, keepdims=True)
        if order == 1
        else np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
    )
    return np.where(norm == 0, np.zeros_like(x), x / norm)


def _lp_infer(context: InferContext) -> None:
    order = context.node.attr("p", 2)
    if order not in (1, 2):
        raise context.fail("needs p of 1 or 2", order)
    shape = context.shape(0)
    if shape is not None:
        wrapped_axis(context, int(context.node.attr("axis", -1)), len(shape))
    context.set(0, context.dtype(0), shape)


def _mean_variance(node: Node, x: Array) -> Array:
    """(x - mean) / (standard deviation + 1e-9) over the axes."""
    axes = normalise_axes(node.attr("axes", (0, 2, 3)), x.ndim, f"axes of node {node.name!r}")
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    return np.asarray(centred / (np.sqrt(np.square(centred).mean(axis=axes, keepdims=True)) + 1e-9)).astype(
        x.dtype
    )


def _mean_variance_check(context: InferContext) -> None:
    shape, node = context.shape(0), context.node
    if shape is not None:
        normalise_axes(node.attr("axes", (0, 2, 3)), len(shape), f"axes of node {node.name!r}")


def _links(node: Node) -> AxisMap:
    """In training everything but the channel is averaged over."""
    rank = rank_of(node, 0)
    if rank is None or rank < 2 or not (node.attr("training_mode", 0) or len(node.outputs) > 1):
        return per_channel(1, 2, 3, 4)(node)
    averaged: dict[Label, Link] = {axis: WHOLE for axis in range(rank) if axis != 1}
    inputs: dict[int, Labels] = {0: range(rank), 1: (1,), 2: (1,), 3: (1,), 4: (1,)}
    return by_labels(node, inputs, {0: range(rank), 1: (1,), 2: (1,)}, averaged)


def _layer_links(node: Node) -> AxisMap:
    """Mean and deviation, where they are asked for, keep the normalised axes with size 1."""
    first, rank = normalised_from()(node), rank_of(node, 0)
    if rank is None:
        return first
    kept = int(node.attr("axis", -1)) % max(1, rank)
    labels: Labels = [*range(kept), *(("one", axis) for axis in range(kept, rank))]
    statistics = by_labels(node, {0: range(rank)}, {1: labels, 2: labels})
    return AxisMap({**{key: links for key, links in first.links.items() if key[1] == 0}, **statistics.links})


def _group_links(node: Node) -> AxisMap:
    """Channels of a group and all positions are averaged over."""
    shape = shape_of(node, 0)
    if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
        return NOTHING_SAID
    groups = shape[1] if node.op_type == "InstanceNormalization" else int(node.attr("num_groups", 1))
    size = shape[1] // max(1, groups)
    special: dict[Label, Link] = dict.fromkeys(range(2, len(shape)), WHOLE)
    special[1] = Link(Relation.GROUP, None, size, size) if size > 1 else Link(Relation.PARALLEL)
    per_channel_links = by_labels(node, {1: (1,), 2: (1,)}, {0: range(len(shape))})
    return AxisMap(
        {
            **per_channel_links.links,
            **by_labels(node, {0: range(len(shape))}, {0: range(len(shape))}, special).links,
        }
    )


def _response_links(node: Node) -> AxisMap:
    rank, size = rank_of(node, 0), int(node.attr("size", 1))
    if rank is None:
        return NOTHING_SAID
    return by_labels(
        node,
        {0: range(rank)},
        {0: range(rank)},
        {1: Link(Relation.WINDOW, before=(size - 1) // 2, reach=size)},
    )


def _normalised_axes(node: Node, rank: int) -> tuple[int, ...]:
    return tuple(axis % rank for axis in node.attr("axes", (0, 2, 3)) if -rank <= axis < rank)


_FACTS = Facts(_group_links, Kind.REDUCTION, Precision.BLACK)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "BatchNormalization",
        _batch_infer,
        _batch,
        batch_norm_lower,
        Layout.FEATURE,
        "BNInference",
        most_inputs=5,
        facts=Facts(_links, Kind.REDUCTION, Precision.BLACK, pattern=OpPattern.BROADCAST),
    ),
    OpDef(
        "LayerNormalization",
        _layer_infer,
        _layer(centred=True),
        layer_norm_lower,
        Layout.FOLLOW,
        "LayerNorm",
        mindspore="LayerNorm",
        expand=layer_norm_written_out,
        in_blocks=rows_in_blocks,
        most_inputs=3,
        facts=Facts(_layer_links, Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "RMSNormalization",
        same_as(check=_rms_check),
        _layer(centred=False),
        layer_norm_lower,
        Layout.FOLLOW,
        "RmsNorm",
        in_blocks=rows_in_blocks,
        most_inputs=2,
        facts=Facts(normalised_from(scales=(1,)), Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "GroupNormalization",
        _group_infer,
        _group,
        channel_norm_lower,
        Layout.ND,
        "GroupNorm",
        most_inputs=3,
        facts=_FACTS,
    ),
    OpDef(
        "InstanceNormalization",
        same_as(check=_instance_check),
        _group,
        channel_norm_lower,
        Layout.ND,
        "InstanceNorm",
        most_inputs=3,
        facts=_FACTS,
    ),
    OpDef(
        "LRN",
        same_as(check=_response_check),
        with_numpy(_local_response),
        local_response_lower,
        Layout.ND,
        facts=Facts(_response_links, Kind.REDUCTION, Precision.GRAY),
    ),
    OpDef(
        "LpNormalization",
        _lp_infer,
        with_numpy(_lp_norm),
        lp_norm_lower,
        Layout.ND,
        "L2Normalize",
        facts=Facts(along(), Kind.REDUCTION, Precision.BLACK),
    ),
    OpDef(
        "MeanVarianceNormalization",
        same_as(check=_mean_variance_check),
        with_numpy(_mean_variance),
        mean_variance_lower,
        Layout.ND,
        "MVNV2",
        facts=Facts(along_axes(_normalised_axes), Kind.REDUCTION, Precision.BLACK),
    ),
)
