"""What searches of tilings try: everything that fits is used, axes are cut into even parts, and of the sizes
that would fit none is left out that is larger."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from ascendsim.lower.templates.conv import is_direct, taps
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.cube_pair import _band_heights
from ascendsim.lower.templates.filter_tiling import FilterProduct, FilterTiling, sharing_of_images
from ascendsim.lower.templates.filter_tiling import candidates as filter_candidates
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.share_tiles import BANDS, most_tiles
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tile_sizes import equal_sizes, run_sizes, tile_sizes
from ascendsim.lower.templates.tiling import Tiling, candidates, shares
from ascendsim.soc import load
from tests.support.filter_work import filter_work
from tests.support.lowering import convolution as square
from tests.support.lowering import matmul as plain
from tests.support.random_cubes import CHIPS, convolution, matmul

FRACTAL, RESULT = 512, 1024  # bytes of 16 x 16 halves, and of 16 x 16 sums


def ceil(whole: int, part: int) -> int:
    return -(-whole // part)


def even(whole: int, most: int, grain: int = 1) -> int:
    """The size of as few equal parts as have at most so many elements, in whole grains."""
    grains = ceil(whole, grain)
    parts = next(count for count in range(1, grains + 1) if ceil(grains, count) * grain <= most)
    return min(whole, ceil(grains, parts) * grain)


def equal(whole: int, most: int, grain: int = 1) -> int:
    """The same of parts that are all of one size, in grains that divide the whole."""
    return max(
        part for part in range(grain, whole + 1, grain) if whole % part == 0 and part <= max(most, grain)
    )


def part(product: Product, whole: int, most: int, grain: int = 1) -> int:
    """How the depth of a product is cut."""
    return (equal if product.divided else even)(whole, most, grain)


@cache
def searched() -> tuple[tuple[Product, Rates, tuple[Tiling, ...]], ...]:
    """Products on chips of few cores with tilings of all kinds; half of the chips with a small L1."""
    random, found = Random(5), []
    for number in range(16):
        small = {"buffers.l1": 48 << 10} if number >= 8 else {}
        split = {"vector_cores": 2} if load(CHIPS[number % len(CHIPS)]).split_cores else {}
        soc = load(CHIPS[number % len(CHIPS)], {"ai_cores": 2} | split | small)
        work = matmul(random, soc, 500) if number % 8 < 4 else convolution(random)
        product, rates = product_of(work, soc), rates_of(soc, "float16")
        found.append((product, rates, tuple(candidates(product, rates, 1))))
    return tuple(found)


def every() -> Iterator[tuple[Product, Rates, Tiling]]:
    for product, rates, tilings in searched():
        for tiling in tilings:
            yield product, rates, tiling


def blocks(tiling: Tiling) -> tuple[int, int]:
    """Of 16 rows and columns, of a tile."""
    return ceil(tiling.tile_m, 16), ceil(tiling.tile_n, 16)


def l1_bytes(product: Product, tiling: Tiling) -> int:
    """What a tiling holds in L1: chunks of what streams twice, what is held once, and a value a column."""
    share, band, chunk = tiling.share_m, tiling.band_m, tiling.chunk_k
    of_b = product.b_blocks(tiling.tile_n) * FRACTAL
    column = ceil(4 * tiling.share_n, 32) * 32
    if tiling.hold == "b":
        return of_b * product.k_blocks + 2 * product.a_bytes(share, band, chunk) + column
    if tiling.hold == "a":
        return product.a_bytes(share, tiling.tile_m, product.k_blocks) + 2 * of_b * chunk + column
    return 2 * (product.a_bytes(share, tiling.tile_m, chunk) + of_b * chunk) + column


def test_all_that_is_tried_fits() -> None:
    for product, rates, tiling in every():
        rows, columns = blocks(tiling)
        assert l1_bytes(product, tiling) <= rates.l1
        assert 2 * rows * tiling.step_k * FRACTAL <= rates.l0a
        assert 2 * columns * tiling.step_k * FRACTAL <= rates.l0b
        assert tiling.accumulators * rows * columns * RESULT <= rates.l0c


def test_sums_have_two_places_if_there_is_room_and_steps_are_as_few_as_fit() -> None:
    for product, rates, tiling in every():
        rows, columns = blocks(tiling)
        assert tiling.accumulators == (2 if 2 * rows * columns * RESULT <= rates.l0c else 1)
        most = min(rates.l0a // (2 * rows * FRACTAL), rates.l0b // (2 * columns * FRACTAL))
        assert tiling.step_k == part(product, tiling.chunk_k, most)


def test_kernels_before_910b1_cut_channels_of_maps_and_all_axes_of_matrices_into_equal_parts() -> None:
    """In blocks of 16 x 16 and depths of 32 bytes; rows of maps need not come out even, nor does anything on
    chips with separate vector cores. Such parts are what the vendor's tilings have (`soc`: opp)."""
    uneven = dict.fromkeys(("rows of maps", "columns", "depth"), 0)
    for product, _, tiling in every():
        m, n = ceil(product.m, 16), ceil(product.n, 16)
        share_m, share_n = ceil(tiling.share_m, 16), ceil(tiling.share_n, 16)
        rows, columns = blocks(tiling)
        along_n = n % share_n or share_n % columns
        along_k = product.k_blocks % tiling.chunk_k or tiling.chunk_k % tiling.step_k
        if not product.divided:
            uneven["columns"] += bool(along_n)
            uneven["depth"] += bool(along_k)
            continue
        assert not along_n
        assert not along_k
        along_m = m % share_m or share_m % rows
        assert product.conv is not None or not along_m
        uneven["rows of maps"] += bool(along_m)
    assert all(uneven.values()), uneven
    for chip in CHIPS:
        soc, whole = load(chip), not load(chip).split_cores
        assert product_of(plain(64, 64, 64, soc), soc).divided == ("mnk" if whole else "")
        assert product_of(square(16, 16, 16, 3, 1, 1), soc).divided == ("nk" if whole else "")


