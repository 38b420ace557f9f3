"""Attention of a decoder layer: products, norms of heads, rotation, the cache, and the kernel itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.llm.layers import ASCEND, Step

BLOCK = 128  # tokens of a block of the paged cache: what stacks on these chips use
COMPRESSED = (2048, 2048)  # of a mask that nobody reads: its mode says all
UNBOUNDED = 2147483647


@dataclass(frozen=True, slots=True)
class Angles:
    """Cosines and sines of the tokens of a step, and the part of a head that they turn."""

    cosine: Tensor
    sine: Tensor
    size: int


def attention(step: Step, layer: int, x: Tensor, angles: Angles | None) -> Tensor:
    """What all heads of this card make of the normalised rows, before the last product's sum over cards."""
    b, model = step.builder, step.model
    whole, head = model.heads_of(layer)
    heads, shared = step.shard.heads, step.shard.kv_heads(whole)
    sizes = [heads * head, shared * head, shared * head]
    packed = step.product(x, "self_attn.qkv_proj", sum(sizes), bias=model.qkv_bias)
    parts = b.ops("Split", packed, sizes, axis=-1, outputs=3, name="self_attn/split")
    rows = step.tokens.rows
    query, key, value = (
        b.op("Reshape", part, [rows, count, head])
        for part, count in zip(parts, (heads, shared, shared), strict=True)
    )
    if model.head_norm:
        query, key = step.norm(query, "self_attn.q_norm"), step.norm(key, "self_attn.k_norm")
    if angles is not None:
        query, key = (turned(step, part, angles, name) for part, name in ((query, "q"), (key, "k")))
    window = 0 if model.is_global(layer) else model.window
    scale = model.scale or head**-0.5
    made = attend(step, query, key, value, scale, window)
    flat = b.op("Reshape", made, [rows, heads * head])
    return step.product(flat, "self_attn.o_proj", model.hidden, bias=model.out_bias)


def turned(step: Step, part: Tensor, angles: Angles, name: str) -> Tensor:
    """Heads turned by the tokens' angles; what lies behind `angles.size` stays as it is."""
    b, head = step.builder, part.static_shape[-1]
    call = f"self_attn/rotary_{name}"
    rest = None
    if angles.size < head:
        part, rest = b.ops("Split", part, [angles.size, head - angles.size], axis=-1, outputs=2)
    turned = b.op("RotaryPositionEmbedding", part, angles.cosine, angles.sine, domain=ASCEND, name=call)
    return turned if rest is None else b.op("Concat", turned, rest, axis=-1)


def _mask(b: GraphBuilder) -> Tensor:
    """The mask that goes with sparse modes 3 and 4, one for all layers."""
    held = b.graph.tensors.get("causal_mask")
    return held or b.graph.add_constant("causal_mask", np.triu(np.ones(COMPRESSED, np.bool_), 1))


def attend(
    step: Step,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    window: int = 0,
) -> Tensor:
    """The attention kernel over new keys and those of the cache.

    Args:
        step: Whose it is.
        query, key, value: [rows, heads, elements] of the new tokens.
        scale: Factor of the scores.
        window: Keys that a query sees; 0 = all.
    """
    b, tokens = step.builder, step.tokens
    batch, fresh = tokens.batch, tokens.queries
    heads = query.static_shape[1]
    query = b.op("Reshape", query, [batch, fresh, *query.static_shape[1:]])
    seen = tokens.context if not window else min(tokens.context, window + fresh - 1)
    if tokens.context > fresh:
        key, value = (
            b.input(b.graph.fresh(name), (batch, seen, *part.static_shape[1:]))
            for name, part in (("key_cache", key), ("value_cache", value))
        )
    else:
        key, value = (b.op("Reshape", part, [batch, fresh, *part.static_shape[1:]]) for part in (key, value))
    mode = 0 if fresh == 1 else 4 if window and window < tokens.context else 3
    return b.ops(
        "FlashAttentionScore",
        *(query, key, value, None, None, None, _mask(b) if mode else None),
        domain=ASCEND,
        outputs=4,
        name="self_attn/attention",
        head_num=heads,
        input_layout="BSND",
        scale_value=scale,
        sparse_mode=mode,
        pre_tockens=window - 1 if mode == 4 else UNBOUNDED,
        next_tockens=0 if mode == 4 else UNBOUNDED,
    )[3]
