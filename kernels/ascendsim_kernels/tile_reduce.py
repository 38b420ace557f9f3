"""Vector instructions whose results lie elsewhere than their operands: reductions, broadcasts of single
elements, gathers, transpositions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import carray

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_lanes import (
    BLOCK_STEP,
    CONTIGUOUS,
    LANES,
    MEMORY,
    OP,
    OPERANDS,
    REPEAT_STEP,
    REPEATS,
    SCRATCH,
    SEQUENTIAL,
    TYPE,
    WIDTH,
    lane_place,
    lane_set,
    load_stretch,
    mask_is_full,
)
from ascendsim_kernels.tile_memory import (
    BF16,
    BITS,
    BYTES,
    SIZE,
    UNDEFINED_INDEX,
    all_defined,
    copy_bytes,
    element_bytes,
    load_floats,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    report,
    set_bits,
    store_floats,
    store_integers,
)


class Fold(IntEnum):
    """What becomes of the lanes of a group."""

    SUM = 0
    MAX = 1
    MIN = 2


class Order(IntEnum):
    """What a reduction of whole repeats writes (Ascend C's ReduceOrder)."""

    VALUE_INDEX = 0
    INDEX_VALUE = 1
    ONLY_VALUE = 2
    ONLY_INDEX = 3


_SUM, _MAX = int(Fold.SUM), int(Fold.MAX)
_VALUE_INDEX, _INDEX_VALUE, _ONLY_VALUE = (int(order) for order in list(Order)[:3])
SOURCE = OPERANDS + WIDTH
SECOND = SOURCE + WIDTH
GROUP = SEQUENTIAL  # of a reduction: lanes of a group; and what it writes:
ORDER = CONTIGUOUS
STEPS = SECOND + 2 * WIDTH  # of a change of order: four counts, each with its step


@kernel
def place_of(p: Any, q: Any, places: Any, number: Any, r: Any, lane: Any) -> Any:
    """First byte of a lane, whether the operands lie in a row or in repeats."""
    if p[REPEATS] == 0:
        return places[number] + lane * element_bytes(p[q + TYPE])
    return lane_place(p, q, places[number], r, lane)


@kernel
def store_lane(p: Any, q: Any, place: Any, value: Any, memories: Any, f: Any, g: Any, defined: Any) -> None:
    """Writes one element."""
    address = memories[p[q + MEMORY], BYTES] + place
    if p[q + TYPE] <= BF16:
        f[0] = np.float32(value)
        store_floats(address, p[q + TYPE], f, 0, 1)
    else:
        g[0] = np.int64(value)
        store_integers(address, p[q + TYPE], g, 0, 1)
    set_bits(memories[p[q + MEMORY], BITS], place, element_bytes(p[q + TYPE]), defined)


@kernel
def tree_sum(values: Any, count: Any) -> Any:
    """Sum of float32 values as a tree of neighbours; the values are used up."""
    while count > 1:
        half = count // 2
        for i in range(half):
            values[i] = values[2 * i] + values[2 * i + 1]
        if count % 2:
            values[half] = values[count - 1]
        count = half + count % 2
    return values[0]


@kernel
def reduce_lanes(p: Any, places: Any, memories: Any, f: Any, g: Any) -> None:
    """Each group of GROUP lanes of a repeat becomes one element, or a value and its index.

    Results of a repeat lie one behind the other; lanes that the mask leaves out do not count, and a group
    without lanes leaves its result as it was.
    """
    if p[REPEATS] == 0:
        _reduce_row(p, places, memories, f, g)
        return
    lanes, group, fold = p[LANES], p[GROUP], p[OP]
    size = element_bytes(p[OPERANDS + TYPE])
    bits = memories[p[SOURCE + MEMORY], BITS]
    size_of = element_bytes(p[SOURCE + TYPE])
    floating = p[SOURCE + TYPE] <= BF16
    whole = mask_is_full(p, 0, lanes)
    values, chosen = f[0], f[1]
    simple = whole and fold == _SUM and p[ORDER] == _ONLY_VALUE and p[OPERANDS + TYPE] <= BF16
    for r in range(p[REPEATS]):
        load_stretch(p, SOURCE, places[1], memories, r, 1, values, g[0])
        if not floating:
            for lane in range(lanes):
                values[lane] = np.float32(g[0, lane])
        come = places[1] + r * p[SOURCE + REPEAT_STEP]
        known = p[SOURCE + BLOCK_STEP] == 32 and all_defined(bits, come, lanes * size_of)
        into = places[0] + r * p[OPERANDS + REPEAT_STEP]
        if simple and known:
            _sum_groups(p, into, values, memories, f[2])
            continue
        for start in range(0, lanes, group):
            number, best, index, defined = 0, np.float32(0), 0, True
            for lane in range(start, min(start + group, lanes)):
                if not whole and not lane_set(p, lane):
                    continue
                v = values[lane]
                if not known:
                    place = lane_place(p, SOURCE, places[1], r, lane)
                    defined = defined and all_defined(bits, place, size_of)
                if fold == _SUM:
                    chosen[number] = v
                elif number == 0 or (best == best and ((v > best if fold == _MAX else v < best) or v != v)):
                    best, index = v, lane - start
                number += 1
            if number == 0:
                continue
            if fold == _SUM:
                best = tree_sum(chosen, number)
            if p[ORDER] == _ONLY_VALUE:
                place = into + start // group * size
                store_lane(p, OPERANDS, place, np.float64(best), memories, f[2], g[2], defined)
            else:
                _store_pair(p, into, best, index, memories, f[2], g[2], defined)


@kernel
def _sum_groups(p: Any, into: Any, values: Any, memories: Any, sums: Any) -> None:
    """Sums of the groups of a repeat, of which all lanes take part and are defined."""
    lanes, group, count = p[LANES], p[GROUP], 0
    for start in range(0, lanes, group):
        sums[count] = tree_sum(values[start:lanes], min(group, lanes - start))
        count += 1
    q, code = OPERANDS, p[OPERANDS + TYPE]
    store_floats(memories[p[q + MEMORY], BYTES] + into, code, sums, 0, count)
    set_bits(memories[p[q + MEMORY], BITS], into, count * element_bytes(code), True)


@kernel
def _reduce_row(p: Any, places: Any, memories: Any, f: Any, g: Any) -> None:
    """The largest or smallest of elements in a row, with the index of the first such.

    Places: target, room for values on their way (left as it is), source; so also of `permute`.
    """
    total, fold = p[LANES], p[OP]
    code = p[SECOND + TYPE]
    size = element_bytes(code)
    best, index = np.float32(0), -1
    for start in range(0, total, SCRATCH):
        count = min(SCRATCH, total - start)
        place = memories[p[SECOND + MEMORY], BYTES] + places[2] + start * size
        load_floats(place, code, f[0], 0, count)
        for i in range(count):
            v = f[0, i]
            if index < 0 or (best == best and ((v > best if fold == _MAX else v < best) or v != v)):
                best, index = v, start + i
    defined = all_defined(memories[p[SECOND + MEMORY], BITS], places[2], total * size)
    _store_pair(p, places[0], best, index, memories, f[2], g[2], defined)


@kernel
def permute(p: Any, places: Any, memories: Any) -> None:
    """Elements in a row, taken from the source in an order of four nested counts with steps in bytes."""
    size = element_bytes(p[OPERANDS + TYPE])
    bytes_of, bits_of = memories[p[SECOND + MEMORY], BYTES], memories[p[SECOND + MEMORY], BITS]
    bytes_to, bits_to = memories[p[OPERANDS + MEMORY], BYTES], memories[p[OPERANDS + MEMORY], BITS]
    into = places[0]
    for a in range(p[STEPS]):
        for b in range(p[STEPS + 2]):
            for c in range(p[STEPS + 4]):
                for d in range(p[STEPS + 6]):
                    come = (
                        places[2] + a * p[STEPS + 1] + b * p[STEPS + 3] + c * p[STEPS + 5] + d * p[STEPS + 7]
                    )
                    copy_bytes(bytes_of + come, bytes_to + into, size)
                    set_bits(bits_to, into, size, all_defined(bits_of, come, size))
                    into += size


@kernel
def _store_pair(
    p: Any, into: Any, value: Any, index: Any, memories: Any, f: Any, g: Any, defined: Any
) -> None:
    """A value and its index in the order that is asked for, or the index alone."""
    size = element_bytes(p[OPERANDS + TYPE])
    order = p[ORDER]
    first, second = into, into + size
    if order == _INDEX_VALUE:
        first, second = second, first
    if order == _VALUE_INDEX or order == _INDEX_VALUE:
        store_lane(p, OPERANDS, first, np.float64(value), memories, f, g, defined)
    else:
        second = into
    room = carray(pointer_u8(memories[p[OPERANDS + MEMORY], BYTES] + second), size)
    for i in range(size):  # the index stands as an integer in the bits of an element
        room[i] = (index >> (8 * i)) & 0xFF
    set_bits(memories[p[OPERANDS + MEMORY], BITS], second, size, defined)


@kernel
def broadcast_blocks(p: Any, places: Any, memories: Any) -> None:
    """Eight elements a repeat, each fills a block of 32 bytes (brcb)."""
    size = element_bytes(p[OPERANDS + TYPE])
    bytes_of, bits_of = memories[p[SOURCE + MEMORY], BYTES], memories[p[SOURCE + MEMORY], BITS]
    bytes_to, bits_to = memories[p[OPERANDS + MEMORY], BYTES], memories[p[OPERANDS + MEMORY], BITS]
    for r in range(p[REPEATS]):
        for k in range(8):
            come = places[1] + (r * 8 + k) * size
            into = places[0] + r * p[OPERANDS + REPEAT_STEP] + k * p[OPERANDS + BLOCK_STEP]
            if size == 2:
                half = carray(pointer_u16(bytes_of + come), 1)[0]
                halves = carray(pointer_u16(bytes_to + into), 16)
                for i in range(16):
                    halves[i] = half
            elif size == 4:
                word = carray(pointer_u32(bytes_of + come), 1)[0]
                words = carray(pointer_u32(bytes_to + into), 8)
                for i in range(8):
                    words[i] = word
            else:
                for i in range(32 // size):
                    copy_bytes(bytes_of + come, bytes_to + into + i * size, size)
            set_bits(bits_to, into, 32, all_defined(bits_of, come, size))


@kernel
def gather(p: Any, places: Any, base: Any, memories: Any, row: Any, events: Any) -> None:
    """Elements of the first source at byte offsets that the second one holds (uint32), plus a base."""
    size = element_bytes(p[OPERANDS + TYPE])
    bytes_of, bits_of = memories[p[SOURCE + MEMORY], BYTES], memories[p[SOURCE + MEMORY], BITS]
    end = memories[p[SOURCE + MEMORY], SIZE]
    bytes_to, bits_to = memories[p[OPERANDS + MEMORY], BYTES], memories[p[OPERANDS + MEMORY], BITS]
    for r in range(max(1, p[REPEATS])):
        for lane in range(p[LANES]):
            if p[REPEATS] and not lane_set(p, lane):
                continue
            at = places[2] + (r * p[LANES] + lane) * 4
            offset = np.int64(carray(pointer_u32(memories[p[SECOND + MEMORY], BYTES] + at), 1)[0])
            come = places[1] + np.int64(base) + offset
            into = place_of(p, OPERANDS, places, 0, r, lane)
            known = all_defined(memories[p[SECOND + MEMORY], BITS], at, 4)
            if not known or come + size > end:
                report(events, row, UNDEFINED_INDEX, p[SECOND + MEMORY], at, at + 3)
                set_bits(bits_to, into, size, False)
                continue
            copy_bytes(bytes_of + come, bytes_to + into, size)
            set_bits(bits_to, into, size, all_defined(bits_of, come, size))


@kernel
def transpose_rows(p: Any, places: Any, memories: Any, scratch: Any) -> None:
    """Sixteen rows of one block each become columns (vnchwconv), repeat by repeat.

    Args:
        p: Parameters; distances between repeats in both operands.
        places: The 16 rows of the target, then those of the source.
        memories: Table of memories.
        scratch: Bytes of 16 blocks, and as many for their definedness.
    """
    size = element_bytes(p[OPERANDS + TYPE])
    each = 32 // size
    bytes_of, bits_of = memories[p[SOURCE + MEMORY], BYTES], memories[p[SOURCE + MEMORY], BITS]
    bytes_to, bits_to = memories[p[OPERANDS + MEMORY], BYTES], memories[p[OPERANDS + MEMORY], BITS]
    for r in range(max(1, p[REPEATS])):
        for i in range(16):
            come = places[16 + i] + r * p[SOURCE + REPEAT_STEP]
            seen = carray(pointer_u8(bytes_of + come), 32)
            for j in range(32):
                scratch[i * 32 + j] = seen[j]
            for j in range(each):
                scratch[512 + i * each + j] = all_defined(bits_of, come + j * size, size)
        # element j of row i goes to row j; a row takes `each` elements, the rest goes on in the next row
        for j in range(each):
            for i in range(16):
                into = places[j * (16 // each) + i // each] + r * p[OPERANDS + REPEAT_STEP]
                into += i % each * size
                room = carray(pointer_u8(bytes_to + into), size)
                for b in range(size):
                    room[b] = scratch[i * 32 + j * size + b]
                set_bits(bits_to, into, size, scratch[512 + i * each + j] != 0)
