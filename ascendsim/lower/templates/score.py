"""The closed form that ranks tilings: cycles of the busiest core.

The slowest of Cube, MTE1, way out and global memory, plus what does not overlap (first load, last store, panels that change, loads
that cannot run ahead). Where L2 is a cache, the mean of two cases: everything lies in L2, everything comes from DRAM. Rates are
those of the chip's description.
"""

from __future__ import annotations

from ascendsim.core.formats import BLOCK_BYTES, ceil_div
from ascendsim.lower.templates.conv import FRACTAL_BYTES, a_bytes, input_rows, is_direct, taps
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, ROWS, Product, Rates
from ascendsim.opset.work import ConvGeometry

IMPERFECT_OVERLAP = 1 / 8  # share of the faster pipes' time that is not hidden behind the slowest one: assumed, ranks candidates only
ENTRIES_PER_STEP = 3  # queue entries of one mmad: wait, mmad, set


def score(
    product: Product,
    rates: Rates,
    share: tuple[int, int, int, int],
    tile_m: int,
    tile_n: int,
    chunk: int,
    step: int,
    hold: str,
    accumulators: int,
    band: int,
) -> float:
    """Cycles of the busiest core; see the module's text."""
    conv, k_blocks = product.conv, product.k_blocks
    sb, si, sm, sn = share
    m_blocks, n_blocks = ceil_div(tile_m, ROWS), ceil_div(tile_n, ROWS)
    m_tiles, n_tiles = ceil_div(sm, tile_m), ceil_div(sn, tile_n)
    tiles = sb * si * m_tiles * n_tiles
    chunks = ceil_div(k_blocks, chunk)
    steps = chunks * ceil_div(chunk, step)
    # Cube and MTE1, the average tile (the last one of an axis may be smaller)
    m_average, n_average = tiled_blocks(sm, tile_m) / m_tiles, tiled_blocks(sn, tile_n) / n_tiles
    cube = m_average * n_average * k_blocks * rates.per_block + steps * rates.mmad_gap
    if rates.odd_penalty and step > 1 and (m_blocks % 2 or n_blocks % 2):
        cube += steps * (step - 2)
    cube = max(cube, steps * rates.start)
    load_a = FRACTAL_BYTES / rates.l1_to_l0a
    gap_a = rates.load2d_gap
    if conv is not None and not is_direct(conv):
        load_a /= unfolding_efficiency(conv)
        gap_a = rates.load3d_head
    mte1 = m_blocks * k_blocks * load_a + n_blocks * k_blocks * FRACTAL_BYTES / rates.l1_to_l0b + steps * (gap_a + rates.load2d_gap)
    mte1 = max(mte1, 2 * steps * rates.start)
    out = m_average * n_average * ACCUMULATOR_BYTES * (1 / rates.out + product.out_passes / 2 / rates.vector) + 4 * rates.start
    compute = max(cube, mte1)
    busy = tiles * max(compute, out) if accumulators > 1 else tiles * (compute + out)
    # global memory
    a_tile, b_tile = a_bytes(conv, band, chunk) * chunks, n_blocks * FRACTAL_BYTES * k_blocks
    a_loads = sb * si * ceil_div(sm, band) * (1 if hold == "a" else n_tiles)
    b_loads = sb * n_tiles if hold == "b" else tiles
    reach = {"m": (tile_m, product.m), "n": (tile_n, product.n), "k": (chunk if not hold else k_blocks, k_blocks)}
    a_in, b_in = a_loads * a_tile * burst_loss(product.a_rows, reach, rates.unaligned), b_loads * b_tile * (sn / (n_tiles * tile_n))
    if conv is not None and not aligned_planes(conv, tile_m):
        a_in /= rates.unaligned
    core_in = a_in + b_in * burst_loss(product.b_rows, reach, rates.unaligned)
    outputs = product.m * product.n * product.images * product.batch
    active = ceil_div(product.batch, sb) * ceil_div(product.images, si) * ceil_div(product.m, sm) * ceil_div(product.n, sn)
    extra_in = outputs * product.extra_in_bytes
    out_bytes = outputs * (product.out_itemsize + product.extra_out_bytes)
    if conv is not None and tile_m % ROWS and tile_m < product.m:
        out_bytes = round(out_bytes / rates.unaligned)  # a channel block of the tile does not end on a 512 B boundary
    from_dram = core_in * active if rates.l2_size == 0 else dram_bytes(product, rates.l2_size, n_tiles, m_tiles, hold)
    dram = max(from_dram + extra_in, out_bytes) if not rates.half_duplex else from_dram + extra_in + out_bytes
    reading = (core_in + extra_in / active) / min(rates.port_in, rates.l2_share * rates.cores / active)
    writing = out_bytes / active / rates.port_out
    l2_rate = min(rates.port_in, rates.l2_share * rates.cores / active)
    shared_by = max(1.0, core_in * active / from_dram)  # cores that read the same bytes share what DRAM delivers
    far = (dram / rates.dram, min(rates.port_in, rates.dram / active * shared_by), min(rates.port_out, rates.dram / active))
    near = (0.0, l2_rate, rates.port_out)
    ahead = lookahead(rates.queue)

    def time(beyond: float, rate: float, drain: float) -> float:
        """Cycles if DRAM is busy for so many of them, and single transfers run at these rates."""
        slowest = max(reading, beyond, writing)
        memory = slowest + (reading + beyond + writing - slowest) * IMPERFECT_OVERLAP
        # what does not overlap: first chunk, changes of the held panel, last way out; short chunks wait for the latency
        first = rates.latency + (a_tile + b_tile) / chunks / rate
        if hold == "b":
            first += (sb * n_tiles - 1 + (1 - 1 / chunks)) * (b_tile / rate + rates.latency)
        elif hold == "a":
            first += (sb * si * m_tiles - 1 + (1 - 1 / chunks)) * (a_tile / rate + rates.latency)
        last = out + m_blocks * n_blocks * ROWS * ROWS * product.out_itemsize / drain
        waits = tiles * chunks * max(0.0, (rates.latency - compute / chunks) / 2) if band == tile_m else 0.0
        if steps // chunks * ceil_div(band, tile_m) > ahead:  # loads run ahead inside a loop, but not into the next turn of the loop around
            turns = sb * si * n_tiles if chunks == 1 else tiles
            load = (a_tile + (0 if hold == "b" else b_tile)) / chunks / rate + rates.latency
            waits += (turns - 1) * max(0.0, load - ahead * compute / steps)
        others = (cube + mte1 + out - max(cube, mte1, out)) * tiles + min(busy, memory)
        return max(first + busy, memory + compute / chunks) + others * IMPERFECT_OVERLAP + last + waits

    ends = (far,) if rates.l2_size == 0 else (near, far)
    return sum(time(*end) for end in ends) / len(ends) + active * rates.dispatch


