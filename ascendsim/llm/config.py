"""From a config file of Hugging Face, or the name of a model that is shipped, to an `Architecture`."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import read_text
from ascendsim.llm.families import FAMILIES, Facts
from ascendsim.llm.rotation import said, scaling
from ascendsim.llm.structure import Architecture, Experts

_SHIPPED = Path(__file__).parent / "data" / "configs.toml"
_MOST_BYTES = 1 << 20  # of a config file; those of large models have a few kilobytes
# what an architecture calls a size -> what config files call it
_SIZES = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "vocabulary": "vocab_size",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "positions": "max_position_embeddings",
}
# what an architecture calls other facts -> the same
_KEYS = {
    "window": "sliding_window",
    "global_every": "sliding_window_pattern",
    "global_head": "global_head_dim",
    "global_kv_heads": "num_global_key_value_heads",
    "score_cap": "attn_logit_softcapping",
    "logit_cap": "final_logit_softcapping",
    "rotary": "partial_rotary_factor",
    "global_rotary": "partial_rotary_factor",
    "query_rank": "q_lora_rank",
    "rank": "kv_lora_rank",
    "plain": "qk_nope_head_dim",
    "value": "v_head_dim",
    "count": "num_experts",
    "active": "num_experts_per_tok",
    "width": "moe_intermediate_size",
    "every": "decoder_sparse_step",
    "groups": "n_group",
    "kept_groups": "topk_group",
    "dense_layers": "first_k_dense_replace",
}
_MOST_LAYERS = 1024  # a graph has a few operators of each
_MOST = 1 << 31  # of other sizes
# what config files call activations of the gate -> what it computes
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
_WHOLE_SIZES = ("hidden", "layers", "vocabulary", "heads", "kv_heads", "head", "inner", "positions")


def shipped() -> tuple[str, ...]:
    """Names of the models whose config files are shipped, sorted."""
    return tuple(sorted(_table()))


@checked(source='write "config.json", a mapping of its content, or a name of asim.llm.shipped()')
def architecture(source: str | PathLike[str] | Mapping[str, Any]) -> Architecture:
    """What a model is made of.

    Args:
        source: Path of a config.json, its content, or the name of a shipped one ("qwen3-8b").

    Raises:
        InputError: If there is no such file or name, the family is not known, or a size is missing or wrong.
    """
    if isinstance(source, Mapping):
        return _read(source, str(source.get("_name_or_path") or source.get("model_type", "model")))
    text = str(source)
    if text.lower() in _table():
        return _read(_table()[text.lower()], text.lower())
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix != ".json":
        rule = "is neither a file ending in .json nor a model that is shipped"
        raise InputError(f"model {text!r}", rule, remedy=suggest(text.lower(), shipped()))
    return _read(_document(path), path.resolve().parent.name if path.stem == "config" else path.stem)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = tomllib.loads(_SHIPPED.read_text(encoding="utf-8"))
    return found


def _document(path: Path) -> Mapping[str, Any]:
    text = read_text(path, f"file {str(path)!r}", _MOST_BYTES)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"file {str(path)!r}", f"is no JSON: {error}") from error
    if not isinstance(found, Mapping):
        raise InputError(f"file {str(path)!r}", "must hold an object", type(found).__name__)
    return found


def _read(config: Mapping[str, Any], name: str) -> Architecture:
    family = config.get("model_type")
    known = FAMILIES.get(str(family))
    if known is None:
        rule = f"must be one of {', '.join(sorted(FAMILIES))}"
        raise InputError(f"config of {name!r}: model_type", rule, repr(family))
    inner = config.get("text_config")  # of models that also see or hear
    if isinstance(inner, Mapping):
        config = {**config, **inner}
    try:
        facts = {**_common(config, name), **known(config)}
    except KeyError as error:
        raise InputError(f"config of {name!r}: {error.args[0]}", "is missing") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"config of {name!r}", f"has a value of the wrong type: {error}") from None
    _check(facts, name)
    return Architecture(name=name, family=str(family), **facts)


def _common(config: Mapping[str, Any], name: str) -> Facts:
    """What Llama's names say; keys that are not there are left to the family."""
    facts = {own: config[theirs] for own, theirs in _SIZES.items() if theirs in config}
    heads, hidden = facts.get("heads"), facts.get("hidden")
    facts["kv_heads"] = config.get("num_key_value_heads") or heads
    if config.get("head_dim"):
        facts["head"] = config["head_dim"]
    elif isinstance(heads, int) and isinstance(hidden, int) and heads > 0:
        if hidden % heads and "kv_channels" not in config:
            rule = f"must be a multiple of num_attention_heads ({heads})"
            raise InputError(f"config of {name!r}: hidden_size", rule, hidden, "or state head_dim")
        facts["head"] = hidden // heads
    facts["epsilon"] = config.get("rms_norm_eps", 1e-6)
    facts["theta"] = config.get("rope_theta") or said(config).get("rope_theta", 10000.0)
    facts["tied"] = bool(config.get("tie_word_embeddings", False))
    facts["scaling"] = scaling(config)
    activation = config.get("hidden_activation") or config.get("hidden_act")
    if activation is not None:
        if activation not in _ACTIVATIONS:
            rule = f"must be one of {', '.join(_ACTIVATIONS)}"
            raise InputError(f"config of {name!r}: hidden_act", rule, repr(activation))
        facts["activation"] = _ACTIVATIONS[activation]
    return facts


