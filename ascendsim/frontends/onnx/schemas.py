"""Nodes of standard operators against the schemas of their version: number of inputs, names and types of
attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import onnx
from onnx import defs

from ascendsim.core.errors import GraphError, suggest


@cache
def _schema(op_type: str, version: int) -> defs.OpSchema | None:
    """The schema of a standard operator; None if it is not known."""
    try:
        return defs.get_schema(op_type, version)
    except (defs.SchemaError, TypeError):
        return None


def check_inputs(count: int, op_type: str, version: int, subject: str) -> None:
    """Checks that a node of a standard operator has no more inputs than its schema says.

    Raises:
        GraphError: If it has more.
    """
    schema = _schema(op_type, version)
    if schema is not None and count > schema.max_input:
        most = schema.max_input
        rule = f"takes at most {most} input{'s' * (most != 1)} in operator set {version}"
        raise GraphError(subject, rule, count, "the file is damaged; export it again")


def check_names(names: Iterable[str], op_type: str, version: int | None, subject: str) -> None:
    """Checks that a node of a standard operator has no attributes but those of its schema. Names that begin
    with two underscores are for tools to mark nodes with, by ONNX's own checker too.

    Args:
        names: Of the node's attributes.
        op_type: Of the operator.
        version: Of the operator set; None = the newest.
        subject: The node as messages name it.

    Raises:
        GraphError: If an attribute is not in the schema; says which there are, and whether it is an input.
    """
    version = defs.onnx_opset_version() if version is None else version
    schema = _schema(op_type, version)
    if schema is None:
        return
    inputs = [port.name for port in schema.inputs]
    for name in names:
        if name in schema.attributes or name.startswith("__"):
            continue
        near = suggest(name, schema.attributes)
        remedy = near if near.startswith("did you mean") else "leave it out"
        if name in inputs:
            remedy = f"there it is input {inputs.index(name)}"
        known = ", ".join(sorted(schema.attributes)) or "none"
        rule = f"is unknown in operator set {version}, whose {op_type} has {known}"
        raise GraphError(f"attribute {name!r} of {subject}", rule, remedy=remedy)


def check_kind(attribute: onnx.AttributeProto, op_type: str, version: int, subject: str) -> None:
    """Checks that an attribute of a standard operator has the type that its schema says.

    Raises:
        GraphError: If it has another one.
    """
    schema = _schema(op_type, version)
    if schema is None or attribute.name not in schema.attributes:
        return
    kind: Any = schema.attributes[attribute.name].type
    wanted = int(kind)
    if attribute.type != wanted:
        names = {value: name for name, value in onnx.AttributeProto.AttributeType.items()}
        raise GraphError(
            f"attribute {attribute.name!r} of {subject}",
            f"must be of type {names.get(wanted, wanted)}",
            names.get(attribute.type, attribute.type),
            "export the model again",
        )
