"""Lanes of vector instructions: which take part, where they lie, and how they get in and out.

An instruction works on repeats of up to eight blocks of 32 bytes; each operand has its own distance between
blocks and between repeats, and a mask says which lanes take part.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_memory import (
    BF16,
    BYTES,
    element_bytes,
    load_floats,
    load_integers,
    store_floats,
    store_integers,
)


class Op(IntEnum):
    """What a lane computes of x and y (sources), s (scalar) and z (what is in the target)."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MAX = 4
    MIN = 5
    ADD_RELU = 6
    SUB_RELU = 7
    AND = 8
    OR = 9
    COPY = 10
    ABS = 11
    EXP = 12
    LN = 13
    RELU = 14
    SQRT = 15
    RSQRT = 16
    RECIPROCAL = 17
    NOT = 18
    ADDS = 19
    MULS = 20
    MAXS = 21
    MINS = 22
    LEAKY_RELU = 23
    SHIFT_LEFT = 24
    SHIFT_RIGHT = 25
    AXPY = 26  # x s + z
    MUL_ADD_DST = 27  # x y + z
    FUSED_MUL_ADD = 28  # x z + y
    FUSED_MUL_ADD_RELU = 29
    DUPLICATE = 30


_AXPY, _MUL_ADD_DST, _FUSED, _FUSED_RELU = (
    int(op) for op in (Op.AXPY, Op.MUL_ADD_DST, Op.FUSED_MUL_ADD, Op.FUSED_MUL_ADD_RELU)
)


# Parameters of an instruction, behind the opcode. A mask is two halves of 64 lanes each; with CONTIGUOUS all
# operands lie in a row without gaps, and LANES counts all elements.
OP, CONTIGUOUS, REPEATS, LANES, MASK_LOW, MASK_HIGH, READS, SEQUENTIAL, OPERANDS = range(1, 10)
# An operand, target first: memory, type, bytes between blocks and between repeats.
MEMORY, TYPE, BLOCK_STEP, REPEAT_STEP, WIDTH = range(5)
SCRATCH = 1024  # lanes of a stretch


@kernel
def reads_target(op: Any) -> Any:
    """Whether an operation reads what is in its target."""
    return op == _AXPY or op == _MUL_ADD_DST or op == _FUSED or op == _FUSED_RELU


@kernel
def lane_set(p: Any, lane: Any) -> Any:
    """Whether the mask has a lane."""
    word = p[MASK_LOW] if lane < 64 else p[MASK_HIGH]
    return (word >> (lane & 63)) & 1 != 0


@kernel
def mask_is_full(p: Any, first: Any, count: Any) -> Any:
    """Whether the mask has all lanes first .. first + count - 1."""
    end = first + count
    low = _has_bits(p[MASK_LOW], first, min(end, 64) - first)
    return low and _has_bits(p[MASK_HIGH], max(first, 64) - 64, end - max(first, 64))


@kernel
def _has_bits(word: Any, first: Any, count: Any) -> Any:
    """Whether `count` bits of one half of a mask, `first` and those above it, are all set."""
    if count <= 0:
        return True
    if count == 64:
        return word == -1
    wanted = ((np.int64(1) << np.int64(count)) - 1) << np.int64(first)
    return word & wanted == wanted


@kernel
def lane_place(p: Any, q: Any, address: Any, repeat: Any, lane: Any) -> Any:
    """First byte of a lane of an operand."""
    size = element_bytes(p[q + TYPE])
    each = 32 // size
    return address + repeat * p[q + REPEAT_STEP] + lane // each * p[q + BLOCK_STEP] + lane % each * size


@kernel
def load_stretch(
    p: Any, q: Any, address: Any, memories: Any, first: Any, repeats: Any, floats: Any, integers: Any
) -> None:
    """Lanes of `repeats` repeats of an operand, one behind the other, into one of the two scratches."""
    code = p[q + TYPE]
    lanes = p[LANES]
    place = memories[p[q + MEMORY], BYTES] + address
    size = element_bytes(code)
    each = 32 // size
    for r in range(repeats):
        start = place + (first + r) * p[q + REPEAT_STEP]
        if p[q + BLOCK_STEP] == 32:
            if code <= BF16:
                load_floats(start, code, floats, r * lanes, lanes)
            else:
                load_integers(start, code, integers, r * lanes, lanes)
            continue
        for at in range(0, lanes, each):
            block = start + at // each * p[q + BLOCK_STEP]
            count = min(each, lanes - at)
            if code <= BF16:
                load_floats(block, code, floats, r * lanes + at, count)
            else:
                load_integers(block, code, integers, r * lanes + at, count)


@kernel
def store_stretch(
    p: Any, q: Any, address: Any, memories: Any, first: Any, repeats: Any, floats: Any, integers: Any
) -> None:
    """The other way round: lanes that the mask has go to their places."""
    code = p[q + TYPE]
    lanes = p[LANES]
    place = memories[p[q + MEMORY], BYTES] + address
    size = element_bytes(code)
    whole = mask_is_full(p, 0, lanes)
    each = lanes if whole and p[q + BLOCK_STEP] == 32 else 32 // size
    for r in range(repeats):
        start = place + (first + r) * p[q + REPEAT_STEP]
        for at in range(0, lanes, each):
            block = start + at // each * p[q + BLOCK_STEP]
            count = min(each, lanes - at)
            if whole or mask_is_full(p, at, count):
                if code <= BF16:
                    store_floats(block, code, floats, r * lanes + at, count)
                else:
                    store_integers(block, code, integers, r * lanes + at, count)
                continue
            for i in range(count):
                if lane_set(p, at + i):
                    if code <= BF16:
                        store_floats(block + i * size, code, floats, r * lanes + at + i, 1)
                    else:
                        store_integers(block + i * size, code, integers, r * lanes + at + i, 1)
