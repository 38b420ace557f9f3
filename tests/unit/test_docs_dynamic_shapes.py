"""docs/dynamic_shapes.md: its Python runs, its commands are accepted, and its figures are what the commands
print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "dynamic_shapes.md").read_text(encoding="utf-8")


def of_lenet(text: str) -> str:
    """What a page says, with a small network in the place of ResNet-18."""
    for before, after in (("resnet18", "lenet5"), ("3,224,224", "1,28,28"), ("3, 224, 224", "1, 28, 28")):
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_the_python_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(of_lenet(code), "docs/dynamic_shapes.md", "exec"), {})


@pytest.mark.parametrize("line", re.findall(r"^    ascendsim (.*)$", TEXT, re.MULTILINE))
def test_the_commands_run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(of_lenet(line))) == 0
    assert "gear" in capsys.readouterr().out


@pytest.mark.slow
def test_the_figures_are_those_of_the_simulator() -> None:
    """Times in the table within 5 %: the machine's figures may be refined."""
    rows = re.findall(r"^\| (1|4|16) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 3
    graph = asim.load(ROOT / "tests/data/models/resnet50.onnx", shapes={"input": (-1, 3, 224, 224)})
    found = {
        figure.name: figure.duration_us
        for figure in asim.compare_gears(graph, soc="Ascend310P3", dynamic_batch_size=[1, 4, 16]).figures
    }
    for batch, *times in rows:
        for kind, text in zip(("gear", "static", "host"), times, strict=True):
            assert found[f"{kind} {batch}"] == pytest.approx(float(text.replace(",", "")), rel=0.05)
