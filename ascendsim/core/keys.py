"""Values as keys of look-up tables, and walks through values that are made of others.

The one place for a question that caches of programs, tilings and chips, and the search for equal nodes all
ask: are these two the same? Where another key stands, it asks something else: `machine.block_key` and
`machine.replay` leave out what does not decide a time, `graph.same_values` reads as few bytes of weights as
it can, and saved models need digests that are the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_PLAIN = {str, int, type(None)}


def key_of(value: object) -> Hashable:
    """A value as something that can be looked up: equal keys mean values of equal types, equal to the bit.

    Takes numbers, text, enumerations and what else can be hashed, arrays, and tuples, lists, mappings and
    dataclasses of all these. 1, 1.0 and True differ, 0.0 and -0.0 too, and NaN equals itself.

    >>> key_of((1, 2.0)) == key_of([1, 2.0]), key_of((1, 2.0)) == key_of((1, 2))
    (True, False)
    """
    if type(value) in _PLAIN:
        return value  # most are: questions to abstract classes take long
    if isinstance(value, (tuple, list)):
        return tuple([key_of(item) for item in value])
    if isinstance(value, bool):
        return bool, int(value)
    if isinstance(value, (float, np.generic)):
        return type(value), np.asarray(value).tobytes()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (dict, Mapping)):
        return dict, frozenset((key_of(name), key_of(item)) for name, item in value.items())
    if _is_record(value):
        return type(value), tuple([key_of(item) for item in _parts(value)])
    assert isinstance(value, Hashable)
    return value


def found_in(value: object, kind: type[T]) -> Iterator[T]:
    """Values of a type inside of tuples and dataclasses, in the order in which these hold them."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple) or _is_record(value):
        for item in value if isinstance(value, tuple) else _parts(value):
            yield from found_in(item, kind)


def changed_in(value: Any, kind: type[T], change: Callable[[T], T]) -> Any:
    """The value with everything of a type inside of tuples and dataclasses changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple([changed_in(item, kind, change) for item in value])
    if _is_record(value):
        names = [field.name for field in fields(value)]
        return replace(value, **{name: changed_in(getattr(value, name), kind, change) for name in names})
    return value


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _parts(record: Any) -> Iterator[object]:
    return (getattr(record, field.name) for field in fields(record))
