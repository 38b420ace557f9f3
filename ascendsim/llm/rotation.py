"""Angles by which elements of heads turn with the position, and how config files say that they are scaled.

Kinds of scaling are those of transformers: "linear" (positions count as closer), "llama3" (long waves turn
slower), "yarn" (elements that turn seldom within the context of training turn slower, and scores grow),
"longrope" (factors of each pair). "dynamic" changes nothing within the longest context of a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array
from ascendsim.llm.structure import Scaling

Config = Mapping[str, Any]
_PLAIN = (None, "default", "mrope", "dynamic")
SCALED = ("linear", "llama3", "longrope", "yarn")
"""Kinds of scaling that have values."""


def said(config: Config) -> Config:
    """What a config file says of the angles of layers that see all keys."""
    found = config.get("rope_parameters")
    if not isinstance(found, Mapping):
        found = config.get("rope_scaling")
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise TypeError(f"rope_scaling must hold an object, not {found!r}")
    own = found.get("full_attention", found)
    return own if isinstance(own, Mapping) else {}


def scaling(config: Config) -> Scaling | None:
    """How angles are changed for longer contexts; None if they are not.

    Raises:
        KeyError: If the file lacks a number that a kind of scaling needs.
        ValueError: If a number is not above 0.
    """
    own = said(config)
    kind = own.get("rope_type", own.get("type"))
    kind = "longrope" if kind == "su" else kind
    if kind in _PLAIN:
        return None
    if kind not in SCALED:
        return Scaling(str(kind))
    if kind == "linear":
        return Scaling(kind, _number(own, "factor"))
    original = "original_max_position_embeddings"
    trained = int(_number({**config, **own}, original))
    if kind == "llama3":
        low, high = _number(own, "low_freq_factor"), _number(own, "high_freq_factor")
        return Scaling(kind, _number(own, "factor"), trained, low, high)
    whole = _number(config, "max_position_embeddings") / trained
    if kind == "yarn":
        factor = _number(own, "factor", whole)
        slow, fast = _number(own, "beta_slow", 1.0), _number(own, "beta_fast", 32.0)
        return Scaling(kind, factor, trained, slow, fast, _yarn_gain(own, factor))
    factor = _number(own, "factor", whole)
    grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    gain = _number(own, "attention_factor", grown)
    pairs = (tuple(map(float, own[key])) for key in ("short_factor", "long_factor"))
    return Scaling(kind, factor, trained, gain=gain, short=next(pairs), long=next(pairs))


def _number(own: Config, key: str, otherwise: float | None = None) -> float:
    """A number above 0 of a config file.

    Raises:
        KeyError: If it is not there and there is nothing to take instead.
        ValueError: If it is something else.
    """
    value = own.get(key, otherwise)
    if value is None:
        raise KeyError(key)
    found = float(value)
    if not 0 < found < math.inf:
        raise ValueError(f"{key} must be above 0, not {found}")
    return found


def _growth(factor: float, share: float = 1.0) -> float:
    """By how much scores grow with the context."""
    return 1.0 if factor <= 1 else 0.1 * share * math.log(factor) + 1.0


def _yarn_gain(own: Config, factor: float) -> float:
    if own.get("attention_factor") is not None:
        return float(own["attention_factor"])
    share, everywhere = own.get("mscale"), own.get("mscale_all_dim")
    if share and everywhere:
        return _growth(factor, share) / _growth(factor, everywhere)
    return _growth(factor)


def score_gain(config: Config) -> float:
    """What scores of latent attention are multiplied by where angles are scaled (`mscale_all_dim`)."""
    own = said(config)
    share = own.get("mscale_all_dim")
    if own.get("rope_type", own.get("type")) in _PLAIN or not share:
        return 1.0
    return _growth(own.get("factor", 1.0), share) ** 2


def turns(base: float, size: int, scaled: Scaling | None, context: int) -> Array:
    """Radians a position of each pair of elements.

    Args:
        base: Of the powers.
        size: Elements that turn.
        scaled: How they are changed.
        context: Tokens of the longest sequence.

    >>> turns(100.0, 4, None, 1).round(6).tolist()
    [1.0, 0.1]
    >>> turns(100.0, 4, Scaling("linear", 4.0), 1).round(6).tolist()
    [0.25, 0.025]
    """
    plain = base ** (-np.arange(0, size, 2) / size)
    if scaled is None:
        return np.asarray(plain)
    if scaled.kind == "longrope":
        return np.asarray(plain / (scaled.long if context > scaled.original else scaled.short))
    slower = plain / scaled.factor
    if scaled.kind == "linear":
        return np.asarray(slower)
    rounds = scaled.original * plain / (2 * math.pi)  # within the context of training
    if scaled.kind == "llama3":
        kept = (rounds - scaled.low) / (scaled.high - scaled.low)
    else:
        kept = 1 - _ramp(base, size, scaled)
    kept = np.clip(kept, 0, 1)
    return np.asarray(slower * (1 - kept) + plain * kept)


def _ramp(base: float, size: int, scaled: Scaling) -> Array:
    """From 0 at the pair that makes `high` rounds within the context of training to 1 at `low`."""

    def pair(rounds: float) -> float:
        return size * math.log(scaled.original / (rounds * 2 * math.pi)) / (2 * math.log(base))

    first, last = max(math.floor(pair(scaled.high)), 0), min(math.ceil(pair(scaled.low)), size - 1)
    return np.asarray((np.arange(size // 2) - first) / max(last - first, 0.001))
