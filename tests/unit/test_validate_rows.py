"""A user's own measurements: what of a file can be used, and a chip file that is fitted to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ascendsim import soc as chips
from ascendsim.api.running import simulate
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.validate import fit_chip, measured_points, read_rows
from ascendsim.validate.calibrate import CONSTANTS
from ascendsim.validate.models import call_us, compile_point
from ascendsim.validate.points import CHIPS, Point

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.fixture
def folder(tmp_path: Path, models_dir: Path) -> Path:
    shutil.copy(models_dir / "lenet5.onnx", tmp_path)
    shutil.copy(models_dir / "bert_tiny_s64.onnx", tmp_path)
    (tmp_path / "broken.onnx").write_text("no network")
    return tmp_path


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_needs_a_network_a_chip_a_batch_and_a_time(folder: Path) -> None:
    path = _file(
        folder,
        "onnx, soc, batch, throughput_per_s, latency_ms_per_batch",
        "lenet5.onnx, 310P3, 4, , 0.5",
        "lenet5.onnx, Ascend310, 1, 5000,",
        "lenet5.onnx, Ascend310, 1, 7000,",
    )
    points, left = read_rows(path, folder)
    assert left == ()
    first, second = points
    assert first == Point("310P3", "Ascend310P3", "lenet5", "lenet5.onnx", 4, 8000.0, False)
    assert (second.soc, second.throughput) == ("Ascend310", 6000.0)  # the median of two rows of one point


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("lenet5.onnx,310,0,100,high,no,", "batch must be a positive number"),
        ("lenet5.onnx,310,2.5,100,high,no,", "batch must be a whole number"),
        ("lenet5.onnx,310,1e9,100,high,no,", "batch must be a whole number"),
        ("lenet5.onnx,310,1,inf,high,no,", "throughput_per_s must be a positive number"),
        ("lenet5.onnx,310,1,-3,high,no,", "throughput_per_s must be a positive number"),
        ("lenet5.onnx,310,1,fast,high,no,", "throughput_per_s must be a positive number"),
        ("lenet5.onnx,Ascend311,1,100,high,no,", "did you mean"),
        ("lenet5.onnx,,1,100,high,no,", "soc is empty"),
        ("lenet5.onnx,Ascend035,1,100,high,no,", "can be shown but not run"),
        ("nix.onnx,310,1,100,high,no,", "onnx 'nix.onnx' is no file in"),
        (",310,1,100,high,no,", "onnx '' is no file in"),
        ("../mine.csv,310,1,100,high,no,", "onnx '../mine.csv' is no file in"),
        ("lenet5.onnx,310,1,100,low,no,", "trust is low"),
        ("lenet5.onnx,310,1,100,perfect,no,", "trust must be high or medium"),
        ("lenet5.onnx,310,1,100,high,perhaps,", "aipp must be yes or no"),
        ("lenet5.onnx,310,1,100,high,no,--a='b", "options cannot be read"),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out_with_its_line_and_reason(
    row: str, reason: str, folder: Path
) -> None:
    columns = "onnx,soc,batch,throughput_per_s,trust,aipp,options"
    points, left = read_rows(_file(folder, columns, row, "lenet5.onnx,310,1,100,high,no,"), folder)
    assert len(points) == 1
    (only,) = left
    assert only.where == "line 2"
    assert reason in only.reason


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"onnx,soc,throughput_per_s\n", "have no column batch"),
        (b"onnx,soc,batch\n", "have no column throughput_per_s or latency_ms_per_batch"),
        (b"", "have no column onnx, batch, soc"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b'onnx,soc,batch,throughput_per_s\n"a', "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_of_measurements_is_one_error(text: bytes, rule: str, folder: Path) -> None:
    path = folder / "mine.csv"
    path.write_bytes(text)
    with pytest.raises(InputError, match=rule):
        read_rows(path, folder)
    with pytest.raises(InputError, match="must be a CSV file"):
        read_rows(folder, folder)


def test_own_rows_are_scored_and_others_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(
        folder,
        "onnx,soc,batch,throughput_per_s",
        "lenet5.onnx,Ascend310,2,5000",
        "broken.onnx,310,1,10",
        "lenet5.onnx,310,one,10",
    )
    command = ["validate", "models", "--rows", str(path), "--models", str(folder)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "chip Ascend310\n" in printed.out
    assert "broken, batch 1, 310  file 'broken.onnx' is not an ONNX model" in printed.out
    assert "line 4                batch must be a positive number, not 'one'" in printed.out
    assert main([*command, "--chips", "310P3"]) == 2
    assert "--chips: '310P3' has no usable row" in capsys.readouterr().err
    assert main([*command, "--leave_one_out"]) == 2
    assert "is for published rows" in capsys.readouterr().err
    nothing = _file(folder, "onnx,soc,batch,throughput_per_s", "lenet5.onnx,310,one,10")
    assert main(["validate", "models", "--rows", str(nothing), "--models", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "have no usable row: line 2: batch must be a positive number" in error
    assert error.count("\n") == 1


def test_networks_outside_the_folder_are_not_read(folder: Path) -> None:
    (folder / "inner").mkdir()
    path = _file(folder, "onnx,soc,batch,throughput_per_s", "../lenet5.onnx,310,1,100")
    points, (left,) = read_rows(path, folder / "inner")
    assert points == ()
    assert "is no file in" in left.reason


def _measured_on_a_chip(folder: Path, **changes: float) -> Path:
    """Rows of a chip whose figures are known."""
    lines = ["onnx,batch,latency_ms_per_batch"]
    for file, batch in (("lenet5.onnx", 1), ("lenet5.onnx", 4), ("bert_tiny_s64.onnx", 1)):
        point = Point("Ascend310P3", "Ascend310P3", file, file, batch, 1.0, False)
        values = {key.replace("__", "."): value for key, value in changes.items()}
        model = compile_point(point, folder, values=values)
        us = simulate(model).duration_us + call_us(model.program, model.soc)
        lines.append(f"{file},{batch},{us / 1e3}")
    return _file(folder, *lines, "broken.onnx,1,5")


def test_a_chip_file_fitted_to_rows_finds_what_was_changed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _measured_on_a_chip(folder, launch__task_gap_us=1.2)
    target = folder / "mine.toml"
    command = ["calibrate", "--rows", str(path), "--soc", "Ascend310P3", "--models", str(folder)]
    assert main([*command, "--constants", "launch.task_gap_us", "--output", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "broken, batch 1  file 'broken.onnx' is not an ONNX model" in printed
    shipped, own = chips.load("Ascend310P3"), chips.load(target)
    assert own.name == "mine"
    assert own.launch.task_gap_us == pytest.approx(1.2, abs=0.02)
    assert (own.dram, own.cube, own.short_name) == (shipped.dram, shipped.cube, shipped.short_name)
    assert "mine.csv: lenet5, batch 4" in own.fitted_on["launch.task_gap_us"]
    assert "mine.csv" in own.sources["launch.task_gap_us"]


def test_a_fit_in_python(folder: Path) -> None:
    path = _measured_on_a_chip(folder)  # the chip as it is
    found = fit_chip(path, "Ascend310P3", models=folder, constants=["launch.task_gap_us", "cube.gap_cycles"])
    assert [row.where for row in found.left_out] == ["broken, batch 1"]
    assert all(abs(prediction.error) < 0.01 for prediction in (*found.before, *found.fitted.seen))
    assert found.table().column("Constant") == ("launch.task_gap_us", "cube.gap_cycles")
    assert 'extends = "Ascend310P3"' in found.text("x")
    assert "task_gap_us" not in found.text("x")  # it has not moved, and keeps its source
    for name, rule in (("x.txt", "must end in .toml"), ("Ascend310.toml", "named like a shipped chip")):
        with pytest.raises(InputError, match=rule):
            found.save(folder / name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--soc", "Ascend910A"], "has no documented constants to fit"),
        (["--soc", "Ascend311"], "is unknown; did you mean"),
        (["--soc", "Ascend310P3"], "usable points of 2 networks"),
        (["--soc", "Ascend310P3", "--constants", "l2.size"], "constant 'l2.size' is none that is fitted"),
        (["--soc", "Ascend310P3", "--output", "chip.txt"], "must end in .toml"),
        (["--soc", "Ascend310P3", "--output", "nowhere/x.toml"], "is no folder"),
        (["--soc", "Ascend310P3", "--rows", "nowhere.csv"], "must be a CSV file"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(
    options: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(folder, "onnx,batch,latency_ms_per_batch", "lenet5.onnx,1,5", "lenet5.onnx,2,5")
    assert main(["calibrate", "--rows", str(path), "--models", str(folder), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_constants_that_can_be_fitted_are_those_of_published_chips() -> None:
    assert {CHIPS[group] for group in CONSTANTS} <= {point.soc for point in measured_points()}
