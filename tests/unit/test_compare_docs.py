"""docs/compare.md: its Python runs, its commands work, and its table names the columns that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from ascendsim.profiling.comparison import comparison_table

pytestmark = pytest.mark.usefixtures("untimed_tiles")

TEXT = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code, "docs/compare.md", "exec"), {"__name__": "docs"})
    assert (tmp_path / "compare.png").stat().st_size > 0


@pytest.mark.usefixtures("unpainted")
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models_dir: Path) -> None:
    small = (models_dir / "lenet5.onnx").read_bytes()  # stands for the larger networks
    for name in ("resnet50.onnx", "mobilenet_v1.onnx"):
        (tmp_path / name).write_bytes(small)
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for line in re.findall(r"^    ascendsim (.*)$", TEXT, re.MULTILINE)]
    assert len(commands) == 7
    for command in commands:
        assert main(command) == 0, command
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "compare.csv",
        "compare.png",
        "ablation.csv",
        "build_up.csv",
        "build_up.png",
    }


def test_every_column_is_explained() -> None:
    explained = {
        name.strip()
        for cells in re.findall(r"^\| ([^|]+) \|", TEXT, re.MULTILINE)
        for name in cells.split(",")
    }
    assert set(comparison_table(()).columns) - {"Variant"} <= explained
