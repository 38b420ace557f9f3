"""Dataclasses of plain values to JSON and back, checked field by field: what saved models hold besides graph
and weights.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin

from ascendsim.core.errors import InputError
from ascendsim.core.hints import hints_of

T = TypeVar("T")


def encode(value: Any) -> Any:
    """JSON for numbers, text, None, sequences, sets, mappings with text as keys, and dataclasses of these."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], data: Any, where: str) -> T:
    """The value of a type that `encode` gave.

    Args:
        kind: A dataclass, or a type that its fields have.
        data: Parsed JSON.
        where: For errors.

    Raises:
        InputError: If something is missing, unknown or of another type; names the place.
    """
    result: T = _decode(kind, data, where)
    return result


def _decode(kind: Any, data: Any, where: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = hints_of(kind)
        names = [field.name for field in fields(kind)]
        if not isinstance(data, dict) or set(data) != set(names):
            raise InputError(
                where,
                f"must have exactly {', '.join(names)}",
                ", ".join(map(str, data)) if isinstance(data, dict) else data,
            )
        return kind(**{name: _decode(hints[name], data[name], f"{where}.{name}") for name in names})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        options = [option for option in arguments if option is not type(None)]
        if data is None and len(options) < len(arguments):
            return None
        return _first(options, data, where)
    if origin is tuple and isinstance(data, list):
        return tuple(_decode(arguments[0], item, f"{where}[{number}]") for number, item in enumerate(data))
    if origin is frozenset and isinstance(data, list):
        return frozenset(
            _decode(arguments[0], item, f"{where}[{number}]") for number, item in enumerate(data)
        )
    if origin is not None and issubclass(origin, Mapping) and isinstance(data, dict):
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is object and isinstance(data, list):
        return tuple(_decode(object, item, where) for item in data)
    if kind is object and isinstance(data, bool | int | float | str):
        return data
    if (kind is float and type(data) in (int, float)) or type(data) is kind:
        return data
    raise InputError(where, f"must be of type {getattr(kind, '__name__', kind)}", type(data).__name__)


def _first(options: list[Any], data: Any, where: str) -> Any:
    for option in options[:-1]:
        try:
            return _decode(option, data, where)
        except InputError:
            continue
    return _decode(options[-1], data, where)
