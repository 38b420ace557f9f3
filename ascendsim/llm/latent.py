"""Multi-head latent attention: a short vector a token is kept, of which all heads' keys and values come.

A step with a cache multiplies queries by what would expand keys, so that all heads attend over the kept
vectors themselves; a prompt without past expands them, which takes fewer products there.
"""

from __future__ import annotations

from ascendsim.graph.ir import Array, Tensor
from ascendsim.llm.attention import Angles, attend_fresh, attend_pages, cached, turned
from ascendsim.llm.layers import Step
from ascendsim.llm.structure import Latent


def latent_attention(step: Step, layer: int, own: Latent, x: Tensor, angles: Angles) -> Tensor:
    """What the card's heads make of the normalised rows."""
    b, tokens = step.builder, step.tokens
    rows, heads = tokens.rows, step.shard.heads
    plain, rotary = _queries(step, own, x)
    joint = step.product(x, "self_attn.kv_a_proj_with_mqa", own.rank + own.rotary)
    kept, shared = b.ops("Split", joint, [own.rank, own.rotary], axis=-1, outputs=2, name="self_attn/split")
    kept = step.norm(kept, "self_attn.kv_a_layernorm")
    shared = turned(step, b.op("Reshape", shared, [rows, 1, own.rotary]), angles, "k")
    rotary = turned(step, rotary, angles, "q")
    pools = cached(step, layer, b.op("Reshape", kept, [rows, 1, own.rank]), shared)
    scale = step.model.scale or (own.plain + own.rotary) ** -0.5
    if tokens.context == tokens.queries:
        made = _expanded(step, plain, rotary, kept, shared, scale)
    else:
        made = _absorbed(step, plain, rotary, pools, scale)
    return step.product(
        b.op("Reshape", made, [rows, heads * own.value]), "self_attn.o_proj", step.model.hidden
    )


def _queries(step: Step, own: Latent, x: Tensor) -> tuple[Tensor, Tensor]:
    """Parts of the queries that do not turn and that do."""
    b, name, rows, heads = step.builder, "self_attn.q_proj", step.tokens.rows, step.shard.heads
    if own.query_rank:
        x = step.product(x, "self_attn.q_a_proj", own.query_rank)
        x, name = step.norm(x, "self_attn.q_a_layernorm"), "self_attn.q_b_proj"
    whole = b.op("Reshape", step.product(x, name, heads * (own.plain + own.rotary)), [rows, heads, -1])
    plain, rotary = b.ops("Split", whole, [own.plain, own.rotary], axis=-1, outputs=2)
    return plain, rotary


def _expanded(
    step: Step,
    plain: Tensor,
    rotary: Tensor,
    kept: Tensor,
    shared: Tensor,
    scale: float,
) -> Tensor:
    """Attention over keys and values of every head."""
    b, (rows, heads, _), own = step.builder, plain.static_shape, step.model.latent
    assert own is not None
    both = step.product(kept, "self_attn.kv_b_proj", heads * (own.plain + own.value))
    both = b.op("Reshape", both, [rows, heads, own.plain + own.value])
    key, value = b.ops("Split", both, [own.plain, own.value], axis=-1, outputs=2)
    spread = b.op("Expand", shared, [rows, heads, own.rotary])
    query = b.op("Concat", plain, rotary, axis=-1)
    key = b.op("Concat", key, spread, axis=-1)
    return attend_fresh(step, query, key, value, scale)


def _absorbed(
    step: Step, plain: Tensor, rotary: Tensor, pools: tuple[Tensor, Tensor], scale: float
) -> Tensor:
    """Attention over the kept vectors, which all heads share."""
    b, (rows, heads, _), own = step.builder, plain.static_shape, step.model.latent
    assert own is not None
    into = _expanding(step, own, "keys", (heads, own.plain, own.rank))
    back = _expanding(step, own, "values", (heads, own.rank, own.value))
    query = b.op("MatMul", b.op("Transpose", plain, perm=[1, 0, 2]), into, name="self_attn/absorb")
    query = b.op("Transpose", query, perm=[1, 0, 2])
    made = attend_pages(step, query, pools[0], pools[0], scale, shared=1, rope=(rotary, pools[1]))
    made = b.op("Transpose", b.op("Reshape", made, [rows, heads, own.rank]), perm=[1, 0, 2])
    made = b.op("MatMul", made, back, name="self_attn/values")
    return b.op("Transpose", made, perm=[1, 0, 2])


def _expanding(step: Step, own: Latent, name: str, shape: tuple[int, ...]) -> Tensor:
    """The part of `kv_b_proj` that makes keys (rows as they are) or values (transposed), head by head."""
    whole = (shape[0] * (own.plain + own.value), own.rank)
    fill, kind = step.fill("self_attn.kv_b_proj.weight", whole), step.form.flow.numpy

    def made() -> Array:
        assert fill is not None
        heads = fill().reshape(shape[0], own.plain + own.value, own.rank)
        part = heads[:, : own.plain] if name == "keys" else heads[:, own.plain :].swapaxes(1, 2)
        return part.astype(kind)

    return step.builder.weight(f"self_attn.kv_b_proj.{name}", shape, made if fill else None)
