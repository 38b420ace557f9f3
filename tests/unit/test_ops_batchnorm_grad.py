"""Gradients of batch normalisation: against differences of the forward operator, against the Jacobian, and
what they ask of the chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import AiCpuWork, NoTask, SequenceWork, VectorWork
from ascendsim.passes.fusion.rules.training.split_batchnorm_grad import FusedBatchNormGradFusionPass
from tests.support.fusing import build, fused, random
from tests.support.single_node import lower, make_node, run

Array = NDArray[Any]
EPSILON = 1e-3
SHAPES = [(2, 3, 4, 5), (4, 3), (2, 3, 6), (1, 3, 2, 3, 2)]


def forward(x: Array, scale: Array, offset: Array) -> Array:
    """Batch normalisation by its definition, in float64."""
    axes = (0, *range(2, x.ndim))
    along = (-1,) + (1,) * (x.ndim - 2)
    centred = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(
        centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + EPSILON) * scale.reshape(along)
        + offset.reshape(along)
    )


def example(shape: tuple[int, ...]) -> dict[str, Array]:
    """Gradient, input and parameters in float64; statistics of the batch."""
    x, dy = random(*shape, seed=1).astype(np.float64) * 2 + 1, random(*shape, seed=2).astype(np.float64)
    axes = (0, *range(2, x.ndim))
    return {
        "dy": dy,
        "x": x,
        "scale": random(3, seed=3).astype(np.float64),
        "mean": x.mean(axis=axes),
        "variance": x.var(axis=axes),
    }


def slopes(data: dict[str, Array], name: str, step: float = 1e-5) -> Array:
    """Differences of sum(dy * forward) on both sides of each element of x, scale or offset."""
    arguments = {"x": data["x"], "scale": data["scale"], "offset": np.zeros(3)}
    result = np.zeros_like(arguments[name])
    for place in np.ndindex(result.shape):
        moved = [{**arguments, name: arguments[name].copy()} for _ in range(2)]
        moved[0][name][place] += step
        moved[1][name][place] -= step
        high, low = ((forward(**values) * data["dy"]).sum() for values in moved)
        result[place] = (high - low) / (2 * step)
    return result


def through_jacobian(data: dict[str, Array]) -> Array:
    """dx channel by channel from the matrix scale h (I - 1 1' / m - n n' / m)."""
    dy, x = (np.moveaxis(data[name], 1, 0).reshape(3, -1) for name in ("dy", "x"))
    result = np.empty_like(x)
    for channel, (gradient, values) in enumerate(zip(dy, x, strict=True)):
        m, h = values.size, 1 / np.sqrt(data["variance"][channel] + EPSILON)
        n = (values - data["mean"][channel]) * h
        result[channel] = data["scale"][channel] * h * (np.eye(m) - 1 / m - np.outer(n, n) / m) @ gradient
    shape = data["x"].shape
    return np.moveaxis(result.reshape(3, shape[0], *shape[2:]), 0, 1)


def gradient(data: dict[str, Array], kind: Any = np.float32, **attributes: Any) -> list[Array]:
    inputs = [
        data[name].astype(kind if name in ("dy", "x") else np.float32)
        for name in ("dy", "x", "scale", "mean", "variance")
    ]
    return run("BatchNormGrad", inputs, 3, "ascend", epsilon=EPSILON, **attributes)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_differences(shape: tuple[int, ...]) -> None:
    data = example(shape)
    dx, dscale, doffset = gradient(data)
    np.testing.assert_allclose(dx, slopes(data, "x"), atol=2e-6)
    np.testing.assert_allclose(dscale, slopes(data, "scale"), atol=1e-5)
    np.testing.assert_allclose(doffset, slopes(data, "offset"), atol=1e-5)
    np.testing.assert_allclose(dx, through_jacobian(data), atol=1e-6)


def test_float16_is_rounded_once() -> None:
    data = example((3, 3, 8, 8))
    half = {
        name: array.astype(np.float16 if name in ("dy", "x") else np.float32).astype(np.float64)
        for name, array in data.items()
    }
    dx, dscale, doffset = gradient(data, np.float16)
    assert [array.dtype.name for array in (dx, dscale, doffset)] == ["float16", "float32", "float32"]
    exact = through_jacobian(half)
    assert np.all(np.abs(dx - exact) <= np.spacing(np.abs(exact).astype(np.float16)) * 0.51 + 1e-9)


def test_known_statistics_are_constants() -> None:
    data = example((2, 3, 4, 5))
    dx = gradient(data, training_mode=0)[0]
    factor = data["scale"] / np.sqrt(data["variance"] + EPSILON)
    np.testing.assert_allclose(dx, data["dy"] * factor.reshape(1, -1, 1, 1), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_halves_make_the_same(shape: tuple[int, ...], outputs: int) -> None:
    graph = build(
        lambda b: b.ops(
            "BatchNormGrad", *operands(b, shape), outputs=outputs, domain="ascend", epsilon=EPSILON
        )
    )
    result = fused(graph, FusedBatchNormGradFusionPass())
    assert result.counts == {"FusedBatchNormGradFusionPass": (1, 1)}
    assert result.operators == {"Mul": 1, "BNTrainingUpdateGrad": 1, "BNTrainingReduceGrad": 1}
    assert result.error <= 1e-6  # the sums go through float32 in between


def operands(b: Any, shape: tuple[int, ...], kind: DType = DType.FLOAT32) -> list[Any]:
    parameters = [b.input(name, (3,), kind) for name in ("scale", "mean", "variance_root")]
    return [
        b.input("dy", shape, kind),
        b.input("x", shape, kind),
        *parameters[:2],
        b.op("Mul", parameters[2], parameters[2]),
    ]


def test_refusals_of_the_split() -> None:
    constant = build(
        lambda b: b.ops("BatchNormGrad", *operands(b, SHAPES[0]), outputs=3, domain="ascend", training_mode=0)
    )
    assert fused(constant, FusedBatchNormGradFusionPass()).reason == "the normalisation is in inference mode"
    half = build(
        lambda b: b.ops("BatchNormGrad", *operands(b, SHAPES[0], DType.FLOAT16), outputs=3, domain="ascend")
    )
    assert fused(half, FusedBatchNormGradFusionPass()).reason == "the parameters are not float32"


@pytest.mark.parametrize("odd", [2, 3, 4])
def test_the_split_takes_float32_parameters_only(odd: int) -> None:
    def graph(b: Any) -> Any:
        data = [b.input(name, SHAPES[0]) for name in ("dy", "x")]
        kinds = {odd: DType.FLOAT16}
        parameters = [b.input(f"p{port}", (3,), kinds.get(port, DType.FLOAT32)) for port in (2, 3, 4)]
        return b.ops("BatchNormGrad", *data, *parameters, outputs=3, domain="ascend")

    assert fused(build(graph), FusedBatchNormGradFusionPass()).reason == "the parameters are not float32"


def test_a_channel_of_another_size_is_refused() -> None:
    data = example(SHAPES[0])
    with pytest.raises(GraphError, match="needs one value a channel in every parameter"):
        gradient({**data, "mean": np.zeros(4)})
    with pytest.raises(GraphError, match="needs a gradient of the shape of x"):
        gradient({**data, "dy": data["dy"][:1]})


def test_work() -> None:
    """The whole is the work of both halves; what runs on the chip's AI CPU or not at all is no vector
    work."""
    data = [array.astype(np.float32) for array in example(SHAPES[0]).values()]
    sums = [data[2], data[2]]
    whole = lower("BatchNormGrad", data, 3, "ascend")
    update = lower("BNTrainingUpdateGrad", [data[0], data[1], *data[3:]], 2, "ascend")
    reduce = lower("BNTrainingReduceGrad", [data[0], data[1], *sums, *data[2:]], 1, "ascend")
    assert isinstance(whole, SequenceWork)
    assert isinstance(update, VectorWork)
    assert isinstance(reduce, VectorWork)
    for part, half in zip(whole.parts, (update, reduce), strict=True):
        assert isinstance(part, VectorWork)
        assert (part.rows, part.cols, part.steps, part.reduces) == (
            half.rows,
            half.cols,
            half.steps,
            half.reduces,
        )
    assert update.reduces == "cols"
    assert isinstance(
        lower("BatchNormGrad", [array[..., :0] if array.ndim == 4 else array for array in data], 3, "ascend"),
        NoTask,
    )
    assert isinstance(
        lower("BatchNormGrad", [array.astype(np.float64) for array in data], 3, "ascend"), AiCpuWork
    )
    assert (
        make_node("BNTrainingUpdateGrad", [data[0], data[1], *data[3:]], 2, "ascend").outputs[0].dtype
        is DType.FLOAT32
    )


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A", "Ascend910B1"])
def test_device_values_of_a_large_batch(chip: str) -> None:
    """65536 elements of 100 in a channel: their sums and squares leave the range of float16 by far."""
    shape = (4, 3, 128, 128)
    graph = build(lambda b: b.ops("BatchNormGrad", *operands(b, shape), outputs=3, domain="ascend"))
    model = asim.compile(graph, chip, fusion="graph")
    kinds = {node.op_type: [tensor.dtype for tensor in node.outputs] for node in model.graph.nodes}
    assert kinds["BNTrainingUpdateGrad"] == [DType.FLOAT32, DType.FLOAT32]
    x = random(*shape, seed=4) * 3
    inputs = {
        "x": x,
        "dy": random(*shape, seed=5) + 100,
        "scale": random(3),
        "mean": x.mean(axis=(0, 2, 3)),
        "variance_root": x.std(axis=(0, 2, 3)),
    }
    device, exact = asim.run(model, inputs).outputs, asim.run(model, inputs, values="float32").outputs
    spread = {name: np.abs(exact[name]).max() for name in exact}
    assert np.abs(device["out0"] - exact["out0"]).max() <= 0.02 * spread["out0"]
    for name in ("out1", "out2"):
        np.testing.assert_allclose(device[name], exact[name], atol=2e-3 * spread["out2"])
    plain = asim.run(asim.compile(graph, chip, fusion="off"), inputs, values="float32").outputs
    for name in plain:
        np.testing.assert_allclose(exact[name], plain[name], rtol=1e-5, atol=1e-5 * spread[name])
