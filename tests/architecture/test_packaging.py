"""What is installed is what is here: `make wheel` builds and runs it, these need no build."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MADE_BY_TOOLS = (".pyc", ".nbi", ".nbc")


@pytest.mark.parametrize("folder", ["ascendsim", "kernels/ascendsim_kernels"])
def test_every_file_of_a_package_is_packed(folder: str) -> None:
    patterns = (*PROJECT["tool"]["setuptools"]["package-data"]["*"], "*.py")
    forgotten = [
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix not in MADE_BY_TOOLS
        and not any(fnmatch(path.name, pattern) for pattern in patterns)
    ]
    assert not forgotten


def _recipe(target: str) -> str:
    """What make would do for a target in a checkout without an environment."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "VENV=.venv-none", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_demo_installs_what_a_user_needs_and_no_more() -> None:
    demo = _recipe("demo")
    assert re.findall(r"-m pip install .*", demo)[-1].endswith("--no-build-isolation -e .")
    for word in ("[dev]", "requirements", "torch", "pytest", "mypy"):
        assert word not in demo, word
    assert demo.count(".venv-none/bin/ascendsim ") == 2  # a run, and unfused against fused


def test_tests_complete_the_environment_of_the_demo() -> None:
    demo, setup = _recipe("demo"), _recipe("setup")
    installed = [line for line in demo.splitlines() if "pip install" in line]
    assert [line for line in setup.splitlines() if "pip install" in line][: len(installed)] == installed
    assert "-e '.[dev]'" in setup


def test_a_user_needs_no_extra_for_reports() -> None:
    project = PROJECT["project"]
    needed = {re.split(r"[<>=]", text)[0] for text in project["dependencies"]}
    assert "jinja2" in needed
    assert not needed & {"torch", "pandas", "pytest", "mypy", "onnxruntime"}
