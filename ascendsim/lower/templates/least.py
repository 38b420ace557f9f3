"""What no score is below: bounds by which the search for tilings leaves out most candidates unscored."""

from __future__ import annotations

from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS, ceil_div
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product, Rates, held_bytes, way_in
from ascendsim.lower.templates.score import IMPERFECT_OVERLAP, tiled_blocks
from ascendsim.lower.templates.traffic import Share, cores_of, dram_bytes

_BYTES_OF_COLUMN = FRACTAL_BYTES / FRACTAL_ROWS  # in one block of k


def least_cycles(product: Product, rates: Rates, share: Share) -> float:
    """What a share takes at least: on the Cube without any pause, or to bring its operands once, and to hand
    out the blocks.
    """
    batch, images, m, n = share
    blocks = batch * images * ceil_div(m, FRACTAL_ROWS) * ceil_div(n, FRACTAL_ROWS) * product.k_blocks
    a = batch * images * held_bytes(product, m, m, product.k_blocks)
    b = batch * n / FRACTAL_ROWS * FRACTAL_BYTES * product.k_blocks
    bringing = a / rates.way_in(product.a_cut) + b / rates.way_in(product.b_cut)
    return max(blocks * rates.per_block, bringing) + cores_of(product, share) * rates.dispatch


def loading_cycles(product: Product, rates: Rates, share: Share, tile_m: int, tile_n: int) -> float:
    """What MTE1 takes at least to bring a share's operands to the Cube, tile by tile, and to hand out the
    blocks.
    """
    batch, images, m, n = share
    rows, columns = (
        ceil_div(tile_m, FRACTAL_ROWS) / rates.l1_to_l0a,
        ceil_div(tile_n, FRACTAL_ROWS) / rates.l1_to_l0b,
    )
    return (
        batch
        * images
        * ceil_div(m, tile_m)
        * ceil_div(n, tile_n)
        * (rows + columns)
        * product.k_blocks
        * FRACTAL_BYTES
        + cores_of(product, share) * rates.dispatch
    )


def least_of_tiles(
    product: Product, rates: Rates, share: Share, tile: tuple[int, int], accumulators: int
) -> float:
    """Cycles below which no `score` with these tiles is, however they are brought: those of the core's own
    pipes, without gaps between instructions.
    """
    tile_m, tile_n = tile
    sb, si, sm, sn = share
    tiles = sb * si * ceil_div(sm, tile_m) * ceil_div(sn, tile_n)
    blocks = sb * si * tiled_blocks(sm, tile_m) * tiled_blocks(sn, tile_n) / tiles
    cube = blocks * product.k_blocks * rates.per_block
    load_a = FRACTAL_BYTES / rates.l1_to_l0a / product.unfolding_efficiency[1 if rates.load3d_rows else 0]
    load_b = FRACTAL_BYTES / rates.l1_to_l0b
    m_blocks, n_blocks = ceil_div(tile_m, FRACTAL_ROWS), ceil_div(tile_n, FRACTAL_ROWS)
    mte1 = (m_blocks * load_a + n_blocks * load_b) * product.k_blocks
    out = blocks * ACCUMULATOR_BYTES * (1 / rates.out + product.out_passes / 2 / rates.vector)
    compute = max(cube, mte1)
    busy = tiles * max(compute, out) + out if accumulators > 1 else tiles * (compute + out)
    return rates.latency + busy + (cube + mte1 + out - max(compute, out)) * tiles * IMPERFECT_OVERLAP


def least_of_moves(
    product: Product, rates: Rates, share: Share, tile: tuple[int, int], hold: str, computing: float
) -> float:
    """Cycles below which no score with these tiles and this held operand is, however k is cut: those of
    global memory, if bursts are long and quick and neighbouring tiles share their halo where they can, or of
    the core's own pipes and of loads of what is held, which nothing hides.

    Args:
        product, rates, share, tile, hold: See `score`.
        computing: Cycles of the core's own pipes at least.
    """
    sb, si, sm, sn = share
    m_tiles, n_tiles = -(-sm // tile[0]), -(-sn // tile[1])
    cores = cores_of(product, share)
    extra, out = product.extra_bytes, product.result_bytes / max(1.0, rates.unaligned)
    a_tile, b_tile = (
        held_bytes(product, sm, tile[0], product.k_blocks),
        tile[1] * _BYTES_OF_COLUMN * product.k_blocks,
    )
    core_a: float
    if hold == "b":
        core_a = sb * si * n_tiles * held_bytes(product, sm, sm, product.k_blocks)
        if product.skips_rows:
            core_a = 0  # tiles leave out rows that lie between them
    else:
        core_a = sb * si * (1 if hold == "a" else n_tiles) * m_tiles * a_tile
    core_a /= max(1.0, rates.unaligned)  # such bursts are the quicker ones on some chips
    core_b = sb * sn * FRACTAL_BYTES / FRACTAL_ROWS * product.k_blocks * (1 if hold == "b" else si * m_tiles)
    l2_rate = rates.l2_share * rates.cores / cores
    rate_a = min(l2_rate, way_in(rates, product.a_cut, 1.0, 0.0, 0))
    rate_b = min(l2_rate, way_in(rates, product.b_cut, 1.0, 0.0, 0))
    reading = (core_a + extra / cores) / rate_a + core_b / rate_b
    writing = out / cores / rates.port_out
    a, b = product.operand_bytes
    once = extra - product.again_bytes
    from_a, from_b = dram_bytes(product, rates.l2_size, share, tile, hold)
    read = once + (0 if rates.l2_managed else from_a + from_b)
    dram = (read + out if rates.half_duplex else max(read, out)) / rates.dram
    near = max(reading, writing) + min(reading, writing) * IMPERFECT_OVERLAP
    slowest = max(reading, writing, dram)
    far = slowest + (reading + writing + dram - slowest) * IMPERFECT_OVERLAP
    in_l2 = 0.5 * min(1.0, rates.l2_size / (a + once + out + (0 if rates.l2_managed else b)))
    memory = (1 - in_l2) * far + in_l2 * near
    moving = memory + min(computing, near) * IMPERFECT_OVERLAP
    if hold and not (product.a_rows or product.b_rows):  # a core brings all products of its share one by one
        panels, load = sb * si * m_tiles, a_tile / rate_a
        if hold == "b":
            panels, load = sb * n_tiles, b_tile / rate_b
        if product.serial_batch:
            panels -= sb - 1
        moving = max(moving, panels * rates.latency + (panels - 1) * load + computing)
    return moving + cores * rates.dispatch
