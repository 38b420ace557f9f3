"""RotaryEmbedding: pairs of a head's components turned by an angle of their position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.common import as_float32, elementwise_work, finish
from ascendsim.ops.shared.dims import need_shape, need_within
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, WHOLE, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, Ref, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]


def _infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None and len(source) not in (3, 4):
        raise ctx.fail("needs a tensor of rank 3 or 4", list(source))
    if source is not None and len(source) == 3 and int(ctx.node.attr("num_heads", 0)) < 1:
        raise ctx.fail("needs num_heads for input of rank 3", ctx.node.attr("num_heads"))
    for port in (1, 2):
        table, rank = ctx.shape(port), 2 if ctx.has(3) else 3
        if table is not None and len(table) != rank:
            raise ctx.fail(f"needs input {port} of rank {rank}", list(table))
        need_shape(ctx, port, ctx.shape(1))
    _check_size(ctx, source)
    if source is not None:
        each = (source[0], source[2] if len(source) == 4 else source[1])  # position of each sequence
        need_within(ctx, 3, each)
        for port in (1, 2) if not ctx.has(3) else ():
            need_within(ctx, port, (*each, None))
    ctx.set(0, ctx.dtype(0), source)


def _check_size(ctx: InferContext, source: Shape | None) -> None:
    """Refuses tables that have not one angle for each pair of what is turned of a head."""
    heads, part = (int(ctx.node.attr(name, 0)) for name in ("num_heads", "rotary_embedding_dim"))
    size = None if source is None else source[-1]
    table = ctx.shape(1)
    if source is not None and len(source) == 3 and isinstance(size, int):
        if size % heads:
            raise ctx.fail(f"needs a width of {heads} equal heads", size)
        size //= heads
    if isinstance(size, int) and part > size:
        raise ctx.fail(f"needs a rotary_embedding_dim of at most {size}, the size of a head", part)
    turned = part or size
    if isinstance(turned, int) and turned % 2:
        raise ctx.fail("needs an even number of elements of a head to turn", turned)
    if (
        isinstance(turned, int)
        and table is not None
        and isinstance(table[-1], int)
        and 2 * table[-1] != turned
    ):
        raise ctx.fail(f"needs tables of {turned // 2} angles, half of what is turned", table[-1])


def rotate(data: Array, cosine: Array, sine: Array, interleaved: bool) -> Array:
    """Turns pairs of the last axis of (batch, sequence, heads, size) by angles given as (batch, sequence,
    size / 2).
    """
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    first, second = (data[..., 0::2], data[..., 1::2]) if interleaved else np.split(data, 2, axis=-1)
    real, imaginary = cosine * first - sine * second, sine * first + cosine * second
    if interleaved:
        return np.stack([real, imaginary], axis=-1).reshape(data.shape)
    return np.concatenate([real, imaginary], axis=-1)


def _compute(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, cosine, sine, positions = (*inputs, None)[:4]
    wide, cosine, sine = as_float32(data), as_float32(cosine), as_float32(sine)
    if positions is not None:
        if positions.size and not 0 <= positions.min() <= positions.max() < cosine.shape[0]:
            raise GraphError(
                f"node {node.name!r} (RotaryEmbedding)",
                f"needs positions from 0 to {cosine.shape[0] - 1}",
                int(positions.max()),
            )
        cosine, sine = cosine[positions], sine[positions]
    heads = int(node.attr("num_heads", 0))
    by_head = (
        wide.transpose(0, 2, 1, 3)
        if data.ndim == 4
        else wide.reshape(*data.shape[:2], heads, data.shape[2] // heads)
    )
    size = int(node.attr("rotary_embedding_dim", 0)) or by_head.shape[-1]
    if cosine.shape[-1] != size // 2:
        raise GraphError(
            f"node {node.name!r} (RotaryEmbedding)",
            f"needs caches with {size // 2} columns",
            cosine.shape[-1],
        )
    turned = rotate(by_head[..., :size], cosine, sine, bool(node.attr("interleaved", 0)))
    result = np.concatenate([turned, by_head[..., size:]], axis=-1)
    result = result.transpose(0, 2, 1, 3) if data.ndim == 4 else result.reshape(data.shape)
    return [finish(np.ascontiguousarray(result), wanted[0])]


def _lower(node: Node, ctx: LowerContext) -> Work:
    """Four products and two sums on half of the elements each: two vmul and one vadd on all of them; caches
    are read once.
    """
    work = elementwise_work(node, ctx, (("vmul", 2), "vadd"))
    if not isinstance(work, VectorWork):
        return work
    small = tuple(Stream(Ref.of(tensor), "col") for tensor in node.inputs[1:] if tensor is not None)
    return VectorWork(
        work.rows, work.cols, work.steps, (Stream(Ref.of(node.required(0))), *small), work.outputs
    )


def _links(node: Node) -> AxisMap:
    """Positions are turned one by one, each as a whole."""
    rank = rank_of(node, 0)
    if rank not in (3, 4):
        return NOTHING_SAID
    data = ("n", "head", "t", "size") if rank == 4 else ("n", "t", "size")
    turned = by_labels(node, {0: data}, {0: data}, {"size": WHOLE})
    caches = ("n", "t", "angle") if rank_of(node, 1) == 3 else ("position", "angle")
    return AxisMap(
        {**by_labels(node, {1: caches, 2: caches, 3: ("n", "t")}, {0: data}).links, **turned.links}
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "RotaryEmbedding",
        _infer,
        _compute,
        _lower,
        cann="RotaryMul",
        most_inputs=4,
        facts=Facts(_links, Kind.ELEMENTWISE, Precision.GRAY),
    ),
)
