"""`ascendsim soc` and the command line around it: output, exit codes, one-line errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ascendsim import __version__, soc
from ascendsim.cli import main as command_line
from ascendsim.cli.main import COMMANDS, main


def test_list_names_every_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soc", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    end = next(number for number, line in enumerate(lines) if line.startswith("also:"))
    assert [line.split()[0] for line in lines[2:end]] == list(soc.names())
    assert all(any(line.startswith(board.name) for line in lines[end:]) for board in soc.boards())
    assert lines[end] == "also: Ascend310B = Ascend310B1, Ascend310P = Ascend310P3, Ascend910 = Ascend910A"


def test_list_is_stable_text(capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]) -> None:
    main(["soc", "list"])
    golden("cli/soc_list.txt", capsys.readouterr().out)


def test_show_gives_every_figure_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soc", "show", "Ascend310"]) == 0
    lines: dict[str, str] = {}
    key = ""
    for line in capsys.readouterr().out.splitlines():
        if line.startswith(" "):  # the source goes on
            lines[key] += f" {line.strip()}"
        else:
            key = line.split()[0]
            lines[key] = line
    assert "8 " in lines["l2.size"]
    assert "MiB" in lines["l2.size"]
    assert lines["l2.size"].endswith("CANN 8.1.RC1 platform_config/Ascend310.ini: l2_size")
    assert " assumed " in lines["issue.scalar_cycles"]
    assert "none" in lines["ports.l0c_to_gm"]
    assert "half-duplex" in lines["dram.read_gb_per_s"]
    assert {row.key for row in soc.spec_table(soc.load("Ascend310"))} <= lines.keys()


def test_show_applies_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soc", "show", "Ascend310", "--set", "l2.size=16MiB", "--set", "ai_cores=1"]) == 0
    text = capsys.readouterr().out
    assert "fp16 peak 5.6 TFLOPS" in text
    assert next(line for line in text.splitlines() if line.startswith("l2.size")).split()[1:] == [
        "16",
        "MiB",
        "set",
        "by",
        "the",
        "user",
    ]


def test_show_of_a_chip_with_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soc", "show", "Ascend035"]) == 0
    text = capsys.readouterr().out
    assert "cannot be run, these are missing: buffers.l0a (the ini gives 0" in text
    assert next(line for line in text.splitlines() if line.startswith("buffers.l0a")).split()[1] == "unknown"


def test_show_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "Mine"\nextends = "Ascend310"\n', encoding="utf-8")
    assert main(["soc", "show", str(path)]) == 0
    assert capsys.readouterr().out.startswith("Mine: dav-m100, generation v100")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sco"], "command 'sco' does not exist; did you mean soc?"),
        (["--versoin"], "option --versoin does not exist; did you mean --version?"),
        (["soc"], "the following arguments are required: list|show; see `ascendsim soc --help`"),
        (
            ["soc", "shw"],
            "argument list|show: invalid choice: 'shw' (choose from 'list', 'show'); see `ascendsim soc "
            "--help`",
        ),
        (["soc", "show"], "the following arguments are required: chip; see `ascendsim soc show --help`"),
        (
            ["soc", "show", "Ascend301"],
            "chip 'Ascend301' is unknown; did you mean Ascend310? (a file of your own ends in .toml)",
        ),
        (["soc", "show", "Ascend310", "--sett", "a=1"], "option --sett does not exist; did you mean --set?"),
        (["soc", "show", "Ascend310", "more"], "argument 'more' is not expected; see `ascendsim soc --help`"),
        (
            ["soc", "show", "Ascend310", "--set", "l2.size"],
            "option --set must have the form key=value, not 'l2.size'",
        ),
        (
            ["soc", "show", "Ascend310", "--set", "l2.size=-1"],
            "override: key l2.size must be a finite number above 0, not -1",
        ),
        (
            ["soc", "show", "no\nsuch.toml"],
            "chip file no\\nsuch.toml cannot be read (No such file or directory); see `ascendsim soc list`",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"ascendsim: error: {message}")
    assert captured.err.count("\n") == 1


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert main([]) == 2
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: ascendsim {name}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ascendsim {__version__}\n"


def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "_dispatch", interrupted)
    assert main(["soc", "list"]) == 130
    assert capsys.readouterr().err == "ascendsim: interrupted\n"


def test_a_file_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_arguments: list[str]) -> int:
        raise OSError(28, "No space left on device", "out/trace.json")

    monkeypatch.setattr(command_line, "_dispatch", full)
    assert main(["soc", "list"]) == 2
    assert capsys.readouterr().err == "ascendsim: error: out/trace.json: No space left on device\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    program = "import sys; from ascendsim.cli.main import main; sys.exit(main(['soc', 'show', 'Ascend310']))"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert errors == ""
