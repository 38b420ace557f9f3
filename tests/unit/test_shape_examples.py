"""Shapes for open inputs that a message gives: they can be pasted and run, whatever the network asks for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.cli.common import parse_input_shape
from ascendsim.cli.main import main
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.gears.example import example_shapes, how_to_say_shapes

Dims = list[int | str | None]
OPSET = default_opset()


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def network(
    inputs: dict[str, Dims | None], nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]
) -> onnx.ModelProto:
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", declared, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(source: str, result: str, weights: str = "w", **more: object) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, weights], [result], pads=[1, 1, 1, 1], **more)


def pyramid(height: str | None = "h", width: str | None = "w") -> onnx.ModelProto:
    """Joins maps of strides 1 and 8, so that sides must be multiples of 8."""
    nodes = [
        conv("x", "a"),
        conv("a", "b", "v", strides=[8, 8]),
        helper.make_node("Resize", ["b", "", "scales"], ["up"], mode="nearest"),
        helper.make_node("Concat", ["a", "up"], ["y"], axis=1),
    ]
    scales = numpy_helper.from_array(np.array([1, 1, 8, 8], np.float32), "scales")
    return network(
        {"x": ["n", 3, height, width]}, nodes, [weight("w", 4, 3, 3, 3), weight("v", 4, 4, 3, 3), scales]
    )


def text_line() -> onnx.ModelProto:
    """Takes lines of text 48 high and of any width, as a recogniser does: the height must become 1."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[48, 1], strides=[48, 1]),
        helper.make_node("Squeeze", ["a", "axis"], ["y"]),
    ]
    return network({"x": ["n", 3, None, None]}, nodes, [numpy_helper.from_array(np.array([2]), "axis")])


def added(inputs: dict[str, Dims | None], axis: int | None = None) -> onnx.ModelProto:
    names = list(inputs)
    node = (
        helper.make_node("Add", names, ["y"])
        if axis is None
        else helper.make_node("Concat", names, ["y"], axis=axis)
    )
    return network(inputs, [node], [])


def cached() -> onnx.ModelProto:
    """Keys of before and of now beside a mask over both, as decoders have them."""
    nodes = [
        helper.make_node("Concat", ["past", "now"], ["keys"], axis=2),
        helper.make_node("Add", ["keys", "mask"], ["y"]),
    ]
    inputs: dict[str, Dims | None] = {
        "past": ["b", 8, "past_length", 64],
        "now": ["b", 8, "length", 64],
        "mask": ["b", 1, "past_length + length", 1],
    }
    return network(inputs, nodes, [])


def last_channels() -> onnx.ModelProto:
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), conv("t", "y")]
    return network({"x": [None, None, None, 3]}, nodes, [weight("w", 4, 3, 3, 3)])


NETWORKS = {
    "pictures": (pyramid(), "x:1,3,224,224"),
    "one name for both sides": (pyramid("s", "s"), "x:1,3,224,224"),
    "no names": (pyramid(None, None), "x:1,3,224,224"),
    "lines of text": (text_line(), "x:1,3,48,320"),
    "channels last": (last_channels(), "x:1,224,224,3"),
    "texts": (added({"a": ["n", "s"], "b": ["n", "s"]}), "a:1,128;b:1,128"),
    "a sum of lengths": (cached(), "past:1,8,128,64;now:1,8,128,64;mask:1,1,256,1"),
    "a batch that does not stand in front": (
        added({"x": [None, None, 4], "h": [2, None, 4]}, axis=0),
        "x:1,128,4;h:2,128,4",
    ),
    "not even the rank": (network({"x": None}, [conv("x", "y")], [weight("w", 4, 3, 3, 3)]), "x:1,3,224,224"),
    "some are fixed": (added({"a": ["n", 7], "b": [1, 7]}), "a:1,7"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_option_in_the_message_can_be_pasted_and_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, wanted = NETWORKS[name]
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    command = ["run", str(path), "--soc", "Ascend310P3", "--values", "off"]
    assert main(command) == 2
    said = capsys.readouterr().err
    (text,) = re.findall(r"--input_shape '(.*?)';", said)
    assert text == wanted
    assert main([*command, "--input_shape", text]) == 0
    graph = asim.load(path, shapes=parse_input_shape(text))
    assert all(tensor.is_static for tensor in graph.inputs)


def test_sizes_that_nothing_usual_fits_are_left_to_the_user() -> None:
    graph = Graph("g")
    x = graph.add_input("x", DType.FLOAT32, ("n", "m"))
    scale = graph.add_constant("w", np.ones((5, 999), np.float32))
    graph.add_node("MatMul", [x, scale], ["y"])  # m must be 5
    assert example_shapes(graph, OPSET) is None
    assert how_to_say_shapes(graph, OPSET).startswith("say which: --input_shape 'x:n,m' with numbers")


def test_the_graph_stays_open() -> None:
    graph = asim.load(pyramid())
    assert example_shapes(graph, OPSET) == {"x": (1, 3, 224, 224)}
    assert graph.inputs[0].shape == ("n", 3, "h", "w")
