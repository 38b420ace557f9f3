"""What the closed form says of waiting, by hand: a chip on which nothing takes time but what a case names."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cache

import pytest

from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.score import score
from ascendsim.soc import load

FAST = ("l1_to_l0a", "l1_to_l0b", "out", "port_in", "port_out", "l2_share", "dram", "vector")
QUICK = ("latency", "start", "load2d_gap", "load3d_head", "mmad_gap", "per_block", "dispatch")


@cache
def free() -> Rates:
    """A chip on which nothing takes time."""
    fast, quick = dict.fromkeys(FAST, math.inf), dict.fromkeys(QUICK, 0)
    plain = rates_of(load("Ascend310"), "float16")
    return replace(plain, **fast, **quick, cores=1, queue=48, odd_penalty=False)  # type: ignore[arg-type]


@cache
def late() -> Rates:
    """A chip on which memory takes 100 cycles to answer."""
    return replace(free(), latency=100)


def product(m: int = 16, n: int = 16, **more: object) -> Product:
    """8 blocks of k."""
    return replace(Product(1, 1, m, n, 8, None, 2, "float16"), **more)  # type: ignore[arg-type]


def cycles(
    whole: Product,
    rates: Rates,
    chunk: int = 8,
    step: int = 8,
    *,
    share: tuple[int, int, int, int] | None = None,
    hold: str = "",
    accumulators: int = 2,
    band: int = 16,
    limit: float = math.inf,
) -> float:
    """Of tiles of 16 x 16 on one core."""
    share = share or (whole.batch, whole.images, whole.m, whole.n)
    held = {"hold": hold, "accumulators": accumulators, "band": band, "limit": limit}
    return score(whole, rates, share, (16, 16, chunk, step), **held)  # type: ignore[arg-type]


def test_all_figures_are_free_or_named() -> None:
    named = {
        "cores",
        "l0a",
        "l0b",
        "l0c",
        "l1",
        "half_duplex",
        "l2_size",
        "l2_managed",
        "load3d_rows",
        "odd_penalty",
        "queue",
    }
    named |= {"unaligned", "cut_rows", "cut_ragged", "request", "line", "holds_requests", "waiting"}
    named |= {"load3d_least_l0b"}  # of gradients of filters
    assert {field.name for field in fields(Rates)} == named | {*FAST, *QUICK}
    assert cycles(product(64, 64), free()) == 0


def test_the_first_load_waits_for_the_latency_and_each_chunk_for_half_of_what_the_cube_leaves_of_it() -> None:
    assert cycles(product(), late()) == 100 + 50
    assert cycles(product(32), late(), chunk=2, step=2) == 100 + 2 * 4 * 50
    busy = replace(late(), per_block=30)  # 60 cycles a chunk of two blocks
    assert cycles(product(32), busy, chunk=2, step=2) == 100 + 2 * 240 + 2 * 4 * 20
    assert cycles(product(32), replace(late(), per_block=50), chunk=2, step=2) == 100 + 2 * 400
    assert cycles(product(32), replace(late(), per_block=100), chunk=2, step=2) == 100 + 2 * 800


def test_a_new_panel_waits_for_its_load() -> None:
    assert cycles(product(n=48), late(), hold="b") == 3 * 100 + 3 * 50
    assert cycles(product(n=48), late(), chunk=2, step=2, hold="b") == (3 + 3 / 4) * 100 + 12 * 50
    images = product(48, images=2)
    assert cycles(images, late(), hold="a") == 6 * 100 + 6 * 50
    assert cycles(images, late(), hold="b") == 100 + 6 * 50  # which stays for all images
    products = product(48, batch=2)
    assert cycles(products, late(), hold="b") == 2 * 100 + 6 * 50


def test_tiles_of_one_band_have_been_brought_together() -> None:
    assert cycles(product(32), late(), hold="b", band=32) == 100
    assert cycles(product(32), late(), hold="b", band=16) == 100 + 2 * 50


def test_loads_do_not_run_ahead_into_the_next_turn_where_the_queue_is_full() -> None:
    """Four mmads a load; with 12 entries the scalar unit is three ahead, with 15 four."""
    slow = replace(late(), per_block=4)  # 32 cycles a tile, 8 a step
    plain = 100 + 3 * 32
    assert cycles(product(n=48), replace(slow, queue=15), step=2) == plain + 3 * (100 - 32) / 2
    assert cycles(product(n=48), replace(slow, queue=12), step=2) == plain + 2 * (100 - 3 * 8)
    assert cycles(product(48), replace(slow, queue=12), step=2) == plain + 3 * (100 - 32) / 2  # one turn
    two = cycles(product(n=48), replace(slow, queue=12), chunk=4, step=1)
    assert two == plain + max(3 * 2 * (100 - 16) / 2, 2 * (100 - 3 * 4))
    band = cycles(product(64, 32), replace(slow, queue=12), step=4, hold="b", band=32)
    assert band == 2 * 100 + 8 * 32 + (100 - 3 * 32 / 2)


def test_one_accumulator_waits_for_the_way_out() -> None:
    """80 cycles on the Cube and 40 out: beside each other, where an eighth shows, or one after the other."""
    chip = replace(free(), per_block=10, out=1024 / 40)
    assert cycles(product(32), chip) == 2 * 80 + 40 + 2 * 40 / 8
    assert cycles(product(32), chip, accumulators=1) == 2 * 80 + 2 * 40 + 2 * 40 / 8
    ahead = product(n=32, bias_ahead=True)
    assert cycles(ahead, chip) == 2 * 80 + 40 + 2 * 40 / 8 + 40
    assert cycles(ahead, chip, hold="a") == cycles(product(n=32), chip, hold="a") == cycles(product(32), chip)
    assert cycles(ahead, chip, accumulators=1) == cycles(product(32), chip, accumulators=1)
    assert cycles(product(32, bias_ahead=True), chip) == cycles(product(32), chip)  # the columns stay


def test_starts_count_where_they_are_slower_than_the_work() -> None:
    """An mmad a step and two loads beside it; four things a tile on the way out."""
    chip = replace(free(), start=10)
    assert cycles(product(), chip, step=2) == 2 * 4 * 10 + 40 + (40 + 40) / 8
    slow = replace(chip, per_block=100)
    assert cycles(product(), slow, step=2) == 800 + 40 + (80 + 40) / 8


def test_batches_in_turn_and_more_blocks_than_cores_go_round_again() -> None:
    assert cycles(product(batch=3), late()) == 100 + 3 * 50
    assert cycles(product(batch=3, serial_batch=True), late()) == 3 * 150
    chip = replace(late(), cores=2, dispatch=7)
    assert cycles(product(images=3), chip, share=(1, 1, 16, 16)) == 2 * 150 + 3 * 7
    assert cycles(product(images=2), chip, share=(1, 1, 16, 16)) == 150 + 2 * 7


def test_what_computes_for_longer_than_the_limit_is_not_scored() -> None:
    chip = replace(free(), per_block=10)
    for whole, turns in ((product(32), 1), (product(32, batch=3, serial_batch=True), 3)):
        assert cycles(whole, chip, limit=turns * 160) == turns * 160
        assert cycles(whole, chip, limit=turns * 160 - 1) == math.inf


@pytest.mark.parametrize(("slowest", "others"), [("Cube", 40), ("MTE1", 40), ("out", 40)])
def test_pipes_beside_the_slowest_show_by_an_eighth(slowest: str, others: int) -> None:
    times = dict.fromkeys(("Cube", "MTE1", "out"), 20) | {slowest: 160}
    chip = replace(
        free(), per_block=times["Cube"] / 8, l1_to_l0a=8 * 512 / times["MTE1"], out=1024 / times["out"]
    )
    assert cycles(product(), chip) == 160 + others / 8 + times["out"]
