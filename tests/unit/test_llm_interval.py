"""How sure times of language models are: the errors are those of the page, and the interval holds them."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from ascendsim.llm.interval import language_model_interval, step_errors
from ascendsim.profiling.interval import UNMEASURED

ROOT = Path(__file__).parents[2]


def test_the_errors_are_those_of_the_page() -> None:
    page = (
        (ROOT / "docs" / "llm_results.md").read_text(encoding="utf-8").split("## Models")[1].split("\n## ")[0]
    )
    off = {
        cells[1].strip(): (cells[5].strip(), float(cells[7]))
        for line in page.splitlines()
        if (cells := line.split("|"))[0] == "" and len(cells) > 8 and re.fullmatch(r" [+-]\d+ ", cells[7])
    }
    path = ROOT / "ascendsim" / "llm" / "data" / "step_errors.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert {row["id"] for row in rows} == set(off) - {"L194"}  # which a constant was read off
    for row in rows:
        unit, percent = off[row["id"]]
        ratio = float(row["measured_by_simulated"])
        # "off by" is of the figure: of times, or of tokens a second, where too many are too short a time
        assert 100 * ((ratio if unit.endswith("/s") else 1 / ratio) - 1) == pytest.approx(percent, abs=1.5)


def test_the_interval_holds_most_models() -> None:
    found = language_model_interval(100.0, "Ascend910B3")
    held = [found.low_us <= 100 * math.exp(row.log_ratio) <= found.high_us for row in step_errors()]
    assert sum(held) >= 0.8 * len(held)
    assert found.low_us < 100 < found.high_us
    narrow = language_model_interval(100.0, "Ascend910B3", 0.3)
    assert found.low_us <= narrow.low_us <= narrow.high_us <= found.high_us
    assert language_model_interval(50.0, "Ascend910B3").high_us == pytest.approx(found.high_us / 2)


def test_a_chip_without_measurements_gets_the_assumption() -> None:
    found = language_model_interval(100.0, "Ascend310P3")
    assert (found.low_us, found.high_us) == pytest.approx((100 / UNMEASURED, 100 * UNMEASURED))
    assert "no measurement of language models on Ascend310P3" in found.note


def test_the_command_says_how_sure_its_times_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "qwen3-0.6b"]) == 0
    assert "likely (80%): " in capsys.readouterr().out
