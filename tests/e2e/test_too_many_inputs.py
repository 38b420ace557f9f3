"""A node with more inputs than its operator takes is an error, wherever it comes from; empty ones at the end
are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

import ascendsim as asim
from ascendsim.ops import default_opset
from tests.support.onnx_models import model, node, value


def relu(inputs: str, opset: int = 20, **more: Any) -> onnx.ModelProto:
    return model(
        [node("Relu", inputs, "y", name="relu")],
        [value("x", (2, 3)), value("z", (2, 3))],
        ["y"],
        opset=opset,
        **more,
    )


@pytest.mark.parametrize("opset", [7, 20])
def test_a_model_with_an_input_too_many_is_refused(opset: int) -> None:
    with pytest.raises(
        asim.GraphError, match=rf"^node 'relu' \(Relu\) takes at most 1 input in operator set {opset}, not 2"
    ):
        asim.load(relu("x z", opset))


def test_inputs_are_counted_in_the_operator_set_of_the_model() -> None:
    """Clip takes its bounds as inputs from operator set 11 on, before as attributes."""
    inputs, bounds = [value("x", (2, 3))], {"low": np.float32(0), "high": np.float32(1)}
    asim.load(model([node("Clip", "x low high", "y")], inputs, ["y"], bounds, opset=11))
    with pytest.raises(asim.GraphError, match="takes at most 1 input in operator set 10, not 3"):
        asim.load(model([node("Clip", "x low high", "y")], inputs, ["y"], bounds, opset=10))


def test_inputs_that_are_left_out_at_the_end_do_not_count() -> None:
    compiled = asim.compile(asim.load(relu("x _ _")), "Ascend310")
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    np.testing.assert_array_equal(asim.run(compiled, {"x": x, "z": x}).outputs["y"], np.maximum(x, 0))


def test_a_call_of_a_function_with_an_input_too_many_is_refused() -> None:
    body = onnx.helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [onnx.helper.make_opsetid("", 20)]
    )
    call = node("Twice", "x z", "y", name="call", domain="own")
    proto = model(
        [call], [value("x", (2, 3)), value("z", (2, 3))], ["y"], functions=[body], domains=[("own", 1)]
    )
    with pytest.raises(
        asim.GraphError, match=r"node 'call' \(Twice\) takes at most the 1 of its function as inputs, not 2"
    ):
        asim.load(proto)


@pytest.mark.parametrize(
    ("op_type", "domain", "most"),
    [("Relu", "", 1), ("Add", "", 2), ("Square", "ascend", 1), ("FusedMulAdd", "ascend", 3)],
)
def test_the_graph_builder_refuses_an_input_too_many(op_type: str, domain: str, most: int) -> None:
    builder = asim.GraphBuilder()
    x = builder.input("x", (2, 3))
    builder.op(op_type, *[x] * most, None, domain=domain)
    with pytest.raises(
        asim.GraphError, match=rf"\({op_type}\) takes at most {most} inputs?, not {most + 1}; leave out"
    ):
        builder.op(op_type, *[x] * (most + 1), domain=domain)


def test_the_numbers_are_those_of_the_schemas() -> None:
    unlimited = []
    for item in default_opset():
        if item.domain in ("ascend", "com.microsoft"):  # without a schema in this package
            continue
        most = defs.get_schema(item.name, domain=item.domain).max_input
        if item.most_inputs is None:
            unlimited.append(item.name)
            assert most > 1000, item.name
        else:
            assert item.most_inputs == most, item.name
    assert len(unlimited) < 15
