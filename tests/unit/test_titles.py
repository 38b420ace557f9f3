"""Networks are called by their file where the exporter gave them no name of their own."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import ascendsim as asim
from ascendsim.api.titles import is_generic
from ascendsim.frontends.onnx.export import export_onnx


def saved(folder: Path, name: str) -> Path:
    """A small network in a file, its graph called `name`."""
    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (64, 64))), "y")
    proto = onnx.load_model_from_string(export_onnx(builder.build()))
    proto.graph.name = name
    path = folder / "yolov8n.v2.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize(
    "name",
    [
        "main_graph",
        "torch_jit",
        "torch-jit-export",
        "tf2onnx",
        "Model from PaddlePaddle.",
        "graph",
        "model_1",
        "Graph0",
    ],
)
def test_a_generic_name_gives_way_to_the_file(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, name)
    for source in (path, str(path)):
        graph = asim.load(source)
        assert graph.name == "yolov8n.v2"
    result = asim.simulate(asim.compile(graph, "Ascend310P3"))
    assert result.summary().model == "yolov8n.v2"
    assert result.plot_timeline().title.startswith("yolov8n.v2 on Ascend310P3")
    assert asim.load(path.read_bytes()).name == name  # bytes have no file


@pytest.mark.parametrize("name", ["resnet18", "bert_base", "torchvision_resnet50", "graphcast", "G"])
def test_a_name_of_its_own_stays(name: str, tmp_path: Path) -> None:
    assert asim.load(saved(tmp_path, name)).name == name


def test_names_that_repeat_what_is_looked_for_are_judged_at_once() -> None:
    assert not is_generic("mainmodelgraph1" * 5_000 + "!")
    assert is_generic("main_model-graph1" * 5_000)
