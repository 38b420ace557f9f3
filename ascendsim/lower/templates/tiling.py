"""Choice of a tiling for Cube work: candidates from the buffer sizes, scored by a closed form.

A candidate says how the product is shared among cores, how large the tile in L0C is, how much of k is in L1 at a time, and
whether one operand's whole panel stays in L1 while the other streams. The score is the time of the busiest core in cycles:
the slowest of Cube, MTE1, way out and global memory, plus what does not overlap (first load, last store, panels that change).
Rates are those of the chip's description; no other constants enter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, align, ceil_div
from ascendsim.lower.templates.conv import FRACTAL_BYTES, a_bytes, input_rows, is_direct, largest_a_bytes, run_lengths, taps
from ascendsim.opset.work import ConvGeometry
from ascendsim.soc.spec import SocSpec

ROWS = 16  # of a fractal; M0 and N0 of every Cube
ACCUMULATOR_BYTES = ROWS * ROWS * 4  # of one block in L0C
UNALIGNED = 0.7  # rate of transfers that do not start on a 512 B boundary (vendor documentation)
IMPERFECT_OVERLAP = 1 / 8  # share of the faster pipes' time that is not hidden behind the slowest one: assumed, ranks candidates only
ENTRIES_PER_STEP = 3  # queue entries of one mmad: wait, mmad, set


@dataclass(frozen=True, slots=True)
class Product:
    """What the search needs to know of Cube work (hashable).

    Attributes:
        batch: Products with operands of their own.
        images: Products that share B (images of a convolution, batched A against one B).
        m, n: Useful rows and columns of one product.
        k_blocks: Blocks of k0 along k.
        conv: Geometry if A is unfolded.
        out_itemsize: Bytes of an output element.
        out_passes: Vector passes over the output besides the move out of L0C.
        extra_out_bytes: Bytes an output element that the epilogue reads besides.
        a_rows, b_rows: Axis along which a row-major operand is contiguous ("m", "k" or "n"), "" for blocked formats.
        most_n: Columns that a tile may have at most (values in the bias table).
    """

    batch: int
    images: int
    m: int
    n: int
    k_blocks: int
    conv: ConvGeometry | None
    out_itemsize: int
    dtype: str
    out_passes: int = 0
    extra_out_bytes: int = 0
    most_n: int = 1 << 30
    a_rows: str = ""
    b_rows: str = ""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A way to run a product.

    Attributes:
        share_batch, share_images, share_m, share_n: What one core takes at most (m and n in elements).
        tile_m, tile_n: Tile in L0C, elements.
        chunk_k: k blocks of a chunk in L1 (of both operands, or of the one that streams).
        step_k: k blocks of one mmad.
        hold: "b" or "a" = that operand's panel (its tile and all of k) stays in L1 over the inner loop; "" = both stream.
        accumulators: Tiles that L0C holds (2 = the way out overlaps with the next tile).
        cycles: The score.
        band_m: Rows of A (output positions) of one load; more than one tile if the tiles of a band share a held panel of B.
    """

    share_batch: int
    share_images: int
    share_m: int
    share_n: int
    tile_m: int
    tile_n: int
    chunk_k: int
    step_k: int
    hold: str
    accumulators: int
    cycles: float
    band_m: int

    @property
    def steps_of_load(self) -> int:
        """Number of mmads that one load of the streaming operand serves."""
        return ceil_div(self.chunk_k, self.step_k) * ceil_div(self.band_m, self.tile_m)


@dataclass(frozen=True, slots=True)
class Rates:
    """Figures of a chip that the score needs, in bytes per cycle and cycles (hashable, so that searches can be cached)."""

    cores: int
    l0a: int
    l0b: int
    l0c: int
    l1: int
    l1_to_l0a: float
    l1_to_l0b: float
    out: float  # L0C out, bytes of L0C a cycle
    port_in: float
    port_out: float
    l2_share: float
    dram: float  # whole chip
    half_duplex: bool
    l2_size: int
    latency: int
    start: float
    load2d_gap: float
    load3d_head: float
    mmad_gap: float
    per_block: float
    odd_penalty: bool
    vector: int
    queue: int
    dispatch: float


