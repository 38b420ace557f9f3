"""What the instructions of the Cube side compute: rows to fractals, loads of L0, products, results to memory.

L1 and L0 hold matrices as fractals of 16 rows of 32 bytes (L0C: 16 x 16 numbers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendsim.triton.decoding import Registers, unknown

L0A, L0B = 3, 4
_PLACE = (1 << 44) - 1
_ROW, _FRACTAL = 32, 512
_DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8, "u8": np.uint8,
    "f32s": np.float32, "s32s": np.int32, "u32s": np.uint32, "s16": np.int16, "u16": np.uint16,
}  # fmt: skip
_SUMS: dict[str, tuple[Any, Any]] = {
    "f162f32": (np.float16, np.float32),
    "bf162f32": (ml_dtypes.bfloat16, np.float32),
    "f322f32": (np.float32, np.float32),
    "s8": (np.int8, np.int32),
}
_OUT: dict[str, tuple[Any, Any]] = {
    "f2h": (np.float32, np.float16),
    "f322bf16": (np.float32, ml_dtypes.bfloat16),
    "f32": (np.float32, np.float32),
    "s32": (np.int32, np.int32),
}
Memory = Mapping[int, NDArray[np.uint8]]


def execute(name: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> bool:
    """Executes an instruction of the Cube side; False if it is none that is known."""
    for pattern, run in _KNOWN:
        found = pattern.match(name)
        if found is not None:
            run(found[1], words, memory, registers)
            return True
    return False


def _from(memory: Memory, address: int, dtype: Any) -> NDArray[Any]:
    """Memory from an address on, as elements."""
    size = np.dtype(dtype).itemsize
    found = memory[address >> 44][address & _PLACE :]
    return found[: len(found) // size * size].view(dtype)


def _nd2nz(kind: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> None:
    dst, src, first, second = words
    dtype = _DTYPES[kind]
    matrices, rows, columns = first >> 4 & 0xFFF, first >> 16 & 0xFFFF, first >> 32 & 0xFFFF
    between = first >> 48 & 0xFFFF
    row_step, c0_step = second & 0xFFFF, second >> 16 & 0xFFFF
    n_step, matrix_step = second >> 32 & 0xFFFF, second >> 48 & 0xFFFF
    wide = _ROW // np.dtype(dtype).itemsize
    source, target = _from(memory, src, dtype), _from(memory, dst, dtype)
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    places = (column // wide) * c0_step * wide + row * n_step * wide + column % wide
    for at in range(matrices):
        target[places + at * matrix_step] = source[row * row_step + column + at * between]


def _unfold(which: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> None:
    """img2col with a filter of 1 x 1: a matrix of fractals in L1 to one in L0."""
    side, kind = which.split(".3DV2.")
    dst, src, first, second = words
    if (second & 0x3F, second >> 6 & 0x3F, second >> 12 & 255, second >> 20 & 255) != (1, 1, 1, 1):
        raise unknown(f"LOAD.L1.TO.{which} with a filter larger than 1 x 1")
    dtype = _DTYPES[kind]
    wide = _ROW // np.dtype(dtype).itemsize
    k, m, k0, m0 = (first >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    image = registers.image_b if second >> 47 & 1 else registers.image
    height = (image & 0xFFFF) * max(1, image >> 16 & 0xFFFF)
    transposed = second >> 46 & 1
    row, column = np.meshgrid(np.arange(m), np.arange(k), indexing="ij")
    values = _from(memory, src, dtype)[
        ((column + k0) // wide) * height * wide + (row + m0) * wide + (column + k0) % wide
    ]
    target = _from(memory, ((L0A if side == "L0A" else L0B) << 44) | (dst & _PLACE), dtype)
    if side == "L0A":
        if transposed:
            raise unknown(f"LOAD.L1.TO.{which}, transposed")
        fractal = (row // 16) * (-(-k // wide)) + column // wide
        target[fractal * 16 * wide + (row % 16) * wide + column % wide] = values
        return
    if transposed:  # rows are k here, columns n: fractals of L0B hold the columns of n
        fractal = (row // wide) * (-(-k // 16)) + column // 16
        target[fractal * 16 * wide + (column % 16) * wide + row % wide] = values
    else:  # rows are n here, columns k
        fractal = (column // wide) * (-(-m // 16)) + row // 16
        target[fractal * 16 * wide + (row % 16) * wide + column % wide] = values


def _load2d(which: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> None:
    dst, src, word, transposed = words[:4]
    if transposed:
        raise unknown(f"LOAD.L1.TO.{which}, transposed")
    start, repeats, step, gap = word & 0xFFFF, word >> 16 & 255, word >> 24 & 0xFFFF, word >> 44 & 0xFFFF
    source = _from(memory, src, np.uint8)
    target = _from(memory, ((L0A if which == "L0A" else L0B) << 44) | (dst & _PLACE), np.uint8)
    for at in range(repeats):
        begin, place = (start + at * step) * _FRACTAL, at * (1 + gap) * _FRACTAL
        target[place : place + _FRACTAL] = source[begin : begin + _FRACTAL]


def _product(kind: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> None:
    if kind not in _SUMS:
        raise unknown(f"MAD.{kind}")
    dtype, wide_type = _SUMS[kind]
    dst, left, right, word = words
    m, k, n = word & 0xFFF, word >> 12 & 0xFFF, word >> 24 & 0xFFF
    wide = _ROW // np.dtype(dtype).itemsize
    m1, k1, n1 = -(-m // 16), -(-k // wide), -(-n // 16)
    a = _from(memory, (L0A << 44) | (left & _PLACE), dtype)[: m1 * k1 * 16 * wide]
    b = _from(memory, (L0B << 44) | (right & _PLACE), dtype)[: k1 * n1 * 16 * wide]
    rows = a.reshape(m1, k1, 16, wide).transpose(0, 2, 1, 3).reshape(m1 * 16, k1 * wide)
    columns = b.reshape(k1, n1, 16, wide).transpose(0, 3, 1, 2).reshape(k1 * wide, n1 * 16)
    product = rows[:, :k].astype(wide_type) @ columns[:k].astype(wide_type)
    tiles = product.reshape(m1, 16, n1, 16).transpose(2, 0, 1, 3).reshape(-1)
    target = _from(memory, dst, wide_type)[: len(tiles)]
    if word >> 63:
        target[:] = tiles
    else:
        target += tiles


def _out(kind: str, words: tuple[int, ...], memory: Memory, registers: Registers) -> None:
    if kind not in _OUT:
        raise unknown(f"FIX.L0C.TO.OUT.{kind}")
    source_type, dtype = _OUT[kind]
    if registers.atomic[1]:
        raise unknown(f"FIX.L0C.TO.OUT.{kind}, atomic")
    dst, src, first, second = words
    columns, rows, step = first >> 4 & 0xFFF, first >> 16 & 0xFFFF, first >> 32
    height, relu, plain = second & 0xFFFF, second >> 39 & 7, second >> 43 & 1
    if not plain:
        raise unknown(f"FIX.L0C.TO.OUT.{kind} without a change to rows")
    n1 = -(-columns // 16)
    source = _from(memory, src, source_type)[: n1 * height * 16].reshape(n1, height, 16)
    values = source[:, :rows].transpose(1, 0, 2).reshape(rows, n1 * 16)[:, :columns]
    if relu:
        values = np.maximum(values, 0)
    target = _from(memory, dst, dtype)
    places = np.arange(rows)[:, None] * step + np.arange(columns)
    with np.errstate(all="ignore"):
        target[places] = values.astype(dtype)


_KNOWN: list[tuple[re.Pattern[str], Callable[[str, tuple[int, ...], Memory, Registers], None]]] = [
    (re.compile(r"MOV\.OUT\.TO\.L1\.MULTI\.ND2NZ\.(\w+)$"), _nd2nz),
    (re.compile(r"LOAD\.L1\.TO\.(L0[AB]\.3DV2\.\w+)$"), _unfold),
    (re.compile(r"LOAD\.L1\.TO\.(L0[AB])\.2D\.V220\.\w+\.addr$"), _load2d),
    (re.compile(r"MAD\.(\w+)$"), _product),
    (re.compile(r"FIX\.L0C\.TO\.OUT\.(\w+)$"), _out),
]
