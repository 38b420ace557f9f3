"""Writes that combine what arrives with what is in global memory: add, max, min."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_copy import (
    LENGTH,
    PIECES,
    SOURCE,
    SOURCE_STEP,
    TARGET,
    TARGET_STEP,
)
from ascendsim_kernels.tile_memory import (
    BF16,
    BITS,
    BYTES,
    OUTSIDE_WRITE,
    SIZE,
    UNDEFINED_OUT,
    all_defined,
    element_bytes,
    load_floats,
    load_integers,
    report,
    set_bits,
    store_floats,
    store_integers,
)

TYPE, OP = 12, 13  # parameters of a copy that is atomic, besides those of `tile_copy`
ADD, MAX, MIN = range(1, 4)
STRETCH = 512  # elements that are combined at a time


@kernel
def combine(op: Any, there: Any, come: Any, count: Any) -> None:
    """There = there op come, element by element."""
    for i in range(count):
        if op == ADD:
            there[i] = there[i] + come[i]
        elif op == MAX:
            there[i] = max(there[i], come[i])
        else:
            there[i] = min(there[i], come[i])


@kernel
def merge_floats(op: Any, address: Any, code: Any, floats: Any, count: Any) -> None:
    """Elements at an address = (what is there) op floats[0, :count]; floats[1] is room."""
    there, come = floats[1], floats[0]
    load_floats(address, code, there, 0, count)
    combine(op, there, come, count)
    store_floats(address, code, there, 0, count)


@kernel
def merge_integers(op: Any, address: Any, code: Any, integers: Any, count: Any) -> None:
    """As `merge_floats`; sums keep their low bits."""
    there, come = integers[1], integers[0]
    load_integers(address, code, there, 0, count)
    combine(op, there, come, count)
    store_integers(address, code, there, 0, count)


@kernel
def merge(
    p: Any, target: Any, source: Any, memories: Any, floats: Any, integers: Any, row: Any, events: Any
) -> None:
    """A copy to global memory, piece by piece as `tile_copy.copy`, that combines elements."""
    to, of, code = p[TARGET], p[SOURCE], p[TYPE]
    size = element_bytes(code)
    for piece in range(p[PIECES]):
        into, come = target + piece * p[TARGET_STEP], source + piece * p[SOURCE_STEP]
        length = min(p[LENGTH], max(0, memories[to, SIZE] - into))
        if length < p[LENGTH]:
            report(events, row, OUTSIDE_WRITE, to, max(into, memories[to, SIZE]), into + p[LENGTH] - 1)
        for at in range(0, length, STRETCH * size):
            count = min(STRETCH, (length - at) // size)
            if code <= BF16:
                load_floats(memories[of, BYTES] + come + at, code, floats[0], 0, count)
                merge_floats(p[OP], memories[to, BYTES] + into + at, code, floats, count)
            else:
                load_integers(memories[of, BYTES] + come + at, code, integers[0], 0, count)
                merge_integers(p[OP], memories[to, BYTES] + into + at, code, integers, count)
        undefined = _mix_definedness(p, memories, into, come, length, size)
        if undefined >= 0:
            report(events, row, UNDEFINED_OUT, to, into + undefined, into + length - 1)


@kernel
def _mix_definedness(p: Any, memories: Any, into: Any, come: Any, length: Any, size: Any) -> Any:
    """Marks what gets undefined by undefined sources; returns the first such byte or -1."""
    bits_to, bits_of = memories[p[TARGET], BITS], memories[p[SOURCE], BITS]
    if all_defined(bits_of, come, length):
        return np.int64(-1)
    first = np.int64(-1)
    for at in range(0, length, size):
        if not all_defined(bits_of, come + at, size):
            set_bits(bits_to, into + at, size, False)
            if first < 0:
                first = np.int64(at)
    return first
