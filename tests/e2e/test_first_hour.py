"""What a new user meets in the first hour: misspelt names, missing files, old results, closed outputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.cli.main import main

MODEL = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
CHIP = ["--soc_version", "Ascend310"]
pytestmark = pytest.mark.usefixtures("untimed_tiles")


def save_product(path: Path, batch: int | str = 2) -> None:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)


@pytest.fixture(scope="module")
def model() -> asim.CompiledModel:
    return asim.compile(asim.load(MODEL), soc="Ascend310")


def test_misspelt_options_are_named(model: asim.CompiledModel, tmp_path: Path) -> None:
    result = asim.simulate(model)
    with pytest.raises(asim.InputError, match=r"option wnidow does not exist; did you mean window\?"):
        result.plot_timeline(wnidow=(0, 1))
    with pytest.raises(asim.InputError, match=r"option lvl does not exist; did you mean level\?"):
        result.save_trace(tmp_path / "t.json", lvl="task")
    with pytest.raises(asim.InputError, match="must begin before the run ends"):
        result.plot_timeline(window=(result.duration_us + 1, result.duration_us + 2))
    with pytest.raises(asim.SocError, match=r"did you mean Ascend310\?"):
        asim.compile(model.source, soc="Ascend311")


def test_a_pass_that_does_not_exist_is_a_warning_in_python_too() -> None:
    with pytest.warns(UserWarning, match="no fusion pass has the name 'ConvBatchnomFusionPass'") as caught:
        asim.compile(asim.load(MODEL), soc="Ascend310", optimization_switch="ConvBatchnomFusionPass:off")
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_pictures_take_the_scopes_that_listings_take() -> None:
    graph = asim.load(MODEL.with_name("resnet18.onnx"), shapes={"input": (1, 3, 32, 32)})
    result = asim.simulate(asim.compile(graph, soc="Ascend310"))
    inside = {task.id for task in result.model.tasks_of("layer1/layer1.0")}
    assert inside
    display = result.plot_timeline(operators="layer1/layer1.0")
    assert display.highlighted == inside
    source = next(name for node in result.model.graph.nodes for name in node.origin.get("source_names", ()))
    assert result.plot_timeline(operators=source).highlighted == {
        task.id for task in result.model.tasks_of(source)
    }


@pytest.mark.usefixtures("unpainted")
def test_recorded_instructions_are_in_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = asim.load(MODEL).nodes[0].name
    command = ["run", str(MODEL), *CHIP, "--values", "off", "--output", str(tmp_path)]
    assert main([*command, "--instructions", name]) == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(str(event.get("name", "")).startswith("mmad") for event in events)
    assert main(command) == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert not any(str(event.get("name", "")).startswith("mmad") for event in events)


@pytest.mark.usefixtures("unpainted")
def test_a_run_is_exported_for_other_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(MODEL), *CHIP, "--values", "off", "--output", str(tmp_path)]
    assert main([*command, "--export", "msprof,ascend_pt,kineto"]) == 0
    told = capsys.readouterr().out
    assert "exported 30 files" in told
    assert "no data for calls of the host" in told
    for pattern in ("PROF_*/msprof_*.db", "*_ascend_pt/*OUTPUT/analysis.db", "*.pt.trace.json"):
        (path,) = tmp_path.glob(pattern)
        assert path.stat().st_size > 0
        assert str(path.relative_to(tmp_path).parts[0]) in told


@pytest.mark.usefixtures("unpainted")
def test_outputs_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    command = ["run", str(MODEL), *CHIP, "--weights", "random", "--output", str(tmp_path)]
    assert main(command) == 0
    assert (tmp_path / "outputs.npz").is_file()
    assert main([*command, "--values", "off"]) == 0
    assert not (tmp_path / "outputs.npz").exists()


@pytest.mark.usefixtures("unpainted")
def test_open_shapes_come_with_the_line_that_closes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_product(tmp_path / "open.onnx", "n")
    assert main(["run", str(tmp_path / "open.onnx"), *CHIP]) == 2
    assert "--input_shape 'x:1,64'" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "open.onnx"), *CHIP, "--input_shape", "x:1,64"]) == 0


@pytest.mark.usefixtures("unpainted")
def test_missing_and_cut_weights_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_product(tmp_path / "m.onnx")
    weights = tmp_path / "w.bin"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    assert main(["run", str(tmp_path / "m.onnx"), *CHIP]) == 2
    assert (
        "tensor 'w' must find bytes 0 to 16384 in w.bin, not a file of 100 bytes" in capsys.readouterr().err
    )
    weights.unlink()
    assert main(["run", str(tmp_path / "m.onnx"), *CHIP]) == 0
    assert (
        "1 weights have no values, 'w' first (file w.bin is missing); --weights random"
        in capsys.readouterr().out
    )


def test_reasons_of_fusion_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = MODEL.with_name("bert_tiny_s64.onnx")
    assert main(["fusion", "list", str(path), "--refusals", *CHIP]) == 0
    lines = capsys.readouterr().out.split("why it was left")[1].splitlines()[2:]
    lines = [line for line in lines if re.search(r"  \d+  ", line)]  # long reasons go on in the next line
    report = asim.compile(asim.load(path), soc="Ascend310").fusion
    reasons = {(r.name, r.pattern, refusal.reason) for r in report.records for refusal in r.refusals}
    assert 0 < len(lines) == len(reasons) < sum(len(record.refusals) for record in report.records)


@pytest.mark.parametrize(
    ("command", "redirect", "code", "text"),
    [
        ("soc list", ">&-", 0, ""),
        ("soc list", ">/dev/full", 2, "standard output: No space"),
        pytest.param(
            f"run {MODEL} --soc_version Ascend310 --values off",
            ">/dev/full",
            2,
            "standard output: No space",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["closed", "full", "full-run"],
)
def test_output_that_nobody_can_read(command: str, redirect: str, code: int, text: str) -> None:
    command = f"{sys.executable} -m ascendsim {command} {redirect}"
    for unbuffered in ("", "1"):  # buffers are written when Python leaves
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == code, done.stderr
        assert text in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr
