"""Constants of equal bytes, found level by level.

Each level looks only within groups that agree so far, so that large weights are hardly ever read twice:

    1  types, shape and format, or what the caller asks          no value is touched
    2  a few bytes at regular distances and at the end           64 places
    3  hash of all bytes
    4  comparison of all bytes

Tensors with one and the same `Constant` are equal without a look at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable

import numpy as np

from ascendsim.graph.ir import Array, Tensor

SAMPLES = 64  # places at which level 2 looks


def type_and_shape(tensor: Tensor) -> Hashable:
    """What equal constants of a graph agree in."""
    return (tensor.elements, tensor.shape, tensor.dtype, tensor.origin_dtype, tensor.format)


def same_values(
    tensors: Iterable[Tensor], form: Callable[[Tensor], Hashable] = type_and_shape
) -> list[list[Tensor]]:
    """Groups of two or more constants with equal bytes; groups and members in the given order.

    Args:
        tensors: Constants whose values are at hand.
        form: What must agree besides the bytes.
    """
    groups = _split(list(tensors), form)
    for level in (_sample_key, _hash_key):
        groups = [part for group in groups for part in _split(group, _once(level, group))]
    return [part for group in groups for part in _equal(group)]


def _split(group: list[Tensor], key: Callable[[Tensor], Hashable]) -> list[list[Tensor]]:
    parts: dict[Hashable, list[Tensor]] = {}
    for tensor in group:
        parts.setdefault(key(tensor), []).append(tensor)
    return [part for part in parts.values() if len(part) > 1]


def _once(key: Callable[[Tensor], Hashable], group: list[Tensor]) -> Callable[[Tensor], Hashable]:
    """The key, made once for each constant of a group, and not at all if there is only one."""
    alone = len({id(tensor.constant) for tensor in group}) == 1
    known: dict[int, Hashable] = {}

    def of(tensor: Tensor) -> Hashable:
        place = id(tensor.constant)
        if place not in known:
            known[place] = None if alone else key(tensor)
        return known[place]

    return of


def _sample_key(tensor: Tensor) -> Hashable:
    data = _bytes_of(tensor)
    return data[:: max(1, data.size // SAMPLES)].tobytes() + data[-SAMPLES:].tobytes()


def _hash_key(tensor: Tensor) -> Hashable:
    return hashlib.blake2b(_bytes_of(tensor).data, digest_size=16).digest()


def _equal(group: list[Tensor]) -> list[list[Tensor]]:
    """The members that equal the first one to the byte; what does not (two texts of one hash) is tried again
    among itself.
    """
    found = []
    while len(group) > 1:
        first = group[0]
        same = [
            tensor
            for tensor in group
            if tensor.constant is first.constant or np.array_equal(_bytes_of(tensor), _bytes_of(first))
        ]
        if len(same) > 1:
            found.append(same)
        group = [tensor for tensor in group if tensor not in same]
    return found


def _bytes_of(tensor: Tensor) -> Array:
    constant = tensor.constant
    assert constant is not None
    return np.ascontiguousarray(constant.array()).ravel().view(np.uint8)
