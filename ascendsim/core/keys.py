"""Values as keys of look-up tables, and walks through values that are made of others.

The one place for a question that caches of programs, tilings and chips, and the search for equal nodes all
ask: are these two the same? Where another key stands, it asks something else: `machine.block_key` and
`machine.replay` leave out what does not decide a time, `graph.same_values` reads as few bytes of weights as
it can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_PLAIN = {str, int, type(None)}
_TELL_THEMSELVES = {str, int, bytes, Fraction}


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


def stable_digest(key: Hashable) -> str:
    """32 hexadecimal digits for what `key_of` gives: the same in every process, different for different keys.

    Raises:
        TypeError: If something in it has no name that lasts.

    >>> stable_digest(key_of({"a": 1, "b": 2})) == stable_digest(key_of({"b": 2, "a": 1}))
    True
    """
    return hashlib.blake2b(_told(key).encode(), digest_size=16).hexdigest()


def _told(key: object) -> str:
    if isinstance(key, tuple):
        return f"({','.join([_told(item) for item in key])})"
    if isinstance(key, frozenset):  # strings have another order in every process
        return f"{{{','.join(sorted([_told(item) for item in key]))}}}"
    if isinstance(key, Enum):
        return f"{type(key).__qualname__}.{key.name}"
    if isinstance(key, type):
        return f"{key.__module__}.{key.__qualname__}"
    if key is None or type(key) in _TELL_THEMSELVES:
        return repr(key)
    raise TypeError(f"{type(key).__qualname__} has no name that lasts: {key!r}")


def forget_oldest(known: dict[Any, Any], most: int) -> None:
    """Takes out of a look-up table what came first, until there is no more than so much.

    >>> known = {"a": 1, "b": 2, "c": 3}
    >>> forget_oldest(known, 2)
    >>> known
    {'b': 2, 'c': 3}
    """
    for key in list(islice(known, max(0, len(known) - most))):
        known.pop(key, None)


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
