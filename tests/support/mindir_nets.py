"""MindIR of one primitive, written as MindSpore writes it: constants are inputs of the node, or attributes of
the primitive where older versions have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

from ascendsim.frontends.mindir.messages import model_class

Array = Any
BOOL, FLOAT, STRING, INT64, TENSOR, TENSORS, TUPLE = 9, 1, 8, 7, 17, 19, 20  # kinds of an attribute's value


def _fill(proto: Any, array: Array, values: bool) -> None:
    proto.dims.extend(array.shape)
    proto.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    if values:
        proto.raw_data = array.tobytes()


def put(attribute: Any, name: str, value: Any) -> None:
    """Writes a number, text, tuple or array into an attribute; None is a type, which has no value."""
    attribute.name = name
    if value is None:
        attribute.type = FLOAT
    elif isinstance(value, tuple):
        attribute.type = TUPLE
        for item in value:
            put(attribute.values.add(), "", item)
    elif isinstance(value, np.ndarray):
        attribute.type = TENSOR
        _fill(attribute.tensors.add(), value, True)
    elif isinstance(value, str):
        attribute.type, attribute.s = STRING, value.encode()
    elif isinstance(value, bool):
        attribute.type, attribute.i = BOOL, int(value)
    elif isinstance(value, int):
        attribute.type, attribute.i = INT64, value
    else:
        attribute.type, attribute.f = FLOAT, value


def node(graph: Any, kind: str, name: str, inputs: Sequence[str]) -> Any:
    """Adds a node of one output, which has its name."""
    return graph.node.add(name=name, op_type=kind, input=inputs, output=[name])


def network(
    kind: str,
    given: Sequence[Any],
    results: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """The model.

    Args:
        kind: Name of the primitive.
        given: What it reads in order: arrays are inputs of the network (in a tuple: a tuple of such), all
            else are constants.
        results: Arrays of the type and shape of what it makes, None for what nobody reads; several are a
            tuple.
        attributes: Of the primitive.
    """
    model = model_class()()
    model.producer_name, graph = "MindSpore", model.graph
    graph.name = "net"
    primitive = model.primitives.add(name="1", op_type=kind)
    for name, value in (attributes or {}).items():
        put(primitive.attribute.add(), name, value)
    names = [_given(graph, f"net:in{place}", value) for place, value in enumerate(given)]
    made = node(graph, "REF::1", "net:made", names)
    made.domain = "Default/layer-op0"
    shape = made.attribute.add(name="shape")
    if len(results) == 1:
        shape.type = TENSORS
        _fill(shape.tensors.add(), results[0], False)
        graph.output.add(name="net:made")
        return model
    shape.type = TUPLE
    for place, result in enumerate(results):
        item = shape.values.add(type=TENSORS)
        _fill(item.tensors.add(), np.zeros(1, np.float32) if result is None else result, False)
        if result is not None:
            constant(graph, f"place{place}", place)
            node(graph, "TupleGetItem", f"net:item{place}", ["net:made", f"place{place}"])
            graph.output.add(name=f"net:item{place}")
    return model


def constant(graph: Any, name: str, value: Any) -> str:
    """Adds a node that is a constant."""
    put(node(graph, "Constant", name, []).attribute.add(), "value", value)
    return name


def _given(graph: Any, name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        declared = graph.input.add(name=name)
        _fill(declared.tensor.add(), value, False)
        return name
    if isinstance(value, tuple) and any(isinstance(item, np.ndarray) for item in value):
        names = [_given(graph, f"{name}_{place}", item) for place, item in enumerate(value)]
        node(graph, "MakeTuple", name, names)
        return name
    return constant(graph, f"{name}_c", value)
