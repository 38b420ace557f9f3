"""Every operator with a schema, in files that break it in one place: an error that names the node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.frontends.onnx.schemas import Checks, schema_of
from ascendsim.ops import default_opset
from tests.support.node_suite import representative_cases
from tests.support.onnx_models import model, node, value

KINDS = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16)


def standard() -> list[onnx.defs.OpSchema]:
    """Schemas of the operators that are defined here."""
    found = [schema_of(item.name) for item in default_opset() if not item.domain]
    return [schema for schema in found if schema is not None]


def cases() -> Iterator[tuple[onnx.ModelProto, onnx.NodeProto, onnx.defs.OpSchema]]:
    """Valid files of one operator, to be broken."""
    for case in representative_cases():
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        if len(proto.graph.node) != 1 or proto.graph.node[0].domain:
            continue
        version = next(item.version for item in proto.opset_import if not item.domain)
        schema = schema_of(proto.graph.node[0].op_type, "", version)
        if schema is None or any(
            item.type.WhichOneof("value") != "tensor_type" for item in proto.graph.input
        ):
            continue
        try:
            asim.load(proto)
        except asim.AscendSimError:
            continue
        yield proto, proto.graph.node[0], schema


def test_an_input_that_must_be_there_is_named_where_it_is_not() -> None:
    count = 0
    for proto, one, schema in cases():
        for place in range(schema.min_input):
            if schema.inputs[place].option == onnx.defs.OpSchema.FormalParameterOption.Optional:
                continue
            broken = onnx.ModelProto()
            broken.CopyFrom(proto)
            broken.graph.node[0].input[place] = ""
            with pytest.raises(asim.GraphError, match=rf"\({one.op_type}\) needs input {place} \("):
                asim.load(broken)
            count += 1
    assert count > 250


def test_an_output_too_many_is_refused() -> None:
    count = 0
    for proto, one, schema in cases():
        if schema.max_output < 10 and one.op_type != "Constant":
            del one.output[:]
            one.output.extend(["made", *[""] * schema.max_output])
            with pytest.raises(asim.GraphError, match=f"gives at most {schema.max_output} output"):
                asim.load(proto)
            count += 1
    assert count > 120


def test_one_type_variable_is_one_type() -> None:
    """Of every operator with two inputs of one variable, one of them in another type that it may have."""
    count = 0
    for proto, one, schema in cases():
        ports = [schema.inputs[min(at, len(schema.inputs) - 1)] for at in range(len(one.input))]
        for at, port in enumerate(ports[1:], 1):
            same = [
                k for k in range(at) if ports[k].type_str == port.type_str and one.input[k] != one.input[at]
            ]
            inputs = {item.name: item.type.tensor_type for item in proto.graph.input}
            if not same or not port.is_homogeneous or one.input[at] not in inputs:
                continue
            old = inputs[one.input[at]].elem_type
            allowed = [kind for kind in KINDS if kind != old]
            inputs[one.input[at]].elem_type = allowed[0]
            with pytest.raises(asim.GraphError, match=r"needs one element type for input|takes .* as input"):
                asim.load(proto)
            inputs[one.input[at]].elem_type = old
            count += 1
    assert count > 60


def test_the_graph_builder_asks_the_same() -> None:
    builder = asim.GraphBuilder()
    x, whole = builder.input("x", (3,)), builder.input("i", (3,), "int64")
    for op_type in ("Add", "Less", "MatMul", "Max"):
        with pytest.raises(asim.GraphError, match=rf"\({op_type}\) needs one element type for input 0"):
            builder.op(op_type, x, whole)
    with pytest.raises(asim.GraphError, match=r"\(Add\) needs input 1 \(B\); connect it"):
        builder.op("Add", x)
    with pytest.raises(asim.GraphError, match=r"\(Exp\) takes .*float32.* as input 0 \(input\), not int64"):
        builder.op("Exp", whole)
    with pytest.raises(asim.GraphError, match="'keepdims' .* must be 0 or 1, not 2"):
        builder.op("ReduceSum", x, keepdims=2)


def test_attributes_without_a_default_must_be_given() -> None:
    count = 0
    for schema in standard():
        for name, attribute in schema.attributes.items():
            if attribute.required:
                with pytest.raises(asim.GraphError, match=f"needs attribute '{name}'"):
                    Checks(schema, "node 'n'").given([other for other in schema.attributes if other != name])
                count += 1
    assert count > 20


def test_an_operator_of_a_newer_operator_set_is_refused() -> None:
    with pytest.raises(asim.GraphError, match="came with operator set 14, not 13, as the file says"):
        asim.load(model([node("HardSwish", "x", "y")], [value("x", (3,))], ["y"], opset=13))
    asim.load(model([node("HardSwish", "x", "y")], [value("x", (3,))], ["y"], opset=14))


@pytest.mark.parametrize("op_type", ["Relu", "ReduceSum", "ArgMax", "Transpose", "Softmax"])
def test_sizes_and_axes_of_inputs_are_bounded(op_type: str) -> None:
    huge = value("x", (1 << 31, 1 << 31))
    with pytest.raises(asim.GraphError, match="input 'x' must have at most 1099511627776 elements"):
        asim.load(model([node(op_type, "x", "y")], [huge], ["y"]))
    with pytest.raises(asim.GraphError, match="input 'x' must have at most 64 axes, not 65"):
        asim.load(model([node(op_type, "x", "y")], [value("x", (1,) * 65)], ["y"]))
    asim.load(model([node(op_type, "x", "y")], [value("x", (1,) * 64)], ["y"]))


def test_a_scan_of_too_many_turns_is_refused_before_the_first() -> None:
    body = helper.make_graph(
        [node("Add", "s e", "t"), node("Identity", "t", "o")],
        "body",
        [value("s", ()), value("e", ())],
        [value("t", ()), value("o", ())],
    )
    scan = node("Scan", "s0 x", "last y", body=body, num_scan_inputs=1)
    built = asim.load(model([scan], [value("s0", ()), value("x", (200_000,))], ["last", "y"]))
    with pytest.raises(asim.GraphError, match="must end within 100000 iterations"):
        asim.simulate(asim.compile(built, soc="Ascend310P3"))


def test_auto_pad_that_is_empty_is_its_default() -> None:
    one = node("Conv", "x w", "y", pads=[1, 1, 1, 1], auto_pad="")
    weights = {"w": np.zeros((1, 1, 3, 3), np.float32)}
    assert asim.load(model([one], [value("x", (1, 1, 5, 5))], ["y"], weights)).outputs[0].shape == (
        1,
        1,
        5,
        5,
    )
    one = node("Conv", "x w", "y", auto_pad="nonsense")
    with pytest.raises(asim.GraphError, match="'auto_pad' .* must be one of NOTSET"):
        asim.load(model([one], [value("x", (1, 1, 5, 5))], ["y"], weights))
