"""Function bodies: those of a model's own functions, and those that the ONNX schemas give for composed
operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.types import ONNX_TYPES
from ascendsim.frontends.onnx.upgrade import Draft
from ascendsim.graph.ir import AttributeValue, Graph, Tensor
from ascendsim.opset import OpSet


def schema_body(draft: Draft, opset: OpSet) -> onnx.FunctionProto | None:
    """The body of an operator in the newest form, if its schema has one and the operators in it can be
    computed.

    Args:
        draft: A node without a definition in `opset`.
        opset: The operators that may occur in the body (or operators whose bodies consist of those).
    """
    schema = _schema(draft.op_type, draft.domain)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    function = _context_body(schema, draft) if schema.has_context_dependent_function else schema.function_body
    if function is None or not _known(function, opset, frozenset({draft.op_type})):
        return None
    return function


@cache
def _schema(name: str, domain: str) -> Any:  # OpSchema | None; its stubs lack the members for function bodies
    try:
        return defs.get_schema(name, domain=domain)
    except defs.SchemaError:
        return None


def _known(function: onnx.FunctionProto, opset: OpSet, above: frozenset[str]) -> bool:
    """Whether every operator of a body is in the set or can itself be expanded; a body that depends on types
    counts as such.
    """
    for node in function.node:
        if opset.find(node.op_type, node.domain) is not None or node.op_type == "Constant":
            continue
        schema = _schema(node.op_type, node.domain)
        if schema is None or node.op_type in above or node.op_type in ("Loop", "If", "Scan"):
            return False
        if schema.has_context_dependent_function:
            continue
        if not schema.has_function or not _known(schema.function_body, opset, above | {node.op_type}):
            return False
    return True


def _context_body(schema: Any, draft: Draft) -> onnx.FunctionProto | None:
    node = helper.make_node(
        draft.op_type, [f"i{n}" if t is not None else "" for n, t in enumerate(draft.inputs)], draft.outputs
    )
    node.attribute.extend(call_attributes(draft.attributes).values())
    types = [_type_proto(tensor).SerializeToString() for tensor in draft.inputs]
    try:
        body = schema.get_context_dependent_function(node.SerializeToString(), types)
        return onnx.FunctionProto.FromString(body) if body else None
    except RuntimeError:  # the schema cannot build a body for this use of the operator
        return None


def _type_proto(tensor: Tensor | None) -> onnx.TypeProto:
    if tensor is None or tensor.origin_dtype is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(ONNX_TYPES[tensor.origin_dtype], tensor.shape)


def call_attributes(attributes: Mapping[str, AttributeValue]) -> dict[str, onnx.AttributeProto]:
    """IR attributes as protos, so that a body can refer to them. Subgraphs have no place in a schema's body
    and are left out.
    """
    found: dict[str, onnx.AttributeProto] = {}
    for name, value in attributes.items():
        if isinstance(value, Graph) or (isinstance(value, tuple) and value and isinstance(value[0], Graph)):
            continue
        if isinstance(value, DType):
            found[name] = helper.make_attribute(name, ONNX_TYPES[value])
        elif isinstance(value, np.ndarray):
            found[name] = helper.make_attribute(name, numpy_helper.from_array(value))
        elif value == ():
            found[name] = helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
        else:
            found[name] = helper.make_attribute(name, value)
    return found


def body_attributes(
    function: onnx.FunctionProto, call: Mapping[str, onnx.AttributeProto], domain: str, op_type: str
) -> dict[str, onnx.AttributeProto]:
    """Values for the attribute references of a body: what the call gives, else the function's or the schema's
    defaults.
    """
    values = {attribute.name: attribute for attribute in function.attribute_proto}
    schema = _schema(op_type, domain)
    if schema is not None:
        for name, attribute in schema.attributes.items():
            if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
                values[name] = attribute.default_value
    values.update(call)
    return values
