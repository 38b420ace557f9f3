"""Operators that graph fusion makes: values by definition, one rounding in float16, shapes, errors, and the
work they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.ops.fused.movement import fractal_permutation
from ascendsim.opset.work import AiCpuWork, CubeWork, MoveWork, NoTask, SequenceWork, VectorWork, Work
from tests.support.single_node import infer, lower, run

HALF = np.float16


def some(*shape: int, seed: int = 0, positive: bool = False) -> np.ndarray:
    generator = np.random.default_rng([seed, *shape])
    return (generator.random(shape) + 0.5 if positive else generator.standard_normal(shape)).astype(
        np.float32
    )


def ascend(op_type: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    return run(op_type, inputs, outputs, "ascend", **attributes)


def once_rounded(
    op_type: str, inputs: list[np.ndarray], exact: Callable[..., np.ndarray], **attributes: Any
) -> None:
    """float32 results are NumPy's, float16 results are those of float32 arithmetic rounded once."""
    np.testing.assert_array_equal(ascend(op_type, list(inputs), **attributes)[0], exact(*inputs))
    halves = [array.astype(HALF) for array in inputs]
    expected = exact(*[array.astype(np.float32) for array in halves]).astype(HALF)
    np.testing.assert_array_equal(ascend(op_type, list(halves), **attributes)[0], expected)


def test_elementwise_operators_round_once() -> None:
    x, y, z = (some(4, 33, seed=number) for number in range(3))
    once_rounded("Square", [x], lambda a: a * a)
    once_rounded("Muls", [x], lambda a: a * np.float32(0.3), value=0.3)
    once_rounded("FusedMulAdd", [x, y, z], lambda a, b, c: a * b + c)
    once_rounded("FusedMulAdd", [x, y[:1], z[:, :1]], lambda a, b, c: a * b + c)
    once_rounded("FusedMulAddN", [x, y, z[0, :1]], lambda a, b, c: a * c[0] + b)


def test_squares_overflow_to_infinity_in_float16() -> None:
    assert ascend("Square", [np.array([300], HALF)])[0][0] == np.inf


@pytest.mark.parametrize("turns", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_batch_matmul_takes_operands_either_way(turns: tuple[int, int], bias: bool) -> None:
    a, b, c = some(2, 3, 6, 8), some(3, 8, 5), some(5)
    inputs = [
        a.swapaxes(-1, -2) if turns[0] else a,
        b.swapaxes(-1, -2) if turns[1] else b,
        *([c] if bias else []),
    ]
    attributes = {"adj_x1": turns[0], "adj_x2": turns[1]}
    result = ascend("BatchMatMul", [np.ascontiguousarray(array) for array in inputs], **attributes)[0]
    exact = a.astype(np.float64) @ b + (c if bias else 0)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)
    halves = ascend(
        "BatchMatMul", [np.ascontiguousarray(array).astype(HALF) for array in inputs], **attributes
    )[0]
    assert halves.dtype == HALF
    np.testing.assert_allclose(halves.astype(np.float32), exact, rtol=2e-3, atol=2e-2)
    work = lower("BatchMatMul", inputs, domain="ascend", **attributes)
    assert isinstance(work, CubeWork)
    assert (work.m, work.k, work.n, work.batch, work.transpose_a, work.transpose_b) == (
        6,
        8,
        5,
        6,
        bool(turns[0]),
        bool(turns[1]),
    )
    assert (work.bias is not None) == bias
    assert not work.b_shared


