"""ConstantFuseSamePass and RemoveSameConstPass: constants of equal bytes become one.

ConstantFuseSame joins single elements, and here small integer vectors too: ONNX has as inputs what GE has as attributes (axes,
shapes, paddings), and nodes are only found equal if these are one constant.

RemoveSameConst compares all constants, level by level, each level only within groups that agree so far, so that large weights are hardly
ever read twice:

    1  number of elements, shape, element types, format     no value is touched
    2  a few bytes from the beginning, middle and end        64 places
    3  hash of all bytes
    4  comparison of all bytes

Values that a computation makes when they are asked for (seeded random weights, folded ones) stand for weights that nobody has yet;
they are left alone until somebody computes them, and so are weights without values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.passes.base import PassResult
from ascendsim.passes.graph_engine.edits import all_graphs

SMALL_VECTOR = 16  # elements of an integer constant that ConstantFuseSame still joins
SAMPLES = 64  # places at which level 2 looks


@dataclass(frozen=True, slots=True)
class ConstantFuseSamePass:
    """Joins equal constants of one element, and equal integer vectors of up to `SMALL_VECTOR` elements."""

    name: str = "ConstantFuseSamePass"

    def run(self, graph: Graph) -> PassResult:
        return _run(graph, _is_small)


@dataclass(frozen=True, slots=True)
class RemoveSameConstPass:
    """Joins equal constants of any size."""

    name: str = "RemoveSameConstPass"

    def run(self, graph: Graph) -> PassResult:
        return _run(graph, lambda tensor: True)


def _is_small(tensor: Tensor) -> bool:
    return tensor.elements == 1 or (tensor.elements <= SMALL_VECTOR and (tensor.origin_dtype is None or not tensor.origin_dtype.is_float))


def _run(graph: Graph, wanted: Callable[[Tensor], bool]) -> PassResult:
    joined = saved = 0
    for scope in all_graphs(graph):
        outputs = set(scope.outputs)
        candidates = [tensor for tensor in scope.constants if tensor.producer is None and _at_hand(tensor) and wanted(tensor)]
        for group in same_values(candidates):
            keep = next((tensor for tensor in group if tensor in outputs), group[0])
            for tensor in group:
                if tensor is keep or tensor in outputs:
                    continue
                joined, saved = joined + 1, saved + tensor.logical_bytes
                scope.replace_uses(tensor, keep)
                scope.remove_tensor(tensor)
    return PassResult(joined > 0, {"removed constants": joined, "saved bytes": saved} if joined else {})


def _at_hand(tensor: Tensor) -> bool:
    constant = tensor.constant
    return constant is not None and constant.available and tensor.is_static and (constant.loaded or not constant.computed)


def same_values(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Groups of two or more constants with equal types, shapes and bytes; groups and members in the given order."""
    groups = [list(tensors)]
    for level in (_type_key, _sample_key, _hash_key):
        groups = [part for group in groups for part in _split(group, level)]
    return [part for group in groups for part in _equal(group)]


def _split(group: list[Tensor], key: Callable[[Tensor], Hashable]) -> list[list[Tensor]]:
    parts: dict[Hashable, list[Tensor]] = {}
    for tensor in group:
        parts.setdefault(key(tensor), []).append(tensor)
    return [part for part in parts.values() if len(part) > 1]


def _type_key(tensor: Tensor) -> Hashable:
    return (tensor.elements, tensor.shape, tensor.dtype, tensor.origin_dtype, tensor.format)


def _sample_key(tensor: Tensor) -> Hashable:
    data = _bytes_of(tensor)
    return data[:: max(1, data.size // SAMPLES)].tobytes() + data[-SAMPLES:].tobytes()


def _hash_key(tensor: Tensor) -> Hashable:
    return hashlib.blake2b(_bytes_of(tensor).data, digest_size=16).digest()


def _equal(group: list[Tensor]) -> list[list[Tensor]]:
    """The members that equal the first one to the byte; what does not (two texts of one hash) is tried again among itself."""
    found = []
    while len(group) > 1:
        first = _bytes_of(group[0])
        same = [tensor for tensor in group if np.array_equal(_bytes_of(tensor), first)]
        if len(same) > 1:
            found.append(same)
        group = [tensor for tensor in group if tensor not in same]
    return found


def _bytes_of(tensor: Tensor) -> Array:
    constant = tensor.constant
    assert constant is not None
    return np.ascontiguousarray(constant.array()).reshape(-1).view(np.uint8)
