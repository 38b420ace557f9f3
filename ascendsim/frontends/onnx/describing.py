"""What ONNX says of an operator, in rows to be printed."""

from __future__ import annotations

from typing import Any

from onnx import helper

from ascendsim.frontends.onnx.schemas import schema_of

Row = tuple[str, str, str, str]


def described(op_type: str, domain: str = "") -> tuple[int, list[Row]] | None:
    """Since when the newest form of an operator holds, and its inputs, outputs and attributes: what each is,
    its name, whether it may be left out (and the default of an attribute), its types; None without a schema.
    """
    schema = schema_of(op_type, domain)
    if schema is None:
        return None
    rows: list[Row] = []
    for kind, parameters in (("input", schema.inputs), ("output", schema.outputs)):
        for parameter in parameters:
            types = sorted(text.removeprefix("tensor(").removesuffix(")") for text in parameter.types)
            option = _last(parameter.option)
            rows.append((kind, parameter.name, "" if option == "single" else option, " ".join(types)))
    for name, attribute in sorted(schema.attributes.items()):
        value = _default(attribute)
        need = "required" if attribute.required else f"default {value}" if value else "optional"
        rows.append(("attribute", name, need, _last(attribute.type)))
    return schema.since_version, rows


def _last(value: object) -> str:
    return str(value).rsplit(".", 1)[-1].lower()


def _default(attribute: Any) -> str:
    if not attribute.default_value.type:
        return ""
    value = helper.get_attribute_value(attribute.default_value)
    value = value.decode() if isinstance(value, bytes) else value
    return repr(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
