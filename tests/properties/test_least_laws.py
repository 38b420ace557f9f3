"""Bounds of the search for tilings against the closed form: never above it, and equal to it or near where
they leave nothing out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import numpy as np
import pytest

from ascendsim.core.formats import ceil_div
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.least import least_of_moves, least_of_tiles
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.tiling import Tiling, candidates, shares
from ascendsim.soc import load
from tests.properties.test_score_laws import free, tiling_cycles
from tests.support.random_cubes import CHIPS, convolution, matmul

CORE = ("per_block", "l1_to_l0a", "l1_to_l0b", "out", "vector")


@cache
def some() -> tuple[tuple[Product, Rates, Tiling], ...]:
    """Tilings of random products on whole chips, of each some that lie apart in the order of the search."""
    random, found = Random(3), list[tuple[Product, Rates, Tiling]]()
    for number in range(32):
        soc = load(CHIPS[number % len(CHIPS)])
        work = matmul(random, soc, 700) if number % 8 < 4 else convolution(random)
        product, rates = product_of(work, soc), rates_of(soc, "float16")
        every = islice(candidates(product, rates, 1), 0, 600, 2)
        found += [(product, rates, tiling) for tiling in every]
    return tuple(found)


def share_of(tiling: Tiling) -> tuple[int, int, int, int]:
    return tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n


def kept(rates: Rates, *names: str) -> Rates:
    """A chip on which only these figures count."""
    return replace(free(rates), **{name: getattr(rates, name) for name in names})  # type: ignore[arg-type]


def test_what_a_core_does_at_least_is_its_score_if_instructions_follow_at_once() -> None:
    """And memory is free, whichever pipe is slowest; a bias that waits for the way out comes on top."""
    waiting = 0
    for product, rates, tiling in some():
        core = kept(rates, *CORE)
        found = least_of_tiles(
            product, core, share_of(tiling), (tiling.tile_m, tiling.tile_n), tiling.accumulators
        )
        score = tiling_cycles(product, tiling, core)
        if product.bias_ahead:
            waiting += score > found * (1 + 1e-9)
            assert found <= score * (1 + 1e-9)
        else:
            assert found == pytest.approx(score, rel=1e-9), tiling
    assert waiting > 0


@pytest.mark.parametrize(
    ("names", "least", "usually"),
    [
        (("port_in",), 0.75, 0.999),
        (("l2_share",), 0.75, 0.999),
        (("port_out",), 0.55, 0.9),
        (("dram",), 0.0, 0.85),  # tiny products are on the way for longer than in DRAM
        (("port_in", "port_out"), 0.55, 0.9),
        (("port_in", "port_out", "l2_share", "dram"), 0.2, 0.8),
    ],
)
def test_what_memory_does_at_least_is_near_its_score(
    names: tuple[str, ...], least: float, usually: float
) -> None:
    """Of products of several tiles in blocks: if computing is free, what is missing is the first tile's way
    in and the last one's way out."""
    for l2 in (False, True):
        ratios = []
        for product, rates, tiling in some():
            tiles = ceil_div(tiling.share_m, tiling.tile_m) * ceil_div(tiling.share_n, tiling.tile_n)
            if (
                product.conv is not None
                or product.a_rows
                or tiles * tiling.share_batch * tiling.share_images < 6
            ):
                continue
            memory = replace(kept(rates, *names), l2_size=rates.l2_size if l2 else 0)
            sizes = tiling.tile_m, tiling.tile_n
            found = least_of_moves(product, memory, share_of(tiling), sizes, tiling.hold, 0.0)
            ratios.append(found / tiling_cycles(product, tiling, memory))
        assert len(ratios) > 50
        assert least <= min(ratios) <= max(ratios) <= 1 + 1e-9
        assert np.median(ratios) >= usually


def test_cores_share_products_and_images_in_every_number() -> None:
    """Two products of twelve images: each has cores of its own first, then images have."""
    product = Product(2, 12, 64, 64, 4, None, 2, "float16")
    for images in (1, 2, 3, 4, 6, 12):
        assert (1, 12 // images, 64, 64) in set(shares(product, 2 * images)), images
    for cores in (1, 3, 8, 24, 40):
        for batch, images, m, n in shares(product, cores):
            parts = [
                ceil_div(size, part)
                for size, part in zip((2, 12, 64, 64), (batch, images, m, n), strict=True)
            ]
            assert np.prod(parts) <= cores
