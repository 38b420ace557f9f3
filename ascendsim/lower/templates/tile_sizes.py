"""Sizes of tiles that are tried along an axis: near powers of two, equal parts, or runs of whole rows."""

from __future__ import annotations

from functools import lru_cache

from ascendsim.core.formats import FRACTAL_ROWS, ceil_div
from ascendsim.lower.templates.conv import is_direct
from ascendsim.lower.templates.strips import Strip
from ascendsim.opset.work import ConvGeometry


def tile_sizes(elements: int, most_blocks: int, smallest: int = 2, grain: int = FRACTAL_ROWS) -> list[int]:
    """Tile sizes for an axis: near powers of two blocks, evened out so that tiles are as equal as can be.

    Args:
        elements: Along the axis.
        most_blocks: Of 16, that a tile has at most.
        smallest: Blocks of 16 that it has at least, if it can.
        grain: Elements that it is a multiple of.

    >>> tile_sizes(784, 64), tile_sizes(784, 20, grain=32)
    ([784, 400, 272, 208, 160, 112, 64, 32], [288, 224, 160, 128, 64, 32])
    """
    return list(_tile_sizes(elements, most_blocks, smallest, grain))


@lru_cache(maxsize=8192)
def _tile_sizes(elements: int, most_blocks: int, smallest: int, grain: int) -> tuple[int, ...]:
    blocks, each = ceil_div(elements, grain), grain // FRACTAL_ROWS
    sizes: dict[int, None] = {}
    for limit in (64, 32, 24, 16, 12, 8, 4, 2, 1):
        tile = ceil_div(blocks, ceil_div(blocks, max(1, min(limit, most_blocks) // each)))
        sizes[min(elements, tile * grain)] = None
    blocks *= each
    useful = [size for size in sizes if size >= min(elements, min(blocks, smallest) * FRACTAL_ROWS)]
    return tuple(useful or sizes)


def equal_sizes(elements: int, most_blocks: int, smallest: int, grain: int = FRACTAL_ROWS) -> list[int]:
    """Tile sizes that divide an axis into equal tiles, the largest first; arguments as for `tile_sizes`.

    >>> equal_sizes(784, 64, 2), equal_sizes(1000, 64, 2), equal_sizes(176, 8, 2)
    ([784, 112], [1000, 336, 144, 112, 48], [16])
    """
    blocks, each = ceil_div(elements, grain), grain // FRACTAL_ROWS
    tiles = [tile for tile in range(min(blocks, most_blocks // each), 0, -1) if blocks % tile == 0]
    sizes = [min(elements, tile * grain) for tile in tiles or (1,)]
    return [size for size in sizes if size >= min(elements, smallest * FRACTAL_ROWS)] or sizes


def run_sizes(
    conv: ConvGeometry | None, elements: int, most_blocks: int, smallest: int, grain: int = FRACTAL_ROWS
) -> list[int]:
    """Tile sizes along m; for maps that must be unfolded also runs of whole output rows, which need fewer
    input rows.
    """
    tall = isinstance(conv, Strip) and conv.out_h > 1  # whose tiles are whole rows
    sizes = [] if tall else tile_sizes(elements, most_blocks, smallest, grain)
    if conv is not None and not is_direct(conv):
        rows = ceil_div(elements, conv.out_w)
        most = min(rows, most_blocks * FRACTAL_ROWS // conv.out_w)
        even = {
            ceil_div(rows, ceil_div(rows, wanted)) * conv.out_w
            for wanted in {1, 2, 3, 4, 6, 8, 12, most}
            if 1 <= wanted <= most
        }
        sizes += sorted(
            min(elements, size)
            for size in even
            if size >= min(elements, smallest * FRACTAL_ROWS) and size not in sizes
        )
    return sizes
