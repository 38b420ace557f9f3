"""Values of weights: none, which is enough for timing, random ones, or those of a checkpoint.

Products that kernels join (queries, keys and values; both halves of a gate) are joined here, from the names
that transformers gives their parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Array

Fill = Callable[[], Array] | None
Shape = tuple[int, ...]
# Families whose checkpoints call weights as Llama's do
NAMED = frozenset({"gemma", "gemma2", "gemma3_text", "glm", "glm4", "llama", "mistral", "qwen2", "qwen3"})
# what one family calls otherwise
_RENAMED = {
    "glm4": {
        "post_attention_layernorm": "post_self_attn_layernorm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "post_mlp_layernorm",
    }
}
_JOINED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}


class Weights:
    """No values."""

    def fill(self, name: str, shape: Shape) -> Fill:
        """What makes the values of a weight; None = it has none."""
        return None


@dataclass(frozen=True, slots=True)
class RandomWeights(Weights):
    """Seeded values of about the size that trained models have; equal names have equal values.

    Attributes:
        seed: Of all of them.
        unit_offset: Whether norms multiply by 1 + weight.
    """

    seed: int = 0
    unit_offset: bool = False

    def fill(self, name: str, shape: Shape) -> Fill:
        def made() -> Array:
            random = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
            if "norm" in name:
                return np.asarray((0.0 if self.unit_offset else 1.0) + 0.1 * random.standard_normal(shape))
            return np.asarray(random.standard_normal(shape) * shape[-1] ** -0.5)

        return made


@dataclass(frozen=True, slots=True)
class Checkpoint(Weights):
    """Values out of a checkpoint.

    Attributes:
        tensors: By transformers' names: arrays, or functions that read them.
        family: Of the model; some have names of their own.
    """

    tensors: Mapping[str, Any]
    family: str = "llama"

    def fill(self, name: str, shape: Shape) -> Fill:
        def made() -> Array:
            found = self._values(name)
            if found.shape != shape:
                raise InputError(f"weight {name!r}", f"must have the shape {list(shape)}", list(found.shape))
            return found

        return made

    def _values(self, name: str) -> Array:
        renamed = _RENAMED.get(self.family, {})
        name = ".".join(renamed.get(part, part) for part in name.split("."))
        stem, _, kind = name.rpartition(".")
        home, _, last = stem.rpartition(".")
        parts = _JOINED.get(last, ())
        if last == "kv_b_proj" and kind in ("keys", "values"):
            raise InputError(f"weight {name!r}", "has no values: latent attention is for timing")
        if parts and name not in self.tensors:
            return np.concatenate([self._one(f"{home}.{part}.{kind}") for part in parts])
        return self._one(name)

    def _one(self, name: str) -> Array:
        found = self.tensors.get(name)
        if found is None:
            raise InputError(
                f"weight {name!r}", "is not in the checkpoint", remedy=suggest(name, self.tensors)
            )
        return np.asarray(found() if callable(found) else found)


def int8_of(matrix: Array) -> tuple[Array, Array]:
    """A matrix in int8, and the scale of each row."""
    wide = matrix.astype(np.float32)
    scale = np.maximum(np.abs(wide).max(axis=1), 1e-12) / 127
    return np.rint(wide / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def int4_of(matrix: Array, group: int) -> tuple[Array, Array]:
    """A matrix in int4, eight in an int32, the first in the lowest bits; and a scale a row and group."""
    rows, columns = matrix.shape
    wide = matrix.astype(np.float32).reshape(rows, columns // group, group)
    scale = np.maximum(np.abs(wide).max(axis=2), 1e-12) / 7
    whole = np.clip(np.rint(wide / scale[..., None]), -8, 7).astype(np.int64).reshape(rows, columns // 8, 8)
    packed = ((whole & 15) << np.arange(0, 32, 4)).sum(axis=2)
    return packed.astype(np.uint32).view(np.int32), scale
