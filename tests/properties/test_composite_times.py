"""A composite kernel is never slower than its parts one by one, and has their values to the bit, on random
composites of every family."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.compiling import CompiledModel
from tests.support.akg import random_inputs
from tests.support.random_composites import FAMILIES, random_composite

CHIPS = ("Ascend910A", "Ascend910B1", "Ascend310P3", "Ascend310")
# What once was slower than its parts (of those that every draw has: a bias repeated inside of rows, sums that
# hold back all else, tiles of a piece of UB, what came back from DRAM instead of L2), and some more
SEEDS = {
    "bias_and_transpose": (21, 37),
    "norm_gradient": (3, 9),
    "reshape_and_add": (3, 15, 26),
    "softmax": (0, 1),
    "optimiser_step": (0, 3),
    "any_chain": (3, 16, 35),
}
MORE = range(100, 125)


@cache
def compiled(family: str, seed: int, chip: str, fusion: str, scale: int = 1 << 22) -> CompiledModel:
    graph = asim.load(json.dumps(random_composite(family, seed, scale)).encode())
    return asim.compile(graph, soc=chip, fusion=fusion, precision_mode="must_keep_origin_dtype")


def not_slower(family: str, seed: int, chip: str) -> None:
    fused, parts = (
        asim.simulate(compiled(family, seed, chip, fusion)).duration_us for fusion in ("graph-kernel", "off")
    )
    assert fused <= 1.01 * parts, (
        f"{family} {seed} on {chip}: {fused:.2f} us as one kernel, {parts:.2f} us as parts"
    )


@pytest.mark.parametrize(
    ("family", "seed", "chip"),
    [  # in the gate the last of each family, one of each kind of core in turn
        pytest.param(
            family,
            seed,
            chip,
            marks=() if seed == seeds[-1] and chip == CHIPS[place % 2] else pytest.mark.slow,
        )
        for place, (family, seeds) in enumerate(SEEDS.items())
        for seed in seeds
        for chip in CHIPS
    ],
)
def test_a_kernel_is_not_slower_than_its_parts(family: str, seed: int, chip: str) -> None:
    not_slower(family, seed, chip)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_kernel_of_many_is_slower_than_its_parts(family: str, seed: int) -> None:
    for chip in CHIPS:
        not_slower(family, seed, chip)


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_kernel_has_the_values_of_its_parts(family: str) -> None:
    for seed in SEEDS[family]:
        inputs = random_inputs(random_composite(family, seed, 1 << 12), {}, seed)
        models = [compiled(family, seed, CHIPS[0], fusion, 1 << 12) for fusion in ("graph-kernel", "off")]
        fused, parts = (asim.run(model, inputs).outputs for model in models)
        assert fused.keys() == parts.keys()
        for name, array in parts.items():
            assert array.dtype == fused[name].dtype
            assert np.array_equal(array, fused[name], equal_nan=True), (family, seed, name)
