"""MatMul, Gemm and Einsum: values, shape rules, errors, work descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, CubeWork, VectorWork
from tests.support.rounding import assert_device_rounding, assert_near_oracle
from tests.support.single_node import infer, lower, make_node, run, with_onnxruntime

PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((7, 33), (33, 5)),
    ((2, 3, 4, 5), (5, 6)),
    ((4, 5), (2, 3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((5,), (5, 6)),
    ((2, 4, 5), (5,)),
    ((5,), (5,)),
]
GEMMS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((6,), {}),
    ((4, 6), {"alpha": 0.5, "beta": 2.0}),
    ((4, 1), {"transA": 1}),
    ((), {"transB": 1, "beta": 0.25}),
    ((1, 6), {"transA": 1, "transB": 1, "alpha": -1.5}),
]


def random(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
def test_product_equals_onnxruntime(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = random(left, right)
    assert_near_oracle(run("MatMul", inputs)[0], with_onnxruntime("MatMul", inputs)[0])


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
def test_product_on_the_device_rounds_once(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = random(left, right, dtype=np.float16)
    a, b = (array.astype(np.float64) for array in inputs)
    assert_device_rounding(
        np.atleast_1d(run("MatMul", inputs)[0]), np.atleast_1d(a @ b), np.abs(a) @ np.abs(b), left[-1]
    )


def test_long_float16_sums_neither_overflow_nor_lose_small_terms() -> None:
    ones = np.ones((1, 4096), np.float16)
    assert run("MatMul", [ones, ones.T])[0][0, 0] == 4096  # a float16 accumulator would stop at 2048
    large = np.full((1, 4096), 64, np.float16)
    alternating = np.tile(np.array([64, -64], np.float16), 2048).reshape(-1, 1)
    assert run("MatMul", [large, alternating])[0][0, 0] == 0  # partial sums beyond the range of float16


def test_integers_multiply_exactly() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1000, 1000, (5, 7)), rng.integers(-1000, 1000, (7, 3))
    np.testing.assert_array_equal(run("MatMul", [a, b])[0], a @ b)


@pytest.mark.parametrize(("third", "attributes"), GEMMS)
def test_gemm_equals_onnxruntime(third: tuple[int, ...], attributes: dict[str, Any]) -> None:
    left = (5, 4) if attributes.get("transA") else (4, 5)
    right = (6, 5) if attributes.get("transB") else (5, 6)
    inputs = random(left, right, third)
    assert_near_oracle(
        run("Gemm", inputs, **attributes)[0], with_onnxruntime("Gemm", inputs, **attributes)[0]
    )
    assert_near_oracle(
        run("Gemm", inputs[:2], **attributes)[0], with_onnxruntime("Gemm", inputs[:2], **attributes)[0]
    )


def test_gemm_on_the_device_rounds_once() -> None:
    a, b, c = random((8, 64), (64, 16), (16,), dtype=np.float16)
    wide = [array.astype(np.float64) for array in (a, b, c)]
    exact = 0.5 * (wide[0] @ wide[1]) + 2 * wide[2]
    assert_device_rounding(
        run("Gemm", [a, b, c], alpha=0.5, beta=2.0)[0], exact, np.abs(wide[0]) @ np.abs(wide[1]) + 1, 67
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ii->i", [(4, 4)]),
        ("ij->", [(3, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("a,b,c->abc", [(2,), (3,), (4,)]),
        ("ba,ca", [(3, 4), (2, 4)]),
        (" i j , j -> i ", [(3, 4), (4,)]),
    ],
)
def test_einsum_equals_numpy(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = random(*shapes)
    expected = np.einsum(equation.replace(" ", ""), *(array.astype(np.float64) for array in inputs))
    result = run("Einsum", inputs, equation=equation)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    lower("Einsum", inputs, equation=equation)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(3, 4)], "2 terms, 1 inputs"),
        ("ij,jk->ik", [(3, 4), (5, 6)], "equal sizes"),
        ("ijk->i", [(3, 4)], "needs 3 axes for term 'ijk', not 2"),
        ("ij->k", [(3, 4)], "output letters"),
        ("i1->i", [(3, 4)], "equation of letters"),
    ],
)
def test_wrong_equations_are_named(equation: str, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer("Einsum", shapes, equation=equation)


def test_shapes_with_symbols() -> None:
    assert infer("MatMul", [("b", "s", 64), (64, 32)]) == [("b", "s", 32)]
    assert infer("MatMul", [("b", 4, None), (1, "k", 32)]) == [("b", 4, 32)]
    assert infer("MatMul", [None, (64, 32)]) == [None]
    assert infer("Gemm", [("n", 3), (5, 3), (5,)], transB=1) == [("n", 5)]
    assert infer("Einsum", [("b", 3, "k"), ("b", "k", 4)], equation="bij,bjk->bik") == [("b", 3, 4)]


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        ("MatMul", [(2, 3), (4, 5)], r"equal inner dimensions, not 3 and 4"),
        ("MatMul", [(2, 2, 3), (3, 3, 5)], r"batch axes that broadcast"),
        ("MatMul", [(), (3,)], r"rank >= 1"),
        ("Gemm", [(2, 3), (4, 5)], r"equal inner dimensions"),
        ("Gemm", [(2, 3, 4), (4, 5)], r"needs a matrix as input 0"),
        ("Gemm", [(2, 3), (3, 5), (4,)], r"input 2 to broadcast to \(2, 5\)"),
        ("Gemm", [(2, 3), (3, 5), (1, 2, 5)], r"input 2 of rank <= 2"),
    ],
)
def test_misfits_are_named(op: str, shapes: list[Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer(op, shapes)


def cube(op: str, *shapes: tuple[int, ...], **attributes: Any) -> CubeWork:
    work = lower(op, [np.zeros(shape, np.float16) for shape in shapes], **attributes)
    assert isinstance(work, CubeWork)
    return work


def test_work_of_a_batched_product() -> None:
    work = cube("MatMul", (2, 12, 128, 64), (2, 12, 64, 128))
    assert (work.m, work.k, work.n, work.batch, work.a_shared, work.b_shared) == (
        128,
        64,
        128,
        24,
        False,
        False,
    )
    shared = cube("MatMul", (4, 128, 64), (64, 32))
    assert (shared.m, shared.batch, shared.a_shared, shared.b_shared) == (128, 4, False, True)


def test_gemm_takes_a_vector_as_bias_and_all_else_as_epilogue() -> None:
    plain = cube("Gemm", (4, 8), (16, 8), (16,), transB=1)
    assert plain.bias is not None
    assert plain.transpose_b
    assert plain.epilogue == ()
    scaled = cube("Gemm", (4, 8), (8, 16), (4, 16), alpha=2.0)
    assert scaled.bias is None
    assert [step.op for step in scaled.epilogue] == ["vmuls", "vadd"]
    assert scaled.epilogue_inputs[0].over == "all"
    assert cube("Gemm", (4, 8), (8, 16), (4, 1)).epilogue_inputs[0].over == "row"


def test_einsum_contractions_run_on_the_cube_and_others_do_not() -> None:
    work = cube("Einsum", (2, 3, 4, 5), (2, 3, 6, 5), equation="bhqd,bhkd->bhqk")
    assert (work.batch, work.m, work.k, work.n) == (6, 4, 5, 6)
    assert isinstance(lower("Einsum", [np.zeros((3, 4), np.float16)], equation="ij->i"), VectorWork)


def test_wide_integers_go_to_the_ai_cpu() -> None:
    assert isinstance(lower("MatMul", [np.zeros((2, 3), np.int32), np.zeros((3, 2), np.int32)]), AiCpuWork)


def test_operator_types_follow_the_rank() -> None:
    assert default_opset().cann_type(make_node("MatMul", random((2, 3), (3, 4)))) == "MatMulV2"
    assert default_opset().cann_type(make_node("MatMul", random((2, 2, 3), (3, 4)))) == "BatchMatMulV2"
