"""`ascendsim sweep`: what it prints, writes and returns."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ascendsim.cli import sweep_options
from ascendsim.cli.main import main
from ascendsim.core import progress

LENET = str(Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx")


def test_points_are_printed_written_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", LENET, "--batch", "1,4", "--set", "buffers.ub=32,256KiB", "--workers", "1"]
    command += ["--axis", "precision_mode=force_fp16", "--option", "aicpu_pow=off", "--output", str(tmp_path)]
    assert main(command) == 1  # a point failed
    said = capsys.readouterr()
    assert "buffers.ub must hold one repeat" in said.out.partition("failed:")[2]
    assert "no other point is better in Samples/s and Memory(MiB): rows 3, 1" in said.out
    assert "sweep: 4 of 4 points" in said.err
    written = sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".csv", ".png", ".db"))
    assert written == ["failed.csv", "pareto.csv", "pareto.png", "sweep.csv", "sweep.db"]
    assert len((tmp_path / "sweep.csv").read_text().splitlines()) == 3
    with sqlite3.connect(tmp_path / "sweep.db") as database:
        assert database.execute("select count(*) from points where state = 'done'").fetchone() == (2,)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "sweep needs an axis, and each argument has one value"),
        (["--set", "l2.size"], "option --set must have the form key=value,value"),
        (["--set", "l2.size=1MiB,1MiB"], "option --set l2.size names '1MiB' twice"),
        (["--axis", "enable_single_stream=maybe"], "must list some of false, true"),
        (["--axis", "nonsense=1"], "axis nonsense does not exist"),
        (["--option", "nonsense=1"], "profile option 'nonsense' does not exist"),
        (["--batch", "0"], "--batch"),
        (["--pareto", "Time(us),Colour"], "column 'Colour' is not in the sweep"),
        (["--workers", "0"], "--workers"),
        (["--report", "r.txt"], "must end in .html"),
    ],
)
def test_mistakes_are_told(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", LENET, "--workers", "1", *more]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert not said.out  # found before anything was computed


def test_options_have_the_types_of_compile() -> None:
    read = sweep_options._typed
    assert (
        read("enable_single_stream", "true"),
        read("aicore_num", "2"),
        read("topo_sorting_mode", "1"),
    ) == (True, 2, 1)
    assert read("cann", "5.1.RC2") == "5.1.RC2"


def test_lines_of_progress_say_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    show = progress._Lines("sweep", "points", lambda: now[0])
    for at, done in ((0, 2), (4, 3), (12, 5), (13, 6), (30, 10)):
        now[0] = at
        show(done, 10)
    lines = capsys.readouterr().err.splitlines()
    # two points were there before; three took 12 s, so five more take 20
    assert lines == [
        "sweep: 2 of 10 points",
        "sweep: 5 of 10 points, about 20 s left",
        "sweep: 10 of 10 points",
    ]
