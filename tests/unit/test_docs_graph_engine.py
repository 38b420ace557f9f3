"""docs/graph_engine.md: its Python runs, and its commands do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ascendsim.cli.main import main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "graph_engine.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_the_python_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "docs/graph_engine.md", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("line", re.findall(r"^    ascendsim ((?:optimize|passes) .*)$", TEXT, re.MULTILINE))
def test_the_commands_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line.replace("tests/data", str(ROOT / "tests" / "data")))) == 0
    assert capsys.readouterr().out


def test_the_text_names_every_pass_by_stem() -> None:
    """Each pass is at least named once, without the suffix Pass."""
    from ascendsim.ops import default_opset
    from ascendsim.passes.engine import pass_names

    words = {
        "TransOpSymmetryEliminationPass": "symmetric pairs",
        "NoUseMovementRemovePass": "Expand, Slice, Pad",
        "PrintOpPass": "Print",
    }
    words |= {
        "IdentityArithmeticPass": "identity arithmetic",
        "DimensionAdjustPass": "dimension passes",
        "Dim1TransposeToSqueezePass": "dimension passes",
    }
    for name in pass_names(default_opset()):
        assert words.get(name, name.removesuffix("Pass")) in TEXT, name
