"""FlashAttentionScore, CANN's attention kernel (domain "ascend"; aclnnFlashAttentionScore).

    attention_out = dropout(softmax(scale (query key' + real_shift), masked)) value

A query's softmax is made block by block of keys, with a running maximum and sum, so that scores never are
tensors. Inputs, in CANN's order: query, key, value, real_shift, drop_mask (bits), padding_mask (unused),
atten_mask. Outputs: softmax_max and softmax_sum (batch, heads, queries, 8; float32), softmax_out (empty),
attention_out. `pse_type` 1 adds real_shift before the factor, 0 behind it. See `ops.shared.attention` for
layouts and sparse modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.attention import (
    LANES,
    Steering,
    by_heads,
    check_operands,
    follow,
    from_heads,
    layout_of,
    rounded,
    static_heads,
    stored,
)
from ascendsim.ops.shared.attention_work import attention_work
from ascendsim.ops.shared.common import as_float32, finish
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, Work

SHIFT, DROP, MASK = 3, 4, 6  # ports
ROWS, COLUMNS = 128, 1024  # of a block; values depend on them by the order of sums only


def _infer(context: InferContext) -> None:
    heads = check_operands(context, SHIFT, DROP, MASK)
    dtype = context.dtype(0)
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    if heads is None:
        for output, own in enumerate((wide, wide, dtype, dtype)):
            context.set(output, own, None)
        return
    for output in (0, 1):
        context.set(output, wide, (heads.batch, heads.count, heads.queries, LANES))
    context.set(2, dtype, (0,))
    context.set(
        3, dtype, stored(layout_of(context.node), heads.batch, heads.count, heads.queries, heads.width)
    )


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """Exact products of halves and float32 sums; weights are rounded to the operands' type before the second
    product, and the result once.
    """
    given = [*inputs, *[None] * (MASK + 1 - len(inputs))]
    batch, count, shared, queries, keys, _, width = static_heads(node).static
    layout = layout_of(node)
    q, k, v = (
        by_heads(as_float32(array), layout, own)
        for array, own in zip(given[:3], (count, shared, shared), strict=True)
    )
    shift = None if given[SHIFT] is None else as_float32(given[SHIFT])
    steering = Steering.of(node, (batch, count, queries, keys), shift, given[DROP], given[MASK])
    result = np.zeros((batch, count, queries, width), q.dtype)
    peaks = np.full((batch, count, queries), -np.inf, q.dtype)
    totals = np.zeros((batch, count, queries), q.dtype)
    for block in steering.blocks((batch, count, queries, keys), (ROWS, COLUMNS)):
        cut, source = block.queries, (block.head[0], block.head[1] * shared // count, block.keys)
        scores = steering.scores(np.matmul(q[cut], k[source].T), block)
        weights = follow(scores, peaks[cut], totals[cut], result[cut])
        weights = steering.dropped(weights, block)
        result[cut] += np.matmul(rounded(weights, given[0].dtype), v[source])
    seen = np.where(totals > 0, totals, 1)
    result /= seen[..., None]
    statistics = [np.repeat(array[..., None], LANES, axis=-1) for array in (peaks, totals)]
    made = [*statistics, np.zeros(0, q.dtype), from_heads(result, layout)]
    return [finish(np.ascontiguousarray(array), dtype) for array, dtype in zip(made, wanted, strict=False)]


def _lower(node: Node, context: LowerContext) -> Work:
    return attention_work(node, context, steered=(SHIFT, DROP, MASK))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "FlashAttentionScore",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        most_inputs=12,
        facts=Facts(opaque(), Kind.MATMUL, Precision.ATTENTION, operands=(0, 1, 2), parameters=(DROP, MASK)),
    ),
)
