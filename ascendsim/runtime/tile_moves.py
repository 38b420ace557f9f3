"""Which element of which tensor an operator that moves data brings where: its own kernel says so, given the
places of elements in place of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Node, Tensor
from ascendsim.isa.effects import Box, row
from ascendsim.isa.instructions import Affine, Buffer
from ascendsim.isa.notes import Call, Carry, Row
from ascendsim.lower.templates.effects import copy
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind
from ascendsim.opset.work import Copy, MoveWork
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.storage import logical, stored

Places = NDArray[np.int64]


def is_carried(node: Node, work: MoveWork, opset: OpSet) -> bool:
    """Whether an operator moves elements as they are, each copy between two tensors of its own."""
    pairs = {(one.src.region, one.dst.region) for one in work.copies}
    return (
        opset.get(node).facts.kind is Kind.MOVEMENT
        and opset.get(node).compute_body is None
        and len(pairs) == len(work.copies)
        and all(
            one.src.dtype.itemsize == one.dst.dtype.itemsize
            and Format.FRACTAL_Z not in (one.src.format, one.dst.format)
            for one in work.copies
        )
    )


@dataclass(frozen=True, slots=True)
class Way:
    """The elements of one copy.

    Attributes:
        to: Where they lie in the target, rising.
        of: Where each of them lies in the source.
        dtype: Element type.
    """

    to: Places
    of: Places
    dtype: DType


class TileMoves:
    """How the elements of one operator are carried.

    Args:
        node: The operator.
        copies: Of its work.
        opset: Operators.
        memory: Holds its inputs.
        named: Tensors by the names that notes have for them.
    """

    def __init__(
        self,
        node: Node,
        copies: Sequence[Copy],
        opset: OpSet,
        memory: DeviceMemory,
        named: Callable[[str], str],
    ) -> None:
        self._named = named
        self._ways = ways(node, copies, opset, memory) if copies else {}

    def __call__(self, carry: Carry) -> list[Row | Call]:
        """The transfers of a tile, or what the vector unit does to it."""
        way = self._ways[self._named(carry.source), self._named(carry.target)]
        size, count = way.dtype.itemsize, len(way.to)
        part = slice(carry.first * count // carry.total, carry.end * count // carry.total)
        to, of = way.to[part], way.of[part]
        if carry.phase == "turn":
            return [_turned(carry, of, way.dtype)]
        if carry.phase == "out":
            places = (Buffer.GM, carry.target), (Buffer.UB, "")
            return [
                Row(copy(*places, 1, length * size, (0, 0)), (at * size, carry.addresses[1] + start * size))
                for at, start, length in _runs(to, np.arange(len(to)))
            ]
        wanted = np.unique(of) if carry.turned else of
        places = (Buffer.UB, ""), (Buffer.GM, carry.source)
        return [
            Row(copy(*places, 1, length * size, (0, 0)), (carry.addresses[0] + start * size, at * size))
            for at, start, length in _runs(wanted, np.arange(len(wanted)))
        ]


def _turned(carry: Carry, of: Places, dtype: DType) -> Call:
    """The vector unit brings elements in the order of the target."""
    wanted, places = np.unique(of, return_inverse=True)
    target = Box(Buffer.UB, "", dtype, row(len(of), dtype), Affine(carry.addresses[0]))
    source = Box(Buffer.UB, "", dtype, row(len(wanted), dtype), Affine(carry.addresses[1]))
    return Call((target,), (source,), lambda arrays: [arrays[0][places]])


def _runs(first: Places, second: Places) -> Iterator[tuple[int, int, int]]:
    """Stretches in which both go up by one: where each begins in either, and its length."""
    if not len(first):
        return
    breaks = np.flatnonzero((np.diff(first) != 1) | (np.diff(second) != 1)) + 1
    starts = np.concatenate([[0], breaks])
    lengths = np.diff(np.concatenate([starts, [len(first)]]))
    yield from zip(first[starts].tolist(), second[starts].tolist(), lengths.tolist(), strict=True)


def ways(
    node: Node, copies: Sequence[Copy], opset: OpSet, memory: DeviceMemory
) -> dict[tuple[str, str], Way]:
    """The elements of each copy: what the operator's kernel does to places of elements, counted from 1."""
    sources = {one.src.region: one.src for one in copies}
    bases: dict[str, int] = {}
    inputs: list[Any] = []
    end = 1
    for tensor in node.inputs:
        if tensor is None or tensor.name not in sources:
            inputs.append(None if tensor is None else memory.read(tensor))
            continue
        count = sources[tensor.name].bytes // tensor.element_type.itemsize
        bases.setdefault(tensor.name, end)
        end += count
        inputs.append(_places(tensor, count) + bases[tensor.name])
    made = opset.get(node).compute(node, inputs, [np.dtype(np.int64)] * len(node.outputs))
    found: dict[tuple[str, str], Way] = {}
    for tensor, array in zip(node.outputs, made, strict=False):
        there = stored(np.asarray(array, np.int64), tensor.format, size=tensor.element_type.itemsize).reshape(
            -1
        )
        for one in copies:
            if one.dst.region == tensor.name:
                base = bases[one.src.region]
                of = there - base
                to = np.flatnonzero((of >= 0) & (of < one.src.bytes // one.src.dtype.itemsize))
                found[one.src.region, one.dst.region] = Way(to, of[to], one.dst.dtype)
    return found


def _places(tensor: Tensor, count: int) -> NDArray[np.int64]:
    """Where each element of a tensor lies."""
    size = tensor.element_type.itemsize
    return np.ascontiguousarray(logical(np.arange(count), tensor.static_shape, tensor.format, size))
