"""Effects of the transfers and products that templates use; those of one kind are one object, operands at
0.
"""

from __future__ import annotations

from functools import lru_cache

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, align, c0, ceil_div
from ascendsim.isa.effects import Box, Dims, Effect, row
from ascendsim.isa.instructions import Buffer

_BYTE = DType.UINT8
Place = tuple[Buffer, str]  # a buffer, and in global memory the region


@lru_cache(maxsize=4096)
def copy(target: Place, source: Place, number: int, length: int, steps: tuple[int, int]) -> Effect:
    """Equal pieces.

    Args:
        target, source: Where to and where from.
        number, length: Pieces, and bytes of each.
        steps: Bytes from one piece to the next in the target and in the source.
    """
    boxes = [
        Box(buffer, name, _BYTE, ((number, step), (length, 1)))
        for (buffer, name), step in zip((target, source), steps, strict=True)
    ]
    return Effect("copy", writes=(boxes[0],), reads=(boxes[1],))


@lru_cache(maxsize=4096)
def nd2nz(region: str, dtype: DType, rows: int, columns: int, row_step: int, block_step: int) -> Effect:
    """Rows of a matrix to blocks of columns in L1.

    Args:
        region: Of the matrix.
        dtype: Its element type.
        rows, columns: Of the tile.
        row_step: Bytes from one row to the next.
        block_step: Bytes from one block of columns to the next in L1.
    """
    size = dtype.itemsize
    blocks = ceil_div(columns, c0(dtype))
    target = ((1, 0), (blocks, block_step), (rows, BLOCK_BYTES), (c0(dtype), size))
    return Effect(
        "nd2nz",
        writes=(Box(Buffer.L1, "", dtype, target),),
        reads=(Box(Buffer.GM, region, dtype, ((1, 0), (rows, row_step), (columns, size))),),
    )


@lru_cache(maxsize=4096)
def fractals(target: Buffer, dtype: DType, number: int, steps: tuple[int, int], turned: bool) -> Effect:
    """Fractals from L1.

    Args:
        target: L0A or L0B.
        dtype: Element type.
        number: Of fractals.
        steps: Bytes from one to the next in the target and in the source.
        turned: Whether each is transposed on the way.
    """
    each = (FRACTAL_BYTES // dtype.itemsize, dtype.itemsize)
    return Effect(
        "load2d",
        writes=(Box(target, "", dtype, ((number, steps[0]), each)),),
        reads=(Box(Buffer.L1, "", dtype, ((number, steps[1]), each)),),
        parameters=(("transposed", int(turned)),),
    )


@lru_cache(maxsize=4096)
def unfolded(dtype: DType, numbers: tuple[tuple[str, int], ...]) -> Effect:
    """A part of the unfolded image from L1 to L0A.

    Args:
        dtype: Element type.
        numbers: Geometry, in the words of `isa.derived_cube.load3d`.
    """
    of = dict(numbers)
    made = align(of["m_count"], FRACTAL_ROWS) * of["k_count"]
    taps = of["filter_h"] * of["filter_w"]
    blocks = ceil_div(of["k_start"] + of["k_count"], taps * c0(dtype))
    held = blocks * of["height"] * of["width"] * c0(dtype)
    return Effect(
        "load3d",
        "plain",
        writes=(Box(Buffer.L0A, "", dtype, row(made, dtype)),),
        reads=(Box(Buffer.L1, "", dtype, row(held, dtype)),),
        parameters=tuple(sorted(numbers)),
    )


@lru_cache(maxsize=4096)
def product(dtype: DType, m: int, k: int, n: int, fresh: bool, bias: bool) -> Effect:
    """c[m, n] (+)= a[m, k] b[k, n], with a bias from the table if it starts anew."""
    sums = DType.FLOAT32 if dtype.is_float else DType.INT32
    high, wide, deep = ceil_div(m, FRACTAL_ROWS), ceil_div(n, FRACTAL_ROWS), ceil_div(k, c0(dtype))
    fractal = FRACTAL_BYTES // dtype.itemsize
    reads = [
        Box(Buffer.L0A, "", dtype, row(high * deep * fractal, dtype)),
        Box(Buffer.L0B, "", dtype, row(wide * deep * fractal, dtype)),
    ]
    if bias:
        reads.append(Box(Buffer.BT, "", sums, row(n, sums)))
    return Effect(
        "mmad",
        writes=(Box(Buffer.L0C, "", sums, row(high * wide * FRACTAL_ROWS * FRACTAL_ROWS, sums)),),
        reads=tuple(reads),
        parameters=(("fresh", int(fresh)), ("k", k), ("m", m), ("n", n)),
    )


@lru_cache(maxsize=4096)
def fixpipe(
    region: str, dtype: DType, size: tuple[int, int], *, held: int, step: int, in_rows: bool, relu: bool
) -> Effect:
    """A tile of float32 sums from L0C to global memory.

    Args:
        region: Where to.
        dtype: Element type there.
        size: Rows and columns.
        held: Rows of a block of columns in L0C.
        step: Bytes from one row to the next, or from one block of columns to the next.
        in_rows: Whether it goes out in rows, else in blocks of columns.
        relu: Whether it is rectified.
    """
    rows, columns = size
    blocks = ceil_div(columns, FRACTAL_ROWS)
    block_step = held * FRACTAL_ROWS * 4
    source = ((1, 0), (blocks, block_step), (rows, FRACTAL_ROWS * 4), (FRACTAL_ROWS, 4))
    if in_rows:
        target: Dims = ((1, 0), (rows, step), (columns, dtype.itemsize))
    else:
        each = c0(dtype)
        target = (
            (1, 0),
            (ceil_div(columns, each), step),
            (rows, each * dtype.itemsize),
            (each, dtype.itemsize),
        )
    return Effect(
        "fixpipe",
        writes=(Box(Buffer.GM, region, dtype, target),),
        reads=(Box(Buffer.L0C, "", DType.FLOAT32, source),),
        parameters=(
            ("m", rows),
            ("n", columns),
            ("relu", int(relu)),
            ("rows", int(in_rows)),
            ("split", int(dtype is DType.FLOAT32 and not in_rows)),
        ),
    )
