"""docs/fusion.md: its Python runs, and its commands do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from ascendsim.passes.fusion.switch_file import read_switch_file

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "fusion.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_the_python_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "docs/fusion.md", "exec"), {"__name__": "docs"})


@pytest.mark.usefixtures("unpainted")
def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # any small model stands for it
    (tmp_path / "resnet50.onnx").write_bytes((models_dir / "lenet5.onnx").read_bytes())
    (switches,) = re.findall(r"^    (\{\"Switch\".*?\}\}\}\})$", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "fusion_switch.cfg").write_text(switches)
    (tmp_path / "no_softmax.cfg").write_text(switches.replace('"on"', '"off"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "logs"))
    assert read_switch_file("fusion_switch.cfg").priorities["graph"] == {"PoolingFusionPass": 1200}
    commands = [
        shlex.split(line, comments=True) for line in re.findall(r"^    ascendsim (.*)$", TEXT, re.MULTILINE)
    ]
    assert len(commands) == 15
    for command in commands:
        assert main(command) == 0, command
        assert "ascendsim: warning" not in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "plog",
        "fusion_result.json",
        "fusion_op.csv",
    }
    assert list((tmp_path / "logs" / "debug" / "plog").iterdir())
