"""An attribute that ONNX's schema does not have is an error, wherever the node comes from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.opset import OpDef
from ascendsim.opset.structure import ELEMENTWISE
from tests.support.onnx_models import model, node, value


def mean(opset: int, **attributes: object) -> onnx.ModelProto:
    """The mean of a tensor of ones to sixes along what the attributes say."""
    return model(
        [node("ReduceMean", "x", "y", name="mean", **attributes)], [value("x", (2, 3))], ["y"], opset=opset
    )


def test_axes_are_an_attribute_up_to_operator_set_17() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = asim.run(asim.compile(asim.load(mean(17, axes=[1], keepdims=0)), "Ascend310"), {"x": x})
    np.testing.assert_array_equal(result.outputs["y"], [1, 4])
    rule = (
        r"^attribute 'axes' of node 'mean' \(ReduceMean\) is unknown in operator set 18, "
        r"whose ReduceMean has keepdims, noop_with_empty_axes; there it is input 1$"
    )
    with pytest.raises(asim.GraphError, match=rule):
        asim.load(mean(18, axes=[1], keepdims=0))


def test_a_misspelt_attribute_gets_a_suggestion() -> None:
    with pytest.raises(asim.GraphError, match=r"'keep_dims' of node 'mean' .*; did you mean keepdims\?$"):
        asim.load(mean(20, keep_dims=1))


def test_the_body_of_a_function_is_looked_at_too() -> None:
    body = onnx.helper.make_function(
        "own", "Half", ["a"], ["b"], [node("Relu", "a", "b", alpha=0.5)], [onnx.helper.make_opsetid("", 20)]
    )
    call = node("Half", "x", "y", name="call", domain="own", any_name=1)
    proto = model([call], [value("x", (2, 3))], ["y"], functions=[body], domains=[("own", 1)])
    with pytest.raises(asim.GraphError, match=r"'alpha' of node .* whose Relu has none; leave it out$"):
        asim.load(proto)


def test_marks_of_tools_are_let_through() -> None:
    """ONNX's own checker takes names with two underscores as private."""
    proto = mean(20, __quantised_by="somebody")
    onnx.checker.check_node(proto.graph.node[0])
    assert [item.op_type for item in asim.load(proto).nodes] == ["ReduceMean"]


def test_the_graph_builder_takes_what_the_newest_operator_set_has() -> None:
    builder = asim.GraphBuilder()
    x = builder.input("x", (2, 3))
    with pytest.raises(asim.GraphError, match=r"'axes' of node 'ReduceMean' .* there it is input 1$"):
        builder.op("ReduceMean", x, axes=[1])
    with pytest.raises(asim.GraphError, match=r"'perms' of node 'Transpose' .* did you mean perm\?$"):
        builder.op("Transpose", x, perms=[1, 0])
    assert builder.op("ReduceMean", x, [1], keepdims=0).shape == (2,)
    assert builder.op("ReduceMean", x, [1], keepdims=0, axes=None).shape == (2,)


def test_operators_of_other_domains_say_themselves_what_they_take() -> None:
    def infer(context: asim.InferContext) -> None:
        context.set(0, context.dtype(0), context.shape(0))

    own = OpDef("Relu", infer, lambda _node, inputs, _types: [inputs[0]], domain="own", facts=ELEMENTWISE)
    builder = asim.GraphBuilder(operators=[own])
    x = builder.input("x", (2, 3))
    assert builder.op("Relu", x, domain="own", slope=0.5).shape == (2, 3)
