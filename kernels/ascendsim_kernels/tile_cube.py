"""The Cube's product: fractals of L0A and L0B, multiplied in float32 and added up in L0C.

L0A holds [m1][k1][16][C0], L0B [k1][n1][16 of n][C0], L0C [n1][m][16], where C0 elements are 32 bytes. Only
the m, k and n that were asked for take part, whatever lies in the rest of the last fractals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 - products of kernels use it; who limits its threads must see it
from numba import carray

from ascendsim_kernels.half import half_to_float, saturated_bits
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_memory import (
    BF16,
    BITS,
    BYTES,
    F16,
    F32,
    I8,
    SAT16,
    all_defined,
    element_bytes,
    float_of,
    low_bits,
    pointer_f32,
    pointer_i8,
    pointer_i32,
    pointer_u8,
    pointer_u16,
    pointer_u32,
)

# Parameters of a product, behind the opcode; BIAS is a memory or -1, FRESH says that it does not add to what
# is in the target.
TARGET, A, B, BIAS, M, K, N, TYPE, FRESH = range(1, 10)
SCRATCH = 1 << 16  # elements of the largest L0 tile
_EXACT = 1024  # products of int8 whose sum float32 holds exactly: 1024 x 128 x 128 = 2^24


@kernel
def mmad(p: Any, places: Any, memories: Any, scratch: Any) -> None:
    """c[m, n] (+)= a[m, k] b[k, n]; places are those of c, a, b and, if there is one, the bias."""
    m, k, n, code = p[M], p[K], p[N], p[TYPE]
    whole = code <= BF16
    step = k if whole else _EXACT
    for first in range(0, k, step):
        count = min(step, k - first)
        left = scratch[0][: m * count].reshape(m, count)
        right = scratch[1][: n * count].reshape(n, count)
        _unpack(p, memories[p[A], BYTES] + places[1], (m + 15) // 16, first, left, True)
        _unpack(p, memories[p[B], BYTES] + places[2], (n + 15) // 16, first, right, False)
        product = scratch[2][: m * n].reshape(m, n)
        np.dot(left, right.T, product)
        fresh = p[FRESH] != 0 and first == 0
        if whole:
            _add_floats(p, places, memories, product, fresh)
        else:
            _add_integers(p, places, memories, product, fresh)
    _define(p, places, memories)


@kernel
def _unpack(p: Any, address: Any, blocks: Any, first: Any, target: Any, left: Any) -> None:
    """Fills a target with rows of a tile as float32, from column `first` on: left are fractals [row][k], else
    [k][row].
    """
    code = p[TYPE]
    size = element_bytes(code)
    c0 = 32 // size
    inner = (p[K] + c0 - 1) // c0
    rows, count = target.shape
    if left and rows == 1:  # one row lies in L0A as it is, not in fractals
        _convert(address + first * size, code, target[0], 0, count)
        return
    for row in range(rows):
        out = target[row]
        for block in range(first // c0, (first + count + c0 - 1) // c0):
            fractal = (row // 16) * inner + block if left else block * blocks + row // 16
            start = address + fractal * 512 + row % 16 * 32
            at = block * c0 - first
            _convert(start, code, out, at, min(c0, count - at))


@kernel
def _convert(address: Any, code: Any, target: Any, at: Any, count: Any) -> None:
    """target[at : at + count] = contiguous elements as float32."""
    if code == F16:
        halves = carray(pointer_u16(address), count)
        for i in range(count):
            target[at + i] = half_to_float(halves[i])
    elif code == SAT16:
        given = carray(pointer_u16(address), count)
        for i in range(count):
            target[at + i] = half_to_float(saturated_bits(given[i]))
    elif code == BF16:
        brains = carray(pointer_u16(address), count)
        for i in range(count):
            target[at + i] = float_of(np.uint32(brains[i]) << np.uint32(16))
    elif code == F32:
        singles = carray(pointer_f32(address), count)
        for i in range(count):
            target[at + i] = singles[i]
    elif code == I8:
        signed = carray(pointer_i8(address), count)
        for i in range(count):
            target[at + i] = np.float32(signed[i])
    else:
        small = carray(pointer_u8(address), count)
        for i in range(count):
            target[at + i] = np.float32(small[i])


@kernel
def _add_floats(p: Any, places: Any, memories: Any, product: Any, fresh: Any) -> None:
    m, n = product.shape
    height = (m + 15) // 16 * 16
    out = carray(pointer_f32(memories[p[TARGET], BYTES] + places[0]), (n + 15) // 16 * height * 16)
    biased = fresh and p[BIAS] >= 0
    bias = carray(pointer_f32(memories[max(p[BIAS], 0), BYTES] + (places[3] if p[BIAS] >= 0 else 0)), n)
    for block in range((n + 15) // 16):
        columns = min(16, n - block * 16)
        for i in range(m):
            at = (block * height + i) * 16
            given = product[i, block * 16 : block * 16 + columns]
            if biased:
                for j in range(columns):
                    out[at + j] = given[j] + bias[block * 16 + j]
            elif fresh:
                for j in range(columns):
                    out[at + j] = given[j]
            else:
                for j in range(columns):
                    out[at + j] += given[j]


@kernel
def _add_integers(p: Any, places: Any, memories: Any, product: Any, fresh: Any) -> None:
    m, n = product.shape
    height = (m + 15) // 16 * 16
    out = carray(pointer_i32(memories[p[TARGET], BYTES] + places[0]), (n + 15) // 16 * height * 16)
    biased = fresh and p[BIAS] >= 0
    bias = carray(pointer_i32(memories[max(p[BIAS], 0), BYTES] + (places[3] if p[BIAS] >= 0 else 0)), n)
    for block in range((n + 15) // 16):
        for i in range(m):
            at = (block * height + i) * 16
            for j in range(min(16, n - block * 16)):
                value = np.int32(product[i, block * 16 + j])
                if biased:
                    value = np.int32(value + bias[block * 16 + j])
                out[at + j] = value if fresh else np.int32(out[at + j] + value)


@kernel
def _define(p: Any, places: Any, memories: Any) -> None:
    """An element of c is defined if its row of a, its column of b and what it was added to are."""
    m, n = p[M], p[N]
    size = element_bytes(p[TYPE])
    if m == 1:
        rows = np.empty(1, np.bool_)
        rows[0] = all_defined(memories[p[A], BITS], places[1], p[K] * size)
    else:
        rows = _lines(p, memories[p[A], BITS], places[1], m, True)
    columns = _lines(p, memories[p[B], BITS], places[2], n, False)
    if p[FRESH] and p[BIAS] >= 0:
        for j in range(n):
            columns[j] = columns[j] and all_defined(memories[p[BIAS], BITS], places[3] + 4 * j, 4)
    height = (m + 15) // 16 * 16
    blocks = (n + 15) // 16
    start = places[0] >> 5
    words = carray(pointer_u32(memories[p[TARGET], BITS]), start + blocks * height * 2)[start:]
    for block in range(blocks):
        low, high = np.uint32(0), np.uint32(0)
        for j in range(min(16, n - block * 16)):
            if columns[block * 16 + j]:
                if j < 8:
                    low |= np.uint32(np.uint32(15) << np.uint32(4 * j))
                else:
                    high |= np.uint32(np.uint32(15) << np.uint32(4 * (j - 8)))
        for i in range(m):
            at = (block * height + i) * 2
            if not rows[i]:
                words[at] = words[at + 1] = np.uint32(0)
            elif p[FRESH]:
                words[at], words[at + 1] = low, high
            else:
                words[at] &= low
                words[at + 1] &= high


@kernel
def _lines(p: Any, bits: Any, address: Any, count: Any, left: Any) -> Any:
    """Whether all elements of each row of a tile are defined: a row of a fractal has one word of bits."""
    size = element_bytes(p[TYPE])
    c0 = 32 // size
    inner = (p[K] + c0 - 1) // c0
    blocks = (count + 15) // 16
    start = address >> 5
    words = carray(pointer_u32(bits), start + blocks * inner * 16)[start:]
    last = low_bits((p[K] - (inner - 1) * c0) * size)
    found = np.empty(count, np.bool_)
    for row in range(count):
        whole = True
        for block in range(inner):
            fractal = (row // 16) * inner + block if left else block * blocks + row // 16
            need = last if block == inner - 1 else np.uint32(0xFFFFFFFF)
            whole = whole and (words[fractal * 16 + row % 16] & need) == need
        found[row] = whole
    return found