def rates_of(soc: SocSpec, dtype: str) -> Rates:
    """Reads the figures.

    Raises:
        CompileError: If the Cube has no instruction for the type.
    """
    if dtype not in soc.cube.cycles_per_block:
        known = ", ".join(sorted(soc.cube.cycles_per_block))
        raise CompileError(
            f"Cube of {soc.name}", f"multiplies {known}", dtype, "compile with precision_mode force_fp16 or allow_fp32_to_fp16"
        )
    hertz = soc.frequency_mhz * 1e6
    buffers, ports = soc.buffers, soc.ports
    if ports.l0c_to_ub is not None:
        out: float = ports.l0c_to_ub
        port_out = ports.ub_to_gm or 1.0
    else:
        out = 2.0 * (ports.l0c_to_gm or 1.0)  # the width counts converted bytes, two of four that L0C holds
        port_out = ports.l0c_to_gm or 1.0
    return Rates(
        cores=soc.ai_cores,
        l0a=buffers.l0a or 0,
        l0b=buffers.l0b or 0,
        l0c=buffers.l0c or 0,
        l1=buffers.l1 or 0,
        l1_to_l0a=ports.l1_to_l0a or 1.0,
        l1_to_l0b=ports.l1_to_l0b or 1.0,
        out=out,
        port_in=ports.gm_to_l1 or 1.0,
        port_out=port_out,
        l2_share=soc.l2.read_bytes_per_cycle_per_core,
        dram=soc.dram.read_gb_per_s * 1e9 / hertz,
        half_duplex=soc.dram.half_duplex,
        l2_size=0 if soc.l2.software_managed else soc.l2.size or 0,
        latency=soc.dram.read_latency_cycles,
        start=soc.issue.instruction_start_ns * soc.frequency_mhz / 1000,
        load2d_gap=soc.ports.load2d_gap_cycles,
        load3d_head=soc.ports.load3d_head_cycles,
        mmad_gap=soc.cube.gap_cycles,
        per_block=soc.cube.cycles_per_block[dtype],
        odd_penalty=soc.cube.odd_size_penalty,
        vector=soc.vector.bytes_per_cycle,
        queue=soc.issue.queue_depth.get("M", 16),
        dispatch=soc.launch.block_dispatch_ns * soc.frequency_mhz / 1000,
    )


def best_tiling(product: Product, soc: SocSpec) -> Tiling:
    """The candidate with the lowest score.

    Raises:
        CompileError: If not even the smallest tile fits.
    """
    return _search(product, rates_of(soc, product.dtype))


@lru_cache(maxsize=4096)
def _search(product: Product, rates: Rates) -> Tiling:
    for smallest in (4, 1):  # blocks; tiles below 64 x 64 only where the matrix is smaller or nothing else fits
        best = min(candidates(product, rates, smallest), key=lambda tiling: tiling.cycles, default=None)
        if best is not None:
            break
    else:
        least = a_bytes(product.conv, ROWS, 1) * 2
        raise CompileError(
            "a convolution or matmul",
            f"must fit its smallest tile into L1 ({rates.l1} bytes)",
            f"about {least} bytes",
            "use narrower feature maps",
        )
    return best


