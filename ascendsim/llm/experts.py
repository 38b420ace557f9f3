"""Mixtures of experts: the gate, the experts that tokens reach, and what they give, added up."""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Tensor
from ascendsim.llm.layers import ASCEND, Step
from ascendsim.llm.structure import Experts


def reached(mixture: Experts, rows: int) -> float:
    """Experts that some of the tokens go to, on average, where every choice is as likely.

    >>> round(reached(Experts(128, 8, 768), 1), 6), round(reached(Experts(128, 8, 768), 16))
    (8.0, 82)
    """
    missed = 1 - mixture.active / mixture.count
    return mixture.count * (1 - missed**rows)


def mixture(step: Step, own: Experts, x: Tensor) -> Tensor:
    """What a card's experts, and the networks beside them, make of the tokens."""
    b, rows = step.builder, step.tokens.rows
    scores = step.product(x, "mlp.gate", own.count, plain=True)
    gate, choices = _gate(step, own, scores)
    spread, places = b.ops(
        "MoeInitRoutingV2",
        *(x, choices),
        domain=ASCEND,
        outputs=4,
        name="mlp/spread",
        active_num=rows * own.active,
        expert_num=own.count,
    )[:2]
    apart = not step.shard.split and step.shard.cards > 1
    if apart:  # tokens go to the cards that have their experts, and come back
        spread = step.all_to_all(spread, "mlp/dispatch")
    made = _grouped(step, own, spread)
    if apart:
        made = step.all_to_all(made, "mlp/combine")
    made = b.op(
        "MoeFinalizeRoutingV2",
        *(made, places, None, None, None, gate, choices),
        domain=ASCEND,
        name="mlp/joined",
        drop_pad_mode=2,
    )
    if own.shared_width:
        beside = network(step, x, step.shard.shared_inner, "mlp.shared_experts")
        made = b.op("Add", made, beside, name="mlp/all")
    return made


def _gate(step: Step, own: Experts, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Shares and numbers of the experts that each token goes to."""
    b = step.builder
    if own.sigmoid:
        made = b.ops(
            "MoeGatingTopK", scores, domain=ASCEND, outputs=3, name="mlp/gate", k=own.active, norm_type=1
        )
    else:
        made = b.ops("MoeGatingTopKSoftmax", scores, domain=ASCEND, outputs=3, name="mlp/gate", k=own.active)
    return made[0], made[1]


def _grouped(step: Step, own: Experts, spread: Tensor) -> Tensor:
    """The experts' networks over the tokens in their order, a batch entry for each that is reached.

    With tokens that choose evenly, each of these gets as many.
    """
    b, shard, hidden = step.builder, step.shard, step.model.hidden
    pairs = step.tokens.rows * own.active
    tokens = step.tokens.rows * (1 if shard.split else shard.cards)  # of all cards that send some here
    met = max(1, round(reached(own, tokens) * shard.experts / own.count))
    each = max(1, -(-tokens * own.active * shard.experts // (own.count * met)))
    order = b.constant(np.arange(met * each) % pairs, "mlp/order")
    parts = b.op("Reshape", b.op("Gather", spread, order, axis=0, name="mlp/rows"), [met, each, hidden])
    inner = shard.expert_inner
    up = step.weight("mlp.experts.gate_up_proj", (met, hidden, 2 * inner))
    down = step.weight("mlp.experts.down_proj", (met, inner, hidden))
    made = step.gated(b.op("MatMul", parts, up, name="mlp/gate_up"), step.model.activation, "mlp/gated")
    made = b.op("Reshape", b.op("MatMul", made, down, name="mlp/down"), [met * each, hidden])
    back = b.constant(np.arange(pairs) % (met * each), "mlp/back")
    return b.op("Gather", made, back, axis=0, name="mlp/results")


def network(step: Step, x: Tensor, inner: int, name: str) -> Tensor:
    """The feed-forward network with its gate."""
    gates = step.product(x, f"{name}.gate_up_proj", 2 * inner)
    made = step.gated(gates, step.model.activation, f"{name}/gated")
    return step.product(made, f"{name}.down_proj", step.model.hidden)
