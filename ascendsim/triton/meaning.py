"""What the instructions of a recorded stream compute, on the memories of one core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendsim.triton import meaning_cube
from ascendsim.triton.decoding import (
    BLOCK,
    KINDS,
    REPEAT_BYTES,
    Copy,
    Registers,
    Side,
    Transposition,
    Vector,
    copy,
    transposition,
    unknown,
    vector,
)

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "u32": np.uint32,
    "s16": np.int16, "u16": np.uint16, "b16": np.uint16, "b32": np.uint32, "b8": np.uint8,
    "s64": np.int64, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
GM, UB = 1, 6
_PLACE = (1 << 44) - 1
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Bytes(Protocol):
    """Memories by the number of their address space."""

    bytes: dict[int, NDArray[np.uint8]]


class Unit:
    """The computing units of one core.

    Args:
        memories: Where its operands lie.

    Attributes:
        registers: What instructions have set.
    """

    def __init__(self, memories: Bytes) -> None:
        self._bytes = memories.bytes
        self.registers = Registers.fresh()
        self._views: dict[str, NDArray[Any]] = {
            kind: self._bytes[UB].view(dtype) for kind, dtype in DTYPES.items()
        }

    def execute(self, name: str, words: tuple[int, ...]) -> None:
        """Executes one instruction.

        Raises:
            KernelError: It is not known.
        """
        if self.registers.take(name, words):
            return
        one = vector(name, words)
        if one is not None:
            with np.errstate(all="ignore"):
                self._vector(one)
            return
        moved = copy(name, words)
        turned = transposition(name, words, self.registers)
        if moved is not None:
            self._copy(moved)
        elif turned is not None:
            self._transpose(turned)
        elif not meaning_cube.execute(name, words, self._bytes, self.registers):
            raise unknown(name)

    # transfers

    def _at(self, address: int) -> tuple[NDArray[np.uint8], int]:
        return self._bytes[address >> 44], address & _PLACE

    def _copy(self, one: Copy) -> None:
        kind, operation = self.registers.atomic if one.dst >> 44 == GM else ("", "")
        (target, dst), (source, src) = self._at(one.dst), self._at(one.src)
        pad = np.array([self.registers.pad], np.uint64).view(np.uint8)[: one.itemsize]
        left, right = one.left * one.itemsize, one.right * one.itemsize
        for burst in range(one.bursts):
            at, start = dst + burst * one.dst_step, src + burst * one.src_step
            if left:
                target[at : at + left] = np.tile(pad, one.left)
            arrived = source[start : start + one.length]
            if operation:
                there = target[at : at + one.length].view(DTYPES[kind])
                there[:] = _TWO[f"V{operation.upper()}"](there, arrived.view(DTYPES[kind]))
            else:
                target[at + left : at + left + one.length] = arrived
            if right:
                at += left + one.length
                target[at : at + right] = np.tile(pad, one.right)

    def _transpose(self, one: Transposition) -> None:
        """Of bytes a half of the blocks; columns of four bytes fill two blocks each."""
        memory, wide = self._bytes[UB], BLOCK // one.itemsize
        columns = min(16, wide)
        for repeat in range(one.repeats):
            rows = np.stack(
                [
                    memory[start : start + BLOCK].view(_UNSIGNED[one.itemsize])
                    for start in [(at & _PLACE) + repeat * one.src_step for at in one.src]
                ]
            )
            turned = rows[:, one.src_half * columns : (one.src_half + 1) * columns].T.reshape(16, -1)
            part = turned.shape[1] * one.itemsize
            for at, values in zip(one.dst, np.ascontiguousarray(turned), strict=True):
                start = (at & _PLACE) + repeat * one.dst_step + one.dst_half * part
                memory[start : start + part] = values.view(np.uint8)

    # vector instructions

    def _key(self, one: Vector) -> _Key:
        """What says which lanes of an instruction work."""
        low, high = self.registers.mask
        return self.registers.counting, low, high, one.repeats, KINDS[one.kind], one.op == "VCOPY"

    def _lanes(self, one: Vector) -> tuple[NDArray[np.int64], ...]:
        """Of each repeat the lanes that work."""
        return _lanes(*self._key(one))

    @staticmethod
    def _index(side: Side, repeat: int, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        size = side.itemsize
        block = BLOCK // size
        start = ((side.address & _PLACE) + repeat * side.repeat * BLOCK) // size
        return start + (lanes // block) * (side.block * block) + lanes % block

    def _vector(self, one: Vector) -> None:
        special = _SPECIAL.get(one.op)
        if special is not None:
            special(self, one)
            return
        key = self._key(one)
        compute = _computed(one)
        sides = (one.dst, *one.srcs)
        patterns = [_pattern(key, side.block, side.repeat, side.itemsize) for side in sides]
        if self._apart(one, patterns):  # all repeats at once
            places = [self._place(side, whole) for side, (whole, _) in zip(sides, patterns, strict=True)]
            given = [self._views[side.kind][place] for side, place in zip(one.srcs, places[1:], strict=True)]
            self._views[one.dst.kind][places[0]] = compute(*given)
            return
        for at, these in enumerate(_lanes(*key)):
            given = [self._views[side.kind][self._index(side, at, these)] for side in one.srcs]
            self._views[one.dst.kind][self._index(one.dst, at, these)] = compute(*given)

    @staticmethod
    def _place(side: Side, pattern: slice | NDArray[np.int64]) -> slice | NDArray[np.int64]:
        """A pattern of elements where an operand lies."""
        start = (side.address & _PLACE) // side.itemsize
        if isinstance(pattern, slice):
            return slice(start + pattern.start, start + pattern.stop)
        return start + pattern

    @staticmethod
    def _apart(one: Vector, patterns: Sequence[tuple[Any, int]]) -> bool:
        """Whether no repeat reads what an earlier one writes."""
        if not one.dst.repeat:
            return False
        low, high = one.dst.address, one.dst.address + patterns[0][1]
        for side, (_, length) in zip(one.srcs, patterns[1:], strict=True):
            same = side[:3] == one.dst[:3] and side.itemsize == one.dst.itemsize
            if not same and side.address < high and low < side.address + length:
                return False
        return True

    def _fold(self, one: Vector) -> None:
        """A repeat, or a block or a pair of it, to one element."""
        (source,) = one.srcs
        view = self._views[one.kind]
        per_block = BLOCK // source.itemsize
        start = (one.dst.address & _PLACE) // source.itemsize
        if one.op in ("VCMAX", "VCMIN"):
            self._find(one)
        for at, lanes in enumerate(self._lanes(one)):
            values = view[self._index(source, at, lanes)]
            if one.op in ("VCADD", "VCMAX", "VCMIN"):
                self._whole(one, start + at * one.dst.repeat, values, lanes)
                continue
            width = 2 if one.op == "VCPADD" else per_block
            groups = [
                values[lanes // width == group] for group in range(REPEAT_BYTES // source.itemsize // width)
            ]
            step = one.dst.repeat * len(groups)
            for place, group in enumerate(groups):
                if len(group):
                    view[start + at * step + place] = _folded(one.op, group)

    def _find(self, one: Vector) -> None:
        """The extreme of all repeats and the number of its lane, for GET.MAX.MIN.CNT."""
        (source,) = one.srcs
        lanes = self._lanes(one)
        view, per_repeat = self._views[one.kind], REPEAT_BYTES // source.itemsize
        values = np.concatenate([view[self._index(source, at, these)] for at, these in enumerate(lanes)])
        numbers = np.concatenate([at * per_repeat + these for at, these in enumerate(lanes)])
        if len(values):
            found = int(np.argmax(values) if one.op == "VCMAX" else np.argmin(values))
            bits = int(values[found : found + 1].view(_UNSIGNED[source.itemsize])[0])
            self.registers.extreme = bits | int(numbers[found]) << 32

    def _whole(self, one: Vector, place: int, values: NDArray[Any], lanes: NDArray[np.int64]) -> None:
        if not len(values):
            return
        if one.op == "VCADD":
            self._views[one.kind][place] = _tree(values)
            return
        found = int(np.argmax(values) if one.op == "VCMAX" else np.argmin(values))
        if one.mode == 2:  # the value alone
            self._views[one.kind][place] = values[found]
            return
        if one.mode not in (0, 1):
            raise unknown(f"{one.op} with order {one.mode}")
        # value and number of the lane, or the other way round
        start = (place - (one.dst.address & _PLACE) // one.dst.itemsize) * 2
        start += (one.dst.address & _PLACE) // one.dst.itemsize
        value, number = (start, start + 1) if one.mode == 0 else (start + 1, start)
        self._views[one.kind][value] = values[found]
        kind = "u32" if one.dst.itemsize == 4 else "u16"
        self._views[kind][number] = lanes[found]

    def _compare(self, one: Vector) -> None:
        """One bit a lane; results of the repeats lie one behind the other."""
        view, relation = self._views[one.kind], _RELATIONS[one.detail]
        lanes = np.arange(REPEAT_BYTES // KINDS[one.kind])
        start = one.dst.address & _PLACE
        repeats = one.repeats
        if self.registers.counting:
            repeats = -(-self.registers.mask[0] // len(lanes))
        for at in range(repeats):
            left = view[self._index(one.srcs[0], at, lanes)]
            right = _scalar(one) if one.op == "VCMPVS" else view[self._index(one.srcs[1], at, lanes)]
            bits = np.packbits(relation(left, right), bitorder="little")
            self._bytes[UB][start : start + len(bits)] = bits
            start += len(bits)

    def _select(self, one: Vector) -> None:
        """A bit chooses the first source, or the second or a scalar (mode 1)."""
        view, lanes = self._views[one.kind], REPEAT_BYTES // KINDS[one.kind]
        held = self.registers.compare & _PLACE
        if one.mode == 1:
            start, other = one.srcs[1].address & _PLACE, view[held // KINDS[one.kind]]
        elif one.mode == 2:
            start, other = int(self._bytes[UB][held : held + 8].view(np.uint64)[0]) & _PLACE, None
        elif one.mode == 0:
            start, other = held, None
        else:
            raise unknown(f"VSEL with mode {one.mode}")
        for at, these in enumerate(self._lanes(one)):
            first = start + (0 if one.mode == 0 else at * lanes // 8)
            bits = np.unpackbits(self._bytes[UB][first : first + lanes // 8], bitorder="little")
            chosen = bits[these].astype(bool)
            second = other if other is not None else view[self._index(one.srcs[1], at, these)]
            view[self._index(one.dst, at, these)] = np.where(
                chosen, view[self._index(one.srcs[0], at, these)], second
            )

    def _broadcast(self, one: Vector) -> None:
        """Each of eight elements a repeat fills a block."""
        view, size = self._views[one.kind], KINDS[one.kind]
        source, target = (one.srcs[0].address & _PLACE) // size, one.dst.address & _PLACE
        for at in range(one.repeats):
            for block in range(8):
                place = (target + (at * one.dst.repeat + block * one.dst.block) * BLOCK) // size
                view[place : place + BLOCK // size] = view[source + at * 8 + block]


_Key = tuple[bool, int, int, int, int, bool]


@lru_cache(maxsize=512)
def _lanes(
    counting: bool, low: int, high: int, repeats: int, size: int, rows: bool
) -> tuple[NDArray[np.int64], ...]:
    """Of each repeat the lanes that work.

    Args:
        counting: Whether the mask is a number of elements.
        low, high: The mask.
        repeats: As the instruction says.
        size: Bytes of an element.
        rows: Whether the count holds for each repeat: rows that may be longer than 256 bytes.
    """
    lanes = REPEAT_BYTES // size
    if counting and rows:
        return (np.arange(low),) * repeats
    if counting:
        return tuple([np.arange(min(lanes, low - start)) for start in range(0, low, lanes)])
    bits = low | high << 64
    return (np.array([lane for lane in range(lanes) if bits >> lane & 1], np.int64),) * repeats


@lru_cache(maxsize=512)
def _pattern(key: _Key, block: int, step: int, size: int) -> tuple[slice | NDArray[np.int64], int]:
    """Elements of all repeats of an operand, counted from its first, and the bytes that they span."""
    per_block = BLOCK // size
    parts = [
        at * step * per_block + (lanes // per_block) * (block * per_block) + lanes % per_block
        for at, lanes in enumerate(_lanes(*key))
    ]
    whole = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    length = (int(whole.max()) + 1) * size if len(whole) else 0
    if len(whole) and whole[0] == 0 and (np.diff(whole) == 1).all():
        return slice(0, len(whole)), length
    return whole, length


def _scalar(one: Vector) -> Any:
    size = KINDS[one.kind]
    return np.array(one.scalar & ((1 << 8 * size) - 1), _UNSIGNED[size]).view(DTYPES[one.kind])[()]


def _tree(values: NDArray[Any]) -> Any:
    """Neighbours are added, then their sums: the order of VCADD."""
    while len(values) > 1:
        if len(values) % 2:
            values = np.append(values, values.dtype.type(0))
        values = values[0::2] + values[1::2]
    return values[0]


def _folded(op: str, group: NDArray[Any]) -> Any:
    if op in ("VCGADD", "VCPADD"):
        return _tree(group)
    return group.max() if op == "VCGMAX" else group.min()


_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "VADD": np.add,
    "VSUB": np.subtract,
    "VMUL": np.multiply,
    "VDIV": np.divide,
    "VMAX": np.maximum,
    "VMIN": np.minimum,
    "VAND": np.bitwise_and,
    "VOR": np.bitwise_or,
    "VADDS": np.add,
    "VMULS": np.multiply,
    "VMAXS": np.maximum,
    "VMINS": np.minimum,
}
_ONE: dict[str, Callable[[Any], Any]] = {
    "VEXP": np.exp,
    "VLN": np.log,
    "VSQRT": np.sqrt,
    "VRSQRT": lambda a: a.dtype.type(1) / np.sqrt(a),
    "VREC": lambda a: a.dtype.type(1) / a,
    "VABS": np.abs,
    "VNOT": np.invert,
    "VRELU": lambda a: np.maximum(a, a.dtype.type(0)),
    "VCOPY": lambda a: a,
}
_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "r": np.rint,
    "": np.rint,
    "a": lambda a: np.trunc(a + np.copysign(0.5, a)),
    "f": np.floor,
    "c": np.ceil,
    "z": np.trunc,
}


def _computed(one: Vector) -> Callable[..., Any]:
    """What an instruction computes of its sources, lane by lane."""
    if one.op == "MOVEV":
        fixed = _scalar(one)
        return lambda *given: fixed
    if one.op == "VCONV":
        return lambda a: _converted(one, a)
    if one.op in ("VSHL", "VSHR"):
        amount = one.scalar & 63
        return (lambda a: a << amount) if one.op == "VSHL" else (lambda a: a >> amount)
    if len(one.srcs) == 2:
        return _TWO[one.op]
    if one.op in _ONE:
        return _ONE[one.op]
    function, scalar = _TWO[one.op], _scalar(one)
    return lambda a: function(a, scalar)


def _converted(one: Vector, values: NDArray[Any]) -> NDArray[Any]:
    source, target = one.srcs[0].kind, one.dst.kind
    dtype = DTYPES[target]
    to_integer = target[0] in "su"
    if source[0] in "su":
        return np.asarray(values.astype(dtype))
    if to_integer:
        limits = np.iinfo(dtype)
        whole = np.nan_to_num(_ROUNDED[one.detail](values.astype(np.float64)))
        return np.asarray(np.clip(whole, limits.min, limits.max).astype(dtype))
    if source == target:
        return np.asarray(_ROUNDED[one.detail](values))
    if KINDS[target] < KINDS[source] and one.detail not in ("r", ""):
        raise unknown(f"VCONV.{source}2{target}{one.detail}")
    return np.asarray(values.astype(dtype))


_SPECIAL: dict[str, Callable[[Unit, Vector], None]] = {
    **dict.fromkeys(("VCADD", "VCMAX", "VCMIN", "VCGADD", "VCGMAX", "VCGMIN", "VCPADD"), Unit._fold),
    "VCMPV": Unit._compare,
    "VCMPVS": Unit._compare,
    "VSEL": Unit._select,
    "VBRCB": Unit._broadcast,
}
