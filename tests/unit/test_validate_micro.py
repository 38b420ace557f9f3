"""Micro-benchmarks: every published row accounted for, programs that fit the chip, scores that hold."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ascendsim import soc
from ascendsim.cli.main import main
from ascendsim.isa.checks import check_program
from ascendsim.machine import run
from ascendsim.validate.micro import MicroComparison, compare_micro, mean_error
from ascendsim.validate.micro_cases import MATMUL, micro_cases
from ascendsim.validate.micro_programs import Product, matmul
from ascendsim.validate.micro_rows import LEFT_OUT, micro_rows
from tests.support.gate import in_one

_ROWS = 112  # of the published table
_EXTRA = 20


@pytest.fixture(scope="module")
def found() -> MicroComparison:
    return compare_micro()


def test_every_row_has_either_a_program_or_a_reason() -> None:
    rows = [row.id for row in micro_rows()]
    cases = [case.row for case in micro_cases()]
    reasons = [row for numbers in LEFT_OUT.values() for row in numbers]
    assert len(rows) == len(set(rows)) == _ROWS + _EXTRA
    assert sorted(cases + reasons) == rows  # each row once


@in_one("case", micro_cases())
def test_programs_fit_their_chip(case: object) -> None:
    chip = soc.load(case.chip, case.settings)  # type: ignore[attr-defined]
    check_program(case.build(chip), chip)  # type: ignore[attr-defined]


def test_scores_hold(found: MicroComparison) -> None:
    """Mean errors may fall, not rise: 1 %, 1.9 % without hand-written matmul kernels, 3.3 %, and 4.4 % where
    nothing was fitted."""
    table = [outcome for outcome in found.outcomes if not outcome.extra]
    small = [outcome for outcome in table if outcome.family == "Ascend310"]
    large = [outcome for outcome in table if outcome.family == "Ascend910B"]
    assert mean_error(small) < 0.01
    assert mean_error([outcome for outcome in large if outcome.group != MATMUL]) < 0.02
    assert mean_error(large) < 0.035
    assert mean_error([outcome for outcome in large if not outcome.fitted]) < 0.05


@pytest.mark.parametrize("in_turn", [False, True])
def test_loads_of_a_tile_wait_for_the_one_before_only_where_l1_is_used_in_turn(in_turn: bool) -> None:
    """Four tiles of four loads, with room for two: those of the next tile begin while MTE1 is still at the
    last ones of this, or after it."""
    product = Product(128, 1024, 256, (128, 1024), (128, 256, 64), slots=2, in_turn=in_turn)
    chip = soc.load("Ascend910B1")
    trace = run(matmul(product)(chip), chip, instructions=True)
    loads, feeds = (
        sorted((one.start, one.end) for one in trace.instructions if one.pipe == pipe)
        for pipe in ("MTE2", "MTE1")
    )
    assert len(loads) == len(feeds) == 32
    for tile in range(1, 4):
        assert (loads[8 * tile][0] >= feeds[8 * tile - 1][1]) is in_turn


def test_figures_name_rows_that_exist(found: MicroComparison) -> None:
    ids = {f"microbenchmark {row.id}" for row in micro_rows()}
    named = {name for chip in soc.names() for names in soc.load(chip).fitted_on.values() for name in names}
    assert {name for name in named if name.startswith("microbenchmark")} <= ids
    assert any(outcome.fitted for outcome in found.outcomes)
    assert any(not outcome.fitted for outcome in found.outcomes)


def test_the_command_prints_rows_scores_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["validate", "micro", "--csv", str(tmp_path / "m.csv"), "--output", str(tmp_path / "out")]) == 0
    )
    text = capsys.readouterr().out
    assert "mean |error| %" in text
    assert "left out because" in text
    assert (tmp_path / "out" / "correlation_micro_Ascend910B.png").stat().st_size > 10_000
    with (tmp_path / "m.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == _ROWS + _EXTRA
    assert all(bool(row["simulated"]) != bool(row["left_out_because"]) for row in rows)
