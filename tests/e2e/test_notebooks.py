"""Every notebook runs from top to bottom without an error, and says what its committed outputs say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support.torch_present import torch_or_skip

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_BYTES = 1 << 20


# Of these the gate runs the cells that are not long. The long suite runs them whole, and the others, which go
# the ways of the tests on compare, gears, composites, training, torch.compile and kernels of one's own.
IN_GATE = ("01_first_run",)
BY_NAME = {path.stem: path for path in NOTEBOOKS}
CASES = [
    *(pytest.param(BY_NAME[name], True, id=f"{name}-short") for name in IN_GATE),
    *(pytest.param(path, False, id=f"{path.stem}-whole", marks=pytest.mark.slow) for path in NOTEBOOKS),
]


@pytest.mark.parametrize(("path", "short"), CASES)
def test_notebook_runs_and_is_committed_as_it_runs(path: Path, short: bool, tmp_path: Path) -> None:
    """Words and tables; figures may move with the model (`scripts/make_notebooks.py --check`)."""
    if "torch" in path.stem:
        torch_or_skip()
    script = runpy.run_path(str(ROOT / "scripts" / "make_notebooks.py"))  # Jupyter takes a second to import
    executed, opened, words = (script[name] for name in ("executed", "opened", "words"))
    committed = opened(path, short)
    assert path.stat().st_size < MOST_BYTES
    made = executed(path, tmp_path, short)
    assert words(made) == words(committed), "out of date: run scripts/make_notebooks.py"
    assert any("image/png" in text for said in words(made) for text in said), "a notebook without a picture"
