"""Convolutions as im2col and a matrix product: the same values for every kind of convolution, and the memory
and time of a device that has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph


def convolution(x: tuple[Any, ...], w: tuple[int, ...], bias: bool = False, **attributes: Any) -> Graph:
    rng = np.random.default_rng(2)
    b = asim.GraphBuilder("c")
    operands = [b.input("x", x), b.constant(rng.standard_normal(w).astype(np.float32), "w")]
    if bias:
        operands.append(b.constant(rng.standard_normal(w[0]).astype(np.float32), "b"))
    b.output(b.op("Conv", *operands, name="conv", **attributes), "y")
    return b.build()


def outputs(graph: Graph, x: Any) -> Any:
    return asim.run(asim.compile(graph), {"x": x}, values="float32").outputs["y"]


@given(st.data())
def test_values_are_those_of_the_convolution(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def numbers(least: int, most: int, count: int = rank) -> list[int]:
        return data.draw(st.lists(st.integers(least, most), min_size=count, max_size=count))

    groups, kernel = data.draw(st.sampled_from([1, 2, 4])), numbers(1, 3)
    shape = (data.draw(st.integers(1, 2)), 4, *numbers(6, 8))
    attributes: dict[str, Any] = {"strides": numbers(1, 2), "dilations": numbers(1, 2), "group": groups}
    padding = data.draw(st.sampled_from(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if padding == "pads":
        attributes["pads"] = numbers(0, 2, 2 * rank)
    elif padding != "none":
        attributes["auto_pad"] = padding
    graph = convolution(shape, (4, 4 // groups, *kernel), bias=data.draw(st.booleans()), **attributes)
    written = asim.im2col(graph)
    assert {"Conv"}.isdisjoint(node.op_type for node in written.nodes)
    assert written.outputs[0].static_shape == graph.outputs[0].static_shape
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(outputs(written, x), outputs(graph, x), rtol=1e-5, atol=1e-5)


def test_a_device_without_convolution_pays_for_the_columns() -> None:
    graph = convolution((1, 64, 56, 56), (64, 64, 3, 3), pads=(1, 1, 1, 1))
    before, after = (asim.simulate(asim.compile(g, "Ascend310P3")) for g in (graph, asim.im2col(graph)))
    assert after.duration_us > 3 * before.duration_us
    columns = next(t for n, t in after.model.graph.tensors.items() if "columns" in n and t.producer)
    assert columns.elements == 9 * graph.inputs[0].elements


def test_some_of_them_and_what_cannot_be() -> None:
    b = asim.GraphBuilder("two")
    w = b.constant(np.ones((4, 4, 1, 1), np.float32), "w")
    first = b.op("Conv", b.input("x", (1, 4, 8, 8)), w, name="first")
    b.output(b.op("Conv", first, w, name="second"), "y")
    graph = b.build()
    written = asim.im2col(graph, nodes=["second"])
    assert [node.name for node in written.nodes if node.op_type == "Conv"] == ["first"]
    assert {"Slice", "Pad", "Concat"}.isdisjoint(node.op_type for node in written.nodes)  # 1 x 1: no copies
    with pytest.raises(InputError, match="did you mean second"):
        asim.im2col(graph, nodes=["secnd"])
    with pytest.raises(InputError, match="cannot become a matrix product; give it fixed shapes"):
        asim.im2col(convolution(("n", 4, 8, 8), (4, 4, 3, 3)))
    with pytest.raises(InputError, match="has no Conv"):
        asim.im2col(asim.im2col(graph))


def test_the_command_writes_it(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lenet.onnx"
    command = ["optimize", "tests/data/models/lenet5.onnx", "--weights", "random", "--im2col"]
    assert main([*command, "--save", str(path)]) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    operators = {node.op_type for node in asim.load(path).nodes}
    assert "Conv" not in operators
    assert "MatMul" in operators
