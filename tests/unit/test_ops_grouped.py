"""GroupedMatmul: values by group, what is refused, and that time follows the rows of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.isa.checks import check_block
from ascendsim.isa.cross_checks import check_teams
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.program import TaskKind
from ascendsim.soc import load

RANDOM = np.random.default_rng(8)
NAME = "GroupedMatmul"


def product(
    x: Any, weight: Any, groups: Any, *, more: Any = (), known: bool = True, **attributes: Any
) -> Any:
    """Its graph; `more`: bias, scale and per_token_scale."""
    b = asim.GraphBuilder()
    bias, scale, token = (*more, None, None, None)[:3]
    listed = b.constant(groups, "g") if known else b.input("g", groups.shape, "int64")
    held = b.input("x", x.shape, x.dtype.name)
    inputs = (held, weight, bias, scale, None, None, None, listed, token)
    b.output(b.op(NAME, *inputs, domain="ascend", name="p", **attributes), "y")
    return b.build()


def computed(x: Any, weight: Any, groups: Any, **options: Any) -> Any:
    model = asim.compile(product(x, weight, groups, **options), "Ascend910B1")
    fed = {"x": x} if options.get("known", True) else {"x": x, "g": groups}
    return asim.run(model, fed).outputs["y"]


def halves(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("known", [True, False])
def test_rows_of_a_group_meet_its_matrix_alone(known: bool) -> None:
    x, weight, counts = halves(10, 32), halves(4, 32, 24), np.array([3, 0, 5, 1])
    expected = np.zeros((10, 24), np.float32)  # the last row is in no group
    for row, group in enumerate([0, 0, 0, 2, 2, 2, 2, 2, 3]):
        expected[row] = x[row].astype(np.float32) @ weight[group].astype(np.float32)
    for groups, kind in ((counts, 1), (np.cumsum(counts), 0)):
        got = computed(x, weight, groups, known=known, group_list_type=kind)
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)
    turned = computed(x, weight.swapaxes(1, 2).copy(), np.cumsum(counts), transpose_weight=1)
    np.testing.assert_array_equal(turned, got)
    bias = halves(4, 24)
    added = computed(x, weight, counts, group_list_type=1, more=(bias,))
    expected[:9] += bias[[0, 0, 0, 2, 2, 2, 2, 2, 3]].astype(np.float32)
    np.testing.assert_allclose(added, expected, rtol=2e-3, atol=4e-3)


def test_int8_is_scaled_by_column_and_row() -> None:
    x = RANDOM.integers(-128, 128, (7, 64)).astype(np.int8)
    weight = RANDOM.integers(-128, 128, (3, 64, 16)).astype(np.int8)
    columns, rows = (RANDOM.random(shape).astype(np.float32) * 1e-3 for shape in ((3, 16), (7,)))
    owner = [0, 0, 1, 1, 1, 1, 2]
    sums = np.stack([x[i].astype(np.int64) @ weight[g].astype(np.int64) for i, g in enumerate(owner)])
    counts = np.array([2, 4, 1])
    plain = computed(x, weight, counts, group_list_type=1, more=(None, columns))
    np.testing.assert_allclose(plain, sums * columns[owner], rtol=1e-3)
    both = computed(x, weight, counts, group_list_type=1, more=(None, columns, rows), dtype=DType.BFLOAT16)
    assert both.dtype.name == "bfloat16"
    np.testing.assert_allclose(both.astype(np.float32), sums * columns[owner] * rows[:, None], rtol=8e-3)
    whole = RANDOM.integers(-9000, 9000, (3, 16)).astype(np.int32)
    shifted = computed(x, weight, counts, group_list_type=1, more=(whole, columns))
    np.testing.assert_allclose(shifted, (sums + whole[owner]) * columns[owner], rtol=1e-3)


@pytest.mark.parametrize(
    ("groups", "attributes", "what"),
    [
        ([4, 7], {"group_list_type": 1}, "within the 10 rows"),
        ([6, 4], {}, "within the 10 rows"),
        ([5, 5], {"group_type": 2}, "group_type 0"),
        ([5, 5], {"group_list_type": 3}, "group_list_type 0 or 1"),
        ([5, 5, 5], {}, "input 7"),
    ],
)
def test_bad_groups_are_refused(groups: list[int], attributes: dict[str, int], what: str) -> None:
    with pytest.raises(GraphError, match=what):
        computed(halves(10, 32), halves(2, 32, 24), np.array(groups), **attributes)


def test_int8_without_scales_is_refused() -> None:
    x, weight = np.ones((4, 32), np.int8), np.ones((2, 32, 32), np.int8)
    with pytest.raises(GraphError, match="scales"):
        computed(x, weight, np.array([2, 4]))


def timed(
    tokens: int,
    counts: Any,
    kind: str = "float16",
    chip: str = "Ascend910B1",
    known: Any = None,
    **options: Any,
) -> Any:
    groups = len(counts) if counts is not None else 8
    k, n = 1024, 768
    b = asim.GraphBuilder()
    x = b.input("x", (tokens, k), kind)
    weight = b.weight("w", (groups, k, n), dtype=DType(kind))
    listed = b.input("g", (groups,), "int64") if counts is None else b.constant(np.array(counts), "g")
    scale = b.constant(np.ones((groups, n), np.float32), "s") if kind == "int8" else None
    token = b.input("t", (tokens,), "float32") if kind == "int8" else None
    inputs = (x, weight, None, scale, None, None, None, listed, token)
    made = b.op(NAME, *inputs, domain="ascend", name="p", group_list_type=1, known_rows=known)
    b.output(made, "y")
    result = asim.simulate(asim.compile(b.build(), chip, options=options))
    (task,) = result.model.tasks_of("p")
    return result.trace.us(result.trace.tasks[-1].end - result.trace.tasks[-1].start), task


def read(task: Any, region: str) -> int:
    (access,) = [access for access in task.accesses if access.region == region and not access.write]
    return int(access.unique_bytes)


def test_matrices_of_groups_without_rows_are_not_read() -> None:
    every, _ = timed(64, [8] * 8)
    few, task = timed(64, [32, 0, 0, 32, 0, 0, 0, 0])
    assert read(task, "w") == 2 * 2 * 1024 * 768
    assert few < 0.6 * every


def test_unknown_groups_count_as_even_or_as_expected() -> None:
    assert timed(64, None)[0] == timed(64, [8] * 8)[0]
    few = [32, 0, 0, 32, 0, 0, 0, 0]
    assert timed(64, None, known=few)[0] == timed(64, few)[0]
    with pytest.raises(GraphError, match="known_rows of 8 groups"):
        timed(64, None, known=[32, 32])


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_a_large_group_among_small_ones(kind: str) -> None:
    """Parts of one kernel: each matrix comes once, and all blocks keep the rules."""
    us, task = timed(1200, [1000, 50, 50, 50, 0, 20, 20, 10], kind)
    even, _ = timed(1200, [150] * 8, kind)
    assert task.kind is (TaskKind.AI_CORE if kind == "float16" else TaskKind.MIX_AIC)
    assert read(task, "w") == 7 * 1024 * 768 * DType(kind).itemsize
    if kind == "int8":
        check_teams(task)
    for group in task.groups:
        check_block(group.block, load("Ascend910B1"))
        check_hazards(group.block)
    assert 0.5 * even < us < 2 * even


def test_weights_in_fractals() -> None:
    for kind in ("float16", "int8"):
        plain, fractal = (
            timed(16, [2] * 8, kind, **more)[0] for more in ({}, {"weight_format": "FRACTAL_NZ"})
        )
        assert fractal <= plain
    assert timed(64, [8] * 8, chip="Ascend310P3")[1].kind is TaskKind.AI_CORE
