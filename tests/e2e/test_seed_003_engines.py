"""The tuning guide: the Ascend 310 consists of DVPP, Ctrl CPU, AI CPU and AI Cores."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import build, random
from tests.support.pictures import folder_of

ENGINES = {"DVPP", "Ctrl CPU", "AI CPU", "Cube", "Vector"}


def network(b: GraphBuilder) -> Tensor:
    """A convolution (Cube), Neg and Relu (Vector), and a power that the guide's release has on the AI CPU."""
    conv = b.op("Conv", b.input("x", (1, 3, 32, 32)), random(16, 3, 3, 3), name="conv")
    return b.op("Pow", b.op("Relu", b.op("Neg", conv)), 3.0, name="power")


def test_an_image_passes_through_all_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model, images = tmp_path / "model.onnx", folder_of(tmp_path / "images", 3, 96, 128)
    model.write_bytes(export_onnx(build(network)))
    out = tmp_path / "out"
    command = ["run", str(model), "--release", "ddk", "--images", str(images), "--output", str(out)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "3 images in 3 batches" in text
    engines = next(line for line in text.splitlines() if line.startswith("time of tasks"))
    assert all(f" {engine} " in engines for engine in ENGINES)
    with (out / "op_statistic.csv").open() as file:
        kinds = {row["OP Type"]: row["Core Type"] for row in csv.DictReader(file)}
    assert {kinds["JPEGD"], kinds["VPC"], kinds["Execute"], kinds["Pow"], kinds["Conv2D"]} == {
        "DVPP",
        "CTRL_CPU",
        "AI_CPU",
        "AI_CORE",
    }
    with (out / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["Image"] for row in rows] == ["00.jpg", "01.jpg", "02.jpg"]
    times = ("Requested(us)", "Decoded(us)", "Ready(us)", "Network start(us)", "Network end(us)")
    assert all(sorted(found) == found for row in rows for found in [[float(row[name]) for name in times]])
    trace = json.loads((out / "trace.json").read_text())["traceEvents"]
    processes = {event["args"]["name"] for event in trace if event["name"] == "process_name"}
    assert {"DVPP", "Ctrl CPU", "AI CPU", "Streams"} <= processes


def test_the_ctrl_cpu_runs_no_operator_and_dvpp_none_of_the_network(tmp_path: Path) -> None:
    model = asim.compile(build(network), "Ascend310", release="ddk")
    result = asim.simulate(model, images=folder_of(tmp_path / "images", 2, 32, 32))
    operators = {view.task.kind.value for view in result.profile.tasks if view.nodes}
    assert operators == {"AI_CORE", "AI_CPU"}


def test_the_chip_lists_their_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soc", "show", "Ascend310"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "." in line.split()[0]}
    assert "128" in lines["dvpp.jpegd_fps_1080p"]
    assert "CANN documentation" in lines["dvpp.vpc_fps_1080p"]
    assert "assumed" in lines["ctrl_cpu.request_us"]
