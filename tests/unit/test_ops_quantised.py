"""Integer products: exactness, requantisation against onnxruntime, work descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import CubeWork
from ascendsim_kernels.gemm import integer_matmul
from tests.support.single_node import infer, lower, run, with_onnxruntime


def integers(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("inner", [1, 7, 1024, 1025, 4096])
def test_worst_case_products_are_exact(inner: int) -> None:
    low = np.full((2, inner), -128, np.int8)
    assert (integer_matmul(low.astype(np.int32), low.T.astype(np.int32)) == 128 * 128 * inner).all()


def test_random_products_are_exact() -> None:
    a, b = (
        integers(np.uint8, 3, 5, 700).astype(np.int32) - 3,
        integers(np.int8, 700, 4).astype(np.int32) + 100,
    )
    np.testing.assert_array_equal(integer_matmul(a, b), a.astype(np.int64) @ b)


@pytest.mark.parametrize("zero", [None, "scalar", "vector"])
def test_matmul_integer(zero: str | None) -> None:
    a, b = integers(np.uint8, 4, 300), integers(np.int8, 300, 5, seed=1)
    zeros: list[Any] = []
    if zero == "scalar":
        zeros = [np.array(7, np.uint8), np.array(-3, np.int8)]
    elif zero == "vector":
        zeros = [integers(np.uint8, 4, seed=2), integers(np.int8, 5, seed=3)]
    left = a.astype(np.int64) - (zeros[0].reshape(-1, 1) if zeros else 0)
    right = b.astype(np.int64) - (zeros[1] if zeros else 0)
    result = run("MatMulInteger", [a, b, *zeros])[0]
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, left @ right)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8, 9), (4, 3, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 1)}),
    ((1, 6, 6, 6), (6, 1, 3, 3), {"group": 6, "pads": (1, 1, 1, 1)}),
    ((1, 300, 4, 4), (3, 300, 3, 3), {}),
    ((1, 600, 4, 4), (2, 300, 3, 3), {"group": 2}),
]


@pytest.mark.parametrize(("image", "weight", "attributes"), CONVOLUTIONS)
def test_conv_integer_is_exact(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    x, w = integers(np.uint8, *image), integers(np.uint8, *weight, seed=1)
    zeros = [np.array(200, np.uint8), np.array(3, np.uint8)]
    wide = run("Conv", [x.astype(np.float64) - 200, w.astype(np.float64) - 3], **attributes)[0]
    np.testing.assert_array_equal(run("ConvInteger", [x, w, *zeros], **attributes)[0], wide.astype(np.int64))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qlinear_conv_equals_onnxruntime(dtype: Any, per_channel: bool) -> None:
    rng = np.random.default_rng(1)
    x, w = integers(dtype, 1, 4, 9, 9), integers(np.int8, 5, 4, 3, 3, seed=1)
    w_scale = rng.uniform(0.001, 0.01, 5).astype(np.float32) if per_channel else np.float32(0.004)
    w_zero = np.zeros(5 if per_channel else (), np.int8)
    bias = rng.integers(-500, 500, 5).astype(np.int32)
    zero = dtype(120) if dtype is np.uint8 else dtype(-5)
    inputs = [x, np.float32(0.02), zero, w, w_scale, w_zero, np.float32(0.05), dtype(10), bias]
    oracle = with_onnxruntime("QLinearConv", inputs, weights=(3, 5), pads=(1, 1, 1, 1))[0]
    mine = run("QLinearConv", inputs, pads=(1, 1, 1, 1))[0]
    assert mine.dtype == oracle.dtype
    assert np.abs(mine.astype(int) - oracle).max() <= 1  # float32 scales are multiplied in another order
    assert (mine == oracle).mean() > 0.99


def test_a_bias_has_a_value_for_each_channel() -> None:
    x, w = integers(np.int8, 1, 4, 9, 9), integers(np.int8, 5, 4, 3, 3)
    one, zero = np.float32(1), np.int8(0)
    with pytest.raises(GraphError, match="5"):
        run("QLinearConv", [x, one, zero, w, one, zero, one, zero, np.zeros(6, np.int32)])


def test_qlinear_matmul_equals_onnxruntime() -> None:
    a, b = integers(np.uint8, 2, 6, 40), integers(np.uint8, 40, 5, seed=1)
    inputs = [
        a,
        np.float32(0.01),
        np.uint8(128),
        b,
        np.float32(0.02),
        np.uint8(100),
        np.float32(0.3),
        np.uint8(60),
    ]
    oracle, mine = with_onnxruntime("QLinearMatMul", inputs)[0], run("QLinearMatMul", inputs)[0]
    assert np.abs(mine.astype(int) - oracle).max() <= 1
    assert (mine == oracle).mean() > 0.99


def test_results_saturate() -> None:
    one = np.full((1, 64), 127, np.int8)
    inputs = [one, np.float32(1), np.int8(0), one.T, np.float32(1), np.int8(0), np.float32(1), np.int8(0)]
    assert run("QLinearMatMul", inputs)[0][0, 0] == 127


def test_shapes_and_types() -> None:
    with pytest.raises(GraphError, match="int8 or uint8 as input 0, not float32"):
        infer("MatMulInteger", [(2, 3), (3, 4)])
    x, w = integers(np.uint8, 1, 8, 6, 6), integers(np.int8, 16, 8, 3, 3)
    work = lower(
        "QLinearConv",
        [
            x,
            np.float32(1),
            np.uint8(0),
            w,
            np.ones(16, np.float32),
            np.zeros(16, np.int8),
            np.float32(1),
            np.uint8(3),
        ],
    )
    assert isinstance(work, CubeWork)
    assert work.dtype is DType.INT8
    assert (work.k, work.n) == (72, 16)
    assert [step.op for step in work.epilogue] == ["deqscale", "vadds", "vconv"]
    assert work.epilogue_inputs[0].over == "col"
    plain = lower("MatMulInteger", [integers(np.int8, 4, 8), integers(np.int8, 8, 5)])
    assert isinstance(plain, CubeWork)
    assert plain.epilogue == ()
