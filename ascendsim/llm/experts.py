"""Mixtures of experts: the gate, the experts that tokens reach, and what they give, added up."""

from __future__ import annotations

import math

import numpy as np

from ascendsim.graph.ir import Tensor
from ascendsim.llm.layers import Step
from ascendsim.llm.structure import Experts


def reached(mixture: Experts, rows: int) -> float:
    """Experts that some of the tokens go to, on average, where every choice is as likely.

    >>> round(reached(Experts(128, 8, 768), 1), 6), round(reached(Experts(128, 8, 768), 16))
    (8.0, 82)
    """
    missed = 1 - mixture.active / mixture.count
    return mixture.count * (1 - missed**rows)


def mixture(step: Step, own: Experts, x: Tensor) -> Tensor:
    """What a card's experts, and the network beside them, make of the tokens."""
    b, rows, model, shard = step.builder, step.tokens.rows, step.model, step.shard
    scores = b.op("Softmax", step.product(x, "mlp.gate", own.count, plain=True), axis=-1, name="mlp/scores")
    shares, _ = b.ops("TopK", scores, [own.active], outputs=2, name="mlp/chosen")
    met = min(own.count, math.ceil(reached(own, rows) * shard.experts / own.count))
    routed = rows * own.active * shard.experts // own.count
    each = max(1, -(-routed // met))
    order = np.arange(met * each) % rows
    spread = b.op("Gather", x, b.constant(order, "mlp/order"), axis=0, name="mlp/spread")
    parts = b.op("Reshape", spread, [met, each, model.hidden])
    inner = shard.expert_inner
    gates = b.op("MatMul", parts, b.weight("mlp.experts.gate_up", (met, model.hidden, 2 * inner)))
    made = b.op(
        "MatMul",
        b.op("SwiGlu", gates, domain="ascend"),
        b.weight("mlp.experts.down", (met, inner, model.hidden)),
    )
    made = b.op("Reshape", made, [met * each, model.hidden])
    back = b.constant(np.arange(rows * own.active) % (met * each), "mlp/back")
    made = b.op("Reshape", b.op("Gather", made, back, axis=0), [rows, own.active, model.hidden])
    made = b.op("Mul", made, b.op("Reshape", shares, [rows, own.active, 1]))
    return b.op("ReduceSum", made, [1], keepdims=0, name="mlp/joined")
