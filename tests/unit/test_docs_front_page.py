"""The front page of the site: every command and program on it runs as printed, every picture is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.common import PIPE_WIDTH
from ascendsim.cli.main import main
from tests.support.torch_present import torch_or_skip

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "index.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (ascendsim .*)$", PAGE, re.MULTILINE)
QUICK = ("lenet5", "soc show")  # the others take seconds
RULE = re.compile(r"(-+  )*-+")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(text, marks=() if any(word in text for word in QUICK) else pytest.mark.slow)
        for text in COMMANDS
    ],
)
def test_commands_run_as_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # what they write is not for the checkout
    for name in ("tests", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert main(shlex.split(command, comments=True)[1:]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    for index, line in enumerate(lines):
        if RULE.fullmatch(line):  # below a table's heads
            assert len(line) <= PIPE_WIDTH, command
            assert len(lines[index - 1]) <= PIPE_WIDTH


@pytest.mark.slow
def test_the_program_for_pytorch_runs(capsys: pytest.CaptureFixture[str]) -> None:
    torch_or_skip()
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "index.md", "exec"), {})
    assert "Conv2D" in capsys.readouterr().out


def test_every_kind_of_user_has_an_example_and_pictures_are_there() -> None:
    assert len(re.findall(r"^\*\*You ", PAGE, re.MULTILINE)) == 5
    assert len(COMMANDS) > 8
    pictures = re.findall(r"!\[[^\]]{10,}\]\(([^)]+)\)", PAGE)
    assert len(pictures) > 6
    assert [path for path in pictures if not (ROOT / path).is_file()] == []


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {asim.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
