"""Data classes that are made by the hundred thousand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quickly_made(record: type[T]) -> type[T]:
    """Gives a frozen data class with slots an `__init__` that puts values into the slots themselves, in half
    of the time; nothing else changes.

    The one that `dataclass` writes asks `object.__setattr__` for every field.

    >>> from dataclasses import dataclass
    >>> @quickly_made
    ... @dataclass(frozen=True, slots=True)
    ... class Place:
    ...     row: int
    ...     column: int = 3
    >>> Place(2)
    Place(row=2, column=3)
    """
    scope: dict[str, Any] = {}
    arguments, steps = [], []
    for field in fields(record):  # type: ignore[arg-type]
        if field.default_factory is not MISSING or field.kw_only or not field.init:
            raise TypeError(f"{record.__name__}.{field.name} must be a plain field, with or without default")
        scope[f"set_{field.name}"] = getattr(record, field.name).__set__
        steps.append(f"    set_{field.name}(self, {field.name})")
        default = ""
        if field.default is not MISSING:
            scope[f"default_{field.name}"] = field.default
            default = f"=default_{field.name}"
        arguments.append(field.name + default)
    exec(f"def __init__(self, {', '.join(arguments)}):\n" + "\n".join(steps), scope)
    made = scope["__init__"]
    made.__qualname__, made.__annotations__ = (
        f"{record.__qualname__}.__init__",
        record.__init__.__annotations__,
    )
    setattr(record, "__init__", made)  # noqa: B010  mypy lets no one assign to a method
    return record


def quickly_changed(record: type[T], *names: str) -> Callable[..., T]:
    """What makes a record like another one but for some fields: called with that one and their values.

    It does what `dataclasses.replace` does, in a quarter of the time.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Place:
    ...     row: int
    ...     column: int = 3
    >>> quickly_changed(Place, "row")(Place(2, 7), 5)
    Place(row=5, column=7)
    """
    known = [field.name for field in fields(record)]  # type: ignore[arg-type]
    if unknown := set(names) - set(known):
        raise TypeError(f"{record.__name__} has no {', '.join(sorted(unknown))}")
    values = [name if name in names else f"record.{name}" for name in known]
    scope: dict[str, Any] = {"made": record}
    exec(f"def change(record, {', '.join(names)}):\n    return made({', '.join(values)})", scope)
    change: Callable[..., T] = scope["change"]
    return change
