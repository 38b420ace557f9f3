"""docs/training.md: its Python runs, and its lists are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from ascendsim.training.losses import LOSSES
from ascendsim.training.optimizers import OPTIMIZERS

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_the_python_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "docs/training.md", "exec"), {})


@pytest.mark.parametrize("line", re.findall(r"^    ascendsim (.*)$", TEXT, re.MULTILINE))
def test_the_commands_run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(line)) == 0
    printed = capsys.readouterr().out
    assert "training step: 10 weights of 61,706 numbers" in printed
    if "," in line:  # levels side by side
        assert "graph-kernel against mindspore" in printed
        return
    shares = dict(re.findall(r"^ *(forward|backward|update) +\d+ +[\d.]+ +([\d.]+)$", printed, re.MULTILINE))
    assert len(shares) == 3
    assert sum(float(share) for share in shares.values()) == pytest.approx(100, abs=0.1)
    assert ("(Not Overlapped)" in printed) == ("--devices" in line)


def test_losses_and_optimisers_are_named() -> None:
    section = TEXT[TEXT.index("## Optimisers") :].split("\n\n")[1]
    assert re.findall(r'`"(\w+)"`', section.split(", or one")[0]) == list(OPTIMIZERS)
    assert all(f'`"{name}"`' in TEXT for name in LOSSES)
