"""Values of whole networks against onnxruntime: float32 closely, device values by direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from tests.support.oracle import oracle_outputs

# name, shapes that make it small enough for the gate, whether it belongs to the long run only
NETWORKS = [
    ("lenet5", None, False),
    ("bert_tiny_s64", None, False),
    ("squeezenet1_1", None, False),
    ("resnet18", None, True),
    ("lstm_lm", None, False),
    ("llama_mini", None, True),
    ("unet", {"input": (1, 3, 64, 64)}, True),
    ("vit_b_16", None, True),
    ("mobilenet_v1", None, True),
    ("shufflenet_v1", None, True),
    ("efficientnet_b1", None, True),
    ("yolov5s", {"images": (1, 3, 640, 640)}, True),
    ("densenet121", None, True),
    ("resnet50", None, True),
    ("bert_base_s128", None, True),
]

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _cases(long: bool) -> list[Any]:
    return [pytest.param(name, shapes, id=name) for name, shapes, is_long in NETWORKS if is_long == long]


def _check(path: Path, shapes: dict[str, tuple[int, ...]] | None) -> None:
    graph = asim.load(path, weights="random", shapes=shapes)
    model = asim.compile(graph, soc="Ascend310P3")
    inputs = asim.random_inputs(model, seed=7)
    expected = oracle_outputs(path, inputs)
    exact = asim.run(model, inputs, values="float32").outputs
    device = asim.run(model, inputs, values="device").outputs
    assert list(exact) == list(expected)
    for name, reference in expected.items():
        spread = float(np.ptp(reference)) or 1.0
        assert exact[name].dtype == reference.dtype
        assert np.abs(exact[name] - reference).max() <= 1e-4 * spread, name
        assert _cosine(device[name], reference) >= 0.9999, name


def _cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


@pytest.mark.parametrize(("name", "shapes"), _cases(long=False))
def test_values_equal_onnxruntime(
    models_dir: Path, name: str, shapes: dict[str, tuple[int, ...]] | None
) -> None:
    _check(models_dir / f"{name}.onnx", shapes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shapes"), _cases(long=True))
def test_values_equal_onnxruntime_long(
    models_dir: Path, name: str, shapes: dict[str, tuple[int, ...]] | None
) -> None:
    _check(models_dir / f"{name}.onnx", shapes)


def test_values_at_another_batch(models_dir: Path) -> None:
    path = models_dir / "bert_tiny_s64.onnx"
    one = asim.compile(asim.load(path, weights="random"), soc="Ascend310")
    four = asim.compile(asim.load(path, weights="random", batch=4), soc="Ascend310")
    inputs = asim.random_inputs(four, seed=3)
    together = asim.run(four, inputs, values="float32").outputs
    for sample in range(4):
        alone = asim.run(
            one, {name: array[sample : sample + 1] for name, array in inputs.items()}, values="float32"
        ).outputs
        for name, array in alone.items():
            np.testing.assert_allclose(together[name][sample : sample + 1], array, rtol=1e-4, atol=1e-5)


def test_two_runs_give_the_same_bytes(models_dir: Path) -> None:
    graph = asim.load(models_dir / "lenet5.onnx", weights="random")
    models = [asim.compile(graph, soc="Ascend310") for _ in range(2)]  # a model is timed once only
    inputs = asim.random_inputs(models[0])
    first, second = (asim.run(model, inputs).outputs for model in models)
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in second.items()
    }
