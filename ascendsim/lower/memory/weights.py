"""Weight layout: constants with equal bytes on the device share one address.

This is the second of two stages. The first merges constant nodes of the graph; here only storage is merged, so it also catches
constants whose shapes differ or whose nodes must stay apart (GE ModelBuilder::ReuseWeightMem compares all of equal size). Constants
are told apart by type and size, then by a few samples, then by a hash of all bytes; those that still agree are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Tensor

_SAMPLES = 64  # elements looked at before anything is hashed
_PLAIN = (Format.ND, Format.NCHW)  # row-major: the shape does not matter


def equal_weights(constants: Iterable[Tensor]) -> dict[str, str]:
    """Constants that are equal on the device to one before them: its name by theirs.

    Constants without values, and those whose values are only computed on demand (random ones, say), are left alone.
    """
    same: dict[str, str] = {}
    for alike in _groups(constants, _form):
        for sampled in _groups(alike, _samples):
            for hashed in _groups(sampled, _digest):
                same.update(_pairs(hashed))
    return same


def _pairs(tensors: list[Tensor]) -> Mapping[str, str]:
    """The first of a group that each of the others equals."""
    firsts: list[Tensor] = []
    pairs: dict[str, str] = {}
    for tensor in tensors:
        match = next((first for first in firsts if np.array_equal(_bytes(first), _bytes(tensor))), None)
        if match is None:
            firsts.append(tensor)
        else:
            pairs[tensor.name] = match.name
    return pairs


def _groups(tensors: Iterable[Tensor], key: Callable[[Tensor], Hashable]) -> list[list[Tensor]]:
    """Tensors of equal key, groups of one left out."""
    groups: dict[Hashable, list[Tensor]] = {}
    for tensor in tensors:
        found = key(tensor)
        if found is not None:
            groups.setdefault(found, []).append(tensor)
    return [group for group in groups.values() if len(group) > 1]


def _form(tensor: Tensor) -> Hashable:
    """All but the values that decides the bytes on the device; None if they are not at hand."""
    constant = tensor.constant
    if constant is None or not constant.available or constant.computed or not tensor.is_static:
        return None
    place = None if tensor.format in _PLAIN else (tensor.format, tensor.storage_shape, tensor.static_shape)
    return tensor.element_type, tensor.origin_dtype, tensor.elements, tensor.storage_bytes, place


def _samples(tensor: Tensor) -> Hashable:
    flat = _bytes(tensor)
    return flat[:: max(1, len(flat) // _SAMPLES)].tobytes()


def _digest(tensor: Tensor) -> Hashable:
    return hashlib.blake2b(_bytes(tensor).data, digest_size=16).digest()


def _bytes(tensor: Tensor) -> Array:
    """The values as bytes, in the order of elements."""
    assert tensor.constant is not None
    return np.ascontiguousarray(tensor.constant.array()).reshape(-1).view(np.uint8)
