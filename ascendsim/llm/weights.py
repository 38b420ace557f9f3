"""Values of weights: none, which is enough for timing, random ones, or those of a checkpoint.

Products that kernels join (queries, keys and values; both halves of a gate; experts) are joined here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Array
from ascendsim.llm.names import JOINED, LAYOUTS, theirs
from ascendsim.llm.structure import Architecture

Fill = Callable[[], Array] | None
Shape = tuple[int, ...]


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
            terms = shape[-2] if len(shape) == 3 else shape[-1]  # of a sum; experts have theirs transposed
            return np.asarray(random.standard_normal(shape) * terms**-0.5)

        return made


@dataclass(frozen=True, slots=True)
class Checkpoint(Weights):
    """Values out of a checkpoint.

    Attributes:
        tensors: By the names of the family's checkpoints: arrays, or functions that read them.
        model: Whose they are.
    """

    tensors: Mapping[str, Any]
    model: Architecture

    def fill(self, name: str, shape: Shape) -> Fill:
        def made() -> Array:
            found = self._values(name)
            if found.shape != shape:
                raise InputError(f"weight {name!r}", f"must have the shape {list(shape)}", list(found.shape))
            return found

        return made

    def _values(self, name: str) -> Array:
        stem, _, kind = name.rpartition(".")
        home, _, last = stem.rpartition(".")
        if home.endswith("mlp.experts"):
            return self._experts(home, last)
        if theirs(self.model.family, name) in self.tensors or last not in JOINED:
            layout = LAYOUTS.get((self.model.family, last))
            found = self._one(name)
            return found if layout is None else layout(found, self.model)
        return np.concatenate([self._one(f"{home}.{part}.{kind}") for part in JOINED[last]])

    def _experts(self, home: str, last: str) -> Array:
        """Matrices of all experts, transposed, from one tensor of them or from those of each."""
        assert self.model.experts is not None
        if f"{home}.{last}" in self.tensors:
            whole = self._one(f"{home}.{last}")
        else:
            parts = JOINED.get(last, (last,))
            whole = np.stack(
                [
                    np.concatenate([self._one(f"{home}.{number}.{part}.weight") for part in parts])
                    for number in range(self.model.experts.count)
                ]
            )
        return whole.swapaxes(1, 2)

    def _one(self, name: str) -> Array:
        name = theirs(self.model.family, name)
        found = self.tensors.get(name)
        if found is None:
            raise InputError(
                f"weight {name!r}", "is not in the checkpoint", remedy=suggest(name, self.tensors)
            )
        return np.asarray(found() if callable(found) else found)


def unit_rows(matrix: Array) -> Array:
    """Each row divided by its length."""
    wide = matrix.astype(np.float32)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12))


def int8_of(matrix: Array) -> tuple[Array, Array]:
    """A matrix in int8, and the scale of each row."""
    wide = matrix.astype(np.float32)
    scale = np.maximum(np.abs(wide).max(axis=1), 1e-12) / 127
    return np.rint(wide / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def int8_experts(matrices: Array) -> tuple[Array, Array]:
    """Transposed matrices in int8, and the scale of each column of each."""
    values, scales = zip(*(int8_of(one.T) for one in matrices), strict=True)
    return np.stack([one.T for one in values]), np.stack(scales)


def int4_of(matrix: Array, group: int) -> tuple[Array, Array]:
    """A matrix in int4, eight in an int32, the first in the lowest bits; and a scale a row and group."""
    rows, columns = matrix.shape
    wide = matrix.astype(np.float32).reshape(rows, columns // group, group)
    scale = np.maximum(np.abs(wide).max(axis=2), 1e-12) / 7
    whole = np.clip(np.rint(wide / scale[..., None]), -8, 7).astype(np.int64).reshape(rows, columns // 8, 8)
    packed = ((whole & 15) << np.arange(0, 32, 4)).sum(axis=2)
    return packed.astype(np.uint32).view(np.int32), scale