def test_batch_matmul_shares_an_operand_without_batch() -> None:
    work = lower("BatchMatMul", [some(2, 6, 8), some(5, 8)], domain="ascend", adj_x2=1)
    assert isinstance(work, CubeWork)
    assert (work.batch, work.b_shared, work.a_shared) == (2, True, False)
    assert isinstance(lower("BatchMatMul", [some(2, 0, 8), some(8, 5)], domain="ascend"), NoTask)
    assert isinstance(
        lower("BatchMatMul", [np.ones((2, 6, 8), np.int64), np.ones((8, 5), np.int64)], domain="ascend"),
        AiCpuWork,
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(8,), (8, 5)], "needs operands of rank >= 2"),
        ([(2, 6, 8), (7, 5)], "needs equal inner dimensions.*8 and 7"),
        ([(2, 6, 8), (3, 8, 5)], "needs batch axes that broadcast"),
        ([(2, 6, 8), (8, 5), (6,)], r"needs a bias of shape \(5,\)"),
    ],
)
def test_batch_matmul_refuses_operands_that_do_not_fit(shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        ascend("BatchMatMul", [some(*shape) for shape in shapes])


def test_batch_matmul_infers_symbols() -> None:
    assert infer("BatchMatMul", [("n", 6, 8), (5, 8)], domain="ascend", adj_x2=1) == [("n", 6, 5)]
    assert infer("BatchMatMul", [None, (5, 8)], domain="ascend") == [None]


def test_confusion_transpose_is_a_transpose_and_a_reshape_in_either_order() -> None:
    x = some(2, 3, 16, 32)
    first = ascend("ConfusionTransposeD", [x], perm=(0, 2, 1, 3), shape=(32, 96), transpose_first=1)[0]
    np.testing.assert_array_equal(first, x.transpose(0, 2, 1, 3).reshape(32, 96))
    second = ascend("ConfusionTransposeD", [x], perm=(1, 0), shape=(32, 96), transpose_first=0)[0]
    np.testing.assert_array_equal(second, x.reshape(32, 96).T)
    work = lower("ConfusionTransposeD", [x], domain="ascend", perm=(1, 0), shape=(32, 96), transpose_first=0)
    assert isinstance(work, MoveWork)
    assert sum(copy.bytes for copy in work.copies) == x.nbytes
    with pytest.raises(GraphError, match="must keep the number of elements"):
        ascend("ConfusionTransposeD", [x], perm=(1, 0), shape=(32, 97), transpose_first=0)
    with pytest.raises(GraphError, match="needs perm to be an order of 2 axes"):
        ascend("ConfusionTransposeD", [x], perm=(1, 0, 2), shape=(32, 96), transpose_first=0)


@pytest.mark.parametrize(
    ("source", "perm", "shape", "first"),
    [
        ((2, 32, 96), (0, 2, 1, 3), (2, 32, 3, 32), False),
        ((2, 3, 32, 32), (0, 2, 1, 3), (2, 32, 96), True),
        ((64, 96), (0, 2, 1, 3), (2, 32, 3, 32), False),
        ((2, 3, 32, 32), (0, 2, 1, 3), (64, 96), True),
        ((32, 48, 64), (2, 0, 1, 3), (32, 16, 3, 64), False),
    ],
)
def test_heads_move_between_fractals_as_a_permutation_of_their_storage(
    source: tuple[int, ...], perm: tuple[int, ...], shape: tuple[int, ...], first: bool
) -> None:
    def blocks(array: np.ndarray) -> np.ndarray:
        *batch, m, n = array.shape
        cut = array.reshape(*batch, m // 16, 16, n // 16, 16)
        return np.moveaxis(cut, -2, len(batch)).reshape(-1)

    x = np.arange(np.prod(source)).reshape(source)
    y = x.transpose(perm).reshape(shape) if first else x.reshape(shape).transpose(perm)
    sizes, order = fractal_permutation(source, y.shape, source if first else shape, perm)
    assert (blocks(x).reshape(sizes).transpose(order).reshape(-1) == blocks(y)).all()


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_gradients_of_softmax(axis: int) -> None:
    y, g = some(3, 5, 7, seed=1), some(3, 5, 7, seed=2)
    wide = g.astype(np.float64) - (g.astype(np.float64) * y).sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(
        ascend("ConfusionSoftmaxGrad", [g, y], axis=axis)[0], wide, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(ascend("SoftmaxGrad", [y, g], axis=axis)[0], wide * y, rtol=1e-5, atol=1e-6)
    work = lower("SoftmaxGrad", [y, g], domain="ascend", axis=axis)
    assert isinstance(work, VectorWork)
    assert (work.rows * work.cols, work.reduces) == (105, "cols" if axis == -1 else "rows")
    with pytest.raises(GraphError, match="needs inputs of one shape"):
        ascend("ConfusionSoftmaxGrad", [g[:, :1], y], axis=axis)


def test_the_gradient_of_softmax_is_that_of_differences() -> None:
    x, g, step = some(2, 6).astype(np.float64), some(2, 6, seed=1).astype(np.float64), 1e-6

    def softmax(values: np.ndarray) -> np.ndarray:
        powers = np.exp(values)
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

    numeric = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = x.copy()
        moved[place] += step
        numeric[place] = ((softmax(moved) - softmax(x)) * g).sum() / step
    result = ascend("SoftmaxGrad", [softmax(x).astype(np.float32), g.astype(np.float32)])[0]
    np.testing.assert_allclose(result, numeric, atol=1e-5)


def test_the_gradient_of_layer_norm_is_that_of_differences() -> None:
    step = 1e-6
    x, dy, gamma = (
        some(2, 3, 4, seed=1).astype(np.float64),
        some(2, 3, 4, seed=2).astype(np.float64),
        some(4, seed=3).astype(np.float64),
    )

    def forward(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
        centred = values - values.mean(axis=-1, keepdims=True)
        return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * scale)

    def slope(of: np.ndarray, at: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        result = np.zeros_like(of)
        for place in np.ndindex(of.shape):
            moved = of.copy()
            moved[place] += step
            result[place] = ((at(moved) - at(of)) * dy).sum() / step
        return result

    mean = x.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    inputs = [array.astype(np.float32) for array in (dy, x, inverse, mean, gamma)]
    dx, dgamma, dbeta = ascend("LayerNormGrad", list(inputs), 3)
    np.testing.assert_allclose(dx, slope(x, lambda values: forward(values, gamma)), atol=2e-5)
    np.testing.assert_allclose(dgamma, slope(gamma, lambda scale: forward(x, scale)), atol=2e-5)
    np.testing.assert_allclose(dbeta, dy.sum(axis=(0, 1)), atol=1e-5)
    split, normal = ascend("LayerNormXBackpropV2", list(inputs), 2)
    np.testing.assert_array_equal(split, dx)
    np.testing.assert_allclose(normal, (x - mean) * inverse, atol=1e-5)
    parts = ascend("LayerNormBetaGammaBackpropV2", [inputs[0], normal], 2, shape_gamma=(4,))
    np.testing.assert_allclose(parts[0], dgamma, atol=1e-5)
    np.testing.assert_allclose(parts[1], dbeta, atol=1e-6)
    works: list[Work] = [
        lower("LayerNormGrad", inputs, 3, domain="ascend"),
        lower("LayerNormXBackpropV2", inputs, 2, domain="ascend"),
        lower("LayerNormBetaGammaBackpropV2", [inputs[0], normal], 2, domain="ascend", shape_gamma=(4,)),
    ]
    assert isinstance(works[0], SequenceWork)
    assert [work.reduces for work in (*works[0].parts, *works[1:]) if isinstance(work, VectorWork)] == [
        "cols",
        "rows",
        "cols",
        "rows",
    ]
    with pytest.raises(GraphError, match="needs gamma of the shape of the last axes"):
        ascend("LayerNormGrad", [*inputs[:4], some(3)], 3)


@pytest.mark.parametrize("shape", [(2, 12, 4, 4), (2, 16, 3, 5), (7, 9), (11,)])
def test_relu_keeps_one_bit_an_element(shape: tuple[int, ...]) -> None:
    x, dy = some(*shape, seed=1), some(*shape, seed=2)
    x[np.abs(x) < 0.3] = 0
    y, mask = ascend("ReluV2", [x], 2)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert mask.dtype == np.uint8
    assert mask.size < x.size / 4
    gradient = ascend("ReluGradV2", [dy, mask])[0]
    np.testing.assert_array_equal(gradient, np.where(x > 0, dy, 0))
    np.testing.assert_array_equal(gradient, ascend("ReluGrad", [dy, y])[0])
    work = lower("ReluV2", [x], 2, domain="ascend")
    assert isinstance(work, VectorWork)
    assert work.outputs[1].ref.bytes == -(-x.size // 8)
    with pytest.raises(GraphError, match="needs a mask of shape"):
        ascend("ReluGradV2", [dy, np.zeros((1, 1), np.uint8)])


def test_the_gradient_of_a_reciprocal_root() -> None:
    x, dy = some(4, 5, positive=True), some(4, 5)
    np.testing.assert_allclose(
        ascend("RsqrtGrad", [1 / np.sqrt(x), dy])[0], -0.5 * dy * x.astype(np.float64) ** -1.5, rtol=1e-5
    )


def adam_inputs(dtype: type) -> list[np.ndarray]:
    arrays = [some(3, 40, seed=number, positive=number in (1, 4)) for number in range(4)]
    return [
        array.astype(dtype)
        for array in (*arrays, *(np.float32(value) for value in (0.01, 0.9, 0.1, 0.99, 0.01, 1e-3)))
    ]


def test_an_adam_step_rounds_each_result_once() -> None:
    g, v, m, w, rate, keep, add, keep2, add2, epsilon = (
        array.astype(np.float64) for array in adam_inputs(HALF)
    )
    results = ascend("AdamApplyOne", adam_inputs(HALF), 3)
    second, first = keep2 * v + add2 * g * g, keep * m + add * g
    for result, exact in zip(
        results, (second, first, w - rate * first / (np.sqrt(second) + epsilon)), strict=True
    ):
        assert result.dtype == HALF
        np.testing.assert_allclose(result.astype(np.float64), exact, rtol=2**-11 * 1.01, atol=1e-6)


def test_optimizer_steps_read_each_tensor_and_write_each_result_once() -> None:
    work = lower("AdamApplyOne", adam_inputs(np.float32), 3, domain="ascend")
    assert isinstance(work, VectorWork)
    assert [stream.over for stream in work.inputs] == ["all"] * 4 + ["one"] * 6
    assert len(work.outputs) == 3
    assert sum(stream.ref.bytes for stream in work.outputs) == 3 * 480
    wide = lower(
        "AdamApplyOne", [array.astype(np.float64) for array in adam_inputs(np.float32)], 3, domain="ascend"
    )
    assert isinstance(wide, AiCpuWork)
