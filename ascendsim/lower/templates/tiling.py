"""Tilings for Cube work: candidates from the buffer sizes, ranked by a closed form.

A candidate says how the product is shared among cores, how large the tile in L0C is, how much of k is in L1
at a time, and whether one operand's whole panel stays in L1 while the other streams. The score is the time of
the busiest core in cycles: the slowest of Cube, MTE1, way out and global memory, plus what does not overlap
(first load, last store, panels that change). Rates are those of the chip's description; no other constants
enter. The best few that have tiles of different sizes can be timed on the machine, which knows what the
closed form leaves out; see `lower.tiling_search`. What it leaves out favours short chunks of k over those
that keep the Cube's queue full, so these are ranked apart: a short one takes the place of no tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from heapq import nsmallest

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS, ceil_div
from ascendsim.core.records import quickly_made
from ascendsim.lower.templates.compiled_search import share_search
from ascendsim.lower.templates.conv import is_direct, taps
from ascendsim.lower.templates.least import least_cycles
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.score import score
from ascendsim.lower.templates.share_tiles import HOLDS, column_bytes, largest_divisor
from ascendsim.lower.templates.strips import Strip, row_parts
from ascendsim.lower.templates.tile_sizes import equal_sizes, run_sizes, tile_sizes
from ascendsim.lower.templates.traffic import Share
from ascendsim.lower.templates.width_tiles import strip_views, strips_may_pay, whole_images
from ascendsim.opset.work import ConvGeometry
from ascendsim.soc.spec import SocSpec

FEW = 6  # tilings that are worth a run on the machine
FEW_SHORTER = 4  # the same, of those with chunks for a shorter queue
QUEUE = 8  # entries of the Cube's queue for which chunks are made at least
# L0A and L0B for which steps are made at least: what chips have. Steps that fill a larger one begin later.
L0_BYTES = 64 << 10
NEAR = 1.08  # times the best score: worse ones are hardly ever the quickest
# Times the best score of uneven parts from which equal ones are not taken (assumed: of the few products of
# prime numbers of blocks that the vendor tuned, some run on one core).
WORTH_UNEVEN = 2


@quickly_made
@dataclass(frozen=True, slots=True)
class Tiling:
    """A way to run a product.

    Attributes:
        share_batch, share_images, share_m, share_n: What one core takes at most (m and n in elements).
        tile_m, tile_n: Tile in L0C, elements.
        chunk_k: k blocks of a chunk in L1 (of both operands, or of the one that streams).
        step_k: k blocks of one mmad.
        hold: "b" or "a" = that operand's panel (its tile and all of k) stays in L1 over the inner loop; "" =
            both stream.
        accumulators: Tiles that L0C holds (2 = the way out overlaps with the next tile).
        cycles: The score.
        band_m: Rows of A (output positions) of one load; more than one tile if the tiles of a band share a
            held panel of B.
        l1_slots: Chunks that L1 holds at a time where both operands stream.
        columns: Of the result that a strip of the map has (`strips`): m is that of a strip then, and
            share_images counts strips. 0 = rows are whole.
        depths: Of the Cube's queue, for which the chunk is made; see `queue_depths`.
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
    l1_slots: int = 2
    columns: int = 0
    depths: tuple[int, ...] = ()

    @property
    def steps_of_load(self) -> int:
        """Number of mmads that one load of the streaming operand serves."""
        return ceil_div(self.chunk_k, self.step_k) * ceil_div(self.band_m, self.tile_m)


def best_tilings(product: Product, soc: SocSpec) -> tuple[Tiling, ...]:
    """The candidate with the lowest score, and few others that come near and have tiles of other sizes, or
    chunks for another depth of the queue or for a smaller L0; by score.

    Raises:
        CompileError: If not even the smallest tile fits.
    """
    return _best_of_all(product, rates_of(soc, product.dtype, product.conv is not None))


@lru_cache(maxsize=4096)
def _best_of_all(product: Product, rates: Rates) -> tuple[Tiling, ...]:
    found = dict.fromkeys(_with_spare_cores(product, rates))
    while max(rates.l0a, rates.l0b) > L0_BYTES:
        rates = replace(rates, l0a=_less_l0(rates.l0a), l0b=_less_l0(rates.l0b))
        with suppress(CompileError):
            found.update(dict.fromkeys(_with_spare_cores(product, rates)))
    best = tuple(sorted(found, key=lambda tiling: tiling.cycles))
    if "m" not in product.divided:
        return best
    uneven = _best_of_all(replace(product, divided="k"), rates)
    return best if best[0].cycles <= WORTH_UNEVEN * uneven[0].cycles else uneven


