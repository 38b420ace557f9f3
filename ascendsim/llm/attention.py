"""Attention of a decoder layer: products, norms of heads, rotation, the cache, and the kernel itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Tensor
from ascendsim.llm.layers import ASCEND, BLOCK, Step

COMPRESSED = (2048, 2048)  # of a mask that nobody reads: its mode says all
UNBOUNDED = 2147483647
SLOPES = 2  # what pse_type says of slopes of heads
_TND = 4  # ApplyRotaryPosEmb's number of this layout


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
    sizes = [heads * head, shared * head]
    if not (model.global_keys_as_values and model.is_global(layer)):
        sizes.append(shared * head)
    packed = step.product(x, "self_attn.qkv_proj", sum(sizes), bias=model.qkv_bias)
    query, key, value = _split(step, packed, sizes, head, angles)
    window = 0 if model.is_global(layer) else model.window
    pools, scale = cached(step, layer, key, value), model.scale or head**-0.5
    if step.tokens.context == step.tokens.queries:
        made = attend_fresh(step, query, key, value, scale, window)
    else:
        made = attend_pages(step, query, *pools, scale, window, shared=shared)
    flat = b.op("Reshape", made, [step.tokens.rows, heads * head])
    return step.product(flat, "self_attn.o_proj", model.hidden, bias=model.out_bias)


def _split(
    step: Step, packed: Tensor, sizes: list[int], head: int, angles: Angles | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as [rows, heads, elements], normalised and turned as the model has them."""
    b, model, rows = step.builder, step.model, step.tokens.rows
    counts = [size // head for size in sizes]
    whole = angles is not None and angles.size == head and not model.interleaved
    if model.head_norm and whole and len(sizes) == 3:
        parts = _split_and_turned(step, packed, sizes, head, angles)
        query, key, value = (
            b.op("Reshape", *pair) for pair in zip(parts, _shapes(rows, counts, head), strict=True)
        )
        return query, key, value
    parts = b.ops("Split", packed, sizes, axis=-1, outputs=len(sizes), name="self_attn/split")
    made = [b.op("Reshape", *pair) for pair in zip(parts, _shapes(rows, counts, head), strict=True)]
    query, key, value = made[0], made[1], made[-1]
    if model.head_norm:
        query, key = step.norm(query, "self_attn.q_norm"), step.norm(key, "self_attn.k_norm")
    if angles is None:
        return query, key, value
    if whole:
        operands = (query, key, angles.cosine, angles.sine)
        query, key = b.ops(
            "ApplyRotaryPosEmb", *operands, domain=ASCEND, outputs=2, name="self_attn/rotary", layout=_TND
        )
    else:
        query, key = (turned(step, part, angles, name) for part, name in ((query, "q"), (key, "k")))
    return query, key, value


def _shapes(rows: int, counts: list[int], head: int) -> list[list[int]]:
    return [[rows, count, head] for count in counts]


def _split_and_turned(
    step: Step, packed: Tensor, sizes: list[int], head: int, angles: Angles | None
) -> list[Tensor]:
    """Split, norms of heads and rotation in one kernel, as vLLM-Ascend has it."""
    b, rows = step.builder, step.tokens.rows
    assert angles is not None
    flat = [b.op("Reshape", part, [rows, head]) for part in (angles.cosine, angles.sine)]
    like = b.op("Reshape", angles.cosine, [rows, head])
    weights = [step.gamma(f"self_attn.{name}_norm", like) for name in "qk"]
    return b.ops(
        "split_qkv_rmsnorm_rope",
        *(packed, *flat, *weights),
        domain=ASCEND,
        outputs=3,
        name="self_attn/split_qkv_rmsnorm_rope",
        q_hidden_size=sizes[0],
        kv_hidden_size=sizes[1],
        head_dim=head,
        eps=step.model.epsilon,
    )


def turned(step: Step, part: Tensor, angles: Angles, name: str) -> Tensor:
    """Heads turned by the tokens' angles; what lies behind `angles.size` stays as it is."""
    b, head = step.builder, part.static_shape[-1]
    rest = None
    if angles.size < head:
        part, rest = b.ops("Split", part, [angles.size, head - angles.size], axis=-1, outputs=2)
    turned = b.op(
        "RotaryPositionEmbedding",
        *(part, angles.cosine, angles.sine),
        domain=ASCEND,
        name=f"self_attn/rotary_{name}",
        mode=int(step.model.interleaved),
    )
    return turned if rest is None else b.op("Concat", turned, rest, axis=-1)


def _slopes(step: Step) -> Tensor:
    """How fast scores fall with the distance in each head of this card (ALiBi), one for all layers."""
    b = step.builder
    held = b.graph.tensors.get("alibi_slopes")
    return held or b.graph.add_constant("alibi_slopes", slopes(step.model.heads)[: step.shard.heads])


def slopes(heads: int) -> Array:
    """ALiBi's slopes: powers of 2 from 2^(-8 / heads) down to 2^-8; of other numbers of heads those of the
    next lower power of 2, and then every second one of twice as many.

    >>> slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> slopes(6).tolist()[4:]
    [0.5, 0.125]
    """
    lower = 1 << (heads.bit_length() - 1)
    found = 2.0 ** (-8 / lower * np.arange(1, lower + 1))
    between = 2.0 ** (-4 / lower * np.arange(1, 2 * lower, 2))
    return np.concatenate([found, between[: heads - lower]]).astype(np.float32)


def _mask(b: GraphBuilder) -> Tensor:
    """The mask that goes with sparse modes 3 and 4, one for all layers."""
    held = b.graph.tensors.get("causal_mask")
    return held or b.graph.add_constant("causal_mask", np.triu(np.ones(COMPRESSED, np.bool_), 1))


def cached(step: Step, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Pools of a layer's cache with the new keys and values in their places: (blocks, block, elements)."""
    b, tokens = step.builder, step.tokens
    blocks = tokens.batch * tokens.blocks
    pools = [
        b.input(f"{name}_cache_{layer}", (blocks, BLOCK, *part.static_shape[1:]))
        for name, part in (("key", key), ("value", value))
    ]
    made = b.ops(
        "ReshapeAndCache", *(key, value, *pools, step.slots), domain=ASCEND, outputs=2, name="self_attn/cache"
    )
    for tensor, pool in zip(made, pools, strict=True):
        b.output(tensor, f"{pool.name}_new")
    first, second = (b.op("Reshape", tensor, [blocks, BLOCK, -1]) for tensor in made)
    return first, second


def attend_fresh(
    step: Step, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int = 0
) -> Tensor:
    """The attention kernel over the new tokens alone.

    Args:
        step: Whose it is.
        query, key, value: [rows, heads, elements].
        scale: Factor of the scores.
        window: Keys that a query sees; 0 = all.
    """
    b, tokens = step.builder, step.tokens
    ends = b.constant(np.arange(1, tokens.batch + 1) * tokens.queries, "self_attn/ends")
    return _kernel(
        step, {0: query, 1: key, 2: value, 5: ends, 6: ends}, scale, window, shared=key.static_shape[1]
    )


def attend_pages(
    step: Step,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    window: int = 0,
    *,
    shared: int,
    rope: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The attention kernel over the pages of the cache.

    Args:
        step: Whose it is.
        query: [rows, heads, elements].
        key, value: Pools.
        scale: Factor of the scores.
        window: Keys that a query sees; 0 = all.
        shared: Heads of keys.
        rope: Further elements of queries, and the pool of those of keys.
    """
    b, tokens = step.builder, step.tokens
    ends = b.constant(np.arange(1, tokens.batch + 1) * tokens.queries, "self_attn/ends")
    lengths = b.constant(np.full(tokens.batch, tokens.context), "self_attn/lengths")
    pages = np.arange(tokens.batch * tokens.blocks, dtype=np.int32).reshape(tokens.batch, -1)
    table = b.constant(pages, "self_attn/block_table")
    given: dict[int, Tensor] = {0: query, 1: key, 2: value, 5: ends, 6: lengths, 14: table}
    if rope is not None:
        given |= {24: rope[0], 25: rope[1]}
    return _kernel(step, given, scale, window, shared=shared, block_size=BLOCK)


def _kernel(
    step: Step, given: dict[int, Tensor], scale: float, window: int, *, shared: int, block_size: int = 0
) -> Tensor:
    """FusedInferAttentionScore with inputs by port."""
    tokens = step.tokens
    mode = 0 if tokens.queries == 1 else 3
    if window and window < tokens.context:
        mode = 4
    if mode:
        given[4] = _mask(step.builder)
    heads, kind = given[0].static_shape[1], None
    if not step.model.rotary:
        given[3], kind = _slopes(step), SLOPES
    return step.builder.op(
        "FusedInferAttentionScore",
        *(given.get(port) for port in range(max(given) + 1)),
        domain=ASCEND,
        name="self_attn/attention",
        num_heads=heads,
        num_key_value_heads=shared,
        input_layout="TND",
        scale=scale,
        pse_type=kind,
        softcap=step.model.score_cap or None,
        sparse_mode=mode,
        pre_tokens=window - 1 if mode == 4 else UNBOUNDED,
        next_tokens=0 if mode == 4 else UNBOUNDED,
        block_size=block_size,
    )