def candidates(product: Product, rates: Rates, smallest: int = 4) -> Iterator[Tiling]:
    """All tilings that fit the buffers, with their scores; tiles have at least `smallest` blocks along m and n if they can."""
    for share in shares(product, rates.cores):
        _, _, sm, sn = share
        for tile_n in tile_sizes(sn, min(rates.l0b // 2 // FRACTAL_BYTES, product.most_n // ROWS), smallest):
            for tile_m in run_sizes(product.conv, sm, rates.l0a // 2 // FRACTAL_BYTES, smallest):
                blocks = ceil_div(tile_m, ROWS) * ceil_div(tile_n, ROWS)
                if blocks * ACCUMULATOR_BYTES > rates.l0c:
                    continue
                accumulators = 2 if 2 * blocks * ACCUMULATOR_BYTES <= rates.l0c else 1
                for hold in ("", "b", "a"):
                    yield from _fill_l1(product, rates, share, tile_m, tile_n, hold, accumulators)


def shares(product: Product, cores: int) -> Iterator[tuple[int, int, int, int]]:
    """Ways to cut a product for the cores: the largest share along batch, images, m, n."""
    seen: set[tuple[int, int, int, int]] = set()
    m_blocks, n_blocks = ceil_div(product.m, ROWS), ceil_div(product.n, ROWS)
    factors = sorted({d for d in range(1, cores + 1) if cores % d == 0} | {1 << e for e in range(cores.bit_length()) if 1 << e <= cores})
    for outer in factors:
        batch_parts = min(product.batch, outer)
        image_parts = min(product.images, max(1, outer // batch_parts))
        if batch_parts * image_parts > cores:
            continue
        left = cores // (batch_parts * image_parts)
        for wanted in factors:
            if wanted > left:
                break
            m_parts = min(m_blocks, wanted)
            n_parts = min(n_blocks, left // m_parts)
            share_ms = [min(product.m, ceil_div(m_blocks, m_parts) * ROWS)]
            if product.conv is not None and not is_direct(product.conv) and product.conv.out_h >= m_parts:
                share_ms.append(min(product.m, ceil_div(product.conv.out_h, m_parts) * product.conv.out_w))
            for share_m in share_ms:
                share = (
                    ceil_div(product.batch, batch_parts),
                    ceil_div(product.images, image_parts),
                    share_m,
                    min(product.n, ceil_div(n_blocks, n_parts) * ROWS),
                )
                if share not in seen:
                    seen.add(share)
                    yield share


def tile_sizes(elements: int, most_blocks: int, smallest: int = 4) -> list[int]:
    """Tile sizes for an axis: near powers of two blocks, evened out so that tiles are as equal as can be.

    >>> tile_sizes(784, 64)
    [784, 400, 272, 208, 160, 112, 64]
    """
    blocks = ceil_div(elements, ROWS)
    sizes: dict[int, None] = {}
    for limit in (64, 32, 24, 16, 12, 8, 4, 2, 1):
        tile = ceil_div(blocks, ceil_div(blocks, min(limit, most_blocks)))
        sizes[min(elements, tile * ROWS)] = None
    useful = [size for size in sizes if size >= min(elements, min(blocks, smallest) * ROWS)]
    return useful or list(sizes)


def run_sizes(conv: ConvGeometry | None, elements: int, most_blocks: int, smallest: int) -> list[int]:
    """Tile sizes along m; for maps that must be unfolded also runs of whole output rows, which need fewer input rows."""
    sizes = tile_sizes(elements, most_blocks, smallest)
    if conv is not None and not is_direct(conv):
        rows = ceil_div(elements, conv.out_w)
        most = min(rows, most_blocks * ROWS // conv.out_w)
        even = {ceil_div(rows, ceil_div(rows, wanted)) * conv.out_w for wanted in {1, 2, 3, 4, 6, 8, 12, most} if 1 <= wanted <= most}
        sizes += sorted(min(elements, size) for size in even if size >= min(elements, smallest * ROWS) and size not in sizes)
    return sizes


def _fill_l1(
    product: Product, rates: Rates, share: tuple[int, int, int, int], tile_m: int, tile_n: int, hold: str, accumulators: int
) -> Iterator[Tiling]:
    """Chooses step and chunk of k, and bands of tiles, so that all fits; scores the results."""
    conv, k_blocks = product.conv, product.k_blocks
    m_blocks, n_blocks = ceil_div(tile_m, ROWS), ceil_div(tile_n, ROWS)
    step = min(rates.l0a // 2 // (m_blocks * FRACTAL_BYTES), rates.l0b // 2 // (n_blocks * FRACTAL_BYTES), k_blocks)
    if step < 1:
        return
    runs = run_lengths(product.m, share[2], tile_m)
    panel = 0
    if hold == "b":
        panel = n_blocks * FRACTAL_BYTES * k_blocks
    elif hold == "a":
        panel = largest_a_bytes(conv, runs, k_blocks)
    for unit in chunk_units(conv):
        a_unit, b_unit = largest_a_bytes(conv, runs, unit), n_blocks * FRACTAL_BYTES * unit
        streamed = (a_unit if hold != "a" else 0) + (b_unit if hold != "b" else 0)
        room = (rates.l1 - panel - align(share[3] * 4, 32)) // (2 * streamed)
        if room >= 1:
            break
    else:
        return
    steps_ahead = lookahead(rates.queue)
    units = ceil_div(k_blocks, unit)
    most = max(1, step * steps_ahead // unit)
    chunk = min(k_blocks, ceil_div(units, ceil_div(units, min(room, most))) * unit)
    if unit > 1 and unit < taps(conv):
        chunk = unit  # one kernel row at a time
    options = {chunk, k_blocks} if hold == "b" and unit > 1 and room >= units else {chunk}
    for chunk in sorted(options):
        even_step = ceil_div(chunk, ceil_div(chunk, step))
        for tiles in bands(product, share[2], tile_m, hold, chunk):
            band = min(share[2], tiles * tile_m)
            slot = largest_a_bytes(conv, run_lengths(product.m, share[2], band), chunk) if hold == "b" else 0
            if panel + 2 * slot + align(share[3] * 4, 32) <= rates.l1:
                cycles = score(product, rates, share, tile_m, tile_n, chunk, even_step, hold, accumulators, band)
                yield Tiling(*share, tile_m, tile_n, chunk, even_step, hold, accumulators, cycles, band)


def bands(product: Product, share_m: int, tile_m: int, hold: str, chunk: int) -> tuple[int, ...]:
    """Numbers of tiles that one load of A may serve: more than one only where halo rows are shared and all of k is held."""
    if product.conv is None or is_direct(product.conv) or hold != "b" or chunk < product.k_blocks:
        return (1,)
    tiles = ceil_div(share_m, tile_m)
    return tuple(count for count in (1, 2, 3, 4, 8) if count <= max(1, tiles // 2))


def lookahead(queue: int) -> int:
    """How many mmads the scalar unit is ahead of the Cube before its queue is full."""
    return max(1, queue // ENTRIES_PER_STEP - 1)


def chunk_units(conv: ConvGeometry | None) -> tuple[int, ...]:
    """Blocks of k that a chunk in L1 is made of: whole channel blocks, or single kernel rows if those are too large."""
    return (1,) if conv is None or is_direct(conv) else (taps(conv), conv.kernel_w)


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
    cube = m_average * n_average * k_blocks * rates.per_block + steps * (rates.mmad_gap + rates.start)
    if rates.odd_penalty and step > 1 and (m_blocks % 2 or n_blocks % 2):
        cube += steps * (step - 2)
    load_a = FRACTAL_BYTES / rates.l1_to_l0a
    gap_a = rates.load2d_gap
    if conv is not None and not is_direct(conv):
        load_a /= unfolding_efficiency(conv)
        gap_a = rates.load3d_head
    mte1 = (
        m_blocks * k_blocks * load_a
        + n_blocks * k_blocks * FRACTAL_BYTES / rates.l1_to_l0b
        + steps * (gap_a + rates.load2d_gap + 2 * rates.start)
    )
    out = m_average * n_average * ACCUMULATOR_BYTES * (1 / rates.out + product.out_passes / 2 / rates.vector) + 4 * rates.start
    compute = max(cube, mte1)
    busy = tiles * max(compute, out) if accumulators > 1 else tiles * (compute + out)
    # global memory
    a_tile, b_tile = a_bytes(conv, band, chunk) * chunks, n_blocks * FRACTAL_BYTES * k_blocks
    a_loads = sb * si * ceil_div(sm, band) * (1 if hold == "a" else n_tiles)
    b_loads = sb * n_tiles if hold == "b" else tiles
    reach = {"m": (tile_m, product.m), "n": (tile_n, product.n), "k": (chunk if not hold else k_blocks, k_blocks)}
    core_in = a_loads * a_tile * burst_loss(product.a_rows, reach) + b_loads * b_tile * (sn / (n_tiles * tile_n)) * burst_loss(
        product.b_rows, reach
    )
    active = ceil_div(product.batch, sb) * ceil_div(product.images, si) * ceil_div(product.m, sm) * ceil_div(product.n, sn)
    out_bytes = product.m * product.n * product.images * product.batch * (product.out_itemsize + product.extra_out_bytes)
    if conv is not None and tile_m % ROWS and tile_m < product.m:
        out_bytes = round(out_bytes / UNALIGNED)  # a channel block of the tile does not end on a 512 B boundary
    from_dram = core_in * active if rates.l2_size == 0 else dram_bytes(product, rates.l2_size, n_tiles, m_tiles, hold)
    dram = max(from_dram, out_bytes) if not rates.half_duplex else from_dram + out_bytes
    memory = max(
        core_in / min(rates.port_in, rates.l2_share * rates.cores / active), dram / rates.dram, out_bytes / active / rates.port_out
    )
    # what does not overlap: first chunk, changes of the held panel, last way out; short chunks wait for the latency
    shared_by = max(1.0, core_in * active / from_dram)  # cores that read the same bytes share what DRAM delivers
    rate = min(rates.port_in, rates.dram / active * shared_by)
    first = rates.latency + (a_tile + b_tile) / chunks / rate
    if hold == "b":
        first += (sb * n_tiles - 1 + (1 - 1 / chunks)) * (b_tile / rate + rates.latency)
    elif hold == "a":
        first += (sb * si * m_tiles - 1 + (1 - 1 / chunks)) * (a_tile / rate + rates.latency)
    last = out + m_blocks * n_blocks * ROWS * ROWS * product.out_itemsize / min(rates.port_out, rates.dram / active)
    waits = tiles * chunks * max(0.0, (rates.latency - compute / chunks) / 2) if band == tile_m else 0.0
    ahead = lookahead(rates.queue)
    if steps // chunks * ceil_div(band, tile_m) > ahead:  # loads run ahead inside a loop, but not into the next turn of the loop around
        turns = sb * si * n_tiles if chunks == 1 else tiles
        load = (a_tile + (0 if hold == "b" else b_tile)) / chunks / rate + rates.latency
        waits += (turns - 1) * max(0.0, load - ahead * compute / steps)
    others = (cube + mte1 + out - max(cube, mte1, out)) * tiles + min(busy, memory)
    return max(first + busy, memory + compute / chunks) + others * IMPERFECT_OVERLAP + last + waits + active * rates.dispatch


def burst_loss(axis: str, reach: dict[str, tuple[int, int]]) -> float:
    """What short bursts cost: a row-major operand moves in pieces as long as the tile along its contiguous axis.

    DRAM rounds them up to 512 B, and pieces that do not start on such a boundary run at 0.7 of the rate (vendor documentation).
    """
    if not axis:
        return 1.0
    size, whole = reach[axis]
    if size >= whole:
        return 1.0
    burst = size * (32 if axis == "k" else 2)
    return ceil_div(burst, 512) * 512 / burst / (1.0 if burst % 512 == 0 else UNALIGNED)


def tiled_blocks(elements: int, tile: int) -> int:
    """Blocks of 16 along an axis that is cut in tiles, each rounded up.

    >>> tiled_blocks(100, 40)
    8
    """
    whole, tail = divmod(elements, tile)
    return whole * ceil_div(tile, ROWS) + ceil_div(tail, ROWS)


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


def unfolding_efficiency(conv: ConvGeometry) -> float:
    """Rate of load3d relative to the port, by the c220 table that is assumed for all generations."""
    rows = input_rows(conv)
    if conv.stride_w not in (1, 2, 4, 8):
        return 32 / 256
    if conv.stride_w == 1:
        return (256.0 if rows <= 1 else 512 / (rows + 2)) / 256
    return max(32.0, 512 / (2 * conv.stride_w + (rows if rows > 1 else 0))) / 256
