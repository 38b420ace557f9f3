"""Every composite file runs fused and unfused with the same bits, agrees with a second interpreter, and is
timed on two chips."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from tests.support.akg import DATA, FILES, SHAPES, Array, interpret, random_inputs, read_smaller

CHIPS = ("Ascend910A", "Ascend310P3")


@cache
def model(name: str, soc: str, fusion: str) -> CompiledModel:
    graph = asim.load(DATA / f"{name}.json", shapes=SHAPES.get(name))
    return asim.compile(graph, soc=soc, fusion=fusion, precision_mode="must_keep_origin_dtype")


# In the gate every eighth file, on the two chips in turn
ON_CHIPS = [
    pytest.param(name, soc, marks=() if place % 16 == 8 * turn else pytest.mark.slow)
    for place, name in enumerate(FILES)
    for turn, soc in enumerate(CHIPS)
]


@pytest.mark.parametrize(("name", "soc"), ON_CHIPS)
def test_a_composite_is_one_task_and_moves_no_more(name: str, soc: str) -> None:
    fused, unfused = model(name, soc, "graph-kernel"), model(name, soc, "off")
    assert len(fused.program.tasks) == 1
    if not name.startswith("ascend_cube"):  # smaller tiles of a product read its operands more often
        assert moved(fused) <= moved(unfused)
    times = asim.simulate(fused).duration_us, asim.simulate(unfused).duration_us
    assert times[0] > 0
    if len(unfused.program.tasks) == 1:
        assert times[0] == pytest.approx(times[1], rel=0.02)
    else:
        assert times[0] < times[1]


def moved(compiled: CompiledModel) -> int:
    return sum(access.moved_bytes for task in compiled.program.tasks for access in task.accesses)


def compare_values(name: str) -> None:
    data = read_smaller(name)
    inputs = random_inputs(data, SHAPES.get(name, {}))
    graph = asim.load(json.dumps(data).encode(), shapes=SHAPES.get(name))
    runs = [
        asim.run(
            asim.compile(graph, soc=CHIPS[0], fusion=fusion, precision_mode="must_keep_origin_dtype"), inputs
        )
        for fusion in ("graph-kernel", "off")
    ]
    fused, unfused = (run.outputs for run in runs)
    assert fused.keys() == unfused.keys()
    for key, array in unfused.items():
        assert array.dtype == fused[key].dtype
        assert np.array_equal(array, fused[key], equal_nan=True), key
    expected, updated = interpret(data, inputs)
    for key, array in expected.items():
        agree(unfused[key], array)
    for key, array in updated.items():
        if f"{key}_updated" in unfused:
            agree(unfused[f"{key}_updated"], array)


def agree(result: Array, expected: Array) -> None:
    """Equal up to what exponentials and sums may differ by: some units in the last place of the type, of the
    largest value."""
    expected = expected.reshape(result.shape)
    assert result.dtype == expected.dtype
    assert np.array_equal(np.isnan(result), np.isnan(expected))
    finite = np.isfinite(expected)
    assert np.array_equal(result[~finite], expected[~finite], equal_nan=True)
    if result.dtype.kind != "f":
        assert np.array_equal(result, expected)
        return
    scale = np.max(np.abs(expected[finite].astype(np.float64)), initial=1e-30)
    steps = 2 if result.dtype == np.float16 else 64
    error = np.max(
        np.abs(result[finite].astype(np.float64) - expected[finite].astype(np.float64)), initial=0.0
    )
    assert error <= steps * float(np.finfo(result.dtype).eps) * scale


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in FILES
        if name.startswith(("ascend_mlir", "gpu_bert", "ascend_sponge_03", "ascend_ci_03"))
        and not name.startswith(("gpu_bert_large_01", "gpu_bert_large_05"))  # of millions of elements
    ],
)
def test_values_of_small_files(name: str) -> None:
    compare_values(name)


@pytest.mark.slow
@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize("name", FILES)
def test_values_of_all_files(name: str) -> None:
    compare_values(name)
