"""Every notebook runs from top to bottom without an error, and says what its committed outputs say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support.torch_present import torch_or_skip

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_notebooks.py"))
NOTEBOOKS, executed, opened, words = (SCRIPT[name] for name in ("NOTEBOOKS", "executed", "opened", "words"))
MOST_BYTES = 1 << 20


@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["short", "whole"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_is_committed_as_it_runs(path: Path, short: bool, tmp_path: Path) -> None:
    """Words and tables; figures may move with the model (`scripts/make_notebooks.py --check`)."""
    if "torch" in path.stem:
        torch_or_skip()
    committed = opened(path, short)
    assert path.stat().st_size < MOST_BYTES
    made = executed(path, tmp_path, short)
    assert words(made) == words(committed), "out of date: run scripts/make_notebooks.py"
    assert any("image/png" in text for said in words(made) for text in said), "a notebook without a picture"
