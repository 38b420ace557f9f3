"""How the A operand of a Cube product lies in global memory and in L1: a matrix, or a feature map that
img2col unfolds.

A feature map in NC1HWC0 is [images][C1][H][W][C0]; the k axis of the unfolded matrix runs over C1, kernel
taps, C0. Output positions (rows of the matrix) are tiled in runs that may begin and end inside an output row,
as load3d allows; the input rows that a run needs overlap those of its neighbours (halo) and are read again.
A run that begins inside of an output row may touch one output row more than one of whole rows.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, ceil_div
from ascendsim.lower.templates.strips import held_columns
from ascendsim.opset.work import ConvGeometry


class Window(NamedTuple):
    """The input rows that `positions` successive output positions need.

    Attributes:
        rows: Rows held in L1.
        step_rows: Rows from the first one of a run to the first one of the next (a lower bound for short
            runs).
    """

    rows: int
    step_rows: int


def is_direct(conv: ConvGeometry | None) -> bool:
    """Whether rows of A are input positions themselves: a matmul, or a 1x1 convolution without stride and
    padding.
    """
    return conv is None or (
        conv.kernel_h == conv.kernel_w == conv.stride_h == conv.stride_w == 1 and not any(conv.pads)
    )


def run_grain(conv: ConvGeometry | None, total: int, share: int, run: int) -> int:
    """What divides the number of positions between the beginning of any run and that of its output row,
    where `total` positions are cut in shares and each share in runs; out_w if all begin with a row.

    >>> conv = ConvGeometry(1, 16, 12, 12, 3, 3, 1, 1, 1, 1, (1, 1, 1, 1), 12, 12)
    >>> run_grain(conv, 144, 72, 24), run_grain(conv, 144, 64, 24), run_grain(conv, 144, 144, 32)
    (12, 4, 4)
    """
    if conv is None:
        return 1
    share = min(share, total)
    grain = gcd(conv.out_w, share) if share < total else conv.out_w
    return gcd(grain, run) if run < share else grain


def window(conv: ConvGeometry, positions: int, grain: int, kernel_rows: int | None = None) -> Window:
    """The rows that a run of output positions needs wherever it begins.

    Runs that span some output rows need (rows - 1) * stride + kernel extent input rows; where the stride
    skips rows (stride > kernel extent) only the needed ones are loaded.

    Args:
        conv: The geometry.
        positions: Length of the run.
        grain: See `run_grain`: 1 if it may begin anywhere, out_w if with a row.
        kernel_rows: Rows of the kernel that are used, all by default (huge kernels go through L1 a few rows
            at a time).
    """
    spanned = min(conv.out_h, (conv.out_w - grain + positions - 1) // conv.out_w + 1)
    extent = ((kernel_rows or conv.kernel_h) - 1) * conv.dilation_h + 1
    advance = positions // conv.out_w
    if conv.stride_h > extent:
        return Window(min(conv.height, spanned * extent), advance * extent)
    return Window(min(conv.height, (spanned - 1) * conv.stride_h + extent), advance * conv.stride_h)


def kernel_rows(conv: ConvGeometry, k_blocks: int) -> int:
    """Kernel rows that a chunk of k touches: all if it holds whole channel blocks."""
    return conv.kernel_h if k_blocks >= taps(conv) else ceil_div(k_blocks, conv.kernel_w)


def skips_rows(conv: ConvGeometry, rows_of_kernel: int) -> bool:
    """Whether a chunk with so many kernel rows leaves input rows out."""
    return conv.stride_h > (rows_of_kernel - 1) * conv.dilation_h + 1


def taps(conv: ConvGeometry | None) -> int:
    """The number of k blocks that one block of input channels becomes."""
    return 1 if conv is None else conv.kernel_h * conv.kernel_w


def a_bytes(conv: ConvGeometry | None, rows_of_a: int, k_blocks: int, grain: int = 1) -> int:
    """Bytes in L1 of A's tile: `rows_of_a` rows (or positions, see `window`), `k_blocks` blocks of k."""
    if conv is None:
        return matrix_bytes(rows_of_a, k_blocks)
    if is_direct(conv):
        return positions_bytes(rows_of_a, k_blocks)
    return unfolded_bytes(conv, held_columns(conv, k_blocks), rows_of_a, k_blocks, grain)


def matrix_bytes(rows: int, k_blocks: int) -> int:
    """Bytes in L1 of so many rows of a matrix."""
    return ceil_div(rows, FRACTAL_ROWS) * FRACTAL_BYTES * k_blocks


def positions_bytes(positions: int, k_blocks: int) -> int:
    """Bytes in L1 of so many positions of a map that needs no unfolding."""
    return positions * BLOCK_BYTES * k_blocks


def unfolded_bytes(conv: ConvGeometry, columns: int, positions: int, k_blocks: int, grain: int) -> int:
    """Bytes in L1 of so many columns of the input rows under a run of positions."""
    rows = window(conv, positions, grain, kernel_rows(conv, k_blocks)).rows
    return rows * columns * BLOCK_BYTES * ceil_div(k_blocks, taps(conv))


def input_rows(conv: ConvGeometry) -> int:
    """Input rows that one fractal (16 output positions) spans, n of the load3d rate table."""
    return ceil_div(15, conv.out_w) + 1 if conv.out_w < 16 else 1


def channel_blocks(conv: ConvGeometry, block: int) -> int:
    """Blocks of input channels of one group, depth taps not counted."""
    return ceil_div(conv.channels, block)
