"""How config files of the families of models say what an `Architecture` has.

Most use the names of transformers' Llama; a family states what it has by definition, and which keys it calls
otherwise. Names, defaults and formulas are those of the models' own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ascendsim.llm.rotation import score_gain
from ascendsim.llm.structure import Experts, Latent

Config = Mapping[str, Any]
Facts = dict[str, Any]


def _llama(config: Config) -> Facts:
    bias = bool(config.get("attention_bias", False))
    return {"qkv_bias": bias, "out_bias": bias, "inner_bias": bool(config.get("mlp_bias", False))}


def _mistral(config: Config) -> Facts:
    return {"window": config.get("sliding_window") or 0, "global_every": 1 << 30}


def _qwen2(config: Config) -> Facts:
    return {"qkv_bias": True}  # without a window: `use_sliding_window` is false in all that were published


def _qwen3(config: Config) -> Facts:
    return {**_llama(config), "head_norm": True}


def _qwen2_moe(config: Config) -> Facts:
    shared = config.get("shared_expert_intermediate_size", 0)
    return {**_qwen2(config), "experts": replace(_experts(config, "num_experts", shared), shared_gate=True)}


def _qwen3_moe(config: Config) -> Facts:
    return {**_qwen3(config), "experts": _experts(config, "num_experts", 0)}


def _experts(config: Config, count: str, shared: int) -> Experts:
    return Experts(
        config["num_local_experts"]
        if count not in config and "num_local_experts" in config
        else config[count],
        config["num_experts_per_tok"],
        config["moe_intermediate_size"],
        shared,
        config.get("first_k_dense_replace", 0),
        config.get("decoder_sparse_step", 1),
        sigmoid=config.get("scoring_func", "softmax") == "sigmoid",
        plain_layers=tuple(config.get("mlp_only_layers") or ()),
        normalised=bool(config.get("norm_topk_prob", False)),
    )


def _internlm(config: Config) -> Facts:
    bias = bool(config.get("bias", True))
    return {"qkv_bias": bias, "out_bias": bias}


def _internlm2(config: Config) -> Facts:
    bias = bool(config.get("bias", False))
    return {"qkv_bias": bias, "out_bias": bias}


def _internlm3(config: Config) -> Facts:
    bias = bool(config.get("bias", config.get("mlp_bias", False)))  # newer files have transformers' names
    first = bool(config.get("qkv_bias", config.get("attention_bias", False)))
    return {"qkv_bias": first, "out_bias": bias, "inner_bias": bias}


def _baichuan(config: Config) -> Facts:
    facts: Facts = {"unit_head": "z_loss_weight" in config}  # what tells files of Baichuan 2 from those of 1
    if "max_position_embeddings" in config:
        return facts
    return {**facts, "rotary": 0.0, "positions": config["model_max_length"]}  # the one of 13B has ALiBi


def _chatglm(config: Config) -> Facts:
    groups = config["multi_query_group_num"] if config.get("multi_query_attention") else None
    return {
        "layers": config["num_layers"],
        "inner": config["ffn_hidden_size"],
        "kv_heads": groups or config["num_attention_heads"],
        "head": config["kv_channels"],
        "vocabulary": config["padded_vocab_size"],
        "positions": config["seq_length"],
        "epsilon": config.get("layernorm_epsilon", 1e-5),
        "qkv_bias": bool(config.get("add_qkv_bias", False)),
        "rotary": 0.5,
        "interleaved": True,
        "theta": 10000.0 * config.get("rope_ratio", 1),
        "tied": bool(config.get("tie_word_embeddings", False)),
    }


def _glm(config: Config) -> Facts:
    return {
        "qkv_bias": bool(config.get("attention_bias", False)),
        "rotary": config.get("partial_rotary_factor") or _part(config),
        "interleaved": True,
    }


def _part(config: Config) -> float:
    return float((config.get("rope_parameters") or {}).get("partial_rotary_factor", 0.5))


def _glm4(config: Config) -> Facts:
    return {**_glm(config), "sandwich": True}


def _gemma(config: Config) -> Facts:
    return {
        "unit_offset": True,
        "activation": "gelu_tanh",
        "embedding_scale": config["hidden_size"] ** 0.5,
        "tied": bool(config.get("tie_word_embeddings", True)),
        "head": config.get("head_dim", 256),
    }


def _gemma2(config: Config) -> Facts:
    return {
        **_gemma(config),
        "sandwich": True,
        "window": config.get("sliding_window", 4096),
        "global_every": 2,
        "scale": config.get("query_pre_attn_scalar", 256) ** -0.5,
        "score_cap": config.get("attn_logit_softcapping") or 0.0,
        "logit_cap": config.get("final_logit_softcapping") or 0.0,
    }


def _gemma3(config: Config) -> Facts:
    return {
        **_gemma(config),
        "sandwich": True,
        "head_norm": True,
        "window": config.get("sliding_window", 1024),
        "global_every": config.get("sliding_window_pattern", 6),
        "scale": config.get("query_pre_attn_scalar", 256) ** -0.5,
        "theta": config.get("rope_theta") or _theta(config, "full_attention", 1e6),
        "local_theta": config.get("rope_local_base_freq") or _theta(config, "sliding_attention", 1e4),
    }


def _theta(config: Config, kind: str, otherwise: float) -> float:
    """The base of the angles in a kind of layers, as newer files have it."""
    return float((config.get("rope_parameters") or {}).get(kind, {}).get("rope_theta", otherwise))


def _gemma4(config: Config) -> Facts:
    facts = {
        **_gemma3(config),
        "unit_offset": False,
        "window": config.get("sliding_window", 1024),
        "scale": 1.0,
        "global_head": config.get("global_head_dim", 512),
        "global_kv_heads": config.get("num_global_key_value_heads") or 0,
        "global_rotary": (config.get("rope_parameters") or {})
        .get("full_attention", {})
        .get("partial_rotary_factor", 0.25),
        "global_keys_as_values": bool(config.get("attention_k_eq_v", False)),
        "logit_cap": config.get("final_logit_softcapping") or 0.0,
    }
    if config.get("enable_moe_block"):
        facts["experts"] = Experts(
            config["num_experts"],
            config["top_k_experts"],
            config["moe_intermediate_size"],
            parallel_width=config["intermediate_size"],
        )
    return facts


def _deepseek(config: Config) -> Facts:
    rotary, plain = config["qk_rope_head_dim"], config["qk_nope_head_dim"]
    return {
        "kv_heads": 1,
        "head": rotary + plain,
        "interleaved": bool(config.get("rope_interleave", True)),
        "scale": (rotary + plain) ** -0.5 * score_gain(config),
        "latent": Latent(
            config.get("q_lora_rank") or 0, config["kv_lora_rank"], rotary, plain, config["v_head_dim"]
        ),
        "experts": _deepseek_experts(config) if config.get("n_routed_experts") else None,
    }


def _deepseek_experts(config: Config) -> Experts:
    shared = (config.get("n_shared_experts") or 0) * config["moe_intermediate_size"]
    found = _experts(config, "n_routed_experts", shared)
    third = config["model_type"] == "deepseek_v3"
    grouped = third or config.get("topk_method", "greedy") == "group_limited_greedy"
    return replace(
        found,
        factor=float(config.get("routed_scaling_factor", 1.0)),
        sigmoid=third,
        corrected=third,
        normalised=third and bool(config.get("norm_topk_prob", True)),
        groups=(config.get("n_group") or 1) if grouped else 1,
        kept_groups=(config.get("topk_group") or 1) if grouped else 1,
    )


def _longcat(config: Config) -> Facts:
    """Two rounds of attention and network a layer, and one mixture, beside the second network.

    Some of the experts of the gate do nothing (`zero_expert_num`): so many fewer work for a token.
    """
    rotary, plain = config["qk_rope_head_dim"], config["qk_nope_head_dim"]
    count, idle = config["n_routed_experts"], config.get("zero_expert_num", 0)
    active = max(1, round(config["moe_topk"] * count / (count + idle)))
    own = Latent(config["q_lora_rank"] or 0, config["kv_lora_rank"], rotary, plain, config["v_head_dim"])
    return {
        "layers": 2 * config["num_layers"],
        "inner": config["ffn_hidden_size"],
        "kv_heads": 1,
        "head": rotary + plain,
        "interleaved": True,
        "latent": own,
        "experts": Experts(
            count,
            active,
            config["expert_ffn_hidden_size"],
            every=2,
            parallel_width=config["ffn_hidden_size"],
        ),
    }


def _hunyuan(config: Config) -> Facts:
    width = _first(config["moe_intermediate_size"])
    shared = _first(config.get("num_shared_expert", 1))
    mixture = Experts(config["num_experts"], _first(config["moe_topk"]), width, shared * width)
    return {"head_norm": bool(config.get("use_qk_norm", True)), "experts": mixture}


def _first(value: Any) -> int:
    """A number that some config files repeat for each layer."""
    return int(value[0] if isinstance(value, list | tuple) else value)


FAMILIES: dict[str, Callable[[Config], Facts]] = {
    "baichuan": _baichuan,
    "chatglm": _chatglm,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "glm": _glm,
    "glm4": _glm4,
    "hunyuan_v1_moe": _hunyuan,
    "internlm": _internlm,
    "internlm2": _internlm2,
    "internlm3": _internlm3,
    "llama": _llama,
    "longcat_flash": _longcat,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen2_5_vl": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "skywork": _llama,
}
