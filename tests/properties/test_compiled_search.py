"""The search for tilings by compiled code finds what the interpreter finds, to the bit: random products of
every kind on chips of every kind, with figures changed at random.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from random import Random

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.lower.templates import compiled_search, tiling
from ascendsim.lower.templates.compiled_search import (
    ConvNumbers,
    ProductNumbers,
    RateNumbers,
    product_numbers,
    rate_numbers,
)
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.product import Product, Rates, rates_of
from ascendsim.lower.templates.strips import Strip
from ascendsim.lower.templates.tiling import Tiling, candidates
from ascendsim.lower.templates.width_tiles import strip_views
from ascendsim.soc import load
from tests.support.random_cubes import convolution, matmul, with_epilogue

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
NEVER, ALWAYS = 1 << 60, -1


def searched(monkeypatch: pytest.MonkeyPatch, after: int, product: Product, rates: Rates) -> object:
    """What a process finds that loads compiled code after so many searches; the error where nothing fits."""
    budget = compiled_search._Budget()
    monkeypatch.setattr(compiled_search, "_BUDGET", budget)
    monkeypatch.setattr(compiled_search, "SEARCHES", after)
    monkeypatch.setattr(compiled_search, "WITH_NUMBA", after)
    try:
        return tiling._search.__wrapped__(product, rates)
    except CompileError as error:
        return str(error)


def cases(count: int) -> list[tuple[Product, Rates]]:
    """Random work for chips with buffers, links and latencies of random sizes."""
    random, found = Random(7), []
    for number in range(count):
        soc = load(CHIPS[number % len(CHIPS)])
        plain = matmul(random, soc) if random.random() < 0.5 else convolution(random)
        work = with_epilogue(random, plain, soc)
        product, rates = product_of(work, soc), rates_of(soc, work.dtype.value)
        rates = replace(
            rates,
            l1=rates.l1 // random.choice((1, 2, 16, 64, 512)),
            l2_size=rates.l2_size // random.choice((1, 64, 4096)),
            half_duplex=random.random() < 0.5,
            odd_penalty=random.random() < 0.3,
            latency=random.choice((0, rates.latency, 3 * rates.latency)),
            unaligned=random.choice((1.0, rates.unaligned, 1.5)),
        )
        found.append((replace(product, images=random.choice((1, product.images, 7))), rates))
    return found


def test_compiled_code_finds_the_same_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = dict.fromkeys(("strips", "maps", "matrices", "misfits", "held a", "held b", "bands"), 0)
    for product, rates in cases(64):
        plain, quick = (searched(monkeypatch, after, product, rates) for after in (NEVER, ALWAYS))
        assert plain == quick, (product, rates)
        if isinstance(plain, str):
            kinds["misfits"] += 1
            continue
        assert isinstance(plain, tuple)
        assert repr(plain) == repr(quick)  # types too: 1 and 1.0 are equal, and so are 0.0 and -0.0
        best: Tiling = plain[0]
        kinds["maps" if product.unfolds else "matrices"] += 1
        kinds["strips"] += any(one.columns > 0 for one in plain)
        kinds["bands"] += any(one.band_m > one.tile_m for one in plain)
        kinds["held a"] += best.hold == "a"
        kinds["held b"] += best.hold == "b"
    assert all(kinds.values()), kinds


def test_all_candidates_are_the_same_where_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    strips = 0
    for product, rates in cases(16):
        for view in (product, *list(strip_views(product, rates))[:1]):
            for within, best in ((math.inf, math.inf), (1.08, math.inf), (1.08, 1e5)):
                ways = []
                for after in (NEVER, ALWAYS):
                    monkeypatch.setattr(compiled_search, "_BUDGET", compiled_search._Budget())
                    monkeypatch.setattr(compiled_search, "SEARCHES", after)
                    monkeypatch.setattr(compiled_search, "WITH_NUMBA", after)
                    ways.append(list(candidates(view, rates, 1, within, best)))
                assert ways[0] == ways[1]
                strips += isinstance(view.conv, Strip) and len(ways[0]) > 0
    assert strips


@pytest.mark.parametrize("chip", CHIPS)
def test_what_compiled_code_reads_is_what_the_product_and_the_chip_say(chip: str) -> None:
    """Numbers keep their values in the types of the tuples: nothing is rounded."""
    random, soc = Random(3), load(chip)
    for work in (matmul(random, soc), convolution(random)):
        product, rates = product_of(work, soc), rates_of(soc, work.dtype.value)
        told, figures = product_numbers(product), rate_numbers(rates)
        for name in RateNumbers._fields:
            assert getattr(figures, name) == getattr(rates, name)
        for name in set(ProductNumbers._fields) - {"conv"}:
            assert getattr(told, name) == getattr(product, name)
        if product.conv is not None:
            assert all(
                getattr(told.conv, name) == getattr(product.conv, name) for name in ConvNumbers._fields
            )
        others = {"waiting", "load3d_least_l0b"}  # the second is of gradients of filters, not compiled
        assert {field.name for field in fields(Rates)} - others <= set(RateNumbers._fields)


def test_compiled_code_is_loaded_when_the_process_has_searched_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled_search, "KERNELS_RAN", "no.such.module")
    budget = compiled_search._Budget()
    assert [budget.pays() for _ in range(compiled_search.SEARCHES)] == [False] * compiled_search.SEARCHES
    assert budget.pays()
    monkeypatch.setattr(compiled_search, "KERNELS_RAN", "sys")
    other = compiled_search._Budget()
    assert sum(not other.pays() for _ in range(compiled_search.SEARCHES)) == compiled_search.WITH_NUMBA
