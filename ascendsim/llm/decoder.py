"""The graph of a step: embeddings, layers, the last norm and product, and the choice of the next token."""

from __future__ import annotations

from functools import partial

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.llm.attention import Angles, attention
from ascendsim.llm.experts import mixture, network
from ascendsim.llm.latent import latent_attention
from ascendsim.llm.layers import Step
from ascendsim.llm.rotation import turns
from ascendsim.llm.structure import Scaling

# Streams that read angles have a table of them for all positions, made once
_ANGLES = ("rotary/cosine", "rotary/sine")


def step_graph(step: Step, layers: int | None = None) -> Graph:
    """The graph that one card runs for a step.

    Args:
        step: What to build, with an empty builder.
        layers: The first so many only; all by default.
    """
    model = step.model
    table, x = _embedded(step)
    angles = _all_angles(step)
    residual: Tensor | None = None
    for layer in range(model.layers if layers is None else layers):
        with step.builder.scope(f"model.layers.{layer}"):
            x, residual = _layer(step, layer, x, residual, angles)
    if residual is None:
        x = step.norm(x, "model.norm")
    elif model.sandwich:
        x = step.norm(residual, "model.norm")
    else:
        x, _ = step.add_norm(x, residual, "model.norm")
    _predict(step, table, x)
    return step.builder.build()


def _embedded(step: Step) -> tuple[Tensor, Tensor]:
    """The table, and the rows of the tokens; each card has those of its part of the vocabulary."""
    b, model = step.builder, step.model
    shape = (step.shard.vocabulary, model.hidden)
    table = step.weight("model.embed_tokens.weight", shape)
    ids = b.input("input_ids", (step.tokens.rows,), DType.INT64)
    x = b.op("Gather", table, ids, axis=0, name="model/embed_tokens")
    x = step.all_reduce(x, "model/embed_tokens/all_reduce")
    if model.embedding_scale != 1:
        x = b.op("Mul", x, float(model.embedding_scale), name="model/embed_scale")
    return table, x


def _all_angles(step: Step) -> dict[bool, Angles | None]:
    """Angles of the tokens for layers of a window (False) and global ones (True)."""
    model = step.model
    if not model.rotary:
        return {False: None, True: None}
    positions = step.builder.input("positions", (step.tokens.rows,), DType.INT64)
    kinds = sorted({model.is_global(layer) for layer in range(model.layers)})
    made: dict[bool, Angles | None] = {}
    for whole in kinds:
        base = model.theta if whole or not model.local_theta else model.local_theta
        size = model.global_head if whole and model.global_head else model.head
        part = model.global_rotary if whole and model.global_rotary else model.rotary
        if model.latent is not None:
            size = model.latent.rotary
        scaled = model.scaling if whole or not model.local_theta else None
        made[whole] = _angles(step, positions, base, int(size * part), scaled)
    return made


def _angles(step: Step, positions: Tensor, base: float, size: int, scaled: Scaling | None) -> Angles:
    b, model, tokens = step.builder, step.model, step.tokens
    rows = min(model.positions, max(tokens.context, 1))

    def fill(function: np.ufunc) -> Array:
        angles = np.arange(rows)[:, None] * turns(base, size, scaled, tokens.context)
        spread = np.repeat(angles, 2, axis=-1) if model.interleaved else np.tile(angles, 2)
        gain = 1.0 if scaled is None else scaled.gain
        return np.asarray(gain * function(spread)).astype(step.form.flow.numpy)

    made = []
    for name, function in zip(_ANGLES, (np.cos, np.sin), strict=True):
        held = b.weight(name, (rows, size), partial(fill, function))
        found = b.op("Gather", held, positions, axis=0, name=f"{name}_of_tokens")
        made.append(b.op("Reshape", found, [tokens.rows, 1, size]))
    return Angles(made[0], made[1], size)


def _layer(
    step: Step,
    layer: int,
    x: Tensor,
    residual: Tensor | None,
    angles: dict[bool, Angles | None],
) -> tuple[Tensor, Tensor]:
    """One layer: what is to be added to the residual, and the residual.

    With norms on both sides (`sandwich`) sums are made in the layer, and the first result is not used.
    """
    b, model = step.builder, step.model
    if residual is None:
        residual, x = x, step.norm(x, "input_layernorm")
    elif model.sandwich:
        x = step.norm(residual, "input_layernorm")
    else:
        x, residual = step.add_norm(x, residual, "input_layernorm")
    own = angles[model.is_global(layer)]
    if model.latent is not None:
        assert own is not None
        made = latent_attention(step, layer, model.latent, x, own)
    else:
        made = attention(step, layer, x, own)
    made = step.all_reduce(made, "self_attn/all_reduce")
    if model.sandwich:
        made = step.norm(made, "post_attention_layernorm")
        x, residual = step.add_norm(made, residual, "pre_feedforward_layernorm")
    else:
        x, residual = step.add_norm(made, residual, "post_attention_layernorm")
    if model.experts is not None and model.has_experts(layer):
        made = mixture(step, model.experts, x)
        if model.experts.parallel_width:  # a network beside it, with a norm of its own
            beside = network(step, x, step.shard.parallel_inner, "mlp.dense")
            made = b.op("Add", made, step.norm(beside, "mlp/norm"), name="mlp/both")
    else:
        made = network(step, x, step.shard.inner, "mlp")
    made = step.all_reduce(made, "mlp/all_reduce")
    if model.sandwich:
        made = step.norm(made, "post_feedforward_layernorm")
        return made, b.op("Add", made, residual, name="residual")
    return made, residual


def _predict(step: Step, table: Tensor, x: Tensor) -> None:
    """Logits of each sequence's last token, and the likeliest next token."""
    b, model, tokens, shard = step.builder, step.model, step.tokens, step.shard
    if tokens.queries > 1:
        last = np.arange(1, tokens.batch + 1) * tokens.queries - 1
        x = b.op("Gather", x, b.constant(last, "last_tokens"), axis=0, name="last_rows")
    if model.tied:
        logits = b.op("Gemm", x, table, transB=1, name="lm_head")
    else:
        logits = step.product(x, "lm_head", shard.vocabulary, plain=True, unit=model.unit_head)
    if model.logit_cap:
        logits = step.capped(logits, model.logit_cap, "logit_cap")
    if shard.cards > 1 and shard.split:
        parts = step.all_gather(logits, "lm_head/all_gather")
        parts = b.op("Reshape", parts, [shard.cards, tokens.batch, shard.vocabulary])
        parts = b.op("Transpose", parts, perm=[1, 0, 2], name="lm_head/transpose")
        logits = b.op("Reshape", parts, [tokens.batch, shard.cards * shard.vocabulary])
    chosen = b.op("ArgMax", logits, axis=-1, keepdims=0, name="sample")
    b.output(logits, "logits")
    b.output(chosen, "next_tokens")
