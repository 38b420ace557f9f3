"""docs/training_results.md: the script's tables, and that the page has all published steps."""

from __future__ import annotations

import re
from pathlib import Path

from ascendsim.validate import Prediction
from ascendsim.validate.points import Point
from ascendsim.validate.training import GROUPS, PROFILED, StepProfile, measured_profiles, training_points
from tests.support.torch_present import torch_or_skip

torch_or_skip()

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
