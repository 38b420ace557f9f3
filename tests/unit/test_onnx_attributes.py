"""Attributes of ONNX nodes of every kind: read as they are, and given on to function bodies unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, UnsupportedTypeError
from ascendsim.frontends.onnx.attributes import read_attribute, with_values
from ascendsim.frontends.onnx.bodies import body_attributes, call_attributes
from ascendsim.graph.ir import Graph

CAST, OTHER = helper.make_node("Cast", ["x"], ["y"]), helper.make_node("Own", ["x"], ["y"], domain="own")
VALUES: dict[str, Any] = {
    "number": 3,
    "real": 2.5,
    "text": "näh",
    "numbers": (1, -2),
    "reals": (0.5, 1.5),
    "texts": ("a", "ü"),
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
}


def read(attribute: onnx.AttributeProto, node: onnx.NodeProto = OTHER) -> Any:
    return read_attribute(attribute, node, "node 'n'", lambda graph: Graph(graph.name), numpy_helper.to_array)


def graph(name: str) -> onnx.GraphProto:
    return helper.make_graph([], name, [], [])


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_read_and_given_on_as_it_is(name: str) -> None:
    value = VALUES[name]
    given = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
    found = read(helper.make_attribute(name, given))
    again = read(call_attributes({name: value})[name])
    for one in (found, again):
        assert type(one) is type(value)
        assert np.array_equal(one, value)
        if isinstance(value, tuple):
            assert [type(item) for item in one] == [type(item) for item in value]


def test_graphs_are_read_and_not_given_on() -> None:
    assert read(helper.make_attribute("body", graph("one"))).name == "one"
    several = read(helper.make_attribute("bodies", [graph("one"), graph("two")]))
    assert [item.name for item in several] == ["one", "two"]
    assert call_attributes({"body": Graph("g"), "bodies": (Graph("g"),), "axis": 1}).keys() == {"axis"}
    assert read(call_attributes({"axes": ()})["axes"]) == ()


def test_types_are_types_where_the_operator_says_so() -> None:
    assert read(helper.make_attribute("to", TensorProto.FLOAT16), CAST) is DType.FLOAT16
    assert read(helper.make_attribute("to", TensorProto.FLOAT16)) == TensorProto.FLOAT16
    assert read(helper.make_attribute("axis", 1), CAST) == 1
    assert read(call_attributes({"to": DType.INT8})["to"], CAST) is DType.INT8
    with pytest.raises(UnsupportedTypeError):
        read(helper.make_attribute("to", 0), CAST)
    like = helper.make_node("RandomNormal", [], ["y"])
    assert read(helper.make_attribute("dtype", 0), like) is None  # the operator's default


def test_what_cannot_be_read() -> None:
    with pytest.raises(GraphError, match="attribute 'a' of node 'n' has no type; export the model again"):
        read(onnx.AttributeProto(name="a"))
    kinds = onnx.AttributeProto.AttributeType
    for kind in ("SPARSE_TENSOR", "TYPE_PROTO", "TENSORS"):
        with pytest.raises(UnsupportedTypeError, match=f"'a' of node 'n' is a {kind}, which is not"):
            read(onnx.AttributeProto(name="a", type=kinds.Value(kind)))
    for broken in (
        onnx.AttributeProto(name="a", type=kinds.Value("STRING"), s=b"\xff"),
        onnx.AttributeProto(name="a", type=kinds.Value("STRINGS"), strings=[b"a", b"\xff"]),
    ):
        with pytest.raises(GraphError, match="attribute 'a' of node 'n' must be UTF-8 text"):
            read(broken)


def test_references_of_a_body_get_what_the_call_gave() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    node.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="outer", type=2))
    node.attribute.append(helper.make_attribute("keep", 7))
    node.attribute.append(onnx.AttributeProto(name="left", ref_attr_name="absent", type=2))
    found = with_values(
        node, {"outer": helper.make_attribute("outer", 5), "keep": helper.make_attribute("x", 0)}
    )
    assert [(item.name, item.i, item.ref_attr_name) for item in found] == [("axis", 5, ""), ("keep", 7, "")]


def test_values_of_a_body_are_the_calls_then_the_functions_then_the_schemas() -> None:
    function = helper.make_function(
        "own", "Elu", ["x"], ["y"], [], [], attribute_protos=[helper.make_attribute("beta", 4.0)]
    )
    plain = body_attributes(function, {}, "", "Elu")
    assert {name: item.f for name, item in plain.items()} == {"alpha": 1.0, "beta": 4.0}
    given = body_attributes(function, {"alpha": helper.make_attribute("alpha", 3.0)}, "", "Elu")
    assert {name: item.f for name, item in given.items()} == {"alpha": 3.0, "beta": 4.0}
    assert body_attributes(function, {}, "own", "Nothing").keys() == {"beta"}
