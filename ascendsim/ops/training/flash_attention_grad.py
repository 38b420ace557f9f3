"""FlashAttentionScoreGrad, CANN's gradient of attention (domain "ascend"; aclnnFlashAttentionScoreGrad).

Weights are made again, block by block, from the rows' maxima and sums:

    weight = e^(score - softmax_max) / softmax_sum          dv += dropout(weight)' dy
    dscore = weight (dropout(dy v') - sum(dy attention_in))  dq += dscore k scale,  dk += dscore' q scale

Inputs, in CANN's order: query, key, value, dy, pse_shift, drop_mask, padding_mask (unused), atten_mask,
softmax_max, softmax_sum, softmax_in (unused), attention_in. Outputs: dq, dk, dv, and dpse for a shift of each
batch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.shared.attention import (
    LANES,
    Steering,
    by_heads,
    check_operands,
    from_heads,
    layout_of,
    rounded,
    static_heads,
    stored,
)
from ascendsim.ops.shared.attention_work import attention_grad_work
from ascendsim.ops.shared.common import as_float32, finish, own_type
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, Work

GRAD, SHIFT, DROP, MASK, MAXIMA, SUMS, RESULT = 3, 4, 5, 7, 8, 9, 11  # ports
ROWS, COLUMNS = 128, 512  # of a block; values depend on them by the order of sums only


def _infer(context: InferContext) -> None:
    heads = check_operands(context, SHIFT, DROP, MASK)
    for port in (GRAD, MAXIMA, SUMS, RESULT):
        if not context.has(port):
            raise context.fail(f"needs input {port}")
    for port in range(3):
        context.set(port, context.dtype(port), context.shape(port))
    if context.has(SHIFT):
        context.set(3, context.dtype(SHIFT), context.shape(SHIFT))
    else:
        context.set(3, context.dtype(0), (0,))
    if heads is None:
        return
    made = stored(layout_of(context.node), heads.batch, heads.count, heads.queries, heads.width)
    rows = (heads.batch, heads.count, heads.queries, LANES)
    for port, shape in ((GRAD, made), (RESULT, made), (MAXIMA, rows), (SUMS, rows)):
        if not may_equal(context.shape(port), shape):
            raise context.fail(f"needs an input {port} of shape {shape}", context.shape(port))


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """As forward: weights and gradients of scores are rounded to the operands' type before they are
    multiplied; all sums are float32.
    """
    batch, count, shared, queries, keys, _, _ = static_heads(node).static
    layout, narrow = layout_of(node), own_type(inputs[0], wanted)
    q, k, v, dy, result = (
        by_heads(as_float32(inputs[port]), layout, own)
        for port, own in ((0, count), (1, shared), (2, shared), (GRAD, count), (RESULT, count))
    )
    shift = None if inputs[SHIFT] is None else as_float32(inputs[SHIFT])
    steering = Steering.of(node, (batch, count, queries, keys), shift, inputs[DROP], inputs[MASK])
    peaks, totals = (inputs[port][..., 0].astype(q.dtype) for port in (MAXIMA, SUMS))
    inverse = np.where(totals > 0, 1 / np.where(totals > 0, totals, 1), 0)
    peaks = np.where(np.isfinite(peaks), peaks, 0)
    deltas = (dy * result).sum(axis=-1)
    dq, dk, dv = (np.zeros(array.shape, q.dtype) for array in (q, k, v))
    dshift = np.zeros((batch, count, queries, keys) if shift is not None else (0,), q.dtype)
    factor = q.dtype.type(steering.scale)
    for block in steering.blocks((batch, count, queries, keys), (ROWS, COLUMNS)):
        cut, source = block.queries, (block.head[0], block.head[1] * shared // count, block.keys)
        scores = steering.scores(np.matmul(q[cut], k[source].T), block)
        weights = np.exp(scores - peaks[cut][:, None]) * inverse[cut][:, None]
        kept = rounded(steering.dropped(weights, block), narrow)
        dv[source] += np.matmul(kept.T, dy[cut])
        grads = steering.dropped(np.matmul(dy[cut], v[source].T), block)
        dscores = weights * (grads - deltas[cut][:, None])
        if shift is not None:
            dshift[(*cut, block.keys)] = dscores * (factor if steering.scaled_shift else 1)
        dscores = rounded(dscores, narrow)
        dq[cut] += np.matmul(dscores, k[source])
        dk[source] += np.matmul(dscores.T, q[cut])
    if shift is not None and shift.shape[0] < batch:
        dshift = dshift.sum(axis=0, keepdims=True)
    made = [*(from_heads(array, layout) for array in (dq * factor, dk * factor, dv)), dshift]
    return [finish(np.ascontiguousarray(array), dtype) for array, dtype in zip(made, wanted, strict=False)]


def _lower(node: Node, context: LowerContext) -> Work:
    return attention_grad_work(node, context, steered=(SHIFT, DROP, MASK))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "FlashAttentionScoreGrad",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        most_inputs=16,
        facts=Facts(
            opaque(),
            Kind.MATMUL,
            Precision.WHITE,
            operands=(0, 1, 2, GRAD),
            parameters=(DROP, MASK, MAXIMA, SUMS),
        ),
    ),
)