def dram_bytes(product: Product, l2_size: int, n_tiles: int, m_tiles: int, hold: str) -> float:
    """Bytes of both operands that L2 does not deliver.

    The operand of the outer loop comes once; the other one is read again in every turn and comes from DRAM each time if it is
    larger than L2 as a whole.
    """
    conv = product.conv
    if conv is None or is_direct(conv):
        a = ceil_div(product.m, ROWS) * FRACTAL_BYTES * product.k_blocks
    else:
        a = conv.height * conv.width * BLOCK_BYTES * ceil_div(product.k_blocks, taps(conv))
    a *= product.batch * product.images
    b = product.batch * ceil_div(product.n, ROWS) * FRACTAL_BYTES * product.k_blocks
    if hold == "a":
        return a + b * (m_tiles if b > l2_size else 1)
    return b + a * (n_tiles if a > l2_size else 1)


def aligned_planes(conv: ConvGeometry, tile_m: int) -> bool:
    """Whether every burst of a map's tile starts on a 512 B boundary: channel blocks are whole transactions apart, and so are tiles."""
    plane, step = conv.height * conv.width, tile_m if is_direct(conv) else conv.width * conv.stride_h * max(1, tile_m // conv.out_w)
    return plane % ROWS == 0 and (step % ROWS == 0 or step >= plane)


def burst_loss(axis: str, reach: dict[str, tuple[int, int]], unaligned: float) -> float:
    """What short bursts cost: a row-major operand moves in pieces as long as the tile along its contiguous axis.

    DRAM rounds them up to 512 B, and pieces that do not start on such a boundary run at the share `unaligned` of the rate.
    """
    if not axis:
        return 1.0
    size, whole = reach[axis]
    if size >= whole:
        return 1.0
    burst = size * (32 if axis == "k" else 2)
    return ceil_div(burst, 512) * 512 / burst / (1.0 if burst % 512 == 0 else unaligned)


def tiled_blocks(elements: int, tile: int) -> int:
    """Blocks of 16 along an axis that is cut in tiles, each rounded up.

    >>> tiled_blocks(100, 40)
    8
    """
    whole, tail = divmod(elements, tile)
    return whole * ceil_div(tile, ROWS) + ceil_div(tail, ROWS)


def unfolding_efficiency(conv: ConvGeometry) -> float:
    """Rate of load3d relative to the port, by the c220 table that is assumed for all generations."""
    rows = input_rows(conv)
    if conv.stride_w not in (1, 2, 4, 8):
        return 32 / 256
    if conv.stride_w == 1:
        return (256.0 if rows <= 1 else 512 / (rows + 2)) / 256
    return max(32.0, 512 / (2 * conv.stride_w + (rows if rows > 1 else 0))) / 256


def lookahead(queue: int) -> int:
    """How many mmads the scalar unit is ahead of the Cube before its queue is full."""
    return max(1, queue // ENTRIES_PER_STEP - 1)
