"""Types of a record's fields, evaluated once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, get_type_hints


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """The type of each field of a dataclass; `get_type_hints` evaluates the text of each annotation anew."""
    return MappingProxyType(get_type_hints(kind))
