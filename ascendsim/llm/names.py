"""What checkpoints call the weights of a family, and how they lay out products that are packed there.

Names of our own are those of transformers' Llama, with products joined that kernels take at once:
`self_attn.qkv_proj`, `mlp.gate_up_proj`, `mlp.experts.gate_up_proj` and `mlp.experts.down_proj`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from ascendsim.graph.ir import Array
from ascendsim.llm.structure import Architecture

JOINED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""What is joined, and its parts, one behind the other."""

_LLAMA = (
    *(
        "deepseek_v2",
        "deepseek_v3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "internlm",
        "internlm3",
        "llama",
    ),
    *("mistral", "qwen2", "qwen3", "qwen3_moe", "skywork"),
)
# family -> our names -> its own, where it has others than Llama; part of a name, between dots
_OTHERS: dict[str, Mapping[str, str]] = {
    "baichuan": {"qkv_proj": "W_pack"},
    "chatglm": {
        "model.embed_tokens": "transformer.embedding.word_embeddings",
        "model.layers": "transformer.encoder.layers",
        "model.norm": "transformer.encoder.final_layernorm",
        "lm_head": "transformer.output_layer",
        "self_attn.qkv_proj": "self_attention.query_key_value",
        "self_attn.o_proj": "self_attention.dense",
        "mlp.gate_up_proj": "mlp.dense_h_to_4h",
        "mlp.down_proj": "mlp.dense_4h_to_h",
    },
    "glm4": {
        "post_attention_layernorm": "post_self_attn_layernorm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "post_mlp_layernorm",
    },
    "internlm2": {
        "model.embed_tokens": "model.tok_embeddings",
        "lm_head": "output",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.qkv_proj": "attention.wqkv",
        "self_attn.o_proj": "attention.wo",
        "mlp.gate_proj": "feed_forward.w1",
        "mlp.up_proj": "feed_forward.w3",
        "mlp.down_proj": "feed_forward.w2",
    },
    "qwen2_moe": {"mlp.shared_experts": "mlp.shared_expert"},
}
NAMED = frozenset({*_LLAMA, *_OTHERS})
"""Families whose names are known."""


def theirs(family: str, name: str) -> str:
    """What checkpoints of a family call a weight.

    >>> theirs("internlm2", "model.layers.3.mlp.down_proj.weight")
    'model.layers.3.feed_forward.w2.weight'
    """
    table = _OTHERS.get(family)
    if not table:
        return name
    found = "|".join(re.escape(own) for own in table)
    return re.sub(rf"(?<![^.])(?:{found})(?![^.])", lambda match: table[match[0]], name)


def _by_groups(packed: Array, model: Architecture) -> Array:
    """InternLM2 has the queries that share a key, then the key and the value, group after group."""
    shared, head = model.kv_heads, model.head
    apart = packed.reshape(shared, model.heads // shared + 2, head, *packed.shape[1:])
    parts = (apart[:, :-2], apart[:, -2:-1], apart[:, -1:])
    return np.concatenate([part.reshape(-1, *packed.shape[1:]) for part in parts])


LAYOUTS: dict[tuple[str, str], Callable[[Array, Architecture], Array]] = {
    ("internlm2", "qkv_proj"): _by_groups,
}
"""By family and product: from a checkpoint's order of rows to ours."""
