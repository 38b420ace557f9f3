"""The public msprof-analyze reads our exports and finds in them what we do."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ascendsim.isa.program import Block, BlockGroup
from ascendsim.profiling.export import Capture, write_prof_folder
from tests.support.msprof_tools import CHECKS, Exported, exported, program, run_check
from tests.support.synthetic_run import synthetic_run


def advisor(folder: Path, output: Path) -> str:
    """Runs the advisor over a PROF folder and returns what it printed."""
    command = [
        program(),
        "advisor",
        "computation",
        "-d",
        str(folder),
        "-o",
        str(output),
        "--force",
        "-l",
        "en",
    ]
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


@pytest.mark.slow
def test_advisor_reports_what_is_unbound_and_what_ran_on_the_ai_cpu(tmp_path):
    found = issues(advisor(write_prof_folder(Capture(synthetic_run(48)), tmp_path)[0], tmp_path))
    assert set(found) == {"Operator No Bound Issues", "AICPU Issues"}
    assert found["AICPU Issues"] == {"NonZero"}
    # bound by MTE2 (MatMulV2, Add) or Vector (Pooling) in the synthetic run: ratios above 0.80
    assert found["Operator No Bound Issues"] == {"Conv2D", "Relu", "TransData", "SoftmaxV2"}


@pytest.mark.slow
def test_advisor_sees_blocks_that_do_not_fill_the_cores(tmp_path):
    run = synthetic_run(48)
    uneven = [
        replace(task, groups=(BlockGroup(Block(()), 3),)) if "softmax" in task.name else task
        for task in run.program.tasks
    ]
    changed = replace(run, program=replace(run.program, tasks=tuple(uneven)))
    found = issues(advisor(write_prof_folder(Capture(changed), tmp_path)[0], tmp_path))
    assert found["Block Dim Issues"] == {"SoftmaxV2"}


@pytest.fixture(scope="module", params=["Ascend910B1", "Ascend310"], ids=["split", "coupled"])
def fused(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A network without fusion and with it."""
    folder = tmp_path_factory.mktemp("exported")
    unfused = exported("resnet18", 2, request.param, "off", folder)
    return exported("resnet18", 2, request.param, "all", folder, unfused)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_figures_are_ours(fused: Exported, tmp_path: Path, name: str) -> None:
    assert run_check(CHECKS[name], fused, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "compare --use_kernel_type", "advisor all"])
def test_figures_of_the_text_alone_are_ours(fused: Exported, tmp_path: Path, name: str) -> None:
    def without_databases(side: Exported, place: str) -> Path:
        copy = shutil.copytree(side.ascend_pt, tmp_path / place / side.ascend_pt.name)
        for path in copy.rglob("*.db"):
            path.unlink()
        return copy

    assert fused.before is not None
    before = replace(fused.before, ascend_pt=without_databases(fused.before, "before"))
    text = replace(fused, ascend_pt=without_databases(fused, "after"), before=before)
    assert run_check(CHECKS[name], text, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "compare --use_kernel_type"])
def test_figures_of_the_databases_alone_are_ours(fused: Exported, tmp_path: Path, name: str) -> None:
    def without_text(side: Exported, place: str) -> Path:
        copy = shutil.copytree(side.ascend_pt, tmp_path / place / side.ascend_pt.name)
        for path in [*copy.rglob("*.csv"), *copy.rglob("*trace_view.json")]:
            path.unlink()
        return copy

    assert fused.before is not None
    before = replace(fused.before, ascend_pt=without_text(fused.before, "before"))
    assert run_check(
        CHECKS[name], replace(fused, ascend_pt=without_text(fused, "after"), before=before), tmp_path / "out"
    )
