"""What a tiling moves between cores, L2 and DRAM, in bytes, and how fast: the memory part of the closed form.

Where L2 is a cache, DRAM delivers once what cores share, and again what L2 could not hold from one turn of a
loop to the next. Where it is managed by software, every core's reads go to DRAM, but those of tensors that
were placed in L2.
"""

from __future__ import annotations

from typing import NamedTuple

from ascendsim.core.compilable import compilable
from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    TRANSACTION_BYTES,
    align,
)
from ascendsim.isa.cost_transfer import unaligned_efficiency
from ascendsim.lower.templates.product import Product, Rates, held_bytes, way_in
from ascendsim.lower.templates.strips import strip_waste
from ascendsim.opset.work import ConvGeometry

Share = tuple[int, int, int, int]  # what one core takes at most along batch, images, m and n


class End(NamedTuple):  # made a hundred thousand times, which takes a data class four times as long
    """One of the two cases between which the truth lies: nothing is in L2, or all that other tasks have made
    is there.

    Attributes:
        dram: Cycles for which DRAM is busy.
        rate_a, rate_b, rate_out: Bytes per cycle of a transfer of A, of B, and of the result.
        reading: Cycles for which the busiest core brings operands, one transfer after the other.
    """

    dram: float
    rate_a: float
    rate_b: float
    rate_out: float
    reading: float


class Traffic(NamedTuple):
    """Of one product on one chip.

    Attributes:
        a_tile, b_tile: Bytes of the operands for one tile, all of k.
        writing: Cycles for which the busiest core's way out is busy.
        cores: That take part.
        far, near: The two cases.
        in_l2: How much of the second case there is, at most a half: what does not fit is never found in L2.
    """

    a_tile: float
    b_tile: float
    writing: float
    cores: int
    far: End
    near: End
    in_l2: float


