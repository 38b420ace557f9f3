"""docs/training_results.md: the script's tables, and that the page has all published steps."""

from __future__ import annotations

import re
from pathlib import Path

from ascendsim.validate import Prediction
from ascendsim.validate.points import Point
from ascendsim.validate.training import (
    GROUPS,
    PROFILED,
    StepProfile,
    measured_profiles,
    training_points,
    training_predictions,
)
from tests.support.torch_present import torch_or_skip

torch_or_skip()

from scripts import training_devices, training_mechanisms  # noqa: E402
from scripts.make_training_page import page  # noqa: E402
from tests.support.predicted_steps import STEPS  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "training_results.md"


def _rows(text: str) -> list[list[str]]:
    return [re.split(r"\s*\|\s*", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]


def test_tables_join_operator_types_by_name() -> None:
    point = Point("910A", "Ascend910A", "net", "net.onnx", 8, 1000.0, False)
    pairs = [(Prediction(point, 900.0), Prediction(point, 3000.0))]
    theirs = StepProfile(8, {"FusionOp_A_ReLUV2": (3, 2000.0), "Tiny": (2, 4.0)})
    ours = StepProfile(8, {"FusionOp_A_ReluV2": (4, 1500.0), "Small": (1, 5.0), "Own": (7, 250.0)})
    rows = _rows(page(pairs, {"Net": ([theirs], [ours])}, {"blind_8": ours}))
    assert ["910A", "net", "8", "1000", "900", "-10.0"] in rows
    assert ["8", "2.0", "1.8", "-12.4", "5", "12"] in rows
    first = rows.index(["FusionOp_A_ReLUV2", "3", "4", "2.00 / 1.50"])
    assert rows[first + 1 : first + 3] == [
        ["Own", "0", "7", "0.00 / 0.25"],
        ["all others", "2", "1", "0.00 / 0.01"],
    ]
    largest = rows.index(["operator", "measured ms", "simulated ms", "difference", "why"])
    assert rows[largest + 1 : largest + 3] == [
        ["FusionOp_A_ReLUV2", "2.00", "1.50", "-0.50", "not known"],
        ["Own", "0.00", "0.25", "+0.25", "not known"],
    ]
    assert ["blind_8", "12", "1.8"] in rows
    assert rows[-3:] == [["FusionOp_A_ReluV2", "4", "1.50"], ["Own", "7", "0.25"], ["Small", "1", "0.01"]]


def test_names_of_both_sides_are_one_row() -> None:
    theirs, ours = StepProfile(8, {"MatMul": (3, 2000.0)}), StepProfile(8, {"MatMulV2": (4, 1500.0)})
    rows = _rows(page([], {"ViT": ([theirs], [ours])}, {}))
    assert ["MatMul", "3", "4", "2.00 / 1.50"] in rows
    (found,) = [row for row in rows if row[:4] == ["MatMul", "2.00", "1.50", "-0.50"]]
    assert "tiles" in found[4]


def test_the_page_has_every_published_step_and_profile() -> None:
    rows = _rows(PAGE.read_text(encoding="utf-8"))
    for point in training_points(tuple(GROUPS)):
        assert [point.group, point.model, str(point.batch), f"{point.throughput:.0f}"] in [
            row[:4] for row in rows
        ]
    for network in PROFILED:
        for profile in measured_profiles(network):
            assert [str(profile.batch), f"{profile.total_us / 1e3:.1f}"] in [row[:2] for row in rows]
    assert {row[0] for row in rows} >= {*STEPS}


def test_the_page_has_every_step_of_eight_devices() -> None:
    rows = _rows(PAGE.read_text(encoding="utf-8").partition("## Eight devices")[2])
    pairs = list(training_devices.pairs())
    assert [(pair.network, pair.batch) for pair in pairs] == [
        ("resnet50", 256),
        ("resnet50", 32),
        ("vgg16", 32),
        ("densenet121", 32),
    ]
    for pair in pairs:
        one, eight = (f"{1e3 * pair.batch / speed:.1f}" for speed in (pair.one, pair.eight))
        (row,) = [row for row in rows if row[:2] == [pair.network, str(pair.batch)]]
        assert (row[2].split(" / ")[0], row[3].split(" / ")[0]) == (one, eight)


def test_mechanisms_are_scored_by_how_steps_were_run() -> None:
    graph = Point("910A", "Ascend910A", "net", "net.onnx", 8, 1000.0, False)
    eager = Point("910A eager", "Ascend910A", "net", "net.onnx", 8, 1000.0, False)
    whole = [Prediction(graph, 900.0), Prediction(eager, 1050.0)]
    without = [
        (name, Prediction(point, speed))
        for name in training_mechanisms.MECHANISMS
        for point, speed in ((graph, 1300.0), (eager, 1050.0))
    ]
    rows = _rows(training_mechanisms.table(whole, without))
    assert ["nothing", "10.0", "10.0", "-10.0", "5.0", "5.0", "5.0"] in rows
    assert rows[-1][1:] == ["30.0", "30.0", "30.0", "5.0", "5.0", "5.0"]
    shown = _rows(PAGE.read_text(encoding="utf-8").partition("## What mechanisms are worth")[2])
    assert {"nothing", *training_mechanisms.MECHANISMS} <= {row[0] for row in shown}


def test_a_mechanism_is_taken_away_from_the_chip(models_dir: Path) -> None:
    point = Point("910A", "Ascend910A", "lenet5", "lenet5.onnx", 64, 1e4, False)
    spread = "factors spread block by block (kernels.spreads_channels)"
    pools = "poolings and transposes in blocks of maps (kernels.map_blocks)"
    ((whole, _),) = training_predictions([point], models_dir)
    speeds = [
        training_mechanisms.predicted((name, point), models_dir)[1].throughput for name in (spread, pools)
    ]
    assert whole.throughput == speeds[0] != speeds[1]  # LeNet has no batch normalisation
