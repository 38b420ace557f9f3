"""The closed form of tilings against what their programs do: if one figure of the chip counts and all others
are free, they agree.

What an instruction takes is asked of `isa.costs`, what moves is read off the program. A tiling whose tiles
and chunks cut everything evenly is counted exactly; others nearly, since the closed form takes all tiles for
whole ones in places.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from random import Random

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.isa.cost_transfer import load3d_efficiency
from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Buffer, Img2Col, Mmad, Move, Operand, Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import CoreKind
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.conv import input_rows
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.least import (
    cores_of,
    least_cycles,
    least_of_moves,
    least_of_tiles,
    loading_cycles,
)
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.score import score
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import (
    NEAR,
    Tiling,
    best_tilings,
    candidates,
    queue_depths,
)
from ascendsim.lower.templates.traffic import bursts_along, dram_bytes
from ascendsim.machine import run
from ascendsim.opset.work import Step
from ascendsim.soc import load
from tests.support import lowering
from tests.support.coverage import length, transfers, union
from tests.support.gate import slow
from tests.support.lowering import convolution as square_convolution
from tests.support.lowering import matmul as plain_matmul
from tests.support.lowering import program_of, ref
from tests.support.random_cubes import CHIPS, CubeProgram, convolution, cube_programs, matmul

RATES = (
    "l1_to_l0a",
    "l1_to_l0b",
    "out",
    "port_in",
    "port_out",
    "l2_share",
    "dram",
    "vector",
    "cut_rows",
    "cut_ragged",
)
CYCLES = ("latency", "start", "load2d_gap", "load3d_head", "mmad_gap", "per_block", "dispatch")


def free(rates: Rates) -> Rates:
    """A chip on which nothing takes time."""
    names = {field.name for field in fields(rates)}
    changes = {
        **dict.fromkeys(RATES, math.inf),
        **dict.fromkeys(CYCLES, 0),
        "odd_penalty": False,
        "unaligned": 1.0,
    }
    return replace(rates, **{name: value for name, value in changes.items() if name in names})  # type: ignore[arg-type]


def cycles_of(made: CubeProgram, rates: Rates) -> float:
    return tiling_cycles(made.product, made.tiling, rates)


def tiling_cycles(product: Product, tiling: Tiling, rates: Rates) -> float:
    share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
    sizes = tiling.tile_m, tiling.tile_n, tiling.chunk_k, tiling.step_k
    held = {"hold": tiling.hold, "accumulators": tiling.accumulators, "band": tiling.band_m}
    return score(product, rates, share, sizes, **held)  # type: ignore[arg-type]


def is_even(made: CubeProgram) -> bool:
    """Whether the tiling cuts everything evenly."""
    tiling, product = made.tiling, made.product
    axes = (
        (tiling.share_m, tiling.tile_m),
        (tiling.share_n, tiling.tile_n),
        (product.k_blocks, tiling.chunk_k),
        (tiling.chunk_k, tiling.step_k),
    )
    return not any(whole % part for whole, part in axes)


@cache
def busy() -> tuple[tuple[CubeProgram, Rates, Counter[Pipe], int], ...]:
    """Programs with their rates, what each pipe is busy for if instructions start at no cost, and their
    mmads."""
    found = []
    for made in cube_programs():
        soc = load(made.soc.name, {"ai_cores": 1, "issue.instruction_start_ns": 0})
        pipes: Counter[Pipe] = Counter()
        mmads = 0
        for item, _ in in_order(made.block.body):
            if not isinstance(item, SetFlag | WaitFlag):
                pipes[item.pipe] += cost(item, soc, made.block.core).occupancy
                mmads += isinstance(item, Mmad)
        found.append((made, rates_of(soc, "float16"), pipes, mmads))
    return tuple(found)


def test_computing() -> None:
    for made, rates, pipes, mmads in busy():
        counted = replace(
            free(rates), per_block=rates.per_block, mmad_gap=rates.mmad_gap, odd_penalty=rates.odd_penalty
        )
        slack = 1e-9 if is_even(made) else 0.1
        assert cycles_of(made, counted) == pytest.approx(pipes[Pipe.M], rel=slack), made
        starts = cycles_of(made, replace(free(rates), start=1.0))
        if is_even(made):  # two loads start for every mmad, and a few things once a tile
            assert 2 * mmads <= starts <= 2 * mmads + 5 * mmads + 8, made


def test_bringing_operands_to_the_cube() -> None:
    for made, rates, pipes, _ in busy():
        ports = {
            name: getattr(rates, name) for name in ("l1_to_l0a", "l1_to_l0b", "load2d_gap", "load3d_head")
        }
        slack = 1e-9 if is_even(made) and made.work.bias is None else 0.1 if is_even(made) else 0.26
        assert cycles_of(made, replace(free(rates), **ports)) == pytest.approx(pipes[Pipe.MTE1], rel=slack), (
            made
        )


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.INT8])
def test_bursts_of_row_major_operands_cost_what_the_machine_takes(dtype: DType) -> None:
    """Columns of B beyond whole blocks are no tile's, and what a tile's rows cost is read off its loads."""
    soc = load("Ascend910B1", {"ai_cores": 1})
    work = replace(
        plain_matmul(64, 512, 8 * 512, soc),
        dtype=dtype, a=ref("a", (64, 512), dtype=dtype), b=ref("b", (512, 8 * 512), dtype=dtype),
    )  # fmt: skip
    product, rates = product_of(work, soc), rates_of(soc, dtype.value)
    seen = set()
    for tiling in candidates(product, rates):
        assert tiling.tile_n * dtype.itemsize % 32 == 0, "a burst ends inside a block"
        if tiling.tile_n in seen or (tiling.share_m, tiling.share_n) != (64, 8 * 512):
            continue
        seen.add(tiling.tile_n)
        (group,) = cube_stage(work, product, tiling, soc, Expansion(soc)).groups
        load_b = next(
            item for item, _ in in_order(group.block.body)
            if isinstance(item, Move) and item.src.name == "b" and item.bursts > 1
        )  # fmt: skip
        link = cost(load_b, soc, CoreKind.CUBE).link
        assert link is not None
        bursts = bursts_along(tiling.tile_n, product.n, dtype.itemsize, rates)
        assert link.l2_bytes == pytest.approx(bursts.l2 * load_b.bytes, abs=1)
        assert link.dram_bytes == pytest.approx(bursts.dram * load_b.bytes, abs=1)
        engine, requested = link.port_bytes_per_cycle, link.request_bytes_per_cycle
        assert engine is not None
        assert requested is not None
        took = max(link.l2_bytes / engine, link.l2_bytes / requested)
        assert load_b.bytes / took == pytest.approx(rates.way_in(product.b_cut, bursts.requests), rel=1e-3)
    assert len(seen) > 4


def test_the_way_out_through_the_vector_unit() -> None:
    """With epilogues nearly, and right on average: tiles that end inside a block count as whole ones."""
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for made, rates, pipes, _ in busy():
        large = made.product.m * made.product.n >= 4000
        if made.block.core is CoreKind.AI and large and not made.work.sums:
            counted = replace(free(rates), out=rates.out, vector=rates.vector)
            ratios[bool(made.work.epilogue)].append(cycles_of(made, counted) / pipes[Pipe.V])
    assert ratios[False] == pytest.approx([1.0] * len(ratios[False]), rel=0.15)
    assert ratios[True] == pytest.approx([1.0] * len(ratios[True]), rel=0.35)
    assert np.mean(ratios[True]) == pytest.approx(1.0, abs=0.06)


def test_fixpipe_does_the_epilogue_on_its_way() -> None:
    soc = load("Ascend910B1")
    work = plain_matmul(64, 64, 64, soc)
    assert product_of(replace(work, epilogue=(Step("vrelu"),)), soc) == product_of(work, soc)


def test_the_bias_of_new_columns_waits_for_the_way_out() -> None:
    """The vector unit writes it behind the last tile of the old columns, so the Cube stands still meanwhile;
    where columns are the inner loop the bias that comes next is known."""
    fast = {"dram.read_gb_per_s": 2000, "ports.gm_to_l1": 1000, "l2.read_bytes_per_cycle_per_core": 1000}
    # exponents as on Ascend910B: with those of 310P3 the vector unit would be what everything waits for
    soc = load("Ascend310P3", {"ai_cores": 1, "vector.cycles_per_repeat.vexp.float32": 2, **fast})
    steps = tuple([Step("vexp", DType.FLOAT32)] * 4)
    work = replace(plain_matmul(256, 512, 512, soc), epilogue=steps, epilogue_values=1)
    for bias, late in ((ref("bias", (512,)), True), (None, False)):
        one = replace(work, bias=bias)
        product, rates = product_of(one, soc), rates_of(soc, "float16")
        took = {}
        for tiling in candidates(product, rates):
            sizes = tiling.share_m, tiling.share_n, tiling.tile_m, tiling.tile_n, tiling.chunk_k
            if sizes == (256, 512, 128, 64, 8) and tiling.hold != "b":
                trace = run(program_of([cube_stage(one, product, tiling, soc, Expansion(soc))]), soc)
                took[tiling.hold] = trace.tasks[0].end - trace.tasks[0].start, tiling.cycles
        (machine, score), (machine_held, score_held) = took[""], took["a"]
        assert (machine > 1.15 * machine_held) == late == (score > 1.15 * score_held)


def moved(made: CubeProgram, *regions: str) -> tuple[int, int]:
    """Bytes that the program moves of some regions, and different ones."""
    spans = [transfers(made.block, region, region in ("c", "side")) for region in regions]
    return int(sum((span[:, 1] - span[:, 0]).sum() for span in spans)), sum(
        length(union(span)) for span in spans
    )


def blocked() -> Iterator[tuple[CubeProgram, Rates]]:
    """Programs whose operands come in whole blocks and that read no halo: what they move is exactly what the
    closed form counts."""
    for made, rates, *_ in busy():
        if not made.soc.split_cores and made.work.conv is None and not made.work.a_shared:
            yield made, rates


def test_moving_through_the_ports_of_a_core() -> None:
    for made, rates in blocked():
        slack = 1e-9 if is_even(made) else 0.3
        read = cycles_of(made, replace(free(rates), port_in=2.0, l2_size=0))
        assert read == pytest.approx(moved(made, "a", "b", "e_all")[0] / 2, rel=max(slack, 0.13)), made
        stored = cycles_of(made, replace(free(rates), port_out=2.0, l2_size=0))
        tile = made.tiling.tile_m * made.tiling.tile_n
        whole = made.product.m * made.product.n * made.product.batch * made.product.images
        padding = moved(made, "c")[0] / (whole * made.work.out.dtype.itemsize)
        wanted = moved(made, "c", "side")[0] / 2 / padding
        assert (
            wanted
            <= stored
            <= 1.3 * wanted
            + 2 * (tile + 512 + 16 * max(made.tiling.tile_m, made.tiling.tile_n)) * made.product.batch
        ), made


def test_bytes_from_dram() -> None:
    """Without L2 all that moves comes from DRAM, with a large one each byte once."""
    for made, rates in blocked():
        if rates.l2_managed:
            continue
        tiling = made.tiling
        share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
        sizes = (tiling.tile_m, tiling.tile_n), tiling.hold
        assert sum(dram_bytes(made.product, 1 << 50, share, *sizes)) == moved(made, "a", "b")[1], made
        assert sum(dram_bytes(made.product, 0, share, *sizes)) == moved(made, "a", "b")[0], made


def test_operands_are_as_large_as_their_tensors() -> None:
    """A map that the Cube takes as it lies ends at whole fractals, an operand that all products share counts
    for each of them."""
    seen: Counter[str] = Counter()
    for made in cube_programs():
        product, work = made.product, made.work
        if work.a.format is Format.ND:  # rows end anywhere
            continue
        a, b = work.a.bytes * (product.batch if work.a_shared else 1), work.b.bytes
        if work.conv is not None and not product.unfolds:
            positions = work.conv.height * work.conv.width
            a = a // positions * (positions + -positions % 16)
        assert product.operand_bytes == (a, b), made
        seen[f"{work.conv is not None} {product.unfolds} {work.a_shared}"] += 1
    assert len(seen) == 4


def test_a_map_that_is_a_matrix_already_comes_at_the_rate_of_the_port() -> None:
    """However short its rows are; windows that span several rows come more slowly."""
    soc = load("Ascend310")
    for size in (7, 56):
        assert product_of(square_convolution(64, size, 64, 1), soc).unfolding_efficiency == (1, 1)
    few, many = (product_of(square_convolution(64, size, 64, 3, 1, 1), soc) for size in (7, 56))
    assert few.unfolding_efficiency[1] < many.unfolding_efficiency[1] == 1
    assert few.unfolding_efficiency[0] == many.unfolding_efficiency[0] == 1


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [7, 13, 28, 112])
@pytest.mark.parametrize("counts", [False, True])
def test_the_closed_form_unfolds_at_the_rate_of_the_machine(stride: int, size: int, counts: bool) -> None:
    soc = load("Ascend310", {"ports.load3d_counts_rows": counts})
    work = square_convolution(64, size, 64, 3, stride, 1)
    assert work.conv is not None
    left, map_rows = Operand(Buffer.L0A, "a", 512), Operand(Buffer.L1, "x", 512)
    load3d = Img2Col(left, map_rows, 512, stride, input_rows(work.conv))
    share = product_of(work, soc).unfolding_efficiency[rates_of(soc, "float16").load3d_rows]
    assert share == pytest.approx(load3d_efficiency(load3d, True, soc.ports))


def test_what_is_hidden_behind_the_slowest_pipe_counts_an_eighth() -> None:
    """16 x 16 x 16 once: 800 cycles on the Cube, 400 of loading, 80 on the way out, and so with memory."""
    product = Product(1, 1, 16, 16, 1, None, 2, "float16")
    nothing = free(rates_of(load("Ascend310"), "float16"))
    tiling = Tiling(1, 1, 16, 16, 16, 16, 1, 1, "", 2, 0.0, 16)
    cube, loads = replace(nothing, per_block=800), replace(nothing, l1_to_l0a=512 / 400)
    assert tiling_cycles(product, tiling, cube) == 800
    assert tiling_cycles(product, tiling, loads) == 400
    assert tiling_cycles(product, tiling, replace(cube, l1_to_l0a=512 / 400)) == 850
    # and the last one leaves
    assert (
        tiling_cycles(product, tiling, replace(cube, l1_to_l0a=512 / 400, out=1024 / 80))
        == 800 + (400 + 80) / 8 + 80
    )


@cache
def searched() -> tuple[tuple[Product, Rates, tuple[Tiling, ...]], ...]:
    """Products on whole chips with all their tilings."""
    random, found = Random(3), []
    for number in range(16):
        soc = load(CHIPS[number % len(CHIPS)])
        work = matmul(random, soc, 900) if number % 8 < 4 else convolution(random)
        product, rates = product_of(work, soc), rates_of(soc, "float16")
        found.append((product, rates, tuple(candidates(product, rates, 1))))
    return tuple(found)


def test_nothing_is_left_out_that_could_be_best() -> None:
    closest = nearest = 0.0
    for product, rates, every in searched():
        for tiling in Random(11).sample(every, min(400, len(every))):
            share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
            tile = tiling.tile_m, tiling.tile_n
            least = least_of_tiles(product, rates, share, tile, tiling.accumulators)
            moves = least_of_moves(product, rates, share, tile, tiling.hold, least - rates.latency)
            least += cores_of(product, share) * rates.dispatch
            assert least <= tiling.cycles * (1 + 1e-9)
            closest = max(closest, least / tiling.cycles)
            assert moves <= tiling.cycles * (1 + 1e-9)
            nearest = max(nearest, moves / tiling.cycles)
            assert tiling.cycles >= least_cycles(product, rates, share) * (1 - 1e-9)
            assert tiling.cycles >= loading_cycles(product, rates, share, tiling.tile_m, tiling.tile_n) * 0.7
            assert tiling.cycles == tiling_cycles(product, tiling, rates)
        found = set(candidates(product, rates, 1, NEAR))
        for depth in queue_depths(rates.queue):
            best = min(tiling.cycles for tiling in every if depth in tiling.depths)
            near = {one for one in every if depth in one.depths and one.cycles <= NEAR * best}
            assert near <= found
    assert closest > 0.85
    assert nearest > 0.85


@pytest.mark.parametrize("layer", [(256, 28, 256), *slow((256, 56, 512))])
@pytest.mark.parametrize("kernel", [1, 2])
def test_what_moves_at_least_leaves_out_rows_that_no_tile_brings(
    layer: tuple[int, int, int], kernel: int
) -> None:
    soc = load("Ascend910A")
    product = product_of(lowering.convolution(*layer, kernel, 3, images=8), soc)
    rates = rates_of(soc, "float16")
    for tiling in candidates(product, rates, 1):
        share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
        tile = tiling.tile_m, tiling.tile_n
        least = least_of_tiles(product, rates, share, tile, tiling.accumulators)
        assert (
            least_of_moves(product, rates, share, tile, tiling.hold, least - rates.latency) <= tiling.cycles
        )


def test_the_best_of_different_sizes_are_timed_if_they_come_near() -> None:
    """Within 8 %, as docs/how_time_is_modelled.md says: six with chunks for the chip's queue, and four with
    chunks for half of it, which take no place of the six."""
    fullest = 0
    for number in range(24):
        soc = load(CHIPS[number % len(CHIPS)])
        product = product_of(matmul(Random(number), soc, 900), soc)
        every = list(candidates(product, rates_of(soc, "float16"), 2))
        wanted: set[float] = set()
        for depth, most in ((16, 6), (8, 4)):
            by_size: dict[tuple[int, int], float] = {}
            for tiling in every:
                size = tiling.tile_m, tiling.tile_n
                if depth in tiling.depths:
                    by_size[size] = min(tiling.cycles, by_size.get(size, math.inf))
            near = [cycles for cycles in sorted(by_size.values()) if cycles <= 1.08 * min(by_size.values())]
            wanted |= set(near[:most])
            fullest += len(near) > most
        timed = [tiling.cycles for tiling in best_tilings(product, soc)]
        assert timed == sorted(wanted), number
    assert fullest > 1


def test_a_chip_that_is_twice_as_fast_takes_half_the_cycles() -> None:
    for product, rates, every in searched():
        faster = replace(rates, **{name: getattr(rates, name) * 2 for name in RATES if hasattr(rates, name)})
        faster = replace(faster, **{name: getattr(rates, name) / 2 for name in CYCLES})
        for tiling in Random(5).sample(every, min(20, len(every))):
            if not rates.odd_penalty:
                assert tiling_cycles(product, tiling, faster) == pytest.approx(tiling.cycles / 2)


def test_no_figure_that_gets_better_makes_a_tiling_slower_and_each_counts() -> None:
    """But for a little: loads that wait for a full queue wait for longer behind a Cube that is quicker."""
    counts: Counter[str] = Counter()
    for product, rates, every in searched():
        for tiling in Random(7).sample(every, min(6, len(every))):
            for name in (*RATES, *CYCLES, "unaligned", "queue"):
                if hasattr(rates, name):
                    value = getattr(rates, name)
                    better = replace(rates, **{name: value * 2 if name not in CYCLES else value / 2})
                    assert tiling_cycles(product, tiling, better) <= tiling.cycles * 1.04, (name, tiling)
                    worse = replace(rates, **{name: value * 9 if name in CYCLES else max(1, value // 9)})
                    counts[name] += tiling_cycles(product, tiling, worse) > tiling.cycles * 1.001
    assert all(counts[name] > 3 for name in (*RATES, *CYCLES, "queue") if name != "cut_rows"), counts


def test_one_more_block_costs_its_dispatch() -> None:
    for number in range(12):
        random, soc = Random(number), load(CHIPS[number % len(CHIPS)])
        work = matmul(random, soc) if number % 2 else convolution(random)
        product = product_of(work, soc)
        every = list(candidates(product, rates_of(soc, "float16"), 1))
        tiling = random.choice(every)
        blocks = sum(group.count for group in cube_stage(work, product, tiling, soc, Expansion(soc)).groups)
        assert 1 <= blocks <= soc.ai_cores
        assert (
            tiling_cycles(product, tiling, replace(free(rates_of(soc, "float16")), dispatch=3)) == 3 * blocks
        )


@pytest.mark.parametrize("l2", ["256KiB", "512KiB", "1MiB", "3MiB"])
def test_bytes_from_dram_are_those_of_the_machine(l2: str) -> None:
    """Also where L2 holds a part of what a loop comes back to, for one core and for several."""
    random = Random(2)
    for cores in (1, 8):
        soc = load("Ascend310P3", {"l2.size": l2, "ai_cores": cores})
        work = plain_matmul(1024, 512, 768, soc)
        product, rates = product_of(work, soc), rates_of(soc, "float16")
        every = list(candidates(product, rates))
        for hold in ("", "a", "b"):
            for tiling in random.sample([one for one in every if one.hold == hold], 5):
                share = tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n
                formula = dram_bytes(product, rates.l2_size, share, (tiling.tile_m, tiling.tile_n), hold)
                trace = run(program_of([cube_stage(work, product, tiling, soc, Expansion(soc))]), soc)
                assert sum(formula) == pytest.approx(trace.tasks[0].read_bytes["ddr"], rel=1e-6), tiling


WORKS = (
    lambda soc: plain_matmul(512, 768, 512, soc),
    lambda soc: plain_matmul(16, 2048, 1000, soc),
    lambda soc: square_convolution(64, 28, 128, 3, 1, 1),
    lambda soc: square_convolution(256, 14, 512, 1),
    lambda soc: square_convolution(3, 112, 64, 7, 2, 3),
)


@pytest.mark.parametrize(("chip", "rank"), [("Ascend310", 0.95), ("Ascend310P3", 0.9), ("Ascend910A", 0.85)])
def test_tilings_are_ranked_as_on_the_machine(chip: str, rank: float) -> None:
    soc, random = load(chip), Random(2)
    scores, times = [], []
    for make in WORKS:
        work = make(soc)
        product = product_of(work, soc)
        every = sorted(candidates(product, rates_of(soc, "float16")), key=lambda tiling: tiling.cycles)
        near = [tiling for tiling in every if tiling.cycles < 4 * every[0].cycles]
        for tiling in random.sample(near, min(8, len(near))):
            trace = run(program_of([cube_stage(work, product, tiling, soc, Expansion(soc))]), soc)
            record = trace.tasks[0]
            scores.append(tiling.cycles)
            times.append(float((record.end - record.start) * trace.tick_seconds) * soc.frequency_mhz * 1e6)
    assert all(0.55 < score / time < 1.7 for score, time in zip(scores, times, strict=True))
    ranks = np.argsort(np.argsort(scores)), np.argsort(np.argsort(times))
    assert np.corrcoef(*ranks)[0, 1] > rank
