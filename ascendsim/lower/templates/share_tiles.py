"""Tiles of one core's share that fit the buffers, with their scores: the innermost part of the search.

Written in plain numbers, so that compiled code can do it (`compiled_search`): a network asks it some thousand
times.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.compilable import compilable
from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS, align, ceil_div
from ascendsim.lower.templates.conv import taps
from ascendsim.lower.templates.least import least_of_moves, least_of_tiles, loading_cycles
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product, Rates, blocks_of_b, held_bytes
from ascendsim.lower.templates.score import lookahead, score
from ascendsim.lower.templates.traffic import Share, cores_of

HOLDS = ("", "b", "a")  # operands that may stay in L1
BANDS = (1, 2, 3, 4, 8)  # tiles that one load of A may serve
SIZES = 8  # numbers of a tiling: TILE_M and so on
TILE_M, TILE_N, CHUNK, STEP, HOLD, ACCUMULATORS, BAND, DEPTHS = range(SIZES)

Numbers: TypeAlias = "list[int] | NDArray[np.int64]"
Cycles: TypeAlias = "list[float] | NDArray[np.float64]"


@compilable
def tiles_of_share(
    product: Product,
    rates: Rates,
    share: Share,
    tiles_n: Numbers,
    tiles_m: Numbers,
    units: Numbers,
    depths: Numbers,
    by_depth: Cycles,
    within: float,
    alone: bool,
    some: bool,
    chunks: Numbers,
    masks: Numbers,
    sizes: NDArray[np.int64],
    cycles: NDArray[np.float64],
) -> int:
    """Writes the tilings of a share down and tells how many there are.

    Args:
        product, rates, share: What is cut, for which chip, and the share.
        tiles_n, tiles_m: Columns and rows of tiles that are tried.
        units: See `chunk_units`.
        depths: Of the Cube's queue for which chunks are made.
        by_depth: The best score so far for each of them, kept up to date.
        within: Leaves out what takes more than so many times the worst of these.
        alone: Whether that leaves out all that is worse. Of another form even worse ones count.
        some: Whether anything was found in other shares.
        chunks, masks: Room for as many numbers as `most_chunks` says.
        sizes, cycles: Receive the tilings (columns `TILE_M` to `DEPTHS`: a bit for each depth for which it is
            made) and their scores.
    """
    best, found = max(by_depth), 0
    for tile_n in tiles_n:
        for tile_m in tiles_m:
            blocks = ceil_div(tile_m, FRACTAL_ROWS) * ceil_div(tile_n, FRACTAL_ROWS)
            if blocks * ACCUMULATOR_BYTES > rates.l0c:
                continue
            if loading_cycles(product, rates, share, tile_m, tile_n) > within * best:
                continue
            accumulators = 2 if 2 * blocks * ACCUMULATOR_BYTES <= rates.l0c else 1
            looked = some or found > 0
            least = 0.0
            if looked:
                least = least_of_tiles(product, rates, share, (tile_m, tile_n), accumulators)
                if least + cores_of(product, share) * rates.dispatch > within * best:
                    continue
            for hold in HOLDS:
                if hold == "b" and product.images_outside and share[1] > 1 and share[3] > tile_n:
                    continue  # the next tile of columns takes the place of this one's, for each image
                if looked and alone:
                    computing = least - rates.latency
                    if least_of_moves(product, rates, share, (tile_m, tile_n), hold, computing) > (
                        within * best
                    ):
                        continue
                options, step, room = _chunks(
                    product, rates, share, (tile_m, tile_n), hold, units, depths, chunks, masks
                )
                chunk, limit = 0, within * best
                for _ in range(options):
                    option = _next(chunks, options, chunk)
                    chunk = chunks[option]
                    if "k" in product.divided:
                        even = largest_divisor(chunk, step)
                    else:
                        even = ceil_div(chunk, ceil_div(chunk, step))
                    most = most_tiles(product, share[2], tile_m, hold, chunk)
                    for tiles in BANDS:
                        if tiles > most:
                            break
                        band = min(share[2], tiles * tile_m)
                        if hold == "b" and 2 * held_bytes(product, share[2], band, chunk) > room:
                            continue
                        taken = score(
                            product,
                            rates,
                            share,
                            (tile_m, tile_n, chunk, even),
                            hold,
                            accumulators,
                            band,
                            limit,
                            alone,
                        )
                        if taken == math.inf or (alone and taken > limit):
                            continue
                        sizes[found, TILE_M], sizes[found, TILE_N] = tile_m, tile_n
                        sizes[found, CHUNK], sizes[found, STEP] = chunk, even
                        sizes[found, HOLD] = 0 if hold == "" else 1 if hold == "b" else 2
                        sizes[found, ACCUMULATORS], sizes[found, BAND] = accumulators, band
                        sizes[found, DEPTHS] = masks[option]
                        cycles[found] = taken
                        found += 1
                        for place in range(len(depths)):
                            if masks[option] >> place & 1:
                                by_depth[place] = min(by_depth[place], taken)
                        best = max(by_depth)
    return found


@compilable
def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number up to a limit.

    >>> largest_divisor(36, 8), largest_divisor(11, 8)
    (6, 1)
    """
    found = min(number, most)
    while number % found:
        found -= 1
    return found


