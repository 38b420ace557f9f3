"""Tiles of the Cube's operands in global memory: which bursts of which region a tile is made of."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    TRANSACTION_BYTES,
    Format,
    c0,
    ceil_div,
)
from ascendsim.isa.effects import Box, row
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Move, Pipe
from ascendsim.isa.notes import Call, Frame, Item, Row
from ascendsim.lower.affine import plus, times
from ascendsim.lower.emit import BlockBuilder, Ring
from ascendsim.lower.templates.conv import kernel_rows, skips_rows, taps, window
from ascendsim.lower.templates.effects import copy
from ascendsim.lower.templates.stage import Tile
from ascendsim.opset.work import ConvGeometry, RawImage, Ref


def fitted(builder: BlockBuilder, tile: Tile, ref: Ref) -> Tile:
    """The tile moved inside its region, so that it still is somewhere else with every trip of a loop that
    moves it.

    Runs at the border of a feature map (halo), chunks of k that end in padding, and operands that the device
    stores in a packed form (grouped weights) may reach beyond the tensor; their bytes are moved all the same,
    from inside of it.
    """
    if builder.largest(tile.offset) + tile.operand.bytes <= ref.bytes:
        return tile
    if tile.bytes >= ref.bytes:
        return Tile(tile.region, ZERO, 1, ref.bytes)
    grain = TRANSACTION_BYTES if tile.aligned else 1
    offset = _within(builder, tile.offset, ref.bytes - tile.bytes, grain)
    if not tile.stride:
        return Tile(tile.region, offset, tile.bursts, tile.burst_bytes)
    between = (ref.bytes - builder.largest(offset) - tile.burst_bytes) // max(1, tile.bursts - 1)
    stride = max(tile.burst_bytes, min(tile.stride, between // grain * grain))
    return Tile(tile.region, offset, tile.bursts, tile.burst_bytes, stride)


def _within(builder: BlockBuilder, offset: Affine, room: int, grain: int) -> Affine:
    """The offset, never above `room`: what is too much goes off the constant part first, then off the
    shortest steps.
    """
    base = max(0, offset.base - max(0, builder.largest(offset) - room)) // grain * grain
    excess = builder.largest(Affine(base, offset.terms)) - room
    steps = []
    for name, step in sorted(offset.terms, key=itemgetter(1)):
        turns = builder.largest(Affine(0, ((name, 1),)))
        shorter = max(0, step - ceil_div(excess, turns)) // grain * grain if excess > 0 else step
        excess -= (step - shorter) * turns
        steps.append((name, shorter))
    return plus(Affine(base, tuple(steps)))


def matrix_tile(
    ref: Ref, stored: tuple[int, int], rows: tuple[Affine, int], cols: tuple[Affine, int], base: Affine
) -> Tile:
    """A tile of a stored matrix.

    Args:
        ref: The tensor.
        stored: Rows and columns of one stored matrix.
        rows, cols: First index and count of the tile along either axis of the stored matrix.
        base: Byte offset of the matrix.
    """
    height, width = stored
    (row, row_count), (col, col_count) = rows, cols
    itemsize = ref.dtype.itemsize
    if ref.format in (Format.FRACTAL_NZ, Format.FRACTAL_Z):
        block = c0(ref.dtype)
        column = ceil_div(height, FRACTAL_ROWS) * FRACTAL_BYTES
        offset = plus(base, _blocks(col, block, column), _blocks(row, FRACTAL_ROWS, FRACTAL_BYTES))
        return Tile.strided(
            ref.region,
            offset,
            ceil_div(col_count, block),
            ceil_div(row_count, FRACTAL_ROWS) * FRACTAL_BYTES,
            column,
        )
    offset = plus(base, times(row, width * itemsize), times(col, itemsize))
    return Tile.strided(
        ref.region, offset, min(row_count, height), min(col_count, width) * itemsize, width * itemsize
    )


def _blocks(index: Affine, block: int, bytes: int) -> Affine:
    """Byte offset of the block that an element index falls into (indices are multiples of the block, or
    nearly).
    """
    return Affine(
        index.base // block * bytes, tuple((name, step // block * bytes) for name, step in index.terms)
    )


def image_tile(
    ref: Ref,
    conv: ConvGeometry,
    positions: tuple[Affine, int],
    k: tuple[Affine, int],
    base: Affine,
    *,
    trips: int,
    grain: int,
) -> Tile:
    """The input rows of a run of output positions and some channel blocks, of one image in NC1HWC0.

    Args:
        ref: The feature map.
        conv: Its geometry.
        positions: First output position and count.
        k: First k block and count (whole channel blocks).
        base: Byte offset of image and group.
        trips: How often the loop over such runs turns (first rows are spread so that the last run ends at the
            border).
        grain: Of the runs (`run_grain`).
    """
    rows = kernel_rows(conv, k[1])
    held = window(conv, positions[1], grain, rows).rows
    row_bytes = conv.width * BLOCK_BYTES
    plane = conv.height * row_bytes
    units = ceil_div(k[1], taps(conv))
    first = first_row(conv, positions, rows, trips, grain)
    offset = plus(base, times(first, row_bytes), _blocks(k[0], taps(conv), plane))
    if skips_rows(conv, rows):
        return Tile.strided(ref.region, offset, units * held, row_bytes, conv.stride_h * row_bytes)
    return Tile.strided(ref.region, offset, units, held * row_bytes, plane)


def first_row(conv: ConvGeometry, positions: tuple[Affine, int], rows: int, trips: int, grain: int) -> Affine:
    """First input row of a run of output positions."""
    start, count = positions
    held = window(conv, count, grain, rows)
    last = max(0, conv.height - held.rows)
    first = min(last, start.base // conv.out_w * conv.stride_h)
    step = min(held.step_rows, (last - first) // (trips - 1)) if trips > 1 else 0
    return Affine(first, tuple((name, step) for name, _ in start.terms))


def raw_tile(
    ref: Ref,
    image: RawImage,
    conv: ConvGeometry,
    positions: tuple[Affine, int],
    k_blocks: int,
    *,
    number: Affine,
    trips: int,
    grain: int,
) -> tuple[Tile, int]:
    """The rows of a stored image that AIPP reads for a run of output positions, and the bytes that they
    become in L1.

    Chroma rows of YUV420SP are read from their own plane; they count as further rows of the run here.

    Args:
        ref: The images.
        image: How they lie.
        conv: Geometry of the convolution on the converted image.
        positions: First output position and count.
        k_blocks: Blocks of k; a chunk of them may need a part of the kernel's rows only.
        number: Of the image.
        trips: How often the loop over such runs turns.
        grain: Of the runs (`run_grain`).
    """
    rows = kernel_rows(conv, k_blocks)
    held = window(conv, positions[1], grain, rows).rows
    offset = plus(
        times(number, image.image_bytes),
        image.first_byte,
        times(first_row(conv, positions, rows, trips, grain), image.row_bytes),
    )
    stride = image.row_bytes * (conv.stride_h if skips_rows(conv, rows) else 1)
    tile = Tile.strided(ref.region, offset, ceil_div(held * image.rows, image.per), image.used_bytes, stride)
    return tile, held * conv.width * BLOCK_BYTES


def weight_tile(ref: Ref, columns: int, k: tuple[Affine, int], n: tuple[Affine, int], base: Affine) -> Tile:
    """A tile of convolution weights in FRACTAL_Z: k blocks outside, all output channels of one k block side
    by side.
    """
    row = ceil_div(columns, FRACTAL_ROWS) * FRACTAL_BYTES
    offset = plus(base, times(k[0], row), _blocks(n[0], FRACTAL_ROWS, FRACTAL_BYTES))
    return Tile.strided(ref.region, offset, k[1], ceil_div(n[1], FRACTAL_ROWS) * FRACTAL_BYTES, row)


def result_tile(
    ref: Ref,
    positions: int,
    columns: int,
    m: tuple[Affine, int],
    n: tuple[Affine, int],
    *,
    base: Affine,
    is_map: bool,
) -> Tile:
    """A tile of the result: NC1HWC0 (positions of one image), FRACTAL_NZ, or row-major.

    Args:
        ref: The result.
        positions, columns: Rows and columns of one product.
        m, n: First row and column of the tile, and their counts.
        base: Byte offset of the product's result.
        is_map: Whether it is a feature map: in row-major form one burst a channel then.
    """
    itemsize = ref.dtype.itemsize
    if ref.format is Format.NC1HWC0:
        block, bytes = ref.block
        plane = positions * bytes
        offset = plus(base, times(m[0], bytes), _blocks(n[0], block, plane))
        return Tile.strided(ref.region, offset, ceil_div(n[1], block), m[1] * bytes, plane)
    if ref.format is Format.FRACTAL_NZ:
        return matrix_tile(ref, (positions, columns), m, n, base)
    if is_map:
        offset = plus(base, times(n[0], positions * itemsize), times(m[0], itemsize))
        return Tile.strided(ref.region, offset, n[1], m[1] * itemsize, positions * itemsize)
    offset = plus(base, times(m[0], columns * itemsize), times(n[0], itemsize))
    return Tile.strided(ref.region, offset, m[1], n[1] * itemsize, columns * itemsize)


def bring_columns(b: BlockBuilder, ref: Ref, ring: Ring, n_at: Affine, n: int, placed: Affine = ZERO) -> None:
    """Brings one value a column from global memory into a ring.

    Args:
        b: Of the block.
        ref: The values.
        ring: Where they go.
        n_at, n: First column in the share, and how many.
        placed: The first column in the tensor, for the note.
    """
    size = ref.dtype.itemsize

    def note(frame: Frame) -> Sequence[Item]:
        first, here = frame.at(placed), (ring.allocations[0].buffer, "")
        there = max(0, min(n, ref.bytes // size - first))  # of channels that fill a group up there is nothing
        effect = copy(here, (Buffer.GM, ref.region), 1, there * size, (0, 0))
        found: list[Item] = [Row(effect, (frame.target, first * size))] if there else []
        if there < n:
            rest = Box(here[0], "", ref.dtype, row(n - there, ref.dtype), Affine(frame.target + there * size))
            found.append(Call((rest,), (), lambda _: [np.zeros(n - there, ref.dtype.numpy)]))
        return found

    bytes = min(n * ref.dtype.itemsize, ring.slot_bytes)
    tile = fitted(b, Tile(ref.region, times(n_at, ref.dtype.itemsize), 1, bytes), ref)
    b.acquire(ring)
    b.emit(
        Move(
            Pipe.MTE2,
            b.target(ring, tile.bytes),
            tile.operand,
            1,
            tile.bytes,
            aligned=tile.aligned,
            effect=b.note(note),
        )
    )
    b.commit(ring)
