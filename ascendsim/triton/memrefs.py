"""Memrefs of a compiled module: an address, an offset, sizes and strides, and the operations that make one
from another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_int64
from dataclasses import dataclass
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.triton.reading import Operation, split

SPACES = {"gm": 1, "cbuf": 2, "ca": 3, "cb": 4, "cc": 5, "ub": 6}
_TYPE = re.compile(r"memref<((?:(?:\d+|\?)x)*)(\w+)")
_SPACE = re.compile(r"address_space<(\w+)>")
Values = dict[str, Any]
Step = Callable[[Values], Any]


@dataclass(frozen=True)
class MemrefType:
    """Sizes (None = known at run time only), element type and address space."""

    sizes: tuple[int | None, ...]
    element: str
    space: int


def memref_type(text: str) -> MemrefType:
    """Reads a type.

    >>> memref_type("memref<?x16xf16, strided<[16, 1]>, #hivm.address_space<ub>>")
    MemrefType(sizes=(None, 16), element='f16', space=6)
    """
    found = _TYPE.search(text)
    if found is None:
        raise InputError("compiled module", "has a type that is no memref", repr(text[:80]))
    space = _SPACE.search(text)
    sizes = tuple([None if one == "?" else int(one) for one in found[1].split("x")[:-1]])
    if space is not None and space[1] not in SPACES:
        raise InputError("compiled module", "names a memory of " + ", ".join(SPACES), space[1])
    return MemrefType(sizes, found[2], SPACES[space[1]] if space is not None else 0)


class Memref:
    """A memref at run time.

    Attributes:
        base: Address in bytes.
        offset, strides: In elements.
    """

    __slots__ = ("_words", "base", "element", "offset", "sizes", "strides")

    def __init__(
        self, base: int, offset: int, sizes: Sequence[int], strides: Sequence[int], element: str
    ) -> None:
        self.base, self.offset, self.sizes, self.strides = base, offset, tuple(sizes), tuple(strides)
        self.element = element
        self._words: Any = None

    def descriptor(self) -> int:
        """Address of what the library's functions take."""
        if self._words is None:
            words = (self.base, self.base, self.offset, *self.sizes, *self.strides)
            self._words = (c_int64 * len(words))(*words)
        return addressof(self._words)

    def moved(self, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Memref:
        """Another part of the same memory."""
        return Memref(self.base, offset, sizes, strides, self.element)


def packed(sizes: Sequence[int]) -> list[int]:
    """Strides of an array without gaps.

    >>> packed([2, 3, 4])
    [12, 4, 1]
    """
    strides = [1] * len(sizes)
    for at in range(len(sizes) - 2, -1, -1):
        strides[at] = strides[at + 1] * sizes[at + 1]
    return strides


def number(word: str) -> Step:
    """An operand: a value by its name, or a number."""
    if word.startswith("%"):
        return lambda values: values[word]
    fixed = int(word)
    return lambda values: fixed


def _listed(text: str) -> list[Step]:
    return [number(one) for one in split(text)]


def _brackets(text: str) -> list[str]:
    return re.findall(r"\[([^\[\]]*)\]", text)


def reinterpret_cast(operation: Operation) -> Step:
    """The same memory with an offset, sizes and strides of its own."""
    source = operation.text.split()[0]
    offset, sizes, strides = (_listed(one) for one in _brackets(operation.text.partition(" : ")[0])[:3])

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        return given.moved(
            offset[0](values), [one(values) for one in sizes], [one(values) for one in strides]
        )

    return step


def subview(operation: Operation) -> Step:
    """A part of a memref; sizes of 1 may fall away."""
    head, _, types = operation.text.partition(" : ")
    source = head.partition("[")[0].strip()
    texts = _brackets(head)[:3]
    offsets, sizes, strides = (_listed(one) for one in texts)
    wanted = memref_type(types.rpartition(" to ")[2]).sizes
    kept = _kept(split(texts[1]), wanted)

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        starts = sum(one(values) * stride for one, stride in zip(offsets, given.strides, strict=True))
        lengths = [one(values) for one in sizes]
        steps = [one(values) * stride for one, stride in zip(strides, given.strides, strict=True)]
        return given.moved(given.offset + starts, [lengths[at] for at in kept], [steps[at] for at in kept])

    return step


def _kept(sizes: Sequence[str], wanted: Sequence[int | None]) -> list[int]:
    """Which dimensions a part keeps: all but as many of size 1 as its type has fewer, the last ones first
    kept.
    """
    surplus, kept, at = len(sizes) - len(wanted), [], 0
    for place, size in enumerate(sizes):
        if surplus and size == "1" and not (at < len(wanted) and wanted[at] == 1):
            surplus -= 1
            continue
        kept.append(place)
        at += 1
    return kept


def view(operation: Operation) -> Step:
    """Bytes of a memref as an array of another type."""
    head, _, types = operation.text.partition(" : ")
    source = head.partition("[")[0].strip()
    shift, sizes = (_listed(one) for one in _brackets(head)[:2])
    kind = memref_type(types.rpartition(" to ")[2])

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        known = _sized(kind.sizes, [one(values) for one in sizes])
        return Memref(given.base + given.offset + shift[0](values), 0, known, packed(known), kind.element)

    return step


def pointer_cast(operation: Operation, start: Callable[[int], int]) -> Step:
    """An array at an address of an on-chip memory, or of global memory."""
    head, _, types = operation.text.partition(" : ")
    address = head[head.index("(") + 1 : head.index(")")].split(",")[0].strip()
    dynamic = _listed("".join(_brackets(head)[:1]))
    kind = memref_type(types)
    base = start(kind.space)

    def step(values: Values) -> Memref:
        sizes = _sized(kind.sizes, [one(values) for one in dynamic])
        return Memref(base + values[address], 0, sizes, packed(sizes), kind.element)

    return step


def _sized(sizes: Sequence[int | None], dynamic: Sequence[int]) -> list[int]:
    waiting = iter(dynamic)
    return [next(waiting) if size is None else size for size in sizes]


def _groups(text: str) -> list[list[int]]:
    found = re.search(r"\[((?:\[[\d, ]*\](?:, )?)*)\]", text)
    return (
        [[int(one) for one in inner.split(",")] for inner in re.findall(r"\[([\d, ]+)\]", found[1])]
        if found
        else []
    )


def collapse_shape(operation: Operation) -> Step:
    """Neighbouring dimensions as one."""
    source, groups = operation.text.split()[0], _groups(operation.text)

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        sizes, strides = [], []
        for group in groups:
            size = 1
            for at in group:
                size *= given.sizes[at]
            longer = [at for at in group if given.sizes[at] != 1] or group
            sizes.append(size)
            strides.append(given.strides[longer[-1]])
        return given.moved(given.offset, sizes, strides)

    return step


def expand_shape(operation: Operation) -> Step:
    """A dimension as several."""
    source, groups = operation.text.split()[0], _groups(operation.text)
    shape = re.search(r"output_shape \[([^\]]*)\]", operation.text)
    sizes = _listed(shape[1] if shape is not None else "")

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        lengths = [one(values) for one in sizes]
        strides = [0] * len(lengths)
        for place, group in enumerate(groups):
            stride = given.strides[place]
            for at in reversed(group):
                strides[at] = stride
                stride *= lengths[at]
        return given.moved(given.offset, lengths, strides)

    return step


def same(operation: Operation) -> Step:
    """A cast that changes the type alone."""
    source = operation.text.split()[0]
    return lambda values: values[source]


def bitcast(operation: Operation) -> Step:
    """The same bytes as elements of another type of the same size."""
    source, kind = operation.text.split()[0], memref_type(operation.text.rpartition("->")[2])

    def step(values: Values) -> Memref:
        given: Memref = values[source]
        return Memref(given.base, given.offset, given.sizes, given.strides, kind.element)

    return step


def dim(operation: Operation) -> Step:
    """A size."""
    source, at = split(operation.text.partition(" : ")[0])
    which = number(at)
    return lambda values: values[source].sizes[which(values)]


SHAPES: Mapping[str, Callable[[Operation], Step]] = {
    "memref.reinterpret_cast": reinterpret_cast,
    "memref.subview": subview,
    "memref.view": view,
    "memref.collapse_shape": collapse_shape,
    "memref.expand_shape": expand_shape,
    "memref.cast": same,
    "memref.memory_space_cast": same,
    "memref.dim": dim,
    "hivm.hir.bitcast": bitcast,
}
