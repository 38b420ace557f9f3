"""Accuracy of a trained network in int8: a threshold that saturates wins where a layer has outliers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain
from tests.support.quantised import louder

FOLDER = Path(__file__).resolve().parents[1] / "data" / "digits"
METHODS = ("kl", "mse", "max", "percentile")
TRAINED = 1297  # images that the network has seen


@cache
def digits() -> tuple[Any, Any]:
    with np.load(FOLDER / "digits.npz") as archive:
        return archive["images"].astype(np.float32)[:, None] / 16, archive["labels"]


@cache
def network(factor: float = 1.0) -> Graph:
    graph = asim.load(FOLDER / "digits.onnx", batch=500)
    if factor != 1:
        louder(graph, "conv2", "fc1", 3, factor)
    return graph


def accuracy(graph: Graph, chip: str | None = None) -> float:
    images, labels = (array[TRAINED:] for array in digits())
    if chip is None:
        scores = evaluate_plain(graph, default_opset(), {"image": images})["scores"]
    else:
        scores = asim.run(asim.compile(graph, chip), {"image": images}).outputs["scores"]
    return float(100 * np.mean(scores.argmax(axis=1) == labels))


@cache
def quantised(factor: float, method: str, **options: Any) -> asim.QuantizeResult:
    images, _ = digits()
    return asim.quantize(network(factor), images[:500], activation=method, **options)  # type: ignore[arg-type]


@cache
def in_float32() -> float:
    return accuracy(network())


def test_without_outliers_every_threshold_does() -> None:
    assert in_float32() > 93
    for method in METHODS:
        assert abs(accuracy(quantised(1, method).graph) - in_float32()) <= 1, method


def test_a_louder_channel_changes_nothing_in_float32() -> None:
    images = digits()[0][:500]
    scores = [
        evaluate_plain(network(factor), default_opset(), {"image": images})["scores"] for factor in (1, 1024)
    ]
    assert np.array_equal(*scores)


@pytest.mark.parametrize(("factor", "lost"), [(1024, 60), pytest.param(128, 3, marks=pytest.mark.slow)])
def test_divergence_saves_what_the_largest_magnitude_loses(factor: float, lost: float) -> None:
    kept = in_float32()
    by = {method: accuracy(quantised(factor, method).graph) for method in METHODS}
    assert by["kl"] >= kept - 1
    assert by["max"] <= kept - lost
    assert by["max"] <= min(by["mse"], by["percentile"]) <= max(by["mse"], by["percentile"]) <= by["kl"]


def test_so_it_is_on_a_chip() -> None:
    best, worst = (quantised(1024, method) for method in ("kl", "max"))
    assert accuracy(best.graph, "Ascend310") >= in_float32() - 1
    assert accuracy(worst.graph, "Ascend310") < 30
    assert worst.sensitivity().column("Layer")[0] == "fc1"


def test_the_layer_with_outliers_can_be_left_out() -> None:
    assert accuracy(quantised(1024, "max", skip=("fc1",)).graph) >= in_float32() - 1
