"""Attributes of an operator that a user writes down, in the types that its schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, suggest

if TYPE_CHECKING:
    from onnx.defs import OpSchema

_TYPES = ("to", "dtype")  # attributes that are element types


def read_attributes(subject: str, schema: OpSchema | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as graphs have them; texts are read by the schema's types, or by what they look like.

    Args:
        subject: For messages.
        schema: None = nothing is known of the operator.
        given: By name; texts ("1,1", "0.5", "int8") or values.

    Raises:
        InputError: If the schema has no such attribute, or a text is no value of its type.
    """
    found = {}
    for name, value in given.items():
        kind = None
        if schema is not None:
            if name not in schema.attributes:
                remedy = suggest(name, schema.attributes) if schema.attributes else "it has none"
                raise InputError(f"{subject}: attribute {name!r}", "does not exist", remedy=remedy)
            kind = str(schema.attributes[name].type).rpartition(".")[2]
        found[name] = _read(subject, name, value, kind) if isinstance(value, str) else _plain(value)
    return found


def _read(subject: str, name: str, text: str, kind: str | None) -> Any:
    if name in _TYPES:
        return DType.of(text)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        if kind in ("INT", "INTS"):
            numbers: list[Any] = [int(part) for part in parts]
        elif kind in ("FLOAT", "FLOATS"):
            numbers = [float(part) for part in parts]
        elif kind is None and all(_number(part) is not None for part in parts):
            numbers = [_number(part) for part in parts]
        else:
            return tuple(parts) if kind == "STRINGS" else text
    except ValueError:
        rule = f"must be {_WORDS[str(kind)]}"
        raise InputError(f"{subject}: attribute {name!r}", rule, repr(text)) from None
    several = kind in ("INTS", "FLOATS") or (kind is None and "," in text)
    if several:
        return tuple(numbers)
    if len(numbers) != 1:
        raise InputError(f"{subject}: attribute {name!r}", "must be one value", repr(text))
    return numbers[0]


_WORDS = {
    "INT": "a whole number",
    "INTS": "whole numbers, separated by commas",
    "FLOAT": "a number",
    "FLOATS": "numbers, separated by commas",
}


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