def cores_of(product: Product, share: Share) -> int:
    """Cores that get a share."""
    batch, images, m, n = share
    return -(-product.batch // batch) * -(-product.images // images) * -(-product.m // m) * -(-product.n // n)


@compilable
def traffic_of(
    product: Product, rates: Rates, share: Share, tile: tuple[int, int], chunk: int, hold: str, band: int
) -> Traffic:
    """Traffic of a tiling; see `score` for the arguments. A batch that runs in turn counts as a whole."""
    conv, k_blocks = product.conv, product.k_blocks
    sb, si, sm, sn = share
    tile_m, tile_n = tile
    m_tiles, n_tiles = -(-sm // tile_m), -(-sn // tile_n)
    tiles = sb * si * m_tiles * n_tiles
    a_tile = held_bytes(product, sm, band, chunk) * -(-k_blocks // chunk)
    b_tile = -(-tile_n // FRACTAL_ROWS) * FRACTAL_BYTES * k_blocks
    a_loads = sb * si * -(-sm // band) * (1 if hold == "a" else n_tiles)
    b_loads = sb * n_tiles if hold == "b" else tiles
    core_a: float = a_loads * a_tile
    core_b = b_loads * b_tile * (sn / (n_tiles * tile_n))
    run = k_blocks if hold else chunk
    bursts_a = bursts_of(product, rates, product.a_rows, tile, run)
    bursts_b = bursts_of(product, rates, product.b_rows, tile, run)
    core_a *= bursts_a.dram
    core_b *= bursts_b.dram
    mapped, strips = product.mapped, product.strips
    if conv is not None and mapped and not aligned_planes(conv, not product.unfolds, tile_m):
        core_a /= unaligned_efficiency(tile_m * BLOCK_BYTES, rates.unaligned)
    if conv is not None and strips:
        core_a *= strip_waste(strips, conv.width * BLOCK_BYTES)
    cores = cores_of(product, share)
    extra_in, out = product.extra_bytes, product.result_bytes
    if mapped and tile_m % FRACTAL_ROWS and tile_m < product.m:
        # a channel block of the tile does not end on a 512 B boundary
        out /= unaligned_efficiency(tile_m * BLOCK_BYTES, rates.unaligned)
    if conv is not None and strips:
        out *= strip_waste(strips, min(tile_m, conv.out_w) * (product.row_item or BLOCK_BYTES))
    from_a, from_b = core_a * cores, core_b * cores
    if not rates.l2_managed:
        from_a, from_b = dram_bytes(product, rates.l2_size, share, tile, hold)
    l2_rate = rates.l2_share * rates.cores / cores
    # cores that read the same bytes share what DRAM delivers
    shared_a, shared_b = max(1.0, core_a * cores / from_a), max(1.0, core_b * cores / from_b)
    way_a = slow_a = _way(rates, bursts_a, product.a_cut, l2_rate, 0.0, cores)
    way_b = slow_b = _way(rates, bursts_b, product.b_cut, l2_rate, 0.0, cores)
    if rates.waits[0]:  # what comes from DRAM comes slower
        slow_a = _way(rates, bursts_a, product.a_cut, l2_rate, 1 / shared_a, cores)
        slow_b = _way(rates, bursts_b, product.b_cut, l2_rate, 1 / shared_b, cores)
    far_a, far_b = min(slow_a, rates.dram / cores * shared_a), min(slow_b, rates.dram / cores * shared_b)
    near_b = far_b if product.b_constant else way_b
    a, b = product.operand_bytes
    from_dram = from_a + from_b + extra_in - product.again_bytes
    of_weights = from_b if product.b_constant else 0.0
    far_dram = from_dram + out if rates.half_duplex else max(from_dram, out)
    more = extra_in / cores
    return Traffic(
        a_tile * 1.0,
        b_tile * 1.0,
        out / cores / rates.port_out,
        cores,
        End(
            far_dram / rates.dram,
            far_a,
            far_b,
            min(rates.port_out, rates.dram / cores),
            (core_a + more) / far_a + core_b / far_b,
        ),
        End(
            of_weights / rates.dram, way_a, near_b, rates.port_out, (core_a + more) / way_a + core_b / near_b
        ),
        0.5
        * min(
            1.0, rates.l2_size / (a + extra_in - product.again_bytes + out + (0 if rates.l2_managed else b))
        ),
    )


def _way(rates: Rates, bursts: Bursts, cut: str, l2_rate: float, missed: float, cores: int) -> float:
    """Rate of a core's own path to an operand, where DRAM delivers so much of what it reads of it."""
    return bursts.dram * min(l2_rate / bursts.l2, way_in(rates, cut, bursts.requests, missed, cores))


def dram_bytes(
    product: Product, l2_size: int, share: Share, tile: tuple[int, int], hold: str
) -> tuple[float, float]:
    """Bytes of A and of B that a cache does not deliver, of all cores together, if it is empty at the start.

    What a loop comes back to with every turn is still there if L2 holds all that the cores touch in one turn,
    else DRAM delivers it again (as `machine.reuse` has it): A with every tile of columns, B with every tile
    of rows. A held operand comes once.
    """
    a, b = product.operand_bytes
    out = product.batch * product.images * product.m * product.n * product.out_itemsize
    sb, si, sm, sn = share
    turns_m, turns_n = si * -(-sm // tile[0]), -(-sn // tile[1])
    # shares of the operands that all cores touch in one turn: of the batch loop, then of a tile of rows or
    # columns
    at_once, rows, columns = 1 / sb, 1 / turns_m, 1 / turns_n
    if hold == "a":
        return a, b * (turns_m if at_once * (a * rows + b + out * rows) > l2_size else 1)
    again_a = turns_n if at_once * (a + b * columns + out * columns) > l2_size else 1
    again_b = (
        turns_m if hold == "" and at_once * (a * rows + b * columns + out * rows * columns) > l2_size else 1
    )
    return a * again_a, b * again_b


def aligned_planes(conv: ConvGeometry, direct: bool, tile_m: int) -> bool:
    """Whether every burst of a map's tile starts on a 512 B boundary: channel blocks are whole transactions
    apart, and so are tiles. `direct`: the map needs no unfolding.
    """
    plane = conv.height * conv.width
    step = tile_m if direct else conv.width * conv.stride_h * max(1, tile_m // conv.out_w)
    return plane % FRACTAL_ROWS == 0 and (step % FRACTAL_ROWS == 0 or step >= plane)


class Bursts(NamedTuple):
    """What the bursts of a row-major operand cost, which are as long as the tile along its contiguous axis;
    1 = nothing.

    Attributes:
        dram: Bytes that DRAM brings, whole transactions, for each that is asked for; and its loss where
            bursts begin inside of one.
        l2: The same for L2, whose requests are shorter.
        requests: Whole lines for each byte, where a core holds so many requests at a time.
    """

    dram: float
    l2: float
    requests: float


def bursts_of(product: Product, rates: Rates, axis: str, tile: tuple[int, int], run: int) -> Bursts:
    """Those of an operand that is contiguous along an axis, where a tile has so many rows and columns and a
    transfer so many blocks of k.
    """
    if axis == "m":
        return bursts_along(tile[0], product.m, product.itemsize, rates)
    if axis == "n":
        return bursts_along(tile[1], product.n, product.itemsize, rates)
    return bursts_along(run if axis else 0, product.k_blocks if axis else 0, BLOCK_BYTES, rates)


def bursts_along(size: int, whole: int, each: int, rates: Rates) -> Bursts:
    """Bursts of so many elements (or blocks) of so many bytes each, of an axis that has so many."""
    if size >= whole:
        return Bursts(1.0, 1.0, 1.0)
    burst = size * each
    # parts of a transaction that divide it never cross its border
    inside = burst % TRANSACTION_BYTES == 0 or TRANSACTION_BYTES % burst == 0
    lost = 1.0 if inside else unaligned_efficiency(burst, rates.unaligned)
    dram = align(burst, TRANSACTION_BYTES) / burst / lost
    return Bursts(dram, align(burst, rates.request) / burst / lost, align(burst, rates.line) / burst)
