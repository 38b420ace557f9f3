"""No operator is off by more than a factor of three without a reason, and each reason has an operator."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from ascendsim.validate.operator_reasons import UNKNOWN, Reason, far_off, reasons
from ascendsim.validate.operators import Timing, compare_operators
from ascendsim.validate.operators_rows import CHIPS, measured_operators

ROOT = Path(__file__).resolve().parents[2]


def test_a_reason_speaks_of_chips_operators_and_shapes() -> None:
    reason = Reason(("910A", "910B"), "Max*", "32x*x16 4", "why")
    assert reason.fits("910B", "MaxPool", "32x8x16 4")
    assert not reason.fits("910B4", "MaxPool", "32x8x16 4")
    assert not reason.fits("910A", "AvgPool", "32x8x16 4")
    assert not reason.fits("910A", "MaxPool", "32x8x17 4")


def test_far_is_more_than_three_times_to_either_side() -> None:
    rows, _left = measured_operators(["910B4"])
    mul = next(row for row in rows if row.op_type == "Mul" and row.shapes == "4096x1 64")
    other = replace(mul, op_type="Sub")

    def off(row: object, ratio: float) -> Timing:
        return Timing(row, mul.duration_us * ratio, 1.0)  # type: ignore[arg-type]

    near = [off(mul, 3.0), off(mul, 1 / 3 + 1e-9), off(mul, 1.0)]
    assert far_off(near) == {}
    far = [off(mul, 3.01), off(mul, 0.33), off(other, 4.0)]
    (known,) = (one.text for one in reasons() if one.fits("910B4", "Mul", mul.shapes))
    assert far_off([*near, *far]) == {known: far[:2], UNKNOWN: far[2:]}


def test_every_reason_has_an_operator_that_was_measured() -> None:
    rows, _left = measured_operators(list(CHIPS))
    for one in reasons():
        for chip in one.chips:
            assert any(one.fits(chip, row.op_type, row.shapes) for row in rows if row.group == chip), one


def test_the_page_lists_all_reasons() -> None:
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    filled = runpy.run_path(str(ROOT / "scripts" / "make_reasons_table.py"))["filled"]
    assert filled(page) == page, "run python scripts/make_reasons_table.py"


@pytest.mark.slow
def test_no_operator_is_far_off_without_a_reason() -> None:
    timings, _left = compare_operators(list(CHIPS))
    found = far_off(timings)
    assert found.get(UNKNOWN, []) == []
    assert set(found) == {one.text for one in reasons()}, "a reason that explains nothing any more"
