"""Scoring against published measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ascendsim import soc
from ascendsim.api.loading import load
from ascendsim.cli.main import main
from ascendsim.validate import Point, Prediction, compare_models, measured_points, score, worst
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.score import spearman


def _prediction(measured: float, predicted: float, name: str = "n") -> Prediction:
    return Prediction(Point("310", "Ascend310", name, "n.onnx", 1, measured, False), predicted)


def test_each_point_counts_once_and_untrusted_rows_do_not() -> None:
    points = measured_points()
    keys = [(point.group, point.model, point.batch) for point in points]
    assert len(set(keys)) == len(keys) > 150
    assert sum(point.group == "310" for point in points) == 62  # the number of scored points that comes with the data
    assert sum(point.group == "310P3" for point in points) == 110
    assert all(point.throughput > 0 for point in points)


def test_score() -> None:
    value = score([_prediction(100, 110), _prediction(200, 160), _prediction(300, 300)])
    assert value.points == 3
    assert value.mape == pytest.approx(0.1)
    assert value.median == pytest.approx(0.1)
    assert value.bias == pytest.approx(-0.1 / 3)
    assert value.spearman == pytest.approx(1.0)


def test_rank_correlation_equals_scipy() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        a, b = random.integers(0, 6, 12).tolist(), random.integers(0, 6, 12).tolist()
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_worst_first() -> None:
    found = worst([_prediction(100, 101, "a"), _prediction(100, 50, "b"), _prediction(100, 120, "c")], 2)
    assert [prediction.point.model for prediction in found] == ["b", "c"]


def test_roofline_by_hand(models_dir: Path) -> None:
    chip = soc.load("Ascend310")
    graph = load(models_dir / "lenet5.onnx")
    layers = sum(node.op_type in ("Conv", "Gemm") for node in graph.nodes)
    assert layers == 5
    assert 8.0 * layers < roofline_us(graph, chip) < 8.0 * layers + 20  # fixed time a layer, and hardly any work


def test_networks_are_simulated(models_dir: Path) -> None:
    points = [point for point in measured_points(["310"]) if point.model == "squeezenet1_1" and point.batch == 1]
    outcome = compare_models(points, models_dir)
    assert len(outcome.simulated) == len(outcome.roofline) == len(points) == 1
    assert outcome.simulated[0].throughput > 0


def test_image_input_where_the_published_run_had_it(models_dir: Path) -> None:
    points = [point for point in measured_points(["310P3"]) if point.model in ("resnet18", "resnet34") and point.batch == 1]
    assert {point.model: point.aipp for point in points} == {"resnet18": True, "resnet34": False}
    swapped = [replace(point, aipp=not point.aipp) for point in points]
    published, other = (compare_models(chosen, models_dir).simulated for chosen in (points, swapped))
    gains = {a.point.model: a.throughput / b.throughput for a, b in zip(published, other, strict=True)}
    assert gains["resnet18"] > 1 > gains["resnet34"]  # images are shorter than floats, and need no Cast and TransData


def test_unknown_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "models", "--chips", "311"]) == 2
    assert "did you mean 310" in capsys.readouterr().err


def test_missing_structures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", "models", "--models", str(tmp_path)]) == 2
    assert "--models" in capsys.readouterr().err
