"""Decoders in NumPy, from the published architectures, on weights as checkpoints have them.

InternLM2 (arXiv 2403.17297: `wqkv` in groups of the queries that share a key), Baichuan 2 (arXiv 2309.10305:
`W_pack`; rotation at 7B, ALiBi at 13B; rows of the last product of length 1) and ChatGLM3 (half of each head
turns, neighbours together; `query_key_value`, `dense_h_to_4h`). Transformers has these by remote code only.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

Tensors = dict[str, Any]
HIDDEN, INNER, WORDS, LAYERS = 64, 96, 200, 2
HEADS, SIZE = 4, 16
COMMON = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
COMMON |= {"intermediate_size": INNER, "vocab_size": WORDS}


def drawn(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Tensors:
    """Weights that float16 holds; those of norms near 1."""
    random = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        noise = random.standard_normal(shape)
        values = 1 + 0.1 * noise if "norm" in name else noise * shape[-1] ** -0.5
        made[name] = values.astype(np.float16).astype(np.float32)
    return made


def normed(x: Any, weight: Any, epsilon: float) -> Any:
    """RMSNorm."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def turned(x: Any, pairs: Any) -> Any:
    """Rows of heads [token, head, element]; `pairs` are the places of elements that turn together."""
    first, second = pairs
    angles = np.arange(len(x))[:, None, None] / 10000.0 ** (np.arange(len(first)) / len(first))
    made = x.copy()
    made[..., first] = x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles)
    made[..., second] = x[..., second] * np.cos(angles) + x[..., first] * np.sin(angles)
    return made


def attended(q: Any, k: Any, v: Any, fall: Any = None) -> Any:
    """Causal attention, head by head; `fall` is taken off a score for each token of distance."""
    rows, tokens = [], len(q)
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    for head in range(q.shape[1]):
        shared = head * k.shape[1] // q.shape[1]
        scores = q[:, head] @ k[:, shared].T / q.shape[2] ** 0.5
        scores = scores - (0 if fall is None else fall[head] * distance)
        powers = np.exp(np.where(distance < 0, -np.inf, scores))
        rows.append(powers / powers.sum(-1, keepdims=True) @ v[:, shared])
    return np.concatenate(rows, -1)


