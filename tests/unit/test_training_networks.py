"""Gradients of whole networks along directions in weight space, and training steps on a chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Graph
from ascendsim.ops import default_opset
from ascendsim.training.step import TrainingStep
from tests.support.evaluate import evaluate
from tests.support.gate import every, slow

pytestmark = pytest.mark.usefixtures("untimed_tiles")

Array = np.ndarray[Any, np.dtype[Any]]
MODELS = Path(__file__).parents[1] / "data" / "models"


def _step(name: str, **options: Any) -> tuple[TrainingStep, dict[str, Array]]:
    """A step of a network of the suite and what it is fed with: random weights, images, tokens and labels."""
    net = asim.load(MODELS / f"{name}.onnx", weights="random")
    step = asim.training_step(net, loss="cross_entropy", **options)
    feed = {**step.initial(), "learning_rate": np.float32(0.01)}
    rng = np.random.default_rng(3)
    for tensor in step.graph.inputs:
        if tensor.name not in feed:
            kind = (tensor.origin_dtype or tensor.element_type).numpy
            drawn = rng.standard_normal(tensor.static_shape) * 0.5
            feed[tensor.name] = (drawn > 0).astype(kind) if kind.kind == "i" else drawn.astype(kind)
    return step, {tensor.name: feed[tensor.name] for tensor in step.graph.inputs}


def _values(step: TrainingStep, feed: Mapping[str, Array]) -> dict[str, Array]:
    values = evaluate(step.graph, default_opset(), feed)
    return {tensor.name: value for tensor, value in zip(step.graph.outputs, values, strict=True)}


def _widen(graph: Graph) -> None:
    """Everything of float32 becomes float64."""
    for tensor in graph.tensors.values():
        if tensor.origin_dtype is DType.FLOAT32:
            tensor.dtype = tensor.origin_dtype = DType.FLOAT64
            if tensor.constant is not None:
                tensor.constant = Constant(tensor.constant.array().astype(np.float64))
    for node in graph.nodes:
        for key, value in node.attributes.items():
            if value is DType.FLOAT32:
                node.attributes[key] = DType.FLOAT64


@pytest.mark.parametrize(
    ("name", "options", "every"),
    [
        ("lenet5", {}, 1),
        ("bert_tiny_s64", {"output": "tanh"}, 7),
        ("bert_tiny_s64_traced", {"output": "261"}, 13),
    ],
)
def test_slopes_along_a_direction(name: str, options: dict[str, Any], every: int) -> None:
    """Along its own gradient and a random direction together, in float64."""
    step, given = _step(name, **options)
    _widen(step.graph)
    feed = {
        key: array.astype(np.float64) if array.dtype.kind == "f" else array for key, array in given.items()
    }
    start = _values(step, feed)
    rng = np.random.default_rng(0)
    for weight in step.parameters[::every]:
        gradient = start[f"{weight}.grad"]
        length = np.linalg.norm(gradient)
        assert length > 0, weight
        other = rng.standard_normal(gradient.shape)
        way = 1e-5 * (gradient / length + other / np.linalg.norm(other))
        moved = [{**feed, weight: feed[weight] + sign * way} for sign in (1, -1)]
        up, down = (float(_values(step, one)["loss"]) for one in moved)
        assert (up - down) / 2 == pytest.approx(float((gradient * way).sum()), rel=1e-4), weight


# the windows of swin_t are written by ScatterND, which has no gradient here
TRAINED = sorted(path for path in MODELS.glob("*.onnx") if path.stem != "swin_t")


@pytest.mark.parametrize("path", every(4, TRAINED), ids=lambda path: path.stem)
def test_every_network_of_the_suite_can_be_trained(path: Path) -> None:
    net = asim.load(path)
    step = asim.training_step(net, loss="cross_entropy", output=net.outputs[-1].name, optimizer="momentum")
    assert len(step.parameters) > 9
    assert {f"{name}.grad" for name in step.parameters} <= {tensor.name for tensor in step.graph.outputs}


def _attention() -> Graph:
    """One weight twice, a softmax and a layer normalisation."""
    b = asim.GraphBuilder("attention")
    rng = np.random.default_rng(1)
    x = b.input("x", (32, 64))
    tied = b.constant(rng.standard_normal((64, 64)).astype(np.float32) * 0.1, "tied")
    gamma, beta = b.constant(np.ones(64, np.float32), "gamma"), b.constant(np.zeros(64, np.float32), "beta")
    scores = b.op("Softmax", b.op("MatMul", x, tied))
    normal = b.op("LayerNormalization", b.op("MatMul", scores, tied), gamma, beta)
    b.output(b.op("Gelu", normal), "y")
    return b.build()


def test_mixed_precision_follows_the_forward_operator() -> None:
    step = asim.training_step(_attention(), loss="cross_entropy", optimizer="adam", loss_scale=128)
    model = asim.compile(step.graph, "Ascend910A", fusion="off", precision_mode="allow_mix_precision")
    nodes = {node.name: node for node in model.graph.nodes}
    kinds: dict[str, set[DType | None]] = {}
    for node in nodes.values():
        kinds.setdefault(node.op_type, set()).add(node.output.dtype)
    half, single = {DType.FLOAT16}, {DType.FLOAT32}
    assert kinds["SoftmaxGrad"] == kinds["LayerNormGrad"] == single
    assert kinds["SoftmaxCrossEntropyWithLogits"] == single
    assert kinds["Gemm"] == kinds["MatMul"] == half
    updating = [node for name, node in nodes.items() if name.startswith(("Optimizer/", "LossScale/"))]
    assert {node.output.dtype for node in updating} <= {DType.FLOAT32, DType.BOOL}
    gelu = next(node for node in nodes.values() if node.op_type == "GeluGrad")
    assert gelu.output.dtype is next(node for node in nodes.values() if node.op_type == "Gelu").output.dtype
    masters = [model.graph.tensors[name] for name in step.parameters]
    assert all(tensor.dtype is DType.FLOAT32 for tensor in masters)
    casts = Counter(node.required(0).name for node in nodes.values() if node.op_type == "Cast")
    assert casts["tied"] == 1, "a weight is cast once a step"


def _normalised() -> Graph:
    """Two convolutions with batch normalisation and a product; the squares of the first leave float16."""
    b = asim.GraphBuilder("normalised")
    rng = np.random.default_rng(2)
    y = b.input("x", (2, 16, 8, 8))
    for layer, gain in enumerate((8.0, 0.1)):
        weight = (gain * rng.standard_normal((16, 16, 3, 3))).astype(np.float32)
        y = b.op("Conv", y, b.constant(weight, f"w{layer}"), pads=[1, 1, 1, 1])
        values = (np.ones(16), np.zeros(16), np.zeros(16), np.ones(16))
        numbers = [b.constant(value.astype(np.float32), f"bn{layer}") for value in values]
        y = b.op("Relu", b.op("BatchNormalization", y, *numbers))
    weight = rng.standard_normal((16, 16)).astype(np.float32)
    b.output(b.op("MatMul", b.op("Flatten", b.op("GlobalAveragePool", y)), b.constant(weight, "w")), "y")
    return b.build()


@pytest.mark.parametrize("fusion", ["off", "graph"])
def test_batch_normalisation_takes_half_data_and_single_statistics(fusion: str) -> None:
    step = asim.training_step(_normalised(), loss="cross_entropy", optimizer="momentum")
    model = asim.compile(step.graph, "Ascend910A", fusion=fusion, precision_mode="allow_mix_precision")
    half, single = DType.FLOAT16, DType.FLOAT32
    halves = {
        "BNTrainingReduce": (1, 0),
        "BNTrainingUpdate": (1, 1),
        "BatchNormGrad": (2, 1),
        "BNTrainingUpdateGrad": (2, 0),
        "BNTrainingReduceGrad": (2, 1),
    }  # how many of the first inputs and outputs are float16, as profiles of ResNet-50 have them
    found = [node for node in model.graph.nodes if node.op_type in halves]
    assert len(found) == (6 if fusion == "off" else 8)
    for node in found:
        data, results = halves[node.op_type]
        given = [tensor.dtype for tensor in node.inputs if tensor is not None]
        assert given == [half] * data + [single] * (len(given) - data), node.name
        made = [tensor.dtype for tensor in node.outputs]
        assert made == [half] * results + [single] * (len(made) - results), node.name
        producers = [tensor.producer for tensor in node.inputs[:data] if tensor is not None]
        readers = [use.node for tensor in node.outputs[:results] for use in tensor.uses]
        if "BatchNormalization_" not in node.name:  # the other one is next to the pooling
            assert not {near.op_type for near in (*producers, *readers) if near} & {"Cast", "TransData"}


def test_batch_statistics_leave_float16() -> None:
    step = asim.training_step(_normalised(), loss="cross_entropy", optimizer="momentum")
    model = asim.compile(step.graph, "Ascend910A", precision_mode="allow_mix_precision")
    x = 2 * np.random.default_rng(3).standard_normal((2, 16, 8, 8)).astype(np.float32)
    feed = {"x": x, "labels": np.array([3, 5], np.int32), "learning_rate": np.float32(0.1), **step.initial()}
    exact = asim.run(model, feed, values="float32").outputs
    device = asim.run(model, feed).outputs
    assert max(float(exact[name].max()) for name in exact if name.endswith(".updated")) > 1000
    for name, value in exact.items():
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(device[name], value, rtol=0, atol=0.03 * scale, err_msg=name)


@pytest.mark.parametrize("optimizer", ["momentum", *slow("lamb")])
def test_fusion_leaves_the_values_of_a_step(optimizer: str) -> None:
    step, feed = _step("lenet5", optimizer=optimizer, loss_scale=64)
    wanted = _values(step, feed)
    times = {}
    for fusion in ("off", "all", "graph-kernel"):
        model = asim.compile(step.graph, "Ascend910A", fusion=fusion, precision_mode="allow_mix_precision")
        result = asim.run(model, feed, values="float32")
        times[fusion] = result.duration_us
        for name, value in wanted.items():
            scale = max(1e-3, float(np.abs(value).max()))
            np.testing.assert_allclose(result.outputs[name], value, rtol=0, atol=2e-4 * scale, err_msg=name)
    assert times["all"] < times["off"]
