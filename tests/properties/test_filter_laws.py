"""The closed form for gradients of filters against what its programs do, one figure of the chip at a time;
and that the search misses nothing that fits and would be better."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random

import pytest

from ascendsim.core.formats import c0
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Img2Col, Mmad, Move, Pipe
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.filter_grad import filter_stage
from ascendsim.lower.templates.filter_tiling import (
    FilterProduct,
    FilterTiling,
    candidates,
    filter_score,
    sharing_of_images,
)
from ascendsim.lower.templates.product import Rates, rates_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import FilterWork
from ascendsim.soc import SocSpec, load
from tests.support.coverage import length, transfers, union
from tests.support.filter_work import filter_work

WORKS = [  # images, channels, size, outputs, kernel, stride, pad, groups
    ((4, 32, 16, 64, 3, 1, 1, 1), "Ascend310"),
    ((2, 64, 8, 32, 1, 1, 0, 1), "Ascend910B1"),
    ((2, 64, 16, 48, 1, 1, 0, 1), "Ascend310P3"),
    ((1, 24, 20, 40, 3, 2, 1, 1), "Ascend910A"),
    ((3, 16, 16, 16, 2, 2, 0, 2), "Ascend910B1"),
    ((2, 16, 30, 16, 5, 1, 2, 1), "Ascend310"),
    ((3, 16, 16, 512, 1, 1, 0, 1), "Ascend310"),
    ((1, 256, 8, 512, 1, 1, 0, 1), "Ascend310"),
]
NO_RATE = ("l1_to_l0a", "l1_to_l0b", "out", "port_in", "port_out", "l2_share", "dram")
NO_TIME = ("latency", "start", "load2d_gap", "load3d_head", "mmad_gap", "per_block", "dispatch")


def free(rates: Rates, **but: float) -> Rates:
    """A chip on which nothing but this takes time."""
    return replace(rates, **{**dict.fromkeys(NO_RATE, math.inf), **dict.fromkeys(NO_TIME, 0), **but})


@dataclass(frozen=True)
class Made:
    """A tiling, its blocks with the number of each, and what the busiest core does."""

    work: FilterWork
    soc: SocSpec
    product: FilterProduct
    rates: Rates
    tiling: FilterTiling
    blocks: tuple[tuple[Block, int], ...]
    counts: Counter[str]

    def cycles(self, **figures: float) -> float:
        return filter_score(self.product, free(self.rates, **figures), self.tiling)

    @property
    def even(self) -> bool:
        """Whether shares are cut into equal tiles and steps."""
        t, product = self.tiling, self.product
        steps = -(-t.run // product.block)
        pairs = [(t.m, t.tile_m), (t.blocks, t.tile_blocks), (t.positions, t.run), (steps, t.step)]
        return not any(whole % part for whole, part in pairs) and not t.tile_m % 16


def counted(block: Block) -> Counter[str]:
    """What the pipes of a core do."""
    found: Counter[str] = Counter()
    for item, _ in in_order(block.body):
        if isinstance(item, Mmad):
            found["blocks"] += -(-item.m // 16) * -(-item.n // 16) * (item.k // 16)
            found["mmads"] += 1
        elif isinstance(item, Img2Col | Move) and item.pipe is Pipe.MTE1:
            found[item.dst.buffer.value] += item.bytes if isinstance(item, Img2Col) else item.dst.bytes
            found["unfolded"] += isinstance(item, Img2Col)
        elif isinstance(item, Move) and item.pipe is Pipe.MTE2:
            found["brought"] += item.bytes
    return found


def made(number: int, tiling: FilterTiling) -> Made:
    sizes, chip = WORKS[number]
    work, soc = filter_work(*sizes), load(chip)
    stage = filter_stage(work, tiling, soc, Expansion(soc))
    blocks = tuple((group.block, group.count) for group in stage.groups)
    counts = max((counted(block) for block, _ in blocks), key=lambda found: (found["blocks"], found["mmads"]))
    rates = rates_of(soc, work.dtype.value)
    return Made(work, soc, FilterProduct.of(work), rates, tiling, blocks, counts)


@cache
def every(number: int) -> tuple[FilterTiling, ...]:
    sizes, chip = WORKS[number]
    work, soc = filter_work(*sizes), load(chip)
    rates = rates_of(soc, work.dtype.value)
    return tuple(candidates(FilterProduct.of(work), rates, sharing_of_images(work, soc)))


@cache
def some() -> tuple[Made, ...]:
    """Tilings of each work: as they come, and some that cut evenly."""
    random, found = Random(7), []
    for number in range(len(WORKS)):
        tilings = every(number)
        drawn = random.sample(tilings, min(6, len(tilings)))
        alone = [tiling for tiling in tilings if tiling.accumulators == 1]
        found += [made(number, tiling) for tiling in drawn + random.sample(alone, min(4, len(alone)))]
    assert sum(one.even for one in found) > 10
    assert any(one.even for one in found if one.tiling.accumulators == 1)
    return tuple(found)


def test_programs_of_all_tilings_are_sound_and_multiply_all_there_is() -> None:
    for one in some():
        total = 0
        for block, count in one.blocks:
            check_block(block, one.soc)
            total += count * counted(block)["blocks"]
        work, product = one.work, one.product
        rows, columns = -(-work.m // 16), product.blocks
        least = work.batch * rows * columns * work.conv.batch * product.positions / c0(work.dtype)
        assert least <= total <= 2 * least, one


def test_the_cube() -> None:
    for one in some():
        blocks, mmads = one.cycles(per_block=1), one.cycles(mmad_gap=1)
        assert one.counts["blocks"] <= blocks * (1 + 1e-9), one
        assert one.counts["mmads"] <= mmads * (1 + 1e-9), one
        if one.even:
            assert (blocks, mmads) == (one.counts["blocks"], one.counts["mmads"]), one


def test_bringing_operands_to_the_cube() -> None:
    for one in some():
        left, right = one.cycles(l1_to_l0a=1), one.cycles(l1_to_l0b=1)
        assert one.counts["L0A"] <= left * (1 + 1e-9), one
        assert one.counts["L0B"] <= right * (1 + 1e-9), one
        heads = one.cycles(load2d_gap=3, load3d_head=5)
        assert one.counts["mmads"] * 8 <= heads
        assert one.cycles(start=1) == pytest.approx(heads / 4)
        if one.even:
            assert left == one.counts["L0A"], one
            assert heads == one.counts["mmads"] * 8, one
            # a fractal that spans n rows is unfolded at 4 / (4 s + n) of the rate where these count
            width = one.work.conv.out_w
            rows = 1 if width >= 16 or one.work.conv.kernel_h == 1 else -(-15 // width) + 1
            slow = float(one.work.conv.stride_w) if one.counts["unfolded"] else 1.0
            slow += rows / 4 if rows > 1 and one.rates.load3d_rows and one.counts["unfolded"] else 0
            assert right == pytest.approx(one.counts["L0B"] * slow), one


def test_the_way_in() -> None:
    """Each run is taken to be as long as the longest, and its rows to be whole."""
    ratios = []
    for one in some():
        brought = one.cycles(port_in=1)
        assert one.counts["brought"] <= brought
        ratios.append(brought / one.counts["brought"])
        blocks = sum(count for _, count in one.blocks)
        shared = one.cycles(l2_share=1)
        assert shared == pytest.approx(brought * max(1, blocks) / one.rates.cores)
    assert sum(ratios) / len(ratios) < 1.6


def test_memory_gives_operands_once_if_l2_holds_them_and_else_all_that_cores_ask_for() -> None:
    for one in some():
        operands = one.work.gradient.bytes + one.work.image.bytes
        held = filter_score(one.product, replace(free(one.rates, dram=1), l2_size=operands), one.tiling)
        lost = filter_score(one.product, replace(free(one.rates, dram=1), l2_size=operands - 1), one.tiling)
        assert held == operands, one
        asked = sum(counted(block)["brought"] * count for block, count in one.blocks)
        assert lost >= max(operands, asked) * (1 - 1e-9), one
        assert lost <= max(operands, 2.5 * asked), one


def test_the_way_out() -> None:
    for one in some():
        t = one.tiling
        tile = -(-t.tile_m // 16) * -(-(t.tile_blocks * one.product.block) // 16) * 1024
        for rate in ("out", "port_out"):
            cycles = one.cycles(**{rate: 1})
            share = t.groups * t.m * t.blocks * one.product.block * 4
            assert cycles >= share, one
            if one.even:  # the last one is not hidden, and with two accumulators nothing else is either
                assert cycles == share + (tile if t.accumulators == 2 else 0), one


def test_latency_and_dispatch() -> None:
    for one in some():
        assert one.cycles(latency=7) == 7
        assert one.cycles(dispatch=3) == 3 * sum(count for _, count in one.blocks)


def test_what_is_hidden_counts_an_eighth() -> None:
    for one in some():
        if not one.even:
            continue
        blocks, left = one.counts["blocks"], one.counts["L0A"]
        longer = one.cycles(per_block=left * 8, l1_to_l0a=1 / blocks)
        assert longer == pytest.approx(blocks * left * (8 + 1 / 8)), one


def fits(one: FilterTiling, product: FilterProduct, rates: Rates) -> bool:
    """By the buffers: two chunks in L1, two steps in L0A and L0B, the tiles in L0C."""
    rows, columns = -(-one.tile_m // 16), product.column_blocks(one.tile_blocks)
    chunk = product.gradient_bytes(one.tile_m, one.run) + product.image_bytes(
        one.tile_blocks, one.positions, one.run
    )
    return (
        2 * chunk <= rates.l1
        and 2 * rows * one.step * 512 <= rates.l0a
        and 2 * columns * one.step * 512 <= rates.l0b
        and one.accumulators * rows * columns * 1024 <= rates.l0c
    )


def parts(one: FilterTiling, product: FilterProduct) -> list[int]:
    """Into how many shares each axis is cut."""
    sizes = product.groups, product.images, product.positions, product.m, product.blocks
    shares = one.groups, one.images, one.positions, one.m, one.blocks
    return [-(-size // share) for size, share in zip(sizes, shares, strict=True)]


@pytest.mark.parametrize(
    ("chip", "images", "most"),
    [
        ("Ascend310P3", 1, (1, 8, 8, 8)),
        ("Ascend310P3", 7, (7, 1, 1, 1)),
        ("Ascend310P3", 9, (3, 1, 2, 2)),
        ("Ascend910B1", 1, (1, 24, 24, 24)),
    ],
)
def test_axes_may_be_cut_for_all_cores(chip: str, images: int, most: tuple[int, ...]) -> None:
    """Coupled cores take equal numbers of images first; nobody cuts them while there are several."""
    soc = load(chip)
    work = filter_work(images, 512, 48, 768, 3, 1, 1, 1)
    product = FilterProduct.of(work)
    found = list(candidates(product, rates_of(soc, "float16"), sharing_of_images(work, soc)))
    cuts = [parts(one, product) for one in found]
    assert all(math.prod(cut) <= soc.ai_cores for cut in cuts)
    assert all(cut[2] == 1 or one.images == 1 for one, cut in zip(found, cuts, strict=True))
    assert tuple(max(cut[axis] for cut in cuts) for axis in range(1, 5)) == most


def at_random(random: Random, product: FilterProduct, rates: Rates) -> Iterator[FilterTiling]:
    """Tilings without any order in them."""
    while True:
        share = [
            random.randint(1, product.groups),
            random.randint(1, product.images),
            min(product.positions, 16 * random.randint(1, -(-product.positions // 16) * 2)),
            min(product.m, 16 * random.randint(1, -(-product.m // 16))),
            random.randint(1, product.blocks),
        ]
        sizes = product.groups, product.images, product.positions, product.m, product.blocks
        if math.prod(-(-whole // part) for whole, part in zip(sizes, share, strict=True)) > rates.cores:
            continue
        if share[1] > 1 and share[2] < product.positions:
            continue
        tile_m = min(share[3], 16 * random.randint(1, -(-share[3] // 16)))
        tile_blocks = random.randint(1, share[4])
        width = product.conv.out_w
        run = random.choice([16 * random.randint(1, 30), width * random.randint(1, product.conv.out_h)])
        run = min(run, share[2])
        tiling = FilterTiling(
            *share, tile_m, tile_blocks, run, random.randint(1, 16), random.choice([1, 2]), 0.0
        )
        if fits(tiling, product, rates):
            yield tiling


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5])
def test_no_tiling_at_random_is_better(number: int) -> None:
    sizes, chip = WORKS[number]
    soc = load(chip)
    product = FilterProduct.of(filter_work(*sizes))
    rates = rates_of(soc, "float16")
    tilings = every(number)
    for tiling in tilings:
        assert fits(tiling, product, rates)
        assert tiling.cycles == filter_score(product, rates, tiling)
    best, others = min(tiling.cycles for tiling in tilings), at_random(Random(number), product, rates)
    least = math.inf
    for tiling, _ in zip(others, range(200), strict=False):
        if soc.split_cores or tiling.images == min(one.images for one in tilings):
            least = min(least, filter_score(product, rates, tiling))
    assert best <= least * 1.04  # sizes between even cuts, which are not tried, may be a little better


def test_cores_read_all_operands_and_store_the_whole_result() -> None:
    """One core by itself, with tilings at random: halo and all."""
    for number, (sizes, chip) in enumerate(WORKS):
        soc = load(chip, {"ai_cores": 1} | ({"vector_cores": 2} if load(chip).split_cores else {}))
        work = filter_work(*sizes)
        product = FilterProduct.of(work)
        tilings = list(candidates(product, rates_of(soc, "float16"), sharing_of_images(work, soc)))
        for tiling in Random(number).choices(tilings, k=3):
            (group,) = filter_stage(work, tiling, soc, Expansion(soc)).groups
            assert length(union(transfers(group.block, "dy", False))) == work.gradient.bytes
            if work.conv.channels % 16 == 0:
                assert length(union(transfers(group.block, "dw", True))) == work.out.bytes
            skipped = sizes[5] > sizes[4]
            if not skipped and (sizes[2] + 2 * sizes[6] - sizes[4]) % sizes[5] == 0:
                assert length(union(transfers(group.block, "x", False))) == work.image.bytes


def test_fields_of_the_rates_are_all_set_free() -> None:
    """A new figure of the chip needs a law here, or a reason."""
    sizes = {"cores", "l0a", "l0b", "l0c", "l1", "l2_size", "queue"}
    unused = {"half_duplex", "l2_managed", "odd_penalty", "vector", "unaligned"}
    unused |= {"cut_rows", "cut_ragged", "request", "line", "holds_requests", "waiting"}
    kept = {"load3d_rows", "load3d_least_l0b"}  # as the chip has it, in `test_bringing_operands_to_the_cube`
    assert {field.name for field in fields(Rates)} == sizes | unused | kept | {*NO_RATE, *NO_TIME}
