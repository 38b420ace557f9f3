"""Matrix products as the kernels of the first generation tile them: evenly.

What block counts and times of a published profile say (Ascend910B with 30 cores, MatMul in steps of ViT,
ResNet-50 and DeepFM): axes are cut into parts of the same number of 16 x 16 blocks, so that 800 x 48 blocks
take 30 cores, 784 x 48 take 28, 16 x 48 take 24 and 1250 x 64 take 25. Tiles divide a core's share as well;
those that fill the half of L0C that double buffering leaves are taken, the longest of them, and L1 holds
no more of k than L0 does. Where the sizes have few divisors tiles become long and flat, and the product is
bound by what it brings: 20000 x 3120 x 1024 takes 2.7 times as long as 16000 x 3120 x 1024.

Which of several equal cuts is taken is not published. For the chip of that profile the rules here (most parts
along n, but two of gradients of weights, and the longest tile) come nearest to its times. Ascend910A, whose
32 cores divide more sizes, has no profile of large products; there it is the quickest of the equal cuts
(`quickest_even`). Where sizes have few divisors that is slow too: 32 sequences of 197 tokens are 2 x 197
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import nsmallest

from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS, ceil_div
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Product, Rates
from ascendsim.lower.templates.score import score
from ascendsim.lower.templates.tiling import FEW, NEAR, Tiling, candidates

# Gradients of weights that cannot be cut for all 30 cores, and what would leave every second one idle else,
# have up to 32 parts (48 x 48 blocks: 32, in two turns), as if the chip were Ascend910A.
TUNED_CORES = 32
# Of 33 gradients of weights in that profile (each simulated with every even cut for its block count) this
# cut comes nearest: 17 % off in the mean. Nine other rules (most along m or n, squares, least traffic, ...)
# are 25 to 35 % off; with most along n, as elsewhere, 1024 x 512 takes 3.6 times as long as published.
PARTS_OF_GRADIENTS = 2  # along n
FEW_ROWS = 256  # one or two tiles of L0C: only columns are left to be cut
FEWEST = 2  # an even cut for less than one core in so many says nothing of how the kernel goes about it


def even_tiling(product: Product, rates: Rates, turned: bool) -> Tiling | None:
    """The tiling of one product; None where it is a convolution, has a batch or cannot be cut evenly for most
    cores.

    Args:
        product: What is to be cut.
        rates: Of the chip.
        turned: Whether the left operand is turned (gradients of weights).
    """
    if not _is_matrix(product):
        return None

    def cut(most: int) -> tuple[int, int]:
        """Parts in all, and along n: as many as can be."""
        ways = [(m_parts * n_parts, n_parts) for m_parts, n_parts in _cuts(product, most)]
        if turned:
            return max(ways, key=lambda way: (way[0], -abs(way[1] - PARTS_OF_GRADIENTS), way[1]))
        return max(ways)

    parts, n_parts = cut(rates.cores)
    if (turned and parts < rates.cores) or 2 * parts <= TUNED_CORES:
        parts, n_parts = cut(max(rates.cores, TUNED_CORES))
    if n_parts < _least_parts(product) or _leaves_idle(product, rates, parts):
        return None
    return max(
        _tilings(product, rates, parts // n_parts, n_parts),
        key=lambda tiling: (tiling.tile_m * tiling.tile_n, tiling.tile_m + tiling.tile_n, tiling.tile_n),
    )


def quickest_even(product: Product, rates: Rates) -> tuple[Tiling, ...]:
    """Of the tilings of one product that cut it evenly the best few by the closed form, one for each size of
    tile; none of what is no single product, can be cut evenly for few cores only, or has elements of one
    byte, of which no profile speaks.

    Args:
        product: What is to be cut.
        rates: Of the chip.
    """
    if not _is_matrix(product) or product.itemsize < 2:
        return ()
    ways = [way for way in _cuts(product, rates.cores) if way[1] >= _least_parts(product)]
    if _leaves_idle(product, rates, max((m_parts * n_parts for m_parts, n_parts in ways), default=0)):
        return ()
    found: dict[tuple[int, int], Tiling] = {}
    for m_parts, n_parts in ways:
        for plain in _tilings(product, rates, m_parts, n_parts):
            tiling = replace(plain, cycles=_cycles(product, rates, plain))
            size = tiling.tile_m, tiling.tile_n
            found[size] = min(found.get(size, tiling), tiling, key=_by_cycles)
    best = nsmallest(FEW, found.values(), key=_by_cycles)
    return tuple(tiling for tiling in best if tiling.cycles <= NEAR * best[0].cycles)


def _by_cycles(tiling: Tiling) -> float:
    return tiling.cycles


def _is_matrix(product: Product) -> bool:
    """Whether it is one product of two matrices."""
    return product.conv is None and product.batch == 1 and product.images == 1


def _blocks(product: Product) -> tuple[int, int]:
    """Of 16 rows and of 16 columns."""
    return ceil_div(product.m, FRACTAL_ROWS), ceil_div(product.n, FRACTAL_ROWS)


def _cuts(product: Product, most: int) -> Iterator[tuple[int, int]]:
    """Numbers of parts along m and n that divide the blocks, at most so many in all: n whole, or cut as often
    as its shares must be.
    """
    m, n = _blocks(product)
    for m_parts in divisors(m, most):
        for n_parts in divisors(n, most // m_parts):
            if n_parts >= _least_parts(product) or n_parts == 1:
                yield m_parts, n_parts


def _least_parts(product: Product) -> int:
    """Along n, so that no share has more columns than it may."""
    return ceil_div(product.n, product.most_share_n)


def _leaves_idle(product: Product, rates: Rates, parts: int) -> bool:
    """Whether so many parts leave most cores idle."""
    m, n = _blocks(product)
    return FEWEST * parts < min(rates.cores, m * n)


def _tilings(product: Product, rates: Rates, m_parts: int, n_parts: int) -> Iterator[Tiling]:
    """Tiles that divide a core's share, for half of L0C, with as much of k as half of L0 holds."""
    m, n = _blocks(product)
    share_m, share_n = m // m_parts, n // n_parts
    room = rates.l0c // 2 // ACCUMULATOR_BYTES
    most_n = min(rates.l0b // 2 // FRACTAL_BYTES, ceil_div(product.most_n, FRACTAL_ROWS))
    for tile_m in divisors(share_m, rates.l0a // 2 // FRACTAL_BYTES):
        for tile_n in divisors(share_n, most_n):
            if tile_m * tile_n > room:
                break
            most_k = min(rates.l0a // tile_m, rates.l0b // tile_n) // 2 // FRACTAL_BYTES
            step = divisors(product.k_blocks, most_k)[-1]
            yield Tiling(
                share_batch=1,
                share_images=1,
                share_m=min(product.m, share_m * FRACTAL_ROWS),
                share_n=min(product.n, share_n * FRACTAL_ROWS),
                tile_m=min(product.m, tile_m * FRACTAL_ROWS),
                tile_n=min(product.n, tile_n * FRACTAL_ROWS),
                chunk_k=step,
                step_k=step,
                hold="",
                accumulators=2,
                cycles=0.0,
                band_m=min(product.m, tile_m * FRACTAL_ROWS),
            )


def _cycles(product: Product, rates: Rates, tiling: Tiling) -> float:
    """The closed form's time."""
    share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
    sizes = tiling.tile_m, tiling.tile_n, tiling.chunk_k, tiling.step_k
    return score(
        product, rates, share, sizes, hold=tiling.hold, accumulators=tiling.accumulators, band=tiling.band_m
    )


def cores_of_images(product: Product, cores: int) -> int:
    """How many cores a convolution takes: as many as have whole images, the same number of them, unless there
    are far fewer images than cores.

    In steps of ResNet-50 on Ascend910B (30 cores) nearly all convolutions of 16 images and their gradients
    have 16 blocks, and most of 32 images have 16 as well; of 64 images they have 30 or 32, but take about
    three times as long as those of 16: a core has three images, or there are two turns of two.
    """
    images = product.images
    if product.conv is None or product.batch > 1 or FEWEST * images < cores:
        return cores
    return ceil_div(images, ceil_div(images, cores))


def map_tiling(product: Product, rates: Rates) -> Tiling | None:
    """The tiling of a gradient of maps: each core has whole images and all of their channels, and goes
    through an image with filters that L1 holds, if they fit.

    Tilings that the vendor kept for this chip (CANN's operator package) are so for 64 images of ResNet-50,
    but for the four of 3 x 3 taps that keep the map's size. Run with eleven of them the machine is within 7 %
    of the profile; those that it would find for itself are a quarter quicker. The closed form's best of this
    kind is nearest to them: 69 published gradients are 18 % off in the median, not 22.

    Args:
        product: What is to be cut.
        rates: Of the chip.

    Returns:
        None where there are far fewer images than cores, a core may not have all channels, or nothing fits.
    """
    if product.batch > 1 or FEWEST * product.images < rates.cores or product.n > product.most_share_n:
        return None
    share = 1, ceil_div(product.images, rates.cores), product.m, product.n
    for smallest in (2, 1):  # blocks of a tile, as in the search
        found = list(candidates(product, rates, smallest, shared=[share]))
        held = [tiling for tiling in found if tiling.hold == "b"]
        if found:
            return min(held or found, key=lambda tiling: tiling.cycles)
    return None


def cores_of_columns(product: Product, cores: int) -> int:
    """How many cores a matrix product of few rows takes: as many as its blocks of columns can be dealt out to
    evenly, if these are more than half of the cores.

    MatMulV2 does so on Ascend910B: 4096 columns, 256 blocks, take 16 of 24 cores, 1000 columns 21.
    """
    blocks = ceil_div(product.n, FRACTAL_ROWS)
    if product.conv is not None or product.batch * product.images > 1 or product.m > FEW_ROWS:
        return cores
    parts = divisors(blocks, cores)[-1]
    return parts if FEWEST * parts > min(cores, blocks) else cores


def divisors(number: int, most: int) -> list[int]:
    """Divisors up to a limit, ascending.

    >>> divisors(48, 20)
    [1, 2, 3, 4, 6, 8, 12, 16]
    """
    return [divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0]