def test_chunks_are_as_long_as_the_queue_needs_or_as_fit() -> None:
    """Of whole channel blocks one more would not fit, or nothing is gained: the Cube's queue is full, or all
    of k is there."""
    limits = dict.fromkeys(("all", "queue", "room", "rows"), 0)
    for product, rates, tiling in every():
        unit = 1 if product.conv is None or is_direct(product.conv) else taps(product.conv)
        steps = ceil(tiling.chunk_k, tiling.step_k)
        if tiling.chunk_k == product.k_blocks:
            limits["all"] += 1
        elif tiling.chunk_k < unit:
            assert unit % tiling.chunk_k == 0
            longer = replace(tiling, chunk_k=unit)
            short = product.conv is not None and product.k_blocks == unit == longer.chunk_k
            assert short or l1_bytes(product, longer) > rates.l1
            limits["rows"] += 1
        elif 3 * (2 * steps + 1) >= min(tiling.depths):
            limits["queue"] += 1
        else:
            chunks = ceil(product.k_blocks, tiling.chunk_k)
            longer = even(product.k_blocks, (product.k_blocks - 1) // (chunks - 1) + unit, unit)
            assert l1_bytes(product, replace(tiling, chunk_k=max(longer, tiling.chunk_k + unit))) > rates.l1
            limits["room"] += 1
    assert all(limits.values()), limits


def test_a_band_is_several_tiles_only_where_they_share_rows_and_all_of_k() -> None:
    wide = 0
    for product, rates, tilings in searched():
        known = set(replace(tiling, cycles=0.0, depths=()) for tiling in tilings)
        for tiling in tilings:
            count = ceil(tiling.band_m, tiling.tile_m)
            tiles = ceil(tiling.share_m, tiling.tile_m)
            assert count in (1, 2, 3, 4, 8)
            assert count <= max(1, tiles // 2)
            if count > 1:
                wide += 1
                assert tiling.hold == "b"
                assert product.unfolds
                assert tiling.chunk_k == product.k_blocks
            elif product.unfolds and tiling.hold == "b" and tiling.chunk_k == product.k_blocks:
                for more in (2, 3, 4, 8):
                    other = replace(tiling, band_m=min(tiling.share_m, more * tiling.tile_m))
                    if more <= tiles // 2 and l1_bytes(product, other) <= rates.l1:
                        assert replace(other, cycles=0.0, depths=()) in known
    assert wide > 50


def test_cores_get_shares_of_every_axis() -> None:
    """No more shares than cores; each axis is cut for all cores and for half of them, if it has so many
    parts."""
    for number in range(12):
        random, soc = Random(number), load(CHIPS[number % len(CHIPS)])
        product = product_of(matmul(random, soc, 900) if number % 2 else convolution(random), soc)
        whole = product.batch, product.images, product.m, product.n
        cuts = []
        for share in shares(product, soc.ai_cores):
            cut = [ceil(size, part) for size, part in zip(whole, share, strict=True)]
            assert math.prod(cut) <= soc.ai_cores or cut[3] == ceil(product.n, product.most_share_n)
            cuts.append(cut)
        grains = (1, 1, *product.grains)
        for axis, (size, grain) in enumerate(zip(whole, grains, strict=True)):
            for cores in (soc.ai_cores, soc.ai_cores // 2, 1):
                parts = ceil(size, grain)
                wanted = ceil(parts, ceil(parts, min(parts, cores)))
                if "bimn"[axis] in product.divided:
                    wanted = equal(parts, cores)
                others = [1 if at != axis else wanted for at in range(4)]
                assert axis == 1 or others in cuts or max(others) > soc.ai_cores, (others, whole)


@pytest.mark.parametrize(
    ("rows", "most", "smallest", "heights"),
    [
        # 24 rows of 16: all even parts of near powers of two, the largest that L0A holds too
        (24, 64, 1, {24, 12, 8, 6, 4, 3, 2, 1}),
        (24, 64, 2, {24, 12, 8, 6, 4, 3, 2}),
        (24, 10, 1, {8, 6, 4, 3, 2, 1}),
        (20, 64, 1, {20, 10, 7, 5, 4, 3, 2, 1}),
        (1, 64, 2, {1}),
    ],
)
def test_runs_of_a_map_are_even_numbers_of_its_rows(
    rows: int, most: int, smallest: int, heights: set[int]
) -> None:
    conv = square(16, 16, 16, 3, 1, 1).conv
    assert conv is not None
    found = run_sizes(conv, 16 * rows, most, smallest)
    assert {size // 16 for size in found if size % 16 == 0} == heights
    assert len(found) == len(set(found))
    assert run_sizes(None, 16 * rows, most, smallest) == tile_sizes(16 * rows, most, smallest)


def test_tiles_of_an_axis_are_its_even_parts() -> None:
    random = Random(7)
    for _ in range(200):
        elements, most, grain = random.randint(1, 1200), random.randint(2, 64), random.choice((16, 16, 32))
        found = tile_sizes(elements, most, 1, grain)
        assert found == sorted(set(found), reverse=True)
        assert found[0] == even(elements, max(grain, most * 16 // grain * grain), grain) or most > 64
        assert set(found) == {
            even(elements, max(grain, 16 * limit // grain * grain), grain)
            for limit in {min(near, most) for near in (64, 32, 24, 16, 12, 8, 4, 2, 1)}
        }
        least = min(elements, 32)
        some = [size for size in found if size >= least]
        assert tile_sizes(elements, most, 2, grain) == (some or found)


def test_bands_of_two_convolutions_have_even_heights() -> None:
    assert list(_band_heights(56)) == [56, 28, 19, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1]
    assert list(_band_heights(7)) == [7, 4, 3, 2, 1]
    assert list(_band_heights(1)) == [1]
    for rows in range(1, 130):
        found = list(_band_heights(rows))
        assert found == sorted(set(found), reverse=True)
        assert {found[0], found[-1]} == {rows, 1}
        assert all(even(rows, height) == height for height in found)


def test_bands_share_their_halo_where_half_of_the_tiles_do() -> None:
    soc = load("Ascend310")
    product = product_of(square(16, 56, 16, 3, 1, 1), soc)
    k = product.k_blocks
    for tiles, counts in ((1, (1,)), (3, (1,)), (4, (1, 2)), (7, (1, 2, 3)), (15, (1, 2, 3, 4)),
                          (16, (1, 2, 3, 4, 8)), (40, (1, 2, 3, 4, 8))):  # fmt: skip
        for rows in (tiles * 56, tiles * 56 - 55):
            most = most_tiles(product, rows, 56, "b", k)
            assert tuple(count for count in BANDS if count <= most) == counts
    assert most_tiles(product, 40 * 56, 56, "a", k) == most_tiles(product, 40 * 56, 56, "b", k - 1) == 1
    assert most_tiles(replace(product, conv=None), 40 * 56, 56, "b", k) == 1


FILTERS = [
    ((4, 64, 28, 96, 3, 1, 1, 1), "Ascend310P3"),
    ((1, 200, 30, 72, 1, 1, 0, 2), "Ascend910A"),
    ((2, 48, 57, 40, 5, 2, 2, 1), "Ascend310"),
    ((3, 300, 20, 128, 3, 1, 1, 1), "Ascend910B1"),
]


@cache
def filters() -> tuple[tuple[FilterProduct, Rates, tuple[FilterTiling, ...]], ...]:
    found = []
    for sizes, chip in FILTERS:
        split = {"vector_cores": 8} if load(chip).split_cores else {}
        soc = load(chip, {"ai_cores": 4, "buffers.l1": 64 << 10} | split)
        work = filter_work(*sizes)
        product, rates = FilterProduct.of(work), rates_of(soc, "float16")
        found.append((product, rates, tuple(filter_candidates(product, rates, sharing_of_images(work, soc)))))
    return tuple(found)


def chunk_bytes(product: FilterProduct, one: FilterTiling, run: int) -> int:
    """What L1 holds of both operands for a run of positions."""
    image = product.image_bytes(one.tile_blocks, one.positions, run)
    return product.gradient_bytes(one.tile_m, run) + image


def test_gradients_of_filters_bring_as_many_positions_as_fit() -> None:
    """Runs are even parts of a share, in whole rows of the map where that is unfolded; twice as long ones
    would not fit. Steps are as few as L0 allows, and sums have two places if there is room."""
    cut = 0
    for product, rates, tilings in filters():
        width = product.conv.out_w
        for one in tilings:
            rows, columns = ceil(one.tile_m, 16), product.column_blocks(one.tile_blocks)
            assert chunk_bytes(product, one, one.run) <= rates.l1 / 2
            in_rows = not is_direct(product.conv) and one.positions % width == 0
            if one.run < one.positions:
                longer = min(one.positions, 2 * one.run)
                if in_rows:
                    longer = width if one.run < width else min(one.positions, 2 * one.run)
                assert chunk_bytes(product, one, longer) > rates.l1 / 2, one
                cut += 1
            if in_rows and one.run > width:
                assert one.run % width == 0
                assert even(one.positions // width, one.run // width) == one.run // width
            most = min(rates.l0a // (2 * rows * FRACTAL), rates.l0b // (2 * columns * FRACTAL))
            assert one.step == even(ceil(one.run, product.block), most)
            assert one.accumulators == (2 if 2 * rows * columns * RESULT <= rates.l0c else 1)
    assert cut > 100


def test_tiles_of_gradients_are_even_parts_of_rows_and_of_channel_blocks() -> None:
    product, _, tilings = filters()[0]  # 96 rows, 4 channel blocks of 9 taps
    whole = [one for one in tilings if one.m == product.m and one.blocks == product.blocks]
    assert {one.tile_m for one in whole} == {96, 48, 32, 16}
    assert {one.tile_blocks for one in whole} == {36, 18, 9}
    direct, _, tilings = filters()[1]  # 13 blocks of columns, each one tap
    whole = [one for one in tilings if one.m == direct.m and one.blocks == direct.blocks]
    assert {one.tile_m for one in whole} == {72 if m > 4 else 16 * m for m in (5, 3, 2, 1)}
    assert {one.tile_blocks for one in whole} == {13, 7, 5, 4, 3, 2}  # in 1, 2, 3, 4, 6 and 8 or 12


@pytest.mark.parametrize("hold", ["a", "b"])
def test_the_next_panel_comes_ahead_where_it_fits(hold: str) -> None:
    """Beside the one that is held, two chunks of what streams, and a value a column, to the byte."""
    work = plain(96, 256, 200, load("Ascend310"))
    rows, columns, k = 3 * FRACTAL, 4 * FRACTAL, 256 // 16
    panel, chunk = (rows * k, columns * 4) if hold == "a" else (columns * k, rows * 4)
    least = 2 * panel + 2 * chunk + 200 * 4
    for spare, slots in ((0, 2), (-1, 1)):
        soc = load("Ascend310", {"ai_cores": 1, "buffers.l1": least + spare})
        tiling = Tiling(1, 1, 96, 200, 48, 64, 4, 4, hold, 1, 0.0, 48)
        stage = cube_stage(work, product_of(work, soc), tiling, soc, Expansion(soc))
        places = {one.name: one.slots for one in stage.groups[0].block.allocations}
        assert places[f"{hold}_l1"] == slots
        assert places["b_l1" if hold == "a" else "a_l1"] == 2


def test_equal_parts_of_an_axis_are_all_of_its_divisors_that_fit() -> None:
    random = Random(8)
    for _ in range(200):
        elements, most, grain = random.randint(1, 1200), random.randint(2, 64), random.choice((16, 16, 32))
        grains, limit = ceil(elements, grain), max(1, most * 16 // grain)
        found = equal_sizes(elements, most, 1, grain)
        assert found == [
            min(elements, size * grain)
            for size in range(grains, 0, -1)
            if size <= limit and grains % size == 0
        ]
        wide = [size for size in found if size >= min(elements, 32)]
        assert equal_sizes(elements, most, 2, grain) == (wide or found)
