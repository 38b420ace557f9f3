"""What a tiling moves between cores, L2 and DRAM, in bytes, and how fast: the memory part of the closed form.

Where L2 is a cache, DRAM delivers once what cores share, and again what L2 could not hold from one turn of a
loop to the next. Where it is managed by software, every core's reads go to DRAM, but those of tensors that
were placed in L2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    TRANSACTION_BYTES,
    align,
)
from ascendsim.isa.cost_transfer import unaligned_efficiency
from ascendsim.lower.templates.conv import is_direct
from ascendsim.lower.templates.product import Product, Rates
from ascendsim.lower.templates.strips import Strip, strip_waste
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


def traffic_of(
    product: Product, rates: Rates, share: Share, tile: tuple[int, int], *, chunk: int, hold: str, band: int
) -> Traffic:
    """Traffic of a tiling; see `score` for the arguments. A batch that runs in turn counts as a whole."""
    conv, k_blocks = product.conv, product.k_blocks
    sb, si, sm, sn = share
    tile_m, tile_n = tile
    m_tiles, n_tiles = -(-sm // tile_m), -(-sn // tile_n)
    tiles = sb * si * m_tiles * n_tiles
    a_tile = product.a_bytes(sm, band, chunk) * -(-k_blocks // chunk)
    b_tile = -(-tile_n // FRACTAL_ROWS) * FRACTAL_BYTES * k_blocks
    a_loads = sb * si * -(-sm // band) * (1 if hold == "a" else n_tiles)
    b_loads = sb * n_tiles if hold == "b" else tiles
    core_a: float = a_loads * a_tile
    core_b = b_loads * b_tile * (sn / (n_tiles * tile_n))
    bursts_a = bursts_b = LONG
    if product.a_rows or product.b_rows:
        reach = {
            "m": (tile_m, product.m),
            "n": (tile_n, product.n),
            "k": (chunk if not hold else k_blocks, k_blocks),
        }
        bursts_a, bursts_b = (
            Bursts.of(axis, reach, rates, product.itemsize) for axis in (product.a_rows, product.b_rows)
        )
        core_a *= bursts_a.dram
        core_b *= bursts_b.dram
    if conv is not None and not aligned_planes(conv, tile_m):
        core_a /= unaligned_efficiency(tile_m * BLOCK_BYTES, rates.unaligned)
    core_a *= strip_waste(conv, conv.width * BLOCK_BYTES) if isinstance(conv, Strip) else 1.0
    cores = cores_of(product, share)
    extra_in, out = product.extra_bytes, product.result_bytes
    if conv is not None and tile_m % FRACTAL_ROWS and tile_m < product.m:
        # a channel block of the tile does not end on a 512 B boundary
        out /= unaligned_efficiency(tile_m * BLOCK_BYTES, rates.unaligned)
    if isinstance(conv, Strip):
        out *= strip_waste(conv, min(tile_m, conv.out_w) * (product.row_item or BLOCK_BYTES))
    from_a, from_b = core_a * cores, core_b * cores
    if not rates.l2_managed:
        from_a, from_b = dram_bytes(product, rates.l2_size, share, tile, hold)

    l2_rate = rates.l2_share * rates.cores / cores

    def way(bursts: Bursts, cut: str, missed: float) -> float:
        """Rate of a core's own path to an operand, where DRAM delivers so much of what it reads of it."""
        return bursts.dram * min(l2_rate / bursts.l2, rates.way_in(cut, bursts.requests, missed, cores))

    def end(from_dram: float, written: float, rate_a: float, rate_b: float, rate_out: float) -> End:
        dram = from_dram + written if rates.half_duplex else max(from_dram, written)
        return End(
            dram / rates.dram,
            rate_a,
            rate_b,
            rate_out,
            (core_a + extra_in / cores) / rate_a + core_b / rate_b,
        )

    # cores that read the same bytes share what DRAM delivers
    shared_a, shared_b = max(1.0, core_a * cores / from_a), max(1.0, core_b * cores / from_b)
    way_a, way_b = slow_a, slow_b = way(bursts_a, product.a_cut, 0.0), way(bursts_b, product.b_cut, 0.0)
    if rates.waiting is not None:  # what comes from DRAM comes slower
        slow_a = way(bursts_a, product.a_cut, 1 / shared_a)
        slow_b = way(bursts_b, product.b_cut, 1 / shared_b)
    far_a, far_b = min(slow_a, rates.dram / cores * shared_a), min(slow_b, rates.dram / cores * shared_b)
    weights = product.b_constant
    a, b = product.operand_bytes
    return Traffic(
        a_tile,
        b_tile,
        writing=out / cores / rates.port_out,
        cores=cores,
        far=end(
            from_a + from_b + extra_in - product.again_bytes,
            out,
            far_a,
            far_b,
            min(rates.port_out, rates.dram / cores),
        ),
        near=end(from_b if weights else 0.0, 0.0, way_a, far_b if weights else way_b, rates.port_out),
        in_l2=0.5
        * min(
            1.0, rates.l2_size / (a + extra_in - product.again_bytes + out + (0 if rates.l2_managed else b))
        ),
    )


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


def aligned_planes(conv: ConvGeometry, tile_m: int) -> bool:
    """Whether every burst of a map's tile starts on a 512 B boundary: channel blocks are whole transactions
    apart, and so are tiles.
    """
    plane, step = (
        conv.height * conv.width,
        tile_m if is_direct(conv) else conv.width * conv.stride_h * max(1, tile_m // conv.out_w),
    )
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

    dram: float = 1.0
    l2: float = 1.0
    requests: float = 1.0

    @classmethod
    def of(cls, axis: str, reach: Mapping[str, tuple[int, int]], rates: Rates, itemsize: int) -> Bursts:
        """Those along an axis, "" for operands in blocks; `reach` has the size of a tile and of the whole."""
        size, whole = reach[axis] if axis else (0, 0)
        if size >= whole:
            return cls()
        burst = size * (BLOCK_BYTES if axis == "k" else itemsize)
        # parts of a transaction that divide it never cross its border
        inside = burst % TRANSACTION_BYTES == 0 or TRANSACTION_BYTES % burst == 0
        lost = 1.0 if inside else unaligned_efficiency(burst, rates.unaligned)
        dram, l2, lines = (
            align(burst, grain) / burst for grain in (TRANSACTION_BYTES, rates.request, rates.line)
        )
        return cls(dram / lost, l2 / lost, lines)


LONG = Bursts()
