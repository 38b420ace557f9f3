"""The graph of a step: embeddings, layers, the last norm and product, and the choice of the next token."""

from __future__ import annotations

from functools import partial

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.llm.attention import Angles, Tokens, attention
from ascendsim.llm.experts import mixture
from ascendsim.llm.latent import latent_attention
from ascendsim.llm.layers import Kernels
from ascendsim.llm.links import Links
from ascendsim.llm.sharding import Shard
from ascendsim.llm.structure import Architecture
from ascendsim.llm.types import NumberFormat
from ascendsim.llm.weights import Weights

# Streams that read angles have a table of them for all positions, made once
_ANGLES = ("rotary/cosine", "rotary/sine")


def step_graph(
    model: Architecture,
    shard: Shard,
    form: NumberFormat,
    links: Links,
    tokens: Tokens,
    weights: Weights,
    layers: int | None = None,
) -> Graph:
    """The graph that one card runs for a step.

    Args:
        model: What the model is made of.
        shard: What the card holds of it.
        form: Number format.
        links: Between the cards.
        tokens: What the step works on.
        weights: Values of weights, or none.
        layers: The first so many only; all by default.
    """
    from ascendsim.api.building import GraphBuilder as Checked

    b: GraphBuilder = Checked(model.name, dtype=form.flow)
    kernels = Kernels(b, form, weights, links, model.epsilon, model.unit_offset)
    table, x = _embedded(kernels, model, shard, tokens)
    angles = _all_angles(kernels, model, tokens)
    residual: Tensor | None = None
    for layer in range(model.layers if layers is None else layers):
        with b.scope(f"model.layers.{layer}"):
            x, residual = _layer(kernels, model, shard, tokens, layer, x, residual, angles)
    if residual is None:
        x = kernels.norm(x, "model.norm")
    elif model.sandwich:
        x = kernels.norm(residual, "model.norm")
    else:
        x, _ = kernels.add_norm(x, residual, "model.norm")
    _predict(kernels, model, shard, tokens, table, x)
    return b.build()


def _embedded(kernels: Kernels, model: Architecture, shard: Shard, tokens: Tokens) -> tuple[Tensor, Tensor]:
    """The table, and the rows of the tokens; each card has those of its part of the vocabulary."""
    b = kernels.builder
    shape = (shard.vocabulary, model.hidden)
    table = b.weight("model.embed_tokens.weight", shape, kernels.weights.table("model.embed_tokens", shape))
    ids = b.input("input_ids", (tokens.rows,), DType.INT64)
    x = b.op("Gather", table, ids, axis=0, name="model/embed_tokens")
    x = kernels.all_reduce(x, "model/embed_tokens/all_reduce")
    if model.embedding_scale != 1:
        x = b.op("Mul", x, float(model.embedding_scale), name="model/embed_scale")
    return table, x


def _all_angles(kernels: Kernels, model: Architecture, tokens: Tokens) -> dict[bool, Angles | None]:
    """Angles of the tokens for layers of a window (False) and global ones (True)."""
    if not model.rotary:
        return {False: None, True: None}
    positions = kernels.builder.input("positions", (tokens.rows,), DType.INT64)
    kinds = sorted({model.is_global(layer) for layer in range(model.layers)})
    made: dict[bool, Angles | None] = {}
    for whole in kinds:
        base = model.theta if whole or not model.local_theta else model.local_theta
        size = model.global_head if whole and model.global_head else model.head
        if model.latent is not None:
            size = model.latent.rotary
        made[whole] = _angles(kernels, model, tokens, positions, base, int(size * model.rotary))
    return made


