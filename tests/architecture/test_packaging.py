"""What is installed is what is here: `make wheel` builds and runs it, these need no build."""

from __future__ import annotations

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
