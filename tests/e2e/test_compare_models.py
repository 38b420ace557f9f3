"""`ascendsim compare A B ...`: model files side by side."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.frontends.onnx.export import export_onnx

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def network(given: str = "x", made: str = "y", size: int = 16) -> asim.Graph:
    """A convolution with weights of its own, an activation and a mean."""
    rng = np.random.default_rng(0)
    b = asim.GraphBuilder("main_graph")
    weights = b.constant(rng.standard_normal((16, 3, 3, 3)).astype(np.float32) / 5, "w")
    value = b.op("Relu", b.op("Conv", b.input(given, (1, 3, size, size)), weights, pads=[1, 1, 1, 1]))
    b.output(b.op("GlobalAveragePool", value), made)
    return b.build()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A network, the same in int8, an export with other names, and one of another size."""
    graph = network()
    data = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    (tmp_path / "other").mkdir()
    for name, made in (
        ("net", graph),
        ("int8", asim.quantize(graph, data).graph),
        ("other/net", network("images", "scores")),
        ("large", network(size=32)),
    ):
        (tmp_path / f"{name}.onnx").write_bytes(export_onnx(made))
    return tmp_path


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "compare.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_files_are_variants_wherever_they_stand_between_options(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    before = ["net.onnx", "--soc", "Ascend310P3", "int8.onnx", "--output", "out", "other/net.onnx"]
    assert main(["compare", *before]) == 0
    assert capsys.readouterr().out.startswith("net, int8\n")
    net, int8, export = rows_of(files / "out")
    assert [row["Variant"] for row in (net, int8, export)] == ["net.onnx", "int8.onnx", "other/net.onnx"]
    for row, file in ((net, "net"), (int8, "int8"), (export, "other/net")):
        alone = asim.simulate(asim.compile(asim.load(f"{file}.onnx"), soc="Ascend310P3"))
        assert float(row["Time(us)"]) == pytest.approx(alone.duration_us, abs=1e-3)
    assert 0 < float(int8["Of range"]) < 0.1
    assert (export["Of range"], export["Values"]) == ("0", "compared in order, names differ")
    assert (files / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("unpainted")
def test_files_go_with_lists_of_levels(files: Path, tmp_path: Path) -> None:
    arguments = [str(files / "net.onnx"), str(files / "int8.onnx"), "--values", "off", "--fusion", "off,all"]
    assert main(["compare", *arguments, "--output", str(tmp_path / "out")]) == 0
    names = [row["Variant"] for row in rows_of(tmp_path / "out")]
    assert names == ["net, off", "net, all", "int8, off", "int8, all"]


def test_outputs_of_other_inputs_are_not_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(files / "net.onnx"), str(files / "large.onnx")]) == 0
    printed = capsys.readouterr()
    assert "warning: large takes other inputs than net: outputs are not compared" in printed.err
    assert "outputs not compared (large)" in printed.out


def test_each_model_takes_its_own_of_the_shapes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(files / "net.onnx"), str(files / "other" / "net.onnx"), "--values", "off"]
    assert main([*arguments, "--input_shape", "x:2,3,16,16;images:2,3,16,16"]) == 0
    out = capsys.readouterr().out
    times = next(line.split()[1:] for line in out.splitlines() if line.startswith("Samples/s"))
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--ablate",), "option --ablate takes one model, not 2; name one file"),
        (("--build_up",), "option --build_up takes one model, not 2; name one file"),
        (("--dynamic_batch_size", "1,2"), "option --dynamic_batch_size takes one model, not 2"),
        (("net.onnx",), "compare names model 'net.onnx' twice; name each file once"),
        (("gone.onnx",), "file 'gone.onnx' does not exist"),
        (("--model", "net.onnx"), "option --model goes without a second model"),
        (("--input_shape", "z:1,3,16,16"), "input 'z' is of none of the models"),
        (("--soc", "Ascend310P3", "--nonsense"), "option --nonsense does not exist"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    monkeypatch.chdir(files)
    assert main(["compare", "net.onnx", "large.onnx", *arguments]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert len(err) == 1
    assert expected in err[0]