def _angles(
    kernels: Kernels, model: Architecture, tokens: Tokens, positions: Tensor, base: float, size: int
) -> Angles:
    b = kernels.builder
    rows = min(model.positions, max(tokens.context, 1))

    def fill(function: np.ufunc) -> Array:
        turns = base ** (-np.arange(0, size, 2) / size)
        angles = np.arange(rows)[:, None] * turns
        spread = np.repeat(angles, 2, axis=-1) if model.interleaved else np.tile(angles, 2)
        return np.asarray(function(spread)).astype(kernels.form.flow.numpy)

    made = []
    for name, function in zip(_ANGLES, (np.cos, np.sin), strict=True):
        held = b.weight(name, (rows, size), partial(fill, function))
        found = b.op("Gather", held, positions, axis=0, name=f"{name}_of_tokens")
        made.append(b.op("Reshape", found, [tokens.rows, 1, size]))
    return Angles(made[0], made[1], size)


def _layer(
    kernels: Kernels,
    model: Architecture,
    shard: Shard,
    tokens: Tokens,
    layer: int,
    x: Tensor,
    residual: Tensor | None,
    angles: dict[bool, Angles | None],
) -> tuple[Tensor, Tensor]:
    """One layer: what is to be added to the residual, and the residual.

    With norms on both sides (`sandwich`) sums are made in the layer, and the first result is not used.
    """
    b = kernels.builder
    if residual is None:
        residual, x = x, kernels.norm(x, "input_layernorm")
    elif model.sandwich:
        x = kernels.norm(residual, "input_layernorm")
    else:
        x, residual = kernels.add_norm(x, residual, "input_layernorm")
    own = angles[model.is_global(layer)]
    if model.latent is not None:
        assert own is not None
        made = latent_attention(kernels, model, shard, tokens, x, own)
    else:
        made = attention(kernels, model, shard, tokens, layer, x, own)
    made = kernels.all_reduce(made, "self_attn/all_reduce")
    if model.sandwich:
        made = kernels.norm(made, "post_attention_layernorm")
        x, residual = kernels.add_norm(made, residual, "pre_feedforward_layernorm")
    else:
        x, residual = kernels.add_norm(made, residual, "post_attention_layernorm")
    if model.has_experts(layer):
        made = mixture(kernels, model, shard, tokens, x)
    else:
        made = network(kernels, model, x, shard.inner, "mlp")
    made = kernels.all_reduce(made, "mlp/all_reduce")
    if model.sandwich:
        made = kernels.norm(made, "post_feedforward_layernorm")
        return made, b.op("Add", made, residual, name="residual")
    return made, residual


def network(kernels: Kernels, model: Architecture, x: Tensor, inner: int, name: str) -> Tensor:
    """The feed-forward network with its gate."""
    gates = kernels.product(x, f"{name}.gate_up_proj", 2 * inner)
    return kernels.product(
        kernels.gated(gates, model.activation, f"{name}/gated"), f"{name}.down_proj", model.hidden
    )


def _predict(
    kernels: Kernels, model: Architecture, shard: Shard, tokens: Tokens, table: Tensor, x: Tensor
) -> None:
    """Logits of each sequence's last token, and the likeliest next token."""
    b = kernels.builder
    if tokens.queries > 1:
        last = np.arange(1, tokens.batch + 1) * tokens.queries - 1
        x = b.op("Gather", x, b.constant(last, "last_tokens"), axis=0, name="last_rows")
    if model.tied:
        logits = b.op("Gemm", x, table, transB=1, name="lm_head")
    else:
        logits = kernels.product(x, "lm_head", shard.vocabulary, plain=True)
    if model.logit_cap:
        logits = kernels.capped(logits, model.logit_cap, "logit_cap")
    if shard.cards > 1:
        parts = kernels.all_gather(logits, "lm_head/all_gather")
        parts = b.op("Reshape", parts, [shard.cards, tokens.batch, shard.vocabulary])
        parts = b.op("Transpose", parts, perm=[1, 0, 2], name="lm_head/transpose")
        logits = b.op("Reshape", parts, [tokens.batch, shard.cards * shard.vocabulary])
    chosen = b.op("ArgMax", logits, axis=-1, keepdims=0, name="sample")
    b.output(logits, "logits")
    b.output(chosen, "next_tokens")
