"""The public msprof-analyze advisor reads our PROF folder and finds what is in it (test-only dependency, not
in the default set-up)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ascendsim.isa.program import Block, BlockGroup
from ascendsim.profiling.export import Capture, write_prof_folder
from tests.support.synthetic_run import synthetic_run

pytestmark = pytest.mark.slow


def advisor(folder: Path, output: Path) -> str:
    """Runs the advisor over a PROF folder and returns what it printed; skips the test where it is not
    installed."""
    beside_python = Path(sys.executable).with_name("msprof-analyze")
    program = str(beside_python) if beside_python.exists() else shutil.which("msprof-analyze")
    if program is None:
        pytest.skip("needs the package msprof-analyze (pip install msprof-analyze==26.2.0)")
    command = [program, "advisor", "computation", "-d", str(folder), "-o", str(output), "--force", "-l", "en"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=output)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def issues(text: str) -> dict[str, set[str]]:
    """Operator types by category, from the advisor's table."""
    found: dict[str, set[str]] = {}
    category = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 5 or cells[1] == "No.":
            continue
        category = cells[2] or category
        types = re.findall(r"Conv2D|MatMulV2|Relu|Add|Pooling|SoftmaxV2|TransData|NonZero", cells[3])
        found.setdefault(category, set()).update(types)
    return found


def test_advisor_reports_what_is_unbound_and_what_ran_on_the_ai_cpu(tmp_path):
    found = issues(advisor(write_prof_folder(Capture(synthetic_run(48)), tmp_path)[0], tmp_path))
    assert set(found) == {"Operator No Bound Issues", "AICPU Issues"}
    assert found["AICPU Issues"] == {"NonZero"}
    # bound by MTE2 (MatMulV2, Add) or Vector (Pooling) in the synthetic run: ratios above 0.80
    assert found["Operator No Bound Issues"] == {"Conv2D", "Relu", "TransData", "SoftmaxV2"}


def test_advisor_sees_blocks_that_do_not_fill_the_cores(tmp_path):
    run = synthetic_run(48)
    uneven = [
        replace(task, groups=(BlockGroup(Block(()), 3),)) if "softmax" in task.name else task
        for task in run.program.tasks
    ]
    changed = replace(run, program=replace(run.program, tasks=tuple(uneven)))
    found = issues(advisor(write_prof_folder(Capture(changed), tmp_path)[0], tmp_path))
    assert found["Block Dim Issues"] == {"SoftmaxV2"}