@compilable
def _chunks(
    product: Product,
    rates: Rates,
    share: Share,
    tile: tuple[int, int],
    hold: str,
    units: Numbers,
    depths: Numbers,
    chunks: Numbers,
    masks: Numbers,
) -> tuple[int, int, int]:
    """Chunks of k for tiles of so many rows and columns: how many there are, blocks of k of a step at most,
    and bytes of L1 beside what is held. No chunks if nothing fits.
    """
    conv, k_blocks = product.conv, product.k_blocks
    tile_m, tile_n = tile
    m_blocks, n_blocks = ceil_div(tile_m, FRACTAL_ROWS), ceil_div(tile_n, FRACTAL_ROWS)
    step = min(
        rates.l0a // 2 // (m_blocks * FRACTAL_BYTES), rates.l0b // 2 // (n_blocks * FRACTAL_BYTES), k_blocks
    )
    if step < 1:
        return 0, 0, 0
    fractals = blocks_of_b(product, tile_n) * FRACTAL_BYTES
    panel = 0
    if hold == "b":
        panel = fractals * k_blocks
    elif hold == "a":
        panel = held_bytes(product, share[2], tile_m, k_blocks)
    free = rates.l1 - column_bytes(share[3])
    unit = room = b_unit = 0
    for each in units:
        unit, b_unit = each, fractals * each
        streamed = 0 if hold == "a" else held_bytes(product, share[2], tile_m, unit)
        streamed += 0 if hold == "b" else b_unit
        room = (free - panel) // (2 * streamed)
        if room >= 1:
            break
    if room < 1:
        return 0, 0, 0
    count, every = ceil_div(k_blocks, unit), (1 << len(depths)) - 1
    options = 0
    for place in range(len(depths)):
        most = max(1, step * lookahead(depths[place]) // unit)
        if "k" in product.divided:
            chunk = largest_divisor(count, min(room, most)) * unit
        else:
            chunk = min(k_blocks, ceil_div(count, ceil_div(count, min(room, most))) * unit)
        if conv is not None and product.mapped and (1 < unit < taps(conv) or unit < conv.kernel_w):
            chunk = unit  # one kernel row at a time, or a part of it
        elif not hold and 2 * (held_bytes(product, share[2], tile_m, chunk) + b_unit // unit * chunk) > free:
            chunk = unit  # dilated rows lie far apart: two hold more than twice the rows of one
        options = _add(chunks, masks, options, chunk, 1 << place)
    if hold == "b" and unit > 1 and room >= count:
        options = _add(chunks, masks, options, k_blocks, every)
    if conv is not None and product.mapped and count == 1 and unit == taps(conv):
        # all of k is one channel block (few colours): with single kernel rows the Cube begins sooner
        known = False
        for place in range(options):
            known = known or chunks[place] == conv.kernel_w
        if not known:
            options = _add(chunks, masks, options, conv.kernel_w, 1 << len(depths) - 1)
    return options, step, free - panel


def _add(chunks: Numbers, masks: Numbers, count: int, chunk: int, mask: int) -> int:
    """Notes a chunk for some depths; tells how many there are."""
    for place in range(count):
        if chunks[place] == chunk:
            masks[place] |= mask
            return count
    chunks[count], masks[count] = chunk, mask
    return count + 1


def _next(chunks: Numbers, count: int, last: int) -> int:
    """Place of the shortest chunk that is longer than the last one."""
    found = -1
    for place in range(count):
        if chunks[place] > last and (found < 0 or chunks[place] < chunks[found]):
            found = place
    return found


def most_chunks(depths: int) -> int:
    """How many chunks a tile may have, for so many depths."""
    return depths + 2


def most_tiles(product: Product, share_m: int, tile_m: int, hold: str, chunk: int) -> int:
    """How many tiles one load of A may serve: more than one only where halo rows are shared and all of k is
    held.
    """
    if not product.unfolds or hold != "b" or chunk < product.k_blocks:
        return 1
    return max(1, ceil_div(share_m, tile_m) // 2)


def column_bytes(columns: int) -> int:
    """Room in L1 that a core keeps for a value a column (a bias, whether there is one or not)."""
    return align(columns * 4, 32)
