"""Attributes of ONNX nodes as the IR has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from ascendsim.core.errors import GraphError, UnsupportedTypeError
from ascendsim.frontends.onnx.types import element_type
from ascendsim.graph.ir import Array, AttributeValue, Graph

# Attributes that hold an element type; the IR holds a DType in their place.
TYPE_ATTRIBUTES: dict[str, frozenset[str]] = {
    "to": frozenset({"Cast", "BitCast"}),
    "dtype": frozenset(
        {
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
            "EyeLike",
            "Multinomial",
            "Bernoulli",
        }
    ),
    "output_dtype": frozenset({"QuantizeLinear", "DequantizeLinear"}),
    "output_datatype": frozenset({"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"}),
}

_A = onnx.AttributeProto


def read_attribute(
    attribute: onnx.AttributeProto,
    node: onnx.NodeProto,
    subject: str,
    read_graph: Callable[[onnx.GraphProto], Graph],
    read_array: Callable[[onnx.TensorProto], Array],
) -> AttributeValue | None:
    """The value of an attribute; None for a type attribute that says "undefined" (the operator's default).

    Args:
        attribute: With a value, not a reference to a function's attribute.
        node: The node it belongs to.
        subject: The node as messages name it.
        read_graph: Reads a subgraph.
        read_array: Reads a tensor.

    Raises:
        GraphError: If its type is not known or its text is not UTF-8.
        UnsupportedTypeError: If it holds a sparse tensor, a type proto, or names an unsupported element type.
    """
    kind = attribute.type
    if kind == _A.INT:
        if node.domain in ("", "ai.onnx") and node.op_type in TYPE_ATTRIBUTES.get(attribute.name, ()):
            return (
                None
                if attribute.i == 0 and attribute.name != "to"
                else element_type(attribute.i, f"attribute {attribute.name} of {subject}")
            )
        return int(attribute.i)
    if kind == _A.FLOAT:
        return float(attribute.f)
    if kind == _A.STRING:
        return _text(attribute.s, attribute.name, subject)
    if kind == _A.INTS:
        return tuple(int(item) for item in attribute.ints)
    if kind == _A.FLOATS:
        return tuple(float(item) for item in attribute.floats)
    if kind == _A.STRINGS:
        return tuple(_text(item, attribute.name, subject) for item in attribute.strings)
    if kind == _A.TENSOR:
        return read_array(attribute.t)
    if kind == _A.GRAPH:
        return read_graph(attribute.g)
    if kind == _A.GRAPHS:
        return tuple(read_graph(item) for item in attribute.graphs)
    if kind == _A.UNDEFINED:
        raise GraphError(
            f"attribute {attribute.name!r} of {subject}", "has no type", remedy="export the model again"
        )
    name = next((name for name, value in _A.AttributeType.items() if value == kind), str(kind))
    raise UnsupportedTypeError(
        f"attribute {attribute.name!r} of {subject}", f"is a {name}, which is not supported"
    )


def with_values(node: onnx.NodeProto, values: Mapping[str, onnx.AttributeProto]) -> list[onnx.AttributeProto]:
    """The attributes of a node of a function's body, references replaced by what the call gave (or left out
    if it gave nothing).
    """
    found = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            found.append(attribute)
        elif attribute.ref_attr_name in values:
            copy = onnx.AttributeProto()
            copy.CopyFrom(values[attribute.ref_attr_name])
            copy.name = attribute.name
            found.append(copy)
    return found


def _text(value: bytes, name: str, subject: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise GraphError(
            f"attribute {name!r} of {subject}", "must be UTF-8 text", remedy="export the model again"
        ) from None
