"""Reductions and cumulative operators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import special

from ascendsim.core.errors import CompileError, GraphError
from ascendsim.core.formats import Format
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, VectorWork, Work, WorkChoice
from tests.support.gate import in_one
from tests.support.half import emulate, ulps
from tests.support.single_node import infer, make_node, run, with_onnxruntime

FORMULAS: dict[str, Any] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **k: np.sum(np.abs(x), **k),
    "ReduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "ReduceSumSquare": lambda x, **k: np.sum(x * x, **k),
    "ReduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "ReduceLogSumExp": special.logsumexp,
}
AXES = [axes for count in range(1, 4) for axes in itertools.combinations(range(3), count)]


@in_one("name", FORMULAS)
@in_one("axes", AXES)
def test_every_choice_of_axes(name: str, axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).random((3, 4, 5)) + 0.25
    for keep in (0, 1):
        given = np.array([axis - 3 for axis in axes])
        wanted = FORMULAS[name](x.astype(np.float32).astype(float), axis=axes, keepdims=bool(keep))
        np.testing.assert_allclose(
            run(name, [x.astype(np.float32), given], keepdims=keep)[0], wanted, rtol=2e-6, atol=1e-6
        )
        half = x.astype(np.float16)
        wanted_half = emulate(lambda v, keep=keep: FORMULAS[name](v, axis=axes, keepdims=bool(keep)), half)
        assert ulps(run(name, [half, given], keepdims=keep)[0], wanted_half).max() <= 1


@pytest.mark.parametrize("name", FORMULAS)
def test_integers_and_float64(name: str) -> None:
    x = np.arange(1, 13).reshape(3, 4)
    np.testing.assert_allclose(
        run(name, [x.astype(np.float64), np.array([1])])[0],
        FORMULAS[name](x, axis=1, keepdims=True),
        rtol=1e-12,
    )
    if "Log" not in name and name != "ReduceL2":
        found = run(name, [x, np.array([1])])[0]
        np.testing.assert_array_equal(found, np.trunc(FORMULAS[name](x, axis=1, keepdims=True)))
        assert found.dtype == np.int64


def test_no_axes_mean_all_or_none() -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(run("ReduceSum", [x])[0], [[10]])
    np.testing.assert_array_equal(run("ReduceSum", [x, np.array([], np.int64)], keepdims=0)[0], 10)
    np.testing.assert_array_equal(run("ReduceSum", [x, np.array([], np.int64)], noop_with_empty_axes=1)[0], x)
    np.testing.assert_array_equal(run("ReduceSumSquare", [x], noop_with_empty_axes=1)[0], x * x)


def test_empty_sets_and_bools() -> None:
    x = np.ones((2, 0, 3), np.float32)
    for name, wanted in (
        ("ReduceSum", 0),
        ("ReduceProd", 1),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
        ("ReduceLogSumExp", -np.inf),
    ):
        np.testing.assert_array_equal(
            run(name, [x, np.array([1])])[0], np.full((2, 1, 3), wanted, np.float32)
        )
    flags = np.array([[True, False], [True, True]])
    assert run("ReduceMax", [flags, np.array([1])])[0].tolist() == [[True], [True]]
    assert run("ReduceMin", [flags, np.array([1])])[0].tolist() == [[False], [True]]


def test_extremes_of_log_sum_exp() -> None:
    x = np.array([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    wanted = np.array([1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf])
    np.testing.assert_allclose(run("ReduceLogSumExp", [x, np.array([1])], keepdims=0)[0], wanted, rtol=1e-6)


def test_shapes_with_unknown_axes() -> None:
    assert infer("ReduceSum", [("n", 3, None), (1,)]) == [(None, None, None)]
    assert infer("ReduceSum", [("n", 3, None), (1,)], keepdims=0) == [None]
    assert infer("ReduceMean", [("n", 3, None), None], {1: [1, 2]}, keepdims=0) == [("n",)]
    with pytest.raises(GraphError, match=r"axes of node .* must be in \[-2, 2\), not 5"):
        infer("ReduceMax", [(2, 3), None], {1: [5]})


def _lowered(name: str, shape: tuple[int, ...], axes: Any, dtype: Any = np.float16) -> Work:
    node = make_node(name, [np.zeros(shape, dtype), np.array(axes)])
    definition = default_opset().get(node)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(intrinsics={"vexp": ("float16",)}))


@pytest.mark.parametrize(
    ("axes", "rows", "cols", "reduces", "gather"),
    [
        ([2, 3], 6, 20, "cols", 0),
        ([0, 1], 6, 20, "rows", 0),
        ([1], 3, 40, "rows", 40),
        ([0, 2, 3], 3, 40, "cols", 40),
        ([0, 1, 2, 3], 1, 120, "cols", 0),
        ([3], 24, 5, "cols", 0),
    ],
)
def test_lowering(axes: list[int], rows: int, cols: int, reduces: str, gather: int) -> None:
    work = _lowered("ReduceMax", (2, 3, 4, 5), axes)
    assert isinstance(work, VectorWork)
    assert (work.rows, work.cols, work.reduces, work.gather_bytes) == (rows, cols, reduces, gather)
    assert [step.op for step in work.steps] == ["vcmax" if reduces == "cols" else "vmax"]
    assert work.outputs[0].over == ("row" if reduces == "cols" else "col")


def test_lowering_elsewhere() -> None:
    assert isinstance(_lowered("ReduceSum", (2, 3), [1], np.int64), AiCpuWork)
    node = make_node("ReduceSum", [np.zeros((2, 3), np.float32), np.array([1])], known=False)
    definition = default_opset().get(node)
    assert definition.lower is not None
    node.output.shape = (2, 1)
    with pytest.raises((GraphError, CompileError), match="needs constant axes"):
        definition.lower(node, LowerContext())


@pytest.mark.parametrize(
    "attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}], ids=str
)
@pytest.mark.parametrize("axis", [0, -1])
def test_cumulative_sum(attributes: dict[str, Any], axis: int) -> None:
    x = np.random.default_rng(2).standard_normal((3, 5)).astype(np.float32)
    found = run("CumSum", [x, np.array(axis)], **attributes)[0]
    np.testing.assert_allclose(
        found, with_onnxruntime("CumSum", [x, np.array(axis)], **attributes)[0], rtol=1e-5, atol=1e-6
    )
    half = run("CumSum", [x.astype(np.float16), np.array(axis)], **attributes)[0]
    assert half.dtype == np.float16


def test_cumulative_product() -> None:
    x = np.array([[1, 2, 3, 4]], np.int32)
    assert run("CumProd", [x, np.array(1)])[0].tolist() == [[1, 2, 6, 24]]
    assert run("CumProd", [x, np.array(1)], exclusive=1, reverse=1)[0].tolist() == [[24, 12, 4, 1]]
    node = make_node("CumSum", [np.ones((2, 3, 4), np.float16), np.array(1)])
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, WorkChoice)
    core, cpu = work.ways  # slices of 8 B: the AI CPU may be quicker
    assert isinstance(core, VectorWork)
    assert (core.rows, core.cols, core.gather_bytes) == (6, 4, 8)
    assert isinstance(cpu, AiCpuWork)
    wide = definition.lower(
        make_node("CumSum", [np.ones((2, 3, 16), np.float16), np.array(1)]), LowerContext()
    )
    assert isinstance(wide, VectorWork)


def test_sums_over_positions_work_in_blocks() -> None:
    definition = default_opset().find("ReduceMean")
    assert definition is not None
    assert definition.in_blocks is not None
    data = np.zeros((1, 24, 7, 7), np.float16)
    node = make_node("ReduceMean", [data, np.array([2, 3])])
    assert definition.in_blocks(node, Format.NC1HWC0)
    assert not definition.in_blocks(node, Format.FRACTAL_NZ)
    assert not definition.in_blocks(make_node("ReduceMean", [data, np.array([1])]), Format.NC1HWC0)
    assert not definition.in_blocks(
        make_node("ReduceMean", [data, np.array([2, 3])], keepdims=0), Format.NC1HWC0
    )
    node.required(0).format = node.output.format = Format.NC1HWC0
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    # channels fill whole blocks
    assert (work.rows, work.cols, work.reduces, work.gather_bytes) == (49, 32, "rows", 0)