def _with_spare_cores(product: Product, rates: Rates) -> tuple[Tiling, ...]:
    """The best few, and those that more images would have of which each core takes one: where there are
    fewer, cores are left without, and the others need no longer.
    """
    found = _search(product, rates)
    count = min((count for count in block_counts(rates.cores) if count >= product.images), default=0)
    if count <= product.images or product.images_first:
        return found
    more = _search(replace(product, images=count), rates)
    return (*found, *(tiling for tiling in more if tiling.share_images == 1 and not tiling.columns))


def _less_l0(size: int) -> int:
    return min(size, max(L0_BYTES, size // 2))


@lru_cache(maxsize=4096)
def _search(product: Product, rates: Rates) -> tuple[Tiling, ...]:
    rows = _best(product, rates)
    if rows and not strips_may_pay(product, rates):
        return rows
    found = (*rows, *_strips(product, rates, rows[0].cycles if rows else math.inf))
    if not found:
        *_, narrowest = product, *strip_views(product, rates)
        columns = min(share[3] for share in shares(narrowest, rates.cores))
        least = smallest_tile_bytes(narrowest) + column_bytes(columns)
        raise CompileError(
            "a convolution or matmul",
            f"must fit its smallest tile and 4 bytes a column of a core's share into L1 ({rates.l1} bytes)",
            f"about {least} bytes",
            "use a chip with a larger L1, or fewer columns (output channels)",
        )
    return tuple(sorted(found, key=lambda tiling: tiling.cycles))


def _best(product: Product, rates: Rates, below: float = math.inf) -> tuple[Tiling, ...]:
    """The best few in one form, whole rows or strips of one width; none if they take more than so many
    cycles.
    """
    # blocks; tiles below 32 x 32 only where the matrix is smaller or nothing else fits
    for smallest in (2, 1):
        found = _few(candidates(product, rates, smallest, NEAR, below), rates.queue)
        if found:
            return found
    return ()


def _few(tilings: Iterable[Tiling], queue: int) -> tuple[Tiling, ...]:
    """Those that are worth a run on the machine: the best few with tiles of different sizes and chunks for
    one depth of the queue, for each depth.
    """
    by_size: dict[int, dict[tuple[int, int, int], Tiling]] = {depth: {} for depth in queue_depths(queue)}
    for tiling in tilings:
        size = tiling.tile_m, tiling.tile_n, tiling.columns
        for depth in tiling.depths:
            other = by_size[depth].get(size)
            if other is None or tiling.cycles < other.cycles:
                by_size[depth][size] = tiling
    few: dict[Tiling, None] = {}
    for depth, sizes in by_size.items():
        best = nsmallest(
            FEW if depth == queue else FEW_SHORTER, sizes.values(), key=lambda tiling: tiling.cycles
        )
        few.update(dict.fromkeys(tiling for tiling in best if tiling.cycles <= NEAR * best[0].cycles))
    return tuple(sorted(few, key=lambda tiling: tiling.cycles))


def _strips(product: Product, rates: Rates, below: float) -> tuple[Tiling, ...]:
    """The best few in the tile form that take less than so many cycles."""
    found = [
        as_strips(view, tiling, rates)
        for view in strip_views(product, rates)
        for tiling in _best(view, rates, below)
    ]
    return _few([tiling for tiling in found if tiling.cycles < below], rates.queue)


def as_strips(view: Product, tiling: Tiling, rates: Rates) -> Tiling:
    """A tiling of a product whose images are strips, with cores that take whole images or strips of one."""
    assert isinstance(view.conv, Strip)
    share = whole_images(view.conv, tiling.share_images)
    sizes = tiling.tile_m, tiling.tile_n, tiling.chunk_k, tiling.step_k
    shared = tiling.share_batch, share, tiling.share_m, tiling.share_n
    cycles = score(
        view,
        rates,
        shared,
        sizes,
        hold=tiling.hold,
        accumulators=tiling.accumulators,
        band=tiling.band_m,
    )
    return replace(tiling, share_images=share, cycles=cycles, columns=view.conv.out_w)


def candidates(
    product: Product,
    rates: Rates,
    smallest: int = 2,
    within: float = math.inf,
    best: float = math.inf,
    shared: Iterable[Share] | None = None,
) -> Iterator[Tiling]:
    """Tilings that fit the buffers, with their scores.

    Args:
        product: What is to be cut.
        rates: Of the chip.
        smallest: Blocks that tiles have at least along m and n, if they can.
        within: Leaves out what takes more than so many times the best score before it, of chunks for the same
            depth of the queue; with the score of another form, what must do so.
        best: The best score of another form.
        shared: Ways to cut it; None = all.
    """
    depths = queue_depths(rates.queue)
    by_depth = [best] * len(depths)
    alone = math.isinf(best)
    some = False  # whether anything fits: if nothing does, smaller tiles are tried
    search = share_search(product, rates, chunk_units(product.conv), depths)
    ways = shares(product, rates.cores) if shared is None else shared
    bounds = [(least_cycles(product, rates, share), share) for share in ways]
    for least, share in sorted(bounds):  # the likely ones first, so that what cannot come near is seen sooner
        if least > within * max(by_depth):
            break
        _, _, sm, sn = share
        grain_m, grain_n = product.grains
        most_n = min(rates.l0b // 2 // FRACTAL_BYTES, ceil_div(product.most_n, FRACTAL_ROWS))
        in_lines = [size for size in product.line_columns if size < sn and size <= most_n * FRACTAL_ROWS]
        if "n" in product.divided:
            tiles_n = equal_sizes(sn, most_n, smallest, grain_n)
        else:
            tiles_n = list(dict.fromkeys((*tile_sizes(sn, most_n, smallest, grain_n), *in_lines)))
        most_m = rates.l0a // 2 // FRACTAL_BYTES
        if "m" in product.divided:
            tiles_m = equal_sizes(sm, most_m, smallest, grain_m)
        else:
            tiles_m = run_sizes(product.conv, sm, most_m, smallest, grain_m)
        for sizes, cycles in search(share, (tiles_n, tiles_m), by_depth, within, alone, some):
            some = True
            tile_m, tile_n, chunk, step, hold, accumulators, band, of_depths = sizes
            made_for = tuple([depth for place, depth in enumerate(depths) if of_depths >> place & 1])
            yield Tiling(
                *share,
                tile_m,
                tile_n,
                chunk,
                step,
                HOLDS[hold],
                accumulators,
                cycles,
                band,
                depths=made_for,
            )


def smallest_tile_bytes(product: Product) -> int:
    """Room in L1 for the operands of 16 x 16 results: two chunks of what streams, beside what is held if that
    is less.
    """
    unit = chunk_units(product.conv)[-1]
    fractals = product.b_blocks(FRACTAL_ROWS) * FRACTAL_BYTES
    (a, b), (held_a, held_b) = (
        (product.a_bytes(product.m, FRACTAL_ROWS, blocks), fractals * blocks)
        for blocks in (unit, product.k_blocks)
    )
    return min(2 * (a + b), 2 * a + held_b, held_a + 2 * b)


def block_counts(cores: int) -> list[int]:
    """Numbers of cores that a product may be cut for, the most first: those that divide the chip's or are a
    power of two, so that what a chip with half the cores can do is among them.

    >>> block_counts(24)
    [24, 16, 12, 8, 6, 4, 3, 2, 1]
    """
    return [count for count in range(cores, 0, -1) if cores % count == 0 or count & (count - 1) == 0]


def shares(product: Product, cores: int) -> Iterator[Share]:
    """Ways to cut a product for at most so many cores: the largest share along batch, images, m, n."""
    seen: set[Share] = set()
    whole = product.images // math.gcd(product.images, cores) if product.images_first else 0
    for count in block_counts(cores):
        for share in _shares_of(product, count):
            if share not in seen and whole in (0, share[1]):
                seen.add(share)
                yield share


def _shares_of(product: Product, cores: int) -> Iterator[Share]:
    """Ways to cut a product for just so many cores, or as many of them as it has parts for."""
    grain_m, grain_n = product.grains
    m_blocks, n_blocks = ceil_div(product.m, grain_m), ceil_div(product.n, grain_n)
    factors = sorted(block_counts(cores))
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
            if "m" in product.divided:
                m_parts = largest_divisor(m_blocks, m_parts)
            n_parts = min(n_blocks, left // m_parts)
            if "n" in product.divided:
                n_parts = largest_divisor(n_blocks, n_parts)
            n_parts = max(n_parts, ceil_div(product.n, product.most_share_n))
            share_ms = [min(product.m, ceil_div(m_blocks, m_parts) * grain_m)]
            if product.conv is not None and not is_direct(product.conv) and product.conv.out_h >= m_parts:
                share_ms.append(min(product.m, ceil_div(product.conv.out_h, m_parts) * product.conv.out_w))
            for share_m in share_ms:
                if isinstance(product.conv, Strip) and share_m % product.conv.out_w:
                    continue
                yield (
                    ceil_div(product.batch, batch_parts),
                    ceil_div(product.images, image_parts),
                    share_m,
                    min(product.n, ceil_div(n_blocks, n_parts) * grain_n),
                )


@cache
def queue_depths(queue: int) -> tuple[int, ...]:
    """Depths that chunks are made for: that of the chip and halves of it, so that a deeper queue leaves the
    chunks of a shorter one possible, which begin sooner.

    >>> queue_depths(48)
    (48, 24, 12)
    """
    return tuple(
        queue >> halved for halved in range(queue.bit_length()) if not halved or queue >> halved >= QUEUE
    )


def chunk_units(conv: ConvGeometry | None) -> tuple[int, ...]:
    """Blocks of k that a chunk in L1 is made of: whole channel blocks, or single kernel rows if those are too
    large; of strips also parts of a kernel row.
    """
    return (1,) if conv is None or is_direct(conv) else (taps(conv), conv.kernel_w, *row_parts(conv))
