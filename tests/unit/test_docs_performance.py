"""The page on speed: files, workloads and commands that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from ascendsim.api.running import SHORTCUTS
from benchmarks.whole_process import peers
from benchmarks.workloads import CHIPS, WORKLOADS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_files_exist() -> None:
    named = re.findall(r"`((?:ascendsim|benchmarks|tests|lower|machine|core)/[\w/]+\.(?:py|csv))`", TEXT)
    assert len(named) > 8
    assert not [
        name for name in named if not (ROOT / name).is_file() and not (ROOT / "ascendsim" / name).is_file()
    ]
    modules = re.findall(r"-m (benchmarks\.\w+)", TEXT)
    assert modules
    assert all((ROOT / (module.replace(".", "/") + ".py")).is_file() for module in modules)


def test_every_workload_has_its_row() -> None:
    rows = {
        (cells[0].strip(), cells[1].strip())
        for cells in (line.strip("|").split("|") for line in TEXT.splitlines())
        if len(cells) > 1
    }
    assert {(name, chip) for name in WORKLOADS for chip in CHIPS} <= rows


def test_other_simulators_did_the_same_work() -> None:
    assert set(peers()) <= set(WORKLOADS)
    # the fastest first
    assert [entry["system"] for entry in peers()["gemm-1024"]] == ["msKPP", "ZigZag", "ONNXim"]


def test_switches_are_those_of_simulate() -> None:
    (listed,) = re.findall(r'any of ((?:"\w+"(?:, )?)+)', TEXT)
    assert tuple(re.findall(r'"(\w+)"', listed)) == SHORTCUTS
