"""Mixtures of experts: the gate, the experts that tokens reach, and what they give, added up."""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.llm.layers import ASCEND, Step
from ascendsim.llm.structure import Experts
from ascendsim.llm.weights import int8_experts


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
    spread, places, counts = b.ops(
        "MoeInitRoutingV2",
        *(x, choices),
        domain=ASCEND,
        outputs=4,
        name="mlp/spread",
        active_num=rows * own.active,
        expert_num=own.count,
        expert_tokens_count_or_cumsum_flag=2,
    )[:3]
    apart = not step.shard.split and step.shard.cards > 1
    if apart:  # tokens go to the cards that have their experts, and come back
        spread = step.all_to_all(spread, "mlp/dispatch")
    made = _grouped(step, own, spread, counts)
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
        if own.shared_gate:
            share = b.op(
                "Sigmoid", step.product(x, "mlp.shared_expert_gate", 1, plain=True), name="mlp/share"
            )
            beside = b.op("Mul", beside, share, name="mlp/shared")
        made = b.op("Add", made, beside, name="mlp/all")
    return made


def _gate(step: Step, own: Experts, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Shares and numbers of the experts that each token goes to."""
    b, name = step.builder, "mlp/gate"
    if not (own.sigmoid or own.normalised or own.corrected or own.groups > 1 or own.factor != 1):
        made = b.ops("MoeGatingTopKSoftmax", scores, domain=ASCEND, outputs=3, name=name, k=own.active)
        return made[0], made[1]
    bias = step.weight("mlp.gate.e_score_correction_bias", (own.count,)) if own.corrected else None
    made = b.ops(
        "MoeGatingTopK",
        *(scores, bias),
        domain=ASCEND,
        outputs=3,
        name=name,
        k=own.active,
        norm_type=int(own.sigmoid),
        renorm=int(own.normalised and not own.sigmoid),
        group_count=own.groups,
        k_group=own.kept_groups,
        group_select_mode=int(own.sigmoid),
        routed_scaling_factor=own.factor,
    )
    return made[0], made[1]


def _grouped(step: Step, own: Experts, spread: Tensor, counts: Tensor) -> Tensor:
    """The experts' networks over the tokens in their order.

    Which experts are reached decides the time; they are counted as if every choice were as likely, and those
    that are reached get equally many tokens. Values go by the tokens that there are (`counts`).
    """
    b, shard = step.builder, step.shard
    tokens = step.tokens.rows * (1 if shard.split else shard.cards)  # of all cards that send some here
    met = max(1, round(reached(own, tokens) * shard.experts / own.count))
    pairs = max(1, tokens * own.active * shard.experts // own.count)
    known = [pairs // met + (place < pairs % met) if place < met else 0 for place in range(shard.experts)]
    if shard.experts != own.count:  # whole experts of this card: their tokens come from all cards
        counts = b.constant(np.array(known, np.int64), "mlp/groups")
    gates = _product(step, spread, counts, known, "mlp.experts.gate_up_proj", 2 * shard.expert_inner)
    made = step.gated(gates, step.model.activation, "mlp/gated")
    return _product(step, made, counts, known, "mlp.experts.down_proj", step.model.hidden)


def _product(step: Step, x: Tensor, counts: Tensor, known: list[int], name: str, columns: int) -> Tensor:
    """Each expert's rows times its matrix."""
    b, form = step.builder, step.form
    shape = (step.shard.experts, x.static_shape[1], columns)
    more: dict[int, Tensor] = {}
    kind = None
    if form.quantised:
        x, more[8] = step.quantised(x, name)
        fill = step.fill(f"{name}.weight", shape)
        weight = b.weight(f"{name}.qweight", shape, fill and (lambda: int8_experts(fill())[0]), DType.INT8)
        scales = fill and (lambda: int8_experts(fill())[1])
        more[3] = b.weight(f"{name}.scales", (shape[0], columns), scales, DType.FLOAT32)
        kind = 27 if form.flow is DType.BFLOAT16 else 1
    else:
        weight = step.weight(f"{name}.weight", shape)
    given = {0: x, 1: weight, 7: counts, **more}
    inputs = [given.get(port) for port in range(max(given) + 1)]
    return b.op(
        "GroupedMatmul", *inputs, domain=ASCEND, name=name, group_list_type=1, known_rows=known, dtype=kind
    )


def network(step: Step, x: Tensor, inner: int, name: str) -> Tensor:
    """The feed-forward network with its gate."""
    bias = step.model.inner_bias
    gates = step.product(x, f"{name}.gate_up_proj", 2 * inner, bias=bias)
    made = step.gated(gates, step.model.activation, f"{name}/gated")
    return step.product(made, f"{name}.down_proj", step.model.hidden, bias=bias)
