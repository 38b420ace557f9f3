"""What the closed form knows of a chip, in bytes a cycle and cycles: units by hand, and what cores share."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.even_tiling import cores_of_columns
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.score import score
from ascendsim.lower.templates.traffic import Bursts, bursts_along, dram_bytes, traffic_of
from ascendsim.soc import load
from tests.support.lowering import convolution

CLOCK = {"frequency_mhz": 500}


def rates(chip: str = "Ascend310P3", **changes: object) -> Rates:
    return rates_of(
        load(chip, CLOCK | {key.replace("__", "."): value for key, value in changes.items()}), "float16"
    )


def test_figures_by_the_second_become_figures_by_the_cycle() -> None:
    assert rates(dram__read_gb_per_s=100).dram == 200
    assert rates(launch__block_dispatch_ns=90).dispatch == 45
    assert rates(issue__instruction_start_ns=8).start == 4
    for name in ("Ascend310", "Ascend910A", "Ascend910B1"):
        soc = load(name)
        assert rates_of(soc, "float16").dram * soc.frequency_mhz == pytest.approx(
            soc.dram.read_gb_per_s * 1000
        )


def test_figures_by_the_cycle_stay() -> None:
    found = rates(
        ports__gm_to_l1=11, ports__ub_to_gm=12, ports__l1_to_l0a=13, ports__l1_to_l0b=14, ports__l0c_to_ub=15
    )
    assert (found.port_in, found.port_out, found.l1_to_l0a, found.l1_to_l0b, found.out) == (
        11,
        12,
        13,
        14,
        15,
    )
    split = rates("Ascend910B1", ports__l0c_to_gm=40)
    assert (split.port_out, split.out) == (40, 80)  # results of 2 bytes for sums of 4
    soc = load("Ascend310P3")
    found = rates_of(soc, "float16")
    assert (found.l0a, found.l0b, found.l0c, found.l1) == (
        soc.buffers.l0a,
        soc.buffers.l0b,
        soc.buffers.l0c,
        soc.buffers.l1,
    )
    assert (found.cores, found.l2_size, found.latency) == (
        soc.ai_cores,
        soc.l2.size,
        soc.dram.read_latency_cycles,
    )


def test_rows_that_are_cut_into_fractals_come_more_slowly_and_ragged_ones_more_so() -> None:
    both = {"dma__nd2nz_bytes_per_cycle": 50, "dma__ragged_nd2nz_bytes_per_cycle": 20}
    whole, none = rates("Ascend910B1", **both), rates("Ascend310")
    some = rates("Ascend310", dma__nd2nz_bytes_per_cycle=50)
    assert (whole.cut_rows, whole.cut_ragged) == (50, 20)
    assert (some.cut_rows, some.cut_ragged) == (50, 50)
    assert (none.cut_rows, none.cut_ragged) == (math.inf, math.inf)
    plain = replace(whole, port_in=100.0, holds_requests=False, waiting=None)
    assert [plain.way_in(cut) for cut in ("", "rows", "ragged")] == [100, 50, 20]
    assert [replace(plain, port_in=30.0).way_in(cut) for cut in ("", "rows", "ragged")] == [30, 30, 20]
    assert plain.way_in("", lines=4.0) == 100
    assert replace(plain, holds_requests=True).way_in("", lines=4.0) == 25


def test_a_type_that_the_cube_lacks_names_the_remedy() -> None:
    with pytest.raises(CompileError, match="force_fp16"):
        rates_of(load("Ascend310"), "float32")
    with pytest.raises(CompileError, match="export the model"):
        rates_of(load("Ascend310"), "float64")


def test_odd_sizes_cost_two_cycles_less_than_their_steps_on_one_chip() -> None:
    """16 x 16 x 64 at once: k1 - 2 more cycles if m1 or n1 is odd (tik)."""
    chip = replace(
        rates("Ascend310"), latency=0, start=0.0, dispatch=0.0, load2d_gap=0.0, mmad_gap=0.0, per_block=1000.0
    )
    chip = replace(chip, dram=math.inf, l2_share=math.inf, port_in=math.inf, port_out=math.inf, out=math.inf)
    chip = replace(chip, vector=math.inf, l1_to_l0a=math.inf, l1_to_l0b=math.inf)  # type: ignore[arg-type]

    def cycles(m: int, n: int, step: int) -> float:
        product = Product(1, 1, m, n, 8, None, 2, "float16")
        return score(product, chip, (1, 1, m, n), (m, n, 8, step), hold="", accumulators=2, band=m)

    assert cycles(16, 16, 8) == 8000 + 6
    assert cycles(16, 32, 8) == cycles(32, 16, 8) == 16_000 + 6
    assert cycles(16, 16, 4) == 8000 + 2 * 2
    assert cycles(32, 32, 8) == 32_000
    assert cycles(16, 16, 1) == 8000


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 8), (2, 4), (4, 2), (8, 1)])
def test_cores_that_read_the_same_bytes_share_what_dram_delivers(
    rows: int, columns: int, in_turn: bool
) -> None:
    """Eight cores with a part of rows and columns each: those with the same rows read the same A."""
    chip = replace(rates("Ascend310"), cores=8, dram=8.0, l2_managed=False, l2_size=1 << 30, waiting=None)
    chip = replace(chip, port_in=1000.0, l2_share=1000.0, unaligned=1.0, half_duplex=in_turn)
    product = Product(1, 1, 16 * 8, 16 * 8, 4, None, 2, "float16")
    share = 1, 1, 128 // rows, 128 // columns
    found = traffic_of(product, chip, share, share[2:], chunk=4, hold="", band=share[2])
    assert found.cores == 8
    assert (found.far.rate_a, found.far.rate_b) == (columns, rows)  # 1 byte a cycle and core of its own bytes
    assert (found.near.rate_a, found.near.rate_b) == (1000, 1000)
    # two operands of 16 KiB and a result of 32 KiB: what goes out takes turns with what comes in, or does not
    assert (found.far.dram, found.near.dram) == ((2 * 16_384 + 32_768 * in_turn) / 8, 0)


@pytest.mark.parametrize(
    ("blocks", "cores"), [(256, 16), (63, 21), (576, 24), (594, 22), (37, 24), (11, 11), (24, 24), (13, 13)]
)
def test_column_blocks_are_dealt_out_evenly_over_more_than_half_of_the_cores(blocks: int, cores: int) -> None:
    product = Product(1, 1, 32, 16 * blocks, 4, None, 2, "float16")
    assert cores_of_columns(product, 24) == cores
    assert cores_of_columns(replace(product, m=257), 24) == 24
    assert cores_of_columns(replace(product, m=256), 24) == cores
    assert cores_of_columns(replace(product, batch=2), 24) == 24


@pytest.mark.parametrize("several", ["", "batch", "images"])
def test_what_a_loop_comes_back_to_comes_again_if_l2_is_a_byte_too_small(several: str) -> None:
    """Operands and result of 8 KiB, in four tiles of rows and of columns; A and a tile of the others, or a
    tile of each; of several products each has its turn, and images have one B."""
    count = 2 if several else 1
    product = Product(1, 1, 64, 64, 4, None, 2, "float16")
    share = 1, 1, 64, 64
    if several:
        product = replace(product, **{several: 2})  # type: ignore[arg-type]
        share = (2, 1, 64, 64) if several == "batch" else (1, 2, 64, 64)
    kib = 1 << 13
    a, b = count * kib, kib * (2 if several == "batch" else 1)
    rows = 4 * (2 if several == "images" else 1)  # turns of the loop over rows
    all_a = (
        (a if several == "images" else kib) + kib // 4 + (count * kib if several == "images" else kib) // 4
    )
    tile = kib // 4 + kib // 4 + kib // 16

    def moved(l2: int, hold: str) -> tuple[float, float]:
        return dram_bytes(product, l2, share, (16, 16), hold)

    assert moved(all_a, "") == moved(all_a, "b") == (a, b)
    assert moved(all_a - 1, "") == moved(all_a - 1, "b") == (4 * a, b)
    assert moved(tile, "") == (4 * a, b)
    assert moved(tile - 1, "") == (4 * a, rows * b)
    assert moved(tile - 1, "b") == (4 * a, b)
    held = kib // 4 + kib + kib // 4
    assert moved(held, "a") == (a, b)
    assert moved(held - 1, "a") == (a, rows * b)


def test_bursts_bring_whole_transactions_requests_and_lines() -> None:
    chip = replace(rates("Ascend910B1"), unaligned=1.0, request=32, line=128)

    def of(axis: str, size: int, whole: int, itemsize: int = 2, unaligned: float = 1.0) -> Bursts:
        if not axis:  # in blocks, whatever the tile
            size = whole = 0
        return bursts_along(size, whole, 32 if axis == "k" else itemsize, replace(chip, unaligned=unaligned))

    assert of("", 1, 9) == of("n", 300, 300) == of("n", 300, 299) == Bursts(1.0, 1.0, 1.0)
    assert of("n", 300, 301) == Bursts(1024 / 600, 608 / 600, 640 / 600)
    assert of("m", 150, 301, 4) == of("n", 300, 301)
    assert of("k", 10, 11) == Bursts(512 / 320, 1.0, 384 / 320)  # blocks of 32 bytes
    for inside in (64, 128, 256, 512):  # elements: parts that divide a transaction, or whole ones
        assert of("n", inside, 1000, unaligned=0.5) == of("n", inside, 1000)
    lost = of("n", 300, 301, unaligned=0.5)
    assert lost.dram > 1024 / 600
    assert lost.dram / lost.l2 == pytest.approx(1024 / 608)
    assert lost.requests == 640 / 600


@pytest.mark.parametrize(
    ("stride", "columns", "bytes_per_cycle"),
    [
        *[(1, 16, 256), (1, 8, 512 / 5), (1, 4, 512 / 7), (2, 16, 128), (2, 8, 512 / 7), (4, 16, 64)],
        *[(8, 16, 32), (8, 8, 32), (3, 16, 32), (3, 8, 32), (5, 16, 32), (6, 4, 32)],
    ],
)
def test_img2col_slows_down_by_stride_and_by_rows_under_a_fractal(
    stride: int, columns: int, bytes_per_cycle: float
) -> None:
    """By the table of c220: 512 / (2 stride + rows) bytes a cycle, a row alone counts for nothing; 16 places
    of 8 columns lie on 3 rows, of 4 columns on 5. Strides that are no powers of two have the least rate.
    """
    work = convolution(16, columns * stride, 16, 3, stride, 1)
    assert work.conv is not None
    assert work.conv.out_w == columns
    product = product_of(work, load("Ascend310P3"))
    assert product.unfolding_efficiency[1] * 256 == pytest.approx(bytes_per_cycle)  # where rows count


@pytest.mark.parametrize(
    ("size", "rows", "even"), [(32, 2, True), (32, 4, True), (28, 4, True), (28, 3, False), (7, 7, False)]
)
def test_bursts_of_a_map_lose_time_where_they_do_not_begin_on_transactions(
    size: int, rows: int, even: bool
) -> None:
    """A tile of so many rows of a map; weights, and results whose tiles are whole, lose none."""
    product = product_of(convolution(64, size, 64, 3, 1, 1), load("Ascend310P3"))
    tile = rows * size, 64
    share = 1, 1, size * size, 64
    lossy, sound = (
        traffic_of(product, replace(rates(), unaligned=of), share, tile, chunk=4, hold="", band=size * size)
        for of in (0.5, 1.0)
    )
    assert (lossy.far.reading == sound.far.reading) is even
    assert (lossy.far.reading > sound.far.reading) is not even
    assert (lossy.a_tile, lossy.b_tile) == (sound.a_tile, sound.b_tile)
