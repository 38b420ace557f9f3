"""The closed form that ranks tilings: cycles of the busiest core.

The slowest of Cube, MTE1, way out and global memory, plus what does not overlap (first load, last store,
panels that change, loads that cannot run ahead). The mean of two cases: L2 holds what other tasks have made
and fits, or nothing (`traffic`). Rates are those of the chip's description.
"""

from __future__ import annotations

import math

from ascendsim.core.compilable import compilable
from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product, Rates
from ascendsim.lower.templates.traffic import cores_of, traffic_of

# share of the faster pipes' time that is not hidden behind the slowest one: assumed, ranks candidates only
IMPERFECT_OVERLAP = 1 / 8
ENTRIES_PER_STEP = 3  # queue entries of one mmad: wait, mmad, set
ROUNDING = 1 + 1e-9  # above what two ways to add up the same cycles can differ by


@compilable
def score(
    product: Product,
    rates: Rates,
    share: tuple[int, int, int, int],
    sizes: tuple[int, int, int, int],
    hold: str,
    accumulators: int,
    band: int,
    limit: float = math.inf,
    exact: bool = False,
) -> float:
    """Cycles of the busiest core; see the module's text. Infinite where computing alone takes more than
    `limit`.

    What is written out here (divisions rounded up) is asked ten thousand times a network.

    Args:
        product: What is computed.
        rates: Of the chip.
        share: Products, images, rows and columns of the busiest core.
        sizes: Rows and columns of a tile, K blocks of a chunk in L1 and of a step in L0.
        hold: The operand that stays in L1 for several tiles: "a", "b" or "".
        accumulators: Tiles that L0C holds at once.
        band: Rows of A that are brought at once.
        limit: Cycles from which on the exact number does not matter.
        exact: Whether it does not matter either where memory makes it more than `limit`.
    """
    k_blocks = product.k_blocks
    tile_m, tile_n, chunk, step = sizes
    sb, si, sm, sn = share
    in_turn = sb if product.serial_batch else 1  # times that a core goes through all that follows
    sb //= in_turn
    m_blocks, n_blocks = -(-tile_m // FRACTAL_ROWS), -(-tile_n // FRACTAL_ROWS)
    m_tiles, n_tiles = -(-sm // tile_m), -(-sn // tile_n)
    tiles = sb * si * m_tiles * n_tiles
    chunks = -(-k_blocks // chunk)
    steps = chunks * -(-chunk // step)
    # Cube and MTE1, the average tile (the last one of an axis may be smaller)
    m_average, n_average = tiled_blocks(sm, tile_m) / m_tiles, tiled_blocks(sn, tile_n) / n_tiles
    cube = m_average * n_average * k_blocks * rates.per_block + steps * rates.mmad_gap
    if rates.odd_penalty and step > 1 and (m_blocks % 2 or n_blocks % 2):
        cube += steps * (step - 2)
    cube = max(cube, steps * rates.start)
    load_a = FRACTAL_BYTES / rates.l1_to_l0a
    gap_a = rates.load2d_gap
    if product.unfolds:
        load_a /= product.unfolding_efficiency[1 if rates.load3d_rows else 0]
        gap_a = rates.load3d_head
    mte1 = (
        m_blocks * k_blocks * load_a
        + n_blocks * k_blocks * FRACTAL_BYTES / rates.l1_to_l0b
        + steps * (gap_a + rates.load2d_gap)
    )
    mte1 = max(mte1, 2 * steps * rates.start)
    out = (
        m_average * n_average * ACCUMULATOR_BYTES * (1 / rates.out + product.out_passes / 2 / rates.vector)
        + 4 * rates.start
    )
    compute = max(cube, mte1)
    pace = max(compute, out) if accumulators > 1 else compute + out  # from one tile to the next
    # the last way out comes below
    busy = tiles * pace - (0 if accumulators > 1 else out)
    if product.bias_ahead and accumulators > 1 and hold != "a":
        # a tile with other columns than the one before it gets its bias when that one has left
        busy += (n_tiles - 1) * min(compute, out)
    if in_turn * busy > limit:
        return math.inf
    idle = (cube + mte1 + out - max(cube, mte1, out)) * tiles
    if exact:  # nothing of what memory adds
        cores = cores_of(product, share)
        least = in_turn * (rates.latency + busy + idle * IMPERFECT_OVERLAP + out) * -(-cores // rates.cores)
        if least + cores * rates.dispatch > limit * ROUNDING:
            return math.inf
    t = traffic_of(product, rates, share, (tile_m, tile_n), chunk, hold, band)
    # the loop around the loads of the streaming operand, and what keeps them from running ahead: they do so
    # inside a loop, but not into the next turn of the loop around
    ahead = lookahead(rates.queue)
    late = steps // chunks * -(-band // tile_m) > ahead
    turns = sb * si * n_tiles if chunks == 1 else tiles
    panels = 0.0  # held ones that nothing hides
    if hold == "b":
        panels = sb * n_tiles - 1 + (1 - 1 / chunks)
    elif hold == "a":
        panels = sb * si * m_tiles - 1 + (1 - 1 / chunks)
    result_bytes = m_blocks * n_blocks * FRACTAL_ROWS * FRACTAL_ROWS * product.out_itemsize
    spent = 0.0
    for end, part in ((t.far, 1 - t.in_l2), (t.near, t.in_l2)):  # cycles in each of the two cases
        if not part:
            continue
        dram, reading, writing = end.dram / in_turn, end.reading / in_turn, t.writing / in_turn
        slowest = max(reading, dram, writing)
        memory = slowest + (reading + dram + writing - slowest) * IMPERFECT_OVERLAP
        # what does not overlap: first chunk, changes of the held panel, last way out; short chunks wait for
        # the latency
        a_load, b_load = t.a_tile / end.rate_a, t.b_tile / end.rate_b
        first = rates.latency + (a_load + b_load) / chunks
        if hold:
            first += panels * ((b_load if hold == "b" else a_load) + rates.latency)
        last = out + result_bytes / end.rate_out
        waits = tiles * chunks * max(0.0, (rates.latency - pace / chunks) / 2) if band == tile_m else 0.0
        if late:
            load = (a_load + (0 if hold == "b" else b_load)) / chunks + rates.latency
            waits = max(waits, (turns - 1) * max(0.0, load - ahead * pace / steps))
        others = idle + min(busy, memory)
        taken = max(first + busy + waits, memory + compute / chunks) + others * IMPERFECT_OVERLAP + last
        spent += part * taken
    return in_turn * spent * -(-t.cores // rates.cores) + t.cores * rates.dispatch


def tiled_blocks(elements: int, tile: int) -> int:
    """Blocks of 16 along an axis that is cut in tiles, each rounded up.

    >>> tiled_blocks(100, 40)
    8
    """
    whole, tail = divmod(elements, tile)
    return whole * -(-tile // FRACTAL_ROWS) - (-tail // FRACTAL_ROWS)


def lookahead(queue: int) -> int:
    """How many mmads the scalar unit is ahead of the Cube before its queue is full."""
    return max(1, queue // ENTRIES_PER_STEP - 1)
