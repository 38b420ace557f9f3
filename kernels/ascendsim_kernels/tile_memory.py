"""Memory of a core as jitted code sees it: bytes at an address of the host, and one bit a byte that says
whether anything has been written there.

A memory is a row of a table: address of its bytes, address of its definedness bits, number of bytes. The bits
of 32 bytes (one block of the unified buffer) are one uint32 word, so that instructions on whole blocks work
on words.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ascendsim_kernels.half import float_to_half, half_to_float, saturated_bits
from ascendsim_kernels.jit import kernel


class Type(IntEnum):
    """Element types as jitted code knows them; floating-point ones come up to BFLOAT16."""

    SATURATING_FLOAT16 = -1  # of chips on which numbers beyond float16 are its last number, and NaN is 0
    FLOAT16 = 0
    FLOAT32 = 1
    BFLOAT16 = 2
    INT8 = 3
    UINT8 = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10


SAT16, F16, F32, BF16, I8, U8, I16, U16, I32, U32, I64, U64 = (int(code) for code in Type)
BYTES, BITS, SIZE = 0, 1, 2  # columns of the table of memories
BLOCK = 32  # bytes whose definedness one word holds
FULL = np.uint32(0xFFFFFFFF)


class Event(IntEnum):
    """What the evaluator reports of an instruction, with a memory and the bytes concerned."""

    UNDEFINED_OUT = 1  # bytes that nobody has written go to global memory
    UNDEFINED_INDEX = 2  # an index or an address that nobody has written
    UNDEFINED_MASK = 3  # a mask that nobody has written
    OUTSIDE_READ = 4  # bytes beyond the end of a region are read
    OUTSIDE_WRITE = 5  # bytes beyond the end of a region are written: they are dropped


OUTSIDE_READ, OUTSIDE_WRITE = int(Event.OUTSIDE_READ), int(Event.OUTSIDE_WRITE)
UNDEFINED_OUT, UNDEFINED_INDEX = int(Event.UNDEFINED_OUT), int(Event.UNDEFINED_INDEX)
UNDEFINED_MASK = int(Event.UNDEFINED_MASK)


def _pointer_to(element: Any, width: Any) -> Any:
    """An intrinsic that takes an address as a pointer to elements of a type."""

    @intrinsic
    def pointer(_context: Any, _address: Any) -> Any:
        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], width.as_pointer())

        return types.CPointer(element)(types.int64), generate

    return pointer


pointer_u8 = _pointer_to(types.uint8, ir.IntType(8))
pointer_i8 = _pointer_to(types.int8, ir.IntType(8))
pointer_u16 = _pointer_to(types.uint16, ir.IntType(16))
pointer_i16 = _pointer_to(types.int16, ir.IntType(16))
pointer_u32 = _pointer_to(types.uint32, ir.IntType(32))
pointer_i32 = _pointer_to(types.int32, ir.IntType(32))
pointer_i64 = _pointer_to(types.int64, ir.IntType(64))
pointer_f32 = _pointer_to(types.float32, ir.FloatType())


@intrinsic
def float_of(_context: Any, _bits: Any) -> Any:
    """The float32 whose bits are given as uint32 (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def bits_of(_context: Any, _value: Any) -> Any:
    """The bits of a float32 as uint32 (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@kernel
def element_bytes(code: Any) -> Any:
    """Bytes of one element."""
    if code == I8 or code == U8:
        return 1
    if code == F32 or code == I32 or code == U32:
        return 4
    if code == I64 or code == U64:
        return 8
    return 2


# --- elements -----------------------------------------------------------------------------------------------


@kernel
def load_floats(address: Any, code: Any, target: Any, start: Any, count: Any) -> None:
    """target[start : start + count] = float32 values of contiguous floating-point elements."""
    out = target[start : start + count]
    if code == F32:
        singles = carray(pointer_f32(address), count)
        for i in range(count):
            out[i] = singles[i]
    elif code == F16:
        halves = carray(pointer_u16(address), count)
        for i in range(count):
            out[i] = half_to_float(halves[i])
    elif code == SAT16:
        given = carray(pointer_u16(address), count)
        for i in range(count):
            out[i] = half_to_float(saturated_bits(given[i]))
    else:
        brains = carray(pointer_u16(address), count)
        for i in range(count):
            out[i] = float_of(np.uint32(brains[i]) << np.uint32(16))


@kernel
def store_floats(address: Any, code: Any, source: Any, start: Any, count: Any) -> None:
    """Contiguous floating-point elements = source[start : start + count], rounded to nearest even."""
    given = source[start : start + count]
    if code == F32:
        singles = carray(pointer_f32(address), count)
        for i in range(count):
            singles[i] = given[i]
    elif code == F16:
        halves = carray(pointer_u16(address), count)
        for i in range(count):
            halves[i] = float_to_half(given[i])
    elif code == SAT16:
        stored = carray(pointer_u16(address), count)
        for i in range(count):
            stored[i] = saturated_bits(float_to_half(given[i]))
    else:
        brains = carray(pointer_u16(address), count)
        for i in range(count):
            brains[i] = brain_of(given[i])


@kernel
def brain_of(value: Any) -> Any:
    """Bits of the bfloat16 nearest to a float32, ties to even."""
    bits = bits_of(value)
    if value != value:
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@kernel
def load_integers(address: Any, code: Any, target: Any, start: Any, count: Any) -> None:
    """target[start : start + count] = int64 values of contiguous integers."""
    out = target[start : start + count]
    if code == I32:
        words = carray(pointer_i32(address), count)
        for i in range(count):
            out[i] = words[i]
    elif code == U32:
        positive = carray(pointer_u32(address), count)
        for i in range(count):
            out[i] = np.int64(positive[i])
    elif code == I16:
        shorts = carray(pointer_i16(address), count)
        for i in range(count):
            out[i] = shorts[i]
    elif code == U16:
        unsigned = carray(pointer_u16(address), count)
        for i in range(count):
            out[i] = np.int64(unsigned[i])
    elif code == I8:
        signed = carray(pointer_i8(address), count)
        for i in range(count):
            out[i] = signed[i]
    elif code == U8:
        small = carray(pointer_u8(address), count)
        for i in range(count):
            out[i] = np.int64(small[i])
    else:
        long = carray(pointer_i64(address), count)
        for i in range(count):
            out[i] = long[i]


@kernel
def store_integers(address: Any, code: Any, source: Any, start: Any, count: Any) -> None:
    """Contiguous integers = the low bits of source[start : start + count]."""
    given = source[start : start + count]
    size = element_bytes(code)
    if size == 4:
        words = carray(pointer_i32(address), count)
        for i in range(count):
            words[i] = np.int32(given[i])
    elif size == 2:
        shorts = carray(pointer_i16(address), count)
        for i in range(count):
            shorts[i] = np.int16(given[i])
    elif size == 1:
        small = carray(pointer_i8(address), count)
        for i in range(count):
            small[i] = np.int8(given[i])
    else:
        long = carray(pointer_i64(address), count)
        for i in range(count):
            long[i] = given[i]


@kernel
def load_wide(address: Any, code: Any, singles: Any, integers: Any, target: Any, count: Any) -> None:
    """target[0 : count] = float64 values of contiguous elements of any type."""
    if code <= BF16:
        load_floats(address, code, singles, 0, count)
        for i in range(count):
            target[i] = np.float64(singles[i])
    else:
        load_integers(address, code, integers, 0, count)
        for i in range(count):
            target[i] = np.float64(integers[i])


# --- definedness --------------------------------------------------------------------------------------------


@kernel
def low_bits(count: Any) -> Any:
    """A word with its lowest `count` bits set (0 .. 32)."""
    return FULL if count >= 32 else np.uint32((np.int64(1) << np.int64(count)) - 1)


@kernel
def set_bits(bits: Any, first: Any, count: Any, defined: Any) -> None:
    """Marks bytes first .. first + count - 1 of a memory as defined or not."""
    at = first
    end = first + count
    while at < end:
        start = at & 31
        length = min(32 - start, end - at)
        mask = np.uint32(low_bits(length) << np.uint32(start))
        word = carray(pointer_u32(bits), (at >> 5) + 1)
        if defined:
            word[at >> 5] |= mask
        else:
            word[at >> 5] &= ~mask
        at += length


@kernel
def all_defined(bits: Any, first: Any, count: Any) -> Any:
    """Whether every byte first .. first + count - 1 of a memory has been written."""
    at = first
    end = first + count
    words = carray(pointer_u32(bits), (end >> 5) + 1)
    while at < end:
        start = at & 31
        length = min(32 - start, end - at)
        mask = np.uint32(low_bits(length) << np.uint32(start))
        if words[at >> 5] & mask != mask:
            return False
        at += length
    return True


@kernel
def first_undefined(bits: Any, first: Any, count: Any) -> Any:
    """The first byte of a stretch that nobody has written, -1 if all are defined."""
    words = carray(pointer_u32(bits), ((first + count) >> 5) + 1)
    for at in range(first, first + count):
        if not (words[at >> 5] >> np.uint32(at & 31)) & np.uint32(1):
            return at
    return -1


@kernel
def copy_bits(bits_from: Any, source: Any, bits_to: Any, target: Any, count: Any) -> Any:
    """Copies the definedness of `count` bytes; returns whether all of them are defined."""
    whole = True
    if (source | target) & 31 == 0:
        words = (count + 31) >> 5
        given = carray(pointer_u32(bits_from), (source >> 5) + words)[source >> 5 :]
        taken = carray(pointer_u32(bits_to), (target >> 5) + words)[target >> 5 :]
        full = count >> 5
        together = FULL
        for i in range(full):
            taken[i] = given[i]
            together &= given[i]
        whole = together == FULL
        if count & 31:
            mask = low_bits(count & 31)
            taken[full] = (taken[full] & ~mask) | (given[full] & mask)
            whole = whole and (given[full] & mask) == mask
        return whole
    if all_defined(bits_from, source, count):
        set_bits(bits_to, target, count, True)
        return True
    words = carray(pointer_u32(bits_from), ((source + count) >> 5) + 1)
    for i in range(count):
        at = source + i
        defined = (words[at >> 5] >> np.uint32(at & 31)) & np.uint32(1) != 0
        set_bits(bits_to, target + i, 1, defined)
        whole = whole and defined
    return whole


# --- reports ------------------------------------------------------------------------------------------------


@kernel
def report(events: Any, row: Any, kind: Any, memory: Any, first: Any, last: Any) -> None:
    """Adds an event: the first row of the table holds their number, the others the first ones."""
    number = events[0, 0] + 1
    events[0, 0] = number
    if number < events.shape[0]:
        events[number, 0] = row
        events[number, 1] = kind
        events[number, 2] = memory
        events[number, 3] = first
        events[number, 4] = last


@kernel
def copy_bytes(source: Any, target: Any, count: Any) -> None:
    """Moves bytes between two places that may overlap, as if all were read first."""
    if (source | target | count) & 7 == 0:
        given, taken = carray(pointer_i64(source), count >> 3), carray(pointer_i64(target), count >> 3)
        if target <= source or target >= source + count:
            for i in range(count >> 3):
                taken[i] = given[i]
        else:
            for i in range((count >> 3) - 1, -1, -1):
                taken[i] = given[i]
        return
    read, written = carray(pointer_u8(source), count), carray(pointer_u8(target), count)
    if target <= source or target >= source + count:
        for i in range(count):
            written[i] = read[i]
    else:
        for i in range(count - 1, -1, -1):
            written[i] = read[i]