def _check(facts: Facts, name: str) -> None:
    for size in _WHOLE_SIZES:
        value = facts.get(size)
        key = _SIZES.get(size, {"kv_heads": "num_key_value_heads", "head": "head_dim"}.get(size, size))
        if value is None:
            raise InputError(f"config of {name!r}: {key}", "is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"config of {name!r}: {key}", "must be a whole number from 1 on", repr(value))
        most = _MOST_LAYERS if size == "layers" else _MOST
        if value > most:
            raise InputError(f"config of {name!r}: {key}", f"must be at most {most}", value)
    for size, key in (("epsilon", "rms_norm_eps"), ("theta", "rope_theta")):
        value = facts.get(size)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(f"config of {name!r}: {key}", "must be a number above 0", repr(value))
    if facts["heads"] % facts["kv_heads"]:
        rule = f"must divide num_attention_heads ({facts['heads']})"
        raise InputError(f"config of {name!r}: num_key_value_heads", rule, facts["kv_heads"])
    for size, least in (("window", 0), ("global_every", 1), ("global_head", 0), ("global_kv_heads", 0)):
        _whole(name, _KEYS[size], facts.get(size, least), least)
    for size, default in (("score_cap", 0.0), ("logit_cap", 0.0), ("rotary", 1.0), ("global_rotary", 0.0)):
        value = facts.get(size, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"config of {name!r}: {_KEYS[size]}", "must be a number from 0 on", repr(value))
    latent, mixture = facts.get("latent"), facts.get("experts")
    if latent is not None:
        for part in fields(latent):
            least = 0 if part.name == "query_rank" else 1
            key = "qk_rope_head_dim" if part.name == "rotary" else _KEYS[part.name]
            _whole(name, key, getattr(latent, part.name), least)
    size, share = (facts["head"], facts.get("rotary", 1.0)) if latent is None else (latent.rotary, 1.0)
    if share > 1 or (share and (int(size * share) % 2 or int(size * share) == 0)):
        key = "head_dim" if latent is None else "qk_rope_head_dim"
        rule = "must be even, and so the part of it that turns with the position"
        raise InputError(f"config of {name!r}: {key}", rule, f"{size} x {share}")
    if mixture is not None:
        _check_mixture(mixture, name)


def _check_mixture(mixture: Experts, name: str) -> None:
    positive = ("count", "active", "width", "every", "groups", "kept_groups")
    for part in (*positive, "shared_width", "dense_layers", "parallel_width"):
        _whole(name, _KEYS.get(part, part), getattr(mixture, part), int(part in positive))
    if mixture.active > mixture.count:
        rule = f"must be from 1 to the number of experts ({mixture.count})"
        raise InputError(f"config of {name!r}: num_experts_per_tok", rule, mixture.active)
    if mixture.count % mixture.groups:
        rule = f"must divide the number of experts ({mixture.count})"
        raise InputError(f"config of {name!r}: n_group", rule, mixture.groups)
    kept = mixture.count // mixture.groups * mixture.kept_groups
    if mixture.kept_groups > mixture.groups or kept < mixture.active:
        rule = f"must be at most {mixture.groups}, and its groups hold {mixture.active} experts or more"
        raise InputError(f"config of {name!r}: topk_group", rule, mixture.kept_groups)


def _whole(name: str, key: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"config of {name!r}: {key}", f"must be a whole number from {least} on", repr(value))
