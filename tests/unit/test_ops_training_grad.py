"""Gradients of pooling, biases and normalisations: against differences of the forward operators, in float64,
and what they ask of the chip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.opset.work import AiCpuWork, SequenceWork, VectorWork
from tests.support.single_node import lower, make_node, run

Array = NDArray[Any]
WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 7, 6), {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 2, 6, 6), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    ((1, 1, 5, 7), {"kernel_shape": (2, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"}),
    ((1, 1, 5, 5), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1, "pads": (0, 0, 1, 1)}),
]


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def slopes(forward: Callable[..., Array], dy: Array, arguments: Sequence[Array], of: int) -> Array:
    """Differences of sum(dy * forward) on both sides of each element of an argument."""
    result = np.zeros_like(arguments[of])
    for place in np.ndindex(result.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = [array.copy() for array in arguments]
            moved[of][place] += step
            sides.append((forward(*moved) * dy).sum())
        result[place] = (sides[0] - sides[1]) / 2e-5
    return result


def gradient(name: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> list[Array]:
    return run(name, inputs, outputs, "ascend", **attributes)


@pytest.mark.parametrize("version", ["", "V1"])
@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
def test_the_maximum_hands_its_gradient_back(
    shape: tuple[int, ...], attributes: dict[str, Any], version: str
) -> None:
    x = some(*shape)
    (wanted,) = run("MaxPool", [x], **attributes)
    y, mask = gradient(f"MaxPoolWithArgmax{version}", x, outputs=2, **attributes)
    np.testing.assert_array_equal(y, wanted)
    kernel = attributes["kernel_shape"]
    assert mask.shape == (*shape[:2], kernel[0] * kernel[1], -(-y.shape[2] * y.shape[3] // 16) + 1)
    assert np.bitwise_count(mask).sum() == y.size  # one tap a window
    dy = some(*y.shape, seed=1)
    (dx,) = gradient(f"MaxPoolGradWithArgmax{version}", x, dy, mask, **attributes)
    np.testing.assert_allclose(
        dx, slopes(lambda x: run("MaxPool", [x], **attributes)[0], dy, [x], 0), atol=1e-9
    )


def test_the_first_of_equal_maxima_gets_all() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    window: dict[str, Any] = {"kernel_shape": (2, 2), "strides": (2, 2)}
    y, mask = gradient("MaxPoolWithArgmax", x, outputs=2, **window)
    assert mask[0, 0, :, 0].tolist() == [0b1111, 0, 0, 0]
    (dx,) = gradient("MaxPoolGradWithArgmax", x, y + 3, mask, **window)
    np.testing.assert_array_equal(dx[0, 0, ::2, ::2], np.full((2, 2), 3))
    assert dx.sum() == 12


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
def test_an_average_spreads_its_gradient(
    shape: tuple[int, ...], attributes: dict[str, Any], include: int
) -> None:
    more = {**attributes, "count_include_pad": include}
    x = some(*shape)

    def pooled(x: Array) -> Array:
        return run("AveragePool", [x], **more)[0]

    dy = some(*pooled(x).shape, seed=1)
    (dx,) = gradient("AvgPoolV2Grad", dy, orig_input_shape=(-1, *shape[1:]), **more)
    np.testing.assert_allclose(dx, slopes(pooled, dy, [x], 0), atol=1e-9)


@pytest.mark.parametrize(("size", "windows"), [((5, 7), (1, 1)), ((7, 6), (3, 4)), ((3, 2), (5, 2))])
def test_adaptive_windows_spread_their_gradient(size: tuple[int, int], windows: tuple[int, int]) -> None:
    def pooled(x: Array) -> Array:
        made = np.zeros((*x.shape[:2], *windows))
        for i, j in np.ndindex(*windows):
            rows = slice(i * size[0] // windows[0], -(-(i + 1) * size[0] // windows[0]))
            columns = slice(j * size[1] // windows[1], -(-(j + 1) * size[1] // windows[1]))
            made[:, :, i, j] = x[:, :, rows, columns].mean(axis=(2, 3))
        return made

    x, dy = some(2, 2, *size), some(2, 2, *windows, seed=1)
    (dx,) = gradient("AdaptiveAvgPool2dGrad", dy, orig_input_shape=x.shape)
    np.testing.assert_allclose(dx, slopes(pooled, dy, [x], 0), atol=1e-9)


def test_a_bias_gets_the_sum_of_all_but_its_channels() -> None:
    dy = some(3, 4, 5, 6)
    np.testing.assert_allclose(gradient("BiasAddGrad", dy)[0], np.einsum("nchw->w", dy), rtol=1e-12)
    np.testing.assert_allclose(
        gradient("BiasAddGrad", dy, data_format="NCHW")[0], np.einsum("nchw->c", dy), rtol=1e-12
    )
    halves = np.full((4096, 1), 1, np.float16)
    assert gradient("BiasAddGrad", halves)[0].item() == 4096  # float16 sums would stop at 2048
    with pytest.raises(GraphError, match="data_format NHWC or NCHW"):
        gradient("BiasAddGrad", dy, data_format="NC")


def test_root_mean_square_normalisation() -> None:
    x, gamma, dy, epsilon = some(3, 4, 5), some(4, 5, seed=1), some(3, 4, 5, seed=2), 1e-3

    def forward(x: Array, gamma: Array) -> Array:
        return x / np.sqrt((x**2).mean(axis=(1, 2), keepdims=True) + epsilon) * gamma

    rstd = 1 / np.sqrt((x**2).mean(axis=(1, 2)) + epsilon)
    dx, dgamma = gradient("RmsNormGrad", dy, x, rstd, gamma, outputs=2)
    np.testing.assert_allclose(dx, slopes(forward, dy, [x, gamma], 0), atol=1e-8)
    np.testing.assert_allclose(dgamma, slopes(forward, dy, [x, gamma], 1), atol=1e-5)
    assert dgamma.dtype == np.float32
    with pytest.raises(GraphError, match="one value of rstd a row"):
        gradient("RmsNormGrad", dy, x, rstd[:2], gamma, outputs=2)


def test_group_normalisation() -> None:
    x, gamma, beta, dy, epsilon = some(2, 6, 3), some(6, seed=1), some(6, seed=3), some(2, 6, 3, seed=2), 1e-3

    def forward(x: Array, gamma: Array, beta: Array) -> Array:
        groups = x.reshape(2, 3, -1)
        centred = groups - groups.mean(axis=-1, keepdims=True)
        normal = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return np.asarray(normal.reshape(x.shape) * gamma[:, None] + beta[:, None])

    groups = x.reshape(2, 3, -1)
    mean, rstd = groups.mean(axis=-1), 1 / np.sqrt(groups.var(axis=-1) + epsilon)
    found = gradient("GroupNormGrad", dy, mean, rstd, x, gamma, outputs=3, num_groups=3)
    for number, result in enumerate(found):
        np.testing.assert_allclose(result, slopes(forward, dy, [x, gamma, beta], number), atol=1e-8)
    with pytest.raises(GraphError, match="multiple of num_groups 4"):
        gradient("GroupNormGrad", dy, mean, rstd, x, gamma, outputs=3, num_groups=4)


def test_constant_statistics() -> None:
    """BNInferGrad is what BatchNormGrad gives outside of training, and a difference of BNInference."""
    x, scale, mean, variance = some(2, 3, 4), some(3, seed=1), some(3, seed=2), some(3, seed=3) ** 2 + 0.1
    dy = some(2, 3, 4, seed=4)
    (dx,) = gradient("BNInferGrad", dy, scale, variance, epsilon=1e-3)
    whole = gradient("BatchNormGrad", dy, x, scale, mean, variance, outputs=3, training_mode=0, epsilon=1e-3)
    np.testing.assert_array_equal(dx, whole[0])
    factor = slopes(lambda x: x * (scale / np.sqrt(variance + 1e-3))[:, None], dy, [x], 0)
    np.testing.assert_allclose(dx, factor, atol=1e-9)


def test_statistics_of_the_batch_come_beside_the_running_ones() -> None:
    x = some(4, 3, 5).astype(np.float32)
    total, squares = x.sum(axis=(0, 2)), (x**2).sum(axis=(0, 2))
    ones = [np.ones(3, np.float32)] * 4
    results = run("BNTrainingUpdate", [x, total, squares, *ones], 5, "ascend")
    np.testing.assert_allclose(results[3], x.mean(axis=(0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[4], x.var(axis=(0, 2)), rtol=1e-5)


def test_the_running_variance_may_be_the_unbiased_one() -> None:
    x = some(4, 3, 5).astype(np.float32)
    total, squares = x.sum(axis=(0, 2)), (x**2).sum(axis=(0, 2))
    given = [x, total, squares, *[np.ones(3, np.float32)] * 4]
    results = run("BNTrainingUpdate", given, 5, "ascend", momentum=0.25, unbiased=1)
    np.testing.assert_allclose(results[2], 0.25 + 0.75 * x.var(axis=(0, 2), ddof=1), rtol=1e-5)
    np.testing.assert_allclose(results[4], x.var(axis=(0, 2)), rtol=1e-5)


def test_maps_of_a_gradient_stay_in_their_format() -> None:
    """All that are maps come in NC1HWC0, and nothing of the step runs on an AI CPU of the 910."""
    builder = asim.GraphBuilder()
    x = builder.op("Relu", builder.input("x", (2, 32, 14, 14)))
    pooled, mask = builder.ops(
        "MaxPoolWithArgmax", x, outputs=2, domain="ascend", kernel_shape=(2, 2), strides=(2, 2)
    )
    dy = builder.op("ReluGrad", builder.op("Neg", pooled), pooled, domain="ascend")
    dx = builder.op(
        "MaxPoolGradWithArgmax", x, dy, mask, domain="ascend", kernel_shape=(2, 2), strides=(2, 2)
    )
    parameters = [builder.input(name, (32,)) for name in ("scale", "mean", "variance")]
    results = builder.ops("BatchNormGrad", dx, x, *parameters, outputs=3, domain="ascend")
    bias = builder.op("BiasAddGrad", dx, domain="ascend", data_format="NCHW")
    for number, tensor in enumerate((*results, bias)):
        builder.output(tensor, f"out{number}")
    model = asim.compile(builder.build(), "Ascend910A", fusion="off")
    for node in model.graph.nodes:
        if node.op_type.startswith(("MaxPool", "BatchNorm", "BiasAdd", "Relu")):
            maps = [tensor for tensor in node.inputs if tensor is not None and len(tensor.static_shape) == 4]
            assert {tensor.format for tensor in maps} == {Format.NC1HWC0} or node.op_type == "Relu"
            assert {task.kind.value for task in model.tasks_of(node.name)} == {"AI_CORE"}
    assert sum(node.op_type == "TransData" for node in model.graph.nodes) <= 2


def test_shapes_with_unknown_dimensions() -> None:
    x = some(1, 2, 6, 6).astype(np.float32)
    node = make_node("MaxPoolWithArgmax", [x], 2, "ascend", known=False, kernel_shape=(3, 3))
    assert node.outputs[1].dtype is DType.UINT16
    for shape in (("n", 2, None, 6), None):
        node.required(0).shape = shape
        from ascendsim.ops import default_opset
        from ascendsim.opset import InferContext

        default_opset().get(node).infer(InferContext(node))
        made = node.output.shape
        assert made == (("n", 2, None, 4) if shape else (None,) * 4)
        assert node.outputs[1].shape == ((*made[:2], 9, None) if made else None)


@pytest.mark.parametrize(("dtype", "work"), [(np.float32, SequenceWork), (np.float64, AiCpuWork)])
def test_gradients_of_normalised_doubles_run_on_the_ai_cpu(dtype: type, work: type) -> None:
    x, rows, gamma = np.ones((4, 16), dtype), np.ones((4, 1), dtype), np.ones(16, dtype)
    assert isinstance(lower("LayerNormGrad", [x, x, rows, rows, gamma], 3, "ascend"), work)


def test_sums_over_no_rows_are_written_as_zeros() -> None:
    none, gamma = np.zeros((0, 12), np.float16), np.ones(12, np.float16)
    work = lower("RmsNormGrad", [none, none, np.zeros((0, 1), np.float32), gamma], 2, "ascend")
    assert isinstance(work, VectorWork)
    assert ([stream.ref.region for stream in work.outputs], work.rows * work.cols) == (["output1"], 12)
