"""docs/llm_results.md has every published row, and the predictions that the simulator gives."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from llm_results import collectives, models, operators

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "llm_results.md").read_text(encoding="utf-8")
with (ROOT / "ascendsim" / "validate" / "data" / "llm_figures.csv").open(
    encoding="utf-8", newline=""
) as file:
    ROWS = {row["id"]: row for row in csv.DictReader(file)}
LINES = {line.split("|")[1].strip(): line for line in PAGE.splitlines() if re.match(r"\| L\d+ \|", line)}


def predicted(row: str) -> float:
    return float(LINES[row].rstrip(" |").rpartition("|")[2])


def test_every_row_is_there_once() -> None:
    found = re.findall(r"^\| (L\d+) \|", PAGE, re.MULTILINE)
    assert sorted(found) == sorted(ROWS)


def test_rows_are_predicted_or_say_why_not() -> None:
    unsaid = {**operators.UNSAID, **models.UNSAID}
    for row, figure in ROWS.items():
        if row in unsaid:
            assert unsaid[row] in LINES[row]
        else:
            assert "not run" in LINES[row] or predicted(row) > 0
            assert row in operators.ROWS or row in models.ROWS or figure["kind"] == "collective"


def test_blind_rows_have_no_figure() -> None:
    for row, figure in ROWS.items():
        assert bool(figure["value"]) == (figure["given"] == "yes"), row


@pytest.mark.parametrize("row", [row for row, figure in ROWS.items() if figure["kind"] == "collective"])
def test_collectives_are_as_the_page_has_them(row: str) -> None:
    assert float(collectives.predict(ROWS[row])) == pytest.approx(predicted(row), rel=0.01)


# a few of every room of kernels; the others take as long as the page
@pytest.mark.slow
@pytest.mark.parametrize("row", ["L104", "L120", "L127", "L129", "L131", "L158"])
def test_operators_are_as_the_page_has_them(row: str) -> None:
    assert operators.predict(row) == pytest.approx(predicted(row), rel=0.01)
