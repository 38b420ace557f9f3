"""Fitting constants of a chip: the minimiser, the declared constants, and a fit that finds what was
changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ascendsim import soc as chips
from ascendsim.machine import run
from ascendsim.validate import measured_points
from ascendsim.validate.calibrate import (
    CONSTANTS,
    SAME_CHIP,
    Case,
    Constant,
    figure,
    fit,
    free_of_version,
    left_out_values,
    minimise,
    prepare,
    unseen_values,
)
from ascendsim.validate.points import CHIPS, Point


def test_the_minimiser_solves_linear_errors_inside_the_bounds() -> None:
    slopes = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    wanted = np.array([0.04, -0.02])
    step = minimise(-slopes @ wanted, slopes, np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    assert step == pytest.approx(wanted, abs=1e-4)
    bound = minimise(-slopes @ wanted, slopes, np.array([-1.0, -1.0]), np.array([0.01, 1.0]))
    assert bound[0] == pytest.approx(0.01)


def test_an_outlier_moves_the_fit_less_than_in_least_squares() -> None:
    errors, slopes = np.array([0.0, 0.0, 0.0, 0.0, -2.0]), np.ones((5, 1))
    step = minimise(errors, slopes, np.array([-5.0]), np.array([5.0]))
    assert 0 < step[0] < 0.05  # the mean is 0.4


@pytest.mark.parametrize("group", sorted(CONSTANTS))
def test_only_assumed_or_fitted_constants_are_declared_and_lie_in_their_ranges(group: str) -> None:
    spec = chips.load(CHIPS[group])
    for constant in CONSTANTS[group]:
        assert constant.low < constant.high
        for key in constant.keys:
            assert constant.low <= figure(spec, key) <= constant.high, key
            assert key in spec.assumed or key in spec.fitted_on, key
    groups = [group, *(other for other, same in SAME_CHIP.items() if same == group)]
    assert set(left_out_values(group)) <= {point.model for point in measured_points(groups)}


def test_points_of_an_older_version_are_fitted_and_predicted_with_what_it_has_otherwise() -> None:
    """310P is 310P3 with older kernels, whose tasks lie further apart whatever the fit says."""
    values = unseen_values(["310P", "310P3"])
    new, old = (
        next(point for point in measured_points([group]) if point.model == "googlenet")
        for group in ("310P3", "310P")
    )
    gap = "launch.task_gap_us"
    assert values(new)[gap] == left_out_values("310P3")["googlenet"][gap]
    assert values(old) == {key: value for key, value in values(new).items() if key != gap}
    apart = free_of_version(old.soc, old.conditions.cann, {gap: 7.0, "dram.read_gb_per_s": 100.0})
    assert apart == {"dram.read_gb_per_s": 100.0}
    assert free_of_version(new.soc, "", {gap: 7.0}) == {gap: 7.0}


def test_a_figure_of_a_table_is_found_and_cycles_are_whole() -> None:
    key = "vector.cycles_per_repeat.vexp.float16"  # the last dot is part of the table's key
    assert figure(chips.load("Ascend910B1"), key) == 4
    assert Constant((key,), 4, 12, "test").at(0.55) == {key: 8.4}
    assert Constant(("cube.gap_cycles",), 0, 40, "test").at(0.333)["cube.gap_cycles"] == 13  # whole cycles


@pytest.mark.usefixtures("untimed_tiles")
def test_a_fit_finds_a_changed_gap_between_tasks_and_reports_networks_that_it_did_not_see() -> None:
    folder = Path(__file__).parents[1] / "data" / "models"
    names = ("lenet5", "bert_tiny_s64")
    points = [Point("310P3", "Ascend310P3", name, f"{name}.onnx", 1, 1.0, False) for name in names]
    truth = chips.load("Ascend310P3", {"launch.task_gap_us": 1.3})
    cases = [
        Case(
            replace(
                case.point,
                throughput=1e6 / (run(case.program, truth).duration_us + truth.launch.model_call_us),
            ),
            case.program,
        )
        for case in prepare(points, folder)
    ]
    constant = Constant(("launch.task_gap_us",), 0.1, 1.5, "test")
    found = fit(cases, (constant,), rounds=2)
    assert found.values["launch.task_gap_us"] == pytest.approx(1.3, abs=0.02)
    assert set(found.left_out) == set(names)
    assert all(abs(prediction.error) < 0.01 for prediction in (*found.seen, *found.unseen))
