"""Changes of element type of the vector unit."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_define import define_elements, define_lanes
from ascendsim_kernels.tile_lanes import (
    CONTIGUOUS,
    LANES,
    MEMORY,
    OPERANDS,
    REPEATS,
    SCRATCH,
    TYPE,
    WIDTH,
    load_stretch,
    store_stretch,
)
from ascendsim_kernels.tile_memory import (
    BF16,
    BYTES,
    F16,
    F32,
    element_bytes,
    load_wide,
    store_floats,
    store_integers,
)


class Rounding(IntEnum):
    """How a number becomes one of a narrower type (Ascend C's RoundMode)."""

    NONE = 0  # to the nearest even where a choice is needed
    RINT = 1
    FLOOR = 2
    CEIL = 3
    ROUND = 4  # halves away from 0
    TRUNC = 5
    ODD = 6  # to the neighbour whose last bit is set


_FLOOR, _CEIL, _ROUND, _TRUNC, _ODD = (int(mode) for mode in list(Rounding)[2:])


@kernel
def round_whole(value: Any, mode: Any) -> Any:
    """A float64 rounded to a whole number."""
    if mode == _FLOOR:
        return np.floor(value)
    if mode == _CEIL:
        return np.ceil(value)
    if mode == _TRUNC:
        return np.trunc(value)
    if mode == _ROUND:
        return np.trunc(value + (0.5 if value >= 0 else -0.5)) if abs(value) < 4503599627370496.0 else value
    return np.rint(value)


@kernel
def round_bits(value: Any, code: Any, mode: Any) -> Any:
    """A float64 rounded to the significand of a narrower floating-point type."""
    if value == 0 or value != value or abs(value) == np.inf:
        return value
    digits, least = (24, -126) if code == F32 else ((11, -14) if code <= F16 else (8, -126))
    _, exponent = math.frexp(value)
    unit = 2.0 ** (max(exponent - 1, least) - digits + 1)
    scaled = value / unit
    if mode == _ODD:
        whole = np.trunc(scaled)
        if whole != scaled and whole % 2 == 0:
            whole += 1.0 if value > 0 else -1.0
        return whole * unit
    return round_whole(scaled, mode) * unit


@kernel
def limit_low(code: Any) -> Any:
    """Smallest number of an integer type, as float64."""
    bits = 8 * element_bytes(code)
    return 0.0 if (code & 1) == 0 else -(2.0 ** (bits - 1))


@kernel
def limit_high(code: Any) -> Any:
    """Largest number of an integer type, as float64 (of 64 bits the largest that float64 has)."""
    bits = 8 * element_bytes(code)
    if bits == 64:
        return 9223372036854774784.0
    return 2.0**bits - 1 if (code & 1) == 0 else 2.0 ** (bits - 1) - 1


@kernel
def convert(wide: Any, of: Any, code: Any, mode: Any, floats: Any, integers: Any, count: Any) -> None:
    """Numbers as elements of another type: floats in `floats`, integers (limited to their range) in
    `integers`. From float32 to itself they become whole numbers.
    """
    if code <= BF16:
        for i in range(count):
            v = wide[i]
            if of == code:
                v = round_whole(v, mode)
            elif mode >= _FLOOR:
                v = round_bits(v, code, mode)
            floats[i] = np.float32(v)
        return
    low, high = limit_low(code), limit_high(code)
    for i in range(count):
        v = round_whole(wide[i], mode)
        v = 0.0 if v != v else min(max(v, low), high)
        integers[i] = np.int64(v)


@kernel
def cast(p: Any, places: Any, mode: Any, memories: Any, f: Any, g: Any, wide: Any) -> None:
    """Elements of one type as those of another; blocks count by the operand's own type, lanes of a repeat by
    the wider of the two.
    """
    lanes = p[LANES]
    source = OPERANDS + WIDTH
    of, to = p[source + TYPE], p[OPERANDS + TYPE]
    if p[CONTIGUOUS]:
        size_of, size_to = element_bytes(of), element_bytes(to)
        start_of = memories[p[source + MEMORY], BYTES] + places[1]
        start_to = memories[p[OPERANDS + MEMORY], BYTES] + places[0]
        define_elements(p, places, memories, lanes)
        for start in range(0, lanes, SCRATCH):
            count = min(SCRATCH, lanes - start)
            load_wide(start_of + start * size_of, of, f[1], g[1], wide, count)
            convert(wide, of, to, mode, f[0], g[0], count)
            if to <= BF16:
                store_floats(start_to + start * size_to, to, f[0], 0, count)
            else:
                store_integers(start_to + start * size_to, to, g[0], 0, count)
        return
    for r in range(p[REPEATS]):
        load_stretch(p, source, places[1], memories, r, 1, f[1], g[1])
        for i in range(lanes):
            wide[i] = np.float64(f[1, i]) if of <= BF16 else np.float64(g[1, i])
        convert(wide, of, to, mode, f[0], g[0], lanes)
        define_lanes(p, places, memories, r)
        store_stretch(p, OPERANDS, places[0], memories, r, 1, f[0], g[0])