class InternLM2:
    """Two queries to a key."""

    config: ClassVar[Tensors] = {
        **COMMON,
        "model_type": "internlm2",
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
    }
    config |= {"max_position_embeddings": 512, "bias": False}

    def tensors(self) -> Tensors:
        shapes = {"model.tok_embeddings.weight": (WORDS, HIDDEN), "output.weight": (WORDS, HIDDEN)}
        shapes["model.norm.weight"] = (HIDDEN,)
        parts = {"attention.wqkv": (2 * (2 + 2) * SIZE, HIDDEN), "attention.wo": (HIDDEN, HIDDEN)}
        parts |= {"feed_forward.w1": (INNER, HIDDEN), "feed_forward.w3": (INNER, HIDDEN)}
        parts |= {"feed_forward.w2": (HIDDEN, INNER), "attention_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
        return drawn(shapes)

    def logits(self, given: Tensors, tokens: list[int]) -> Any:
        x = given["model.tok_embeddings.weight"][tokens]
        pairs = np.arange(SIZE // 2), np.arange(SIZE // 2) + SIZE // 2
        for layer in range(LAYERS):
            own = {
                name.split(".", 3)[3][:-7]: value for name, value in given.items() if f"s.{layer}." in name
            }
            y = normed(x, own["attention_norm"], 1e-5) @ own["attention.wqkv"].T
            groups = y.reshape(len(tokens), 2, 4, SIZE)  # two queries, the key and the value of each group
            q = groups[:, :, :2].reshape(len(tokens), HEADS, SIZE)
            made = attended(turned(q, pairs), turned(groups[:, :, 2], pairs), groups[:, :, 3])
            x = x + made @ own["attention.wo"].T
            y = normed(x, own["ffn_norm"], 1e-5)
            gate, up = y @ own["feed_forward.w1"].T, y @ own["feed_forward.w3"].T
            x = x + (silu(gate) * up) @ own["feed_forward.w2"].T
        return normed(x, given["model.norm.weight"], 1e-5) @ given["output.weight"].T


class Baichuan2:
    """The one of 7B, whose heads turn."""

    config: ClassVar[Tensors] = {**COMMON, "model_type": "baichuan", "rms_norm_eps": 1e-6, "z_loss_weight": 0}
    config |= {"max_position_embeddings": 512}
    alibi = False

    def tensors(self) -> Tensors:
        shapes = {"model.embed_tokens.weight": (WORDS, HIDDEN), "lm_head.weight": (WORDS, HIDDEN)}
        shapes["model.norm.weight"] = (HIDDEN,)
        parts = {"self_attn.W_pack": (3 * HIDDEN, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN)}
        parts |= {"mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN)}
        parts |= {"mlp.down_proj": (HIDDEN, INNER)}
        parts |= {"input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
        return drawn(shapes)

    def logits(self, given: Tensors, tokens: list[int]) -> Any:
        x = given["model.embed_tokens.weight"][tokens]
        pairs = np.arange(SIZE // 2), np.arange(SIZE // 2) + SIZE // 2
        fall = [2.0 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)] if self.alibi else None
        for layer in range(LAYERS):
            own = {
                name.split(".", 3)[3][:-7]: value for name, value in given.items() if f"s.{layer}." in name
            }
            y = normed(x, own["input_layernorm"], 1e-6) @ own["self_attn.W_pack"].T
            q, k, v = (part.reshape(len(tokens), HEADS, SIZE) for part in np.split(y, 3, axis=-1))
            if not self.alibi:
                q, k = turned(q, pairs), turned(k, pairs)
            x = x + attended(q, k, v, fall) @ own["self_attn.o_proj"].T
            y = normed(x, own["post_attention_layernorm"], 1e-6)
            x = x + (silu(y @ own["mlp.gate_proj"].T) * (y @ own["mlp.up_proj"].T)) @ own["mlp.down_proj"].T
        head = given["lm_head.weight"]
        head = head / np.linalg.norm(head, axis=1, keepdims=True)
        return normed(x, given["model.norm.weight"], 1e-6) @ head.T


class Baichuan2Large(Baichuan2):
    """The one of 13B, whose scores fall with the distance."""

    config: ClassVar[Tensors] = {
        key: value for key, value in Baichuan2.config.items() if key != "max_position_embeddings"
    }
    config |= {"model_max_length": 512}
    alibi = True


class ChatGLM3:
    """Two queries to a key; biases of queries, keys and values."""

    config: ClassVar[Tensors] = {
        "model_type": "chatglm",
        "hidden_size": HIDDEN,
        "num_layers": LAYERS,
        "kv_channels": SIZE,
    }
    config |= {"num_attention_heads": HEADS, "multi_query_attention": True, "multi_query_group_num": 2}
    config |= {"ffn_hidden_size": INNER, "padded_vocab_size": WORDS, "seq_length": 512}
    config |= {"add_qkv_bias": True, "layernorm_epsilon": 1e-5}

    def tensors(self) -> Tensors:
        stem = "transformer.encoder."
        shapes: dict[str, tuple[int, ...]] = {"transformer.output_layer.weight": (WORDS, HIDDEN)}
        shapes["transformer.embedding.word_embeddings.weight"] = (WORDS, HIDDEN)
        shapes[f"{stem}final_layernorm.weight"] = (HIDDEN,)
        parts: dict[str, tuple[int, ...]] = {"self_attention.query_key_value.weight": (8 * SIZE, HIDDEN)}
        parts |= {"self_attention.query_key_value.bias": (8 * SIZE,)}
        parts |= {"self_attention.dense.weight": (HIDDEN, HIDDEN)}
        parts |= {
            "mlp.dense_h_to_4h.weight": (2 * INNER, HIDDEN),
            "mlp.dense_4h_to_h.weight": (HIDDEN, INNER),
        }
        parts |= {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"{stem}layers.{layer}.{name}": shape for name, shape in parts.items()}
        return drawn(shapes)

    def logits(self, given: Tensors, tokens: list[int]) -> Any:
        x = given["transformer.embedding.word_embeddings.weight"][tokens]
        pairs = np.arange(0, SIZE // 2, 2), np.arange(1, SIZE // 2, 2)  # of the first half of a head
        for layer in range(LAYERS):
            own = {name.split(".", 4)[4]: value for name, value in given.items() if f"s.{layer}." in name}
            y = normed(x, own["input_layernorm.weight"], 1e-5)
            y = (
                y @ own["self_attention.query_key_value.weight"].T
                + own["self_attention.query_key_value.bias"]
            )
            y = y.reshape(len(tokens), 8, SIZE)
            made = attended(turned(y[:, :4], pairs), turned(y[:, 4:6], pairs), y[:, 6:])
            x = x + made @ own["self_attention.dense.weight"].T
            y = normed(x, own["post_attention_layernorm.weight"], 1e-5) @ own["mlp.dense_h_to_4h.weight"].T
            x = x + (silu(y[:, :INNER]) * y[:, INNER:]) @ own["mlp.dense_4h_to_h.weight"].T
        y = normed(x, given["transformer.encoder.final_layernorm.weight"], 1e-5)
        return y @ given["transformer.output_layer.weight"].T
