"""Tilings for gradients of filters: how the product is shared among cores, what is in L1 and L0 at a time.

A candidate cuts groups, images, positions, rows (output channels) and columns (taps and input channels). What
cuts images or positions cuts k: every such core stores a result of its own, which memory adds up. How many
cores share the images is CANN's (`Images`). The score is the time of the busiest core in cycles, as for other
products (`score`): the slowest of Cube, MTE1, way in and way out, a share of the others, and what does not
overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, align, c0, ceil_div
from ascendsim.isa.instructions import LOAD3D_STRIDES
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.product import ACCUMULATOR_BYTES, Rates, rates_of
from ascendsim.lower.templates.score import IMPERFECT_OVERLAP, tiled_blocks
from ascendsim.lower.templates.tiling import block_counts
from ascendsim.opset.work import ConvGeometry, FilterWork
from ascendsim.soc.spec import SocSpec

# How many cores share the images. "first": as many as divide them, and other axes are cut only if that leaves
# several cores for each part (profiles of the 910B with 30 cores: 16 blocks for 16 images). "divided": any
# number that divides them (tilings of 910A, `kernels.tuned_gradients`). "none": a core has whole blocks of
# channels, of all images (filters of one channel each, `kernels.depthwise_by_blocks`). "any": by score (split
# cores).
Images = Literal["first", "divided", "none", "any"]

_CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)  # parts that an axis of a share is cut in


@dataclass(frozen=True, slots=True)
class FilterProduct:
    """What the search needs to know (hashable).

    Attributes:
        groups, images, positions, m: Sizes of the loops.
        blocks: Columns in blocks of C0.
        conv: The convolution.
        block: C0 of the operands.
    """

    groups: int
    images: int
    positions: int
    m: int
    blocks: int
    conv: ConvGeometry
    block: int

    @classmethod
    def of(cls, work: FilterWork) -> FilterProduct:
        conv, block = work.conv, c0(work.dtype)
        blocks = unfold.channel_blocks(conv, block) * unfold.taps(conv)
        return cls(work.batch, conv.batch, conv.out_h * conv.out_w, work.m, blocks, conv, block)

    def gradient_bytes(self, rows: int, run: int) -> int:
        """L1 bytes of some output channels at a run of positions; each block begins with a fractal."""
        return ceil_div(rows, self.block) * align(run, FRACTAL_ROWS) * BLOCK_BYTES

    def grain(self, share: int, run: int) -> int:
        """See `run_grain`."""
        return unfold.run_grain(self.conv, self.positions, share, run)

    def image_bytes(self, blocks: int, share: int, run: int) -> int:
        """L1 bytes of the input rows under runs of positions, for some blocks of columns."""
        positions = min(run, share, self.positions)
        return unfold.a_bytes(self.conv, positions, blocks, self.grain(share, run))

    def column_blocks(self, blocks: int) -> int:
        """Blocks of 16 columns on the Cube."""
        return ceil_div(blocks * self.block, FRACTAL_ROWS)


@dataclass(frozen=True, slots=True)
class FilterTiling:
    """A way to run it.

    Attributes:
        groups, images, positions, m, blocks: What one core takes at most.
        tile_m, tile_blocks: Tile in L0C: rows, and blocks of columns.
        run: Positions of a chunk in L1.
        step: k blocks of one mmad.
        accumulators: Tiles that L0C holds.
        cycles: The score.
    """

    groups: int
    images: int
    positions: int
    m: int
    blocks: int
    tile_m: int
    tile_blocks: int
    run: int
    step: int
    accumulators: int
    cycles: float


def filter_tiling(work: FilterWork, soc: SocSpec) -> FilterTiling:
    """The candidate with the lowest score.

    Raises:
        CompileError: If the Cube lacks the type or no tile fits.
    """
    found = _best(FilterProduct.of(work), rates_of(soc, work.dtype.value, True), sharing_of_images(work, soc))
    if found is None:
        raise CompileError(
            "the gradient of a filter",
            "must fit two of its smallest chunks into L1",
            f"{soc.buffers.l1} bytes",
            "use a chip with a larger L1",
        )
    return found


def sharing_of_images(work: FilterWork, soc: SocSpec) -> Images:
    """How many cores of a chip share the images."""
    if work.depthwise and soc.kernels.depthwise_by_blocks:
        return "none"
    if soc.split_cores:
        return "any"
    return "divided" if soc.kernels.tuned_gradients else "first"


@lru_cache(maxsize=1024)
def _best(product: FilterProduct, rates: Rates, images: Images) -> FilterTiling | None:
    return min(candidates(product, rates, images), key=lambda tiling: tiling.cycles, default=None)


def candidates(product: FilterProduct, rates: Rates, images: Images) -> Iterator[FilterTiling]:
    """All tilings that are looked at.

    Args:
        product: What is computed.
        rates: Of the chip.
        images: How many cores share the images.
    """
    for share in _shares(product, rates.cores, images):
        yield from _tilings(product, rates, share)


def _shares(product: FilterProduct, cores: int, images: Images) -> Iterator[tuple[int, int, int, int, int]]:
    """What one core takes along groups, images, positions, m and columns."""
    if images == "none":
        own = ceil_div(product.groups, min(product.groups, cores))
        yield own, product.images, product.positions, product.m, product.blocks
        return
    divisors = [count for count in range(1, cores + 1) if product.images % count == 0]
    sizes = (
        product.groups,
        product.images,
        ceil_div(product.positions, FRACTAL_ROWS),
        ceil_div(product.m, FRACTAL_ROWS),
        product.blocks,
    )
    seen = set()

    def of_images(left: int) -> Iterable[int]:
        if images == "any":
            return range(1, left + 1)
        return (min(divisors[-1], left),) if images == "first" else filter(left.__ge__, divisors)

    def parts(axis: int, left: int) -> Iterator[tuple[int, ...]]:
        if axis == len(sizes):
            yield ()
            return
        for count in block_counts(left) if axis != 1 else of_images(left):
            if count <= sizes[axis]:
                for rest in parts(axis + 1, left // count):
                    yield (count, *rest)

    for counts in parts(0, cores):
        groups, own, pieces, rows, blocks = map(ceil_div, sizes, counts)
        if counts[2] > 1 and own > 1:
            continue  # whole images first
        whole = product.positions if counts[2] == 1 else pieces * FRACTAL_ROWS
        share = (groups, own, whole, min(product.m, rows * FRACTAL_ROWS), blocks)
        if share not in seen:
            seen.add(share)
            yield share


def _tilings(
    product: FilterProduct, rates: Rates, share: tuple[int, int, int, int, int]
) -> Iterator[FilterTiling]:
    """Tiles of a share that fit, each with the longest runs of positions that L1 has room for."""
    *_, positions, m, blocks = share
    for tile_m in _cut(m, FRACTAL_ROWS):
        rows = ceil_div(tile_m, FRACTAL_ROWS)
        for tile_blocks in _column_tiles(product, blocks):
            columns = product.column_blocks(tile_blocks)
            step = min(rates.l0a // 2 // rows, rates.l0b // 2 // columns) // FRACTAL_BYTES
            accumulators = min(2, rates.l0c // (rows * columns * ACCUMULATOR_BYTES))
            if not step or not accumulators:
                continue
            for run in _runs(product, positions):
                chunk = product.gradient_bytes(tile_m, run) + product.image_bytes(tile_blocks, positions, run)
                if 2 * chunk > rates.l1:
                    continue
                depth = ceil_div(run, product.block)
                even = ceil_div(depth, ceil_div(depth, step))
                tiling = FilterTiling(*share, tile_m, tile_blocks, run, even, accumulators, 0.0)
                yield FilterTiling(
                    *share, tile_m, tile_blocks, run, even, accumulators, filter_score(product, rates, tiling)
                )
                break


def _cut(size: int, grain: int) -> list[int]:
    """Sizes of even parts of an axis, largest first."""
    return list(
        dict.fromkeys(min(size, align(ceil_div(size, cut), grain)) for cut in _CUTS if cut <= max(1, size))
    )


def _column_tiles(product: FilterProduct, blocks: int) -> list[int]:
    """Blocks of columns that a tile may have: whole blocks of channels, else whole rows of the kernel, else
    single taps.
    """
    found: dict[int, None] = {}
    for unit in (unfold.taps(product.conv), product.conv.kernel_w, 1):
        if unit <= blocks:
            found |= dict.fromkeys(min(blocks, tile) for tile in _cut(align(blocks, unit), unit))
            if unit > 1 and len(found) > 1:
                break
    return list(found)


def _runs(product: FilterProduct, positions: int) -> list[int]:
    """Lengths of runs, longest first: whole output rows where the map is unfolded, and parts of one."""
    width = product.conv.out_w
    if unfold.is_direct(product.conv) or positions % width:
        return _cut(positions, FRACTAL_ROWS)
    rows = [height * width for height in _cut(positions // width, 1)]
    return [*rows, *(run for run in _cut(width, FRACTAL_ROWS) if run < width)]


def filter_score(product: FilterProduct, rates: Rates, t: FilterTiling) -> float:
    """Cycles of the busiest core; see the module's text."""
    rows, columns = ceil_div(t.tile_m, FRACTAL_ROWS), product.column_blocks(t.tile_blocks)
    tiles_m, tiles_n = ceil_div(t.m, t.tile_m), ceil_div(t.blocks, t.tile_blocks)
    tiles = t.groups * tiles_m * tiles_n
    chunks = t.images * ceil_div(t.positions, t.run)
    whole, tail = divmod(t.positions, t.run)
    depth = t.images * (whole * ceil_div(t.run, product.block) + ceil_div(tail, product.block))
    steps = tiles * chunks * ceil_div(ceil_div(t.run, product.block), t.step)
    share_rows, share_columns = tiled_blocks(t.m, t.tile_m), product.column_blocks(t.blocks)
    cube = t.groups * share_rows * share_columns * depth * rates.per_block + steps * rates.mmad_gap
    pace = _unfolding_pace(product.conv, rates)
    feeding = t.groups * depth * FRACTAL_BYTES * (
        tiles_n * share_rows / rates.l1_to_l0a + tiles_m * share_columns / (rates.l1_to_l0b * pace)
    ) + steps * (rates.load2d_gap + rates.load3d_head)
    feeding = max(feeding, 2 * steps * rates.start)
    cores = prod(
        ceil_div(size, share)
        for size, share in zip(
            (product.groups, product.images, product.positions, product.m, product.blocks),
            (t.groups, t.images, t.positions, t.m, t.blocks),
            strict=True,
        )
    )
    chunk = product.gradient_bytes(t.tile_m, t.run) + product.image_bytes(t.tile_blocks, t.positions, t.run)
    conv = product.conv
    operands = (
        product.groups
        * product.images
        * BLOCK_BYTES
        * (
            ceil_div(product.m, product.block) * product.positions
            + unfold.channel_blocks(conv, product.block) * conv.height * conv.width
        )
    )
    rate = min(rates.port_in, rates.l2_share * rates.cores / cores)
    brought = tiles * chunks * chunk
    # what tiles after the first one read again is still in L2 if it holds all operands
    from_dram = operands if operands <= rates.l2_size else max(operands, brought * cores)
    reading = max(brought / rate, from_dram / rates.dram)
    stored = rows * columns * ACCUMULATOR_BYTES
    leaving = stored / rates.out + stored / rates.port_out
    pipes = (cube, feeding, reading, tiles * leaving)
    slowest = max(pipes[:3]) + (tiles - 1) * leaving if t.accumulators == 1 else max(pipes)
    others = (sum(pipes) - max(pipes)) * IMPERFECT_OVERLAP
    return slowest + others + leaving + rates.latency + chunk / rate + cores * rates.dispatch


def _unfolding_pace(conv: ConvGeometry, rates: Rates) -> float:
    """Rate at which maps come into L0B, of the port's; see `isa.cost_transfer.load3d_efficiency`."""
    if unfold.is_direct(conv):
        return 1.0
    if conv.stride_w not in LOAD3D_STRIDES:
        return rates.load3d_least_l0b
    rows = unfold.input_rows(conv)
    spanned = rows if rows > 1 and rates.load3d_rows else 0
    return max(4 / (4 * conv.stride_w + spanned), rates.load3d_least_l0b)
