"""Axes and the points between them: what a sweep asks, as plain data that any process can read.

A point is a dictionary of JSON's own types: "model" (a name), "soc", and where they are not the default
"batch", "shapes", "fusion", "schedule", other options of `compile`, "set" (figures of the chip) and
"options" (how releases differ). Equal questions make equal points, in whatever order and unit they were
asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from os import PathLike, fspath
from typing import Any

from ascendsim.compiler.options import cli_options, default_of
from ascendsim.compiler.profile_options import profile_options
from ascendsim.core.errors import InputError, suggest
from ascendsim.soc import checked_override

Point = dict[str, Any]

MOST_POINTS = 10_000  # more are asked for by limit=
NESTED = ("set", "options")  # tables in a point; each of their keys is an axis of its own
_CHOSEN = ("soc", "batch", "shapes", "fusion", "schedule")
# options of `compile` whose value is no plain data, or names a file that no key of a result knows
_NOT_HERE = frozenset(("passes", "operators", "save_graphs", *NESTED, "keep_dtype", "modify_mixlist"))
_NOT_HERE |= {"op_precision_mode", "fusion_switch_file", "insert_op_conf"}
_NOT_HERE |= {"inf_nan_mode_enable"}  # changes values, no time
_NOT_HERE |= {"dynamic_batch_size", "dynamic_image_size", "dynamic_dims"}


@dataclass(frozen=True)
class Space:
    """What was asked.

    Attributes:
        points: In order, the last axis running quickest.
        named: Axes by name, as the columns of tables have them, in the order in which they were named.
    """

    points: tuple[Point, ...]
    named: tuple[str, ...]


def other_axes() -> tuple[str, ...]:
    """Options of `compile` that can be an axis besides those that `sweep` names."""
    return tuple(name for name in cli_options() if name not in _NOT_HERE.union(_CHOSEN))


def space_of(
    models: Sequence[str],
    axes: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]] | None = None,
    limit: int = MOST_POINTS,
) -> Space:
    """Every combination of the axes, or the rows that are given, each completed by the axes' single values.

    Args:
        models: Names; the first axis.
        axes: By the name of the argument; a list is an axis, anything else one value. Those of `set` and
            `options` are dictionaries of the same.
        rows: Points as the user writes them, in place of combinations.
        limit: Points that there may be.

    Raises:
        InputError: If an axis or a key does not exist, is empty, names a value twice or one that nothing can
            take, rows and lists are mixed, or there are too many points.
    """
    given = {name: listed(one, limit) for name, one in flat_axes(axes)}
    if rows is None:
        _check_count(math.prod([len(models), *map(len, given.values())]), limit)  # before a look at millions
    lists = {name: values_of(name, one) for name, one in given.items()}
    if rows is not None:
        return _rows_space(models, lists, rows, limit)
    names = list(lists)
    points = [
        point_of(model, dict(zip(names, values, strict=True)))
        for model in models
        for values in product(*lists.values())
    ]
    return Space(tuple(points), tuple(names))


def flat(point: Point) -> dict[str, Any]:
    """A point with the keys of its tables as names of their own: "set.l2.size"."""
    return dict(flat_axes(point))


def column_of(name: str) -> str:
    """What an axis is called in tables: figures of chips and options of releases by their own names.

    >>> column_of("set.l2.size"), column_of("options.tiling"), column_of("batch")
    ('l2.size', 'tiling', 'batch')
    """
    table, _, key = name.partition(".")
    return key if table in NESTED and key else name


def _rows_space(
    models: Sequence[str], lists: Mapping[str, tuple[Any, ...]], rows: Sequence[Mapping[str, Any]], limit: int
) -> Space:
    for name, values in lists.items():
        if len(values) > 1:
            raise InputError(
                f"axis {name}", "is a list beside points=", remedy="give one value, or write it into points"
            )
    if len(models) > 1:
        raise InputError("points=", "take one model", len(models))
    if not rows:
        raise InputError("points=", "must name at least one point")
    _check_count(len(rows), limit)
    common = {name: values[0] for name, values in lists.items()}
    points, named = [], dict.fromkeys(common)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"point {number}", "must be a dictionary by name", repr(row)[:60])
        own: dict[str, Any] = {}
        for name, given in flat_axes(row):
            own[name] = checked_value(name, given)
        points.append(point_of(models[0], {**common, **own}))
        named.update(dict.fromkeys(own))
    texts = [json.dumps(point, sort_keys=True) for point in points]
    if len(set(texts)) < len(texts):
        places = {text: place for place, text in reversed([*enumerate(texts)])}  # the first of each
        number = next(number for number, text in enumerate(texts) if places[text] < number)
        raise InputError(f"point {number}", "is there twice", repr(dict(rows[number]))[:100])
    return Space(tuple(points), tuple(named))


def flat_axes(axes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Axes with those of `set` and `options` by names of their own: "set.l2.size".

    Raises:
        InputError: If one of the two is no dictionary.
    """
    for name, given in axes.items():
        if name not in NESTED:
            yield name, given
        elif not isinstance(given, Mapping):
            raise InputError(
                f"option {name}",
                "must be a dictionary by name",
                repr(given)[:60],
                f'write {name}={{"KEY": [1, 2]}}',
            )
        else:
            for key, value in given.items():
                yield f"{name}.{key}", value


def is_axis(given: Any) -> bool:
    """Whether what is given lists values, however few."""
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping, PathLike))


def listed(given: Any, limit: int = MOST_POINTS) -> Collection[Any]:
    """What was given for an axis: a list as it is, anything else as the only value.

    Args:
        given: A value, or several.
        limit: One more than this many are taken of what has no length and may never end.
    """
    if not is_axis(given):
        return (given,)
    return given if isinstance(given, Collection) else tuple(islice(given, limit + 1))


def values_of(name: str, given: Iterable[Any]) -> tuple[Any, ...]:
    """The values of an axis as plain data.

    Raises:
        InputError: If there is none, one is there twice, or the axis cannot have it.
        SocError: The same of a figure of the chip.
    """
    found: dict[Any, Any] = {}
    for one in given:
        value = checked_value(name, one)
        known = json.dumps(value) if isinstance(value, dict) else value
        if known in found:
            raise InputError(f"axis {name}", f"names {one!r} twice", remedy="keep one of them")
        found[known] = value
    if not found:
        raise InputError(f"axis {name}", "is empty", remedy="give at least one value")
    return tuple(found.values())


def checked_value(name: str, value: Any) -> Any:
    """A value of an axis as plain data.

    Raises:
        InputError: If the axis does not exist (suggests the nearest), or cannot have the value.
        SocError: The same of a figure of the chip.
    """
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a number of NumPy's
    table, _, key = name.partition(".")
    if table == "set":
        if not isinstance(value, (str, int, float)):
            raise InputError(f"set {key}", "must be a number, or text with a unit", repr(value)[:60])
        return checked_override(key, value)
    if table == "options":
        return profile_options({key: value})[key]
    if name == "soc":
        if not isinstance(value, (str, PathLike)):
            raise InputError(
                "axis soc",
                "must name chips, or their files",
                type(value).__name__,
                "changes to a chip go into set=",
            )
        return str(value)
    if name == "batch":
        if isinstance(value, bool) or not isinstance(value, int | None) or (value is not None and value < 1):
            raise InputError("axis batch", "must be positive whole numbers", repr(value)[:60])
        return value
    if name == "shapes":
        return _shapes(value)
    return _option(name, value)


def _option(name: str, value: Any) -> Any:
    known = cli_options()
    if name in _NOT_HERE:
        raise InputError(
            f"axis {name}",
            "cannot be swept: its value is a file or a program",
            remedy="compile variants and asim.compare them",
        )
    if name not in known:
        raise InputError(
            f"axis {name}", "does not exist", remedy=suggest(name, (*_CHOSEN, *NESTED, *other_axes()))
        )
    option, default = known[name], default_of(name)
    if option.choices and value not in option.choices:
        listed = ", ".join(map(str, option.choices))
        raise InputError(
            f"axis {name}",
            f"must be one of {listed}",
            repr(value),
            suggest(str(value), map(str, option.choices)),
        )
    fitting = bool if option.words else type(default) if default is not None else (int, str, type(None))
    if not isinstance(value, fitting) or (isinstance(value, bool) and not option.words):
        raise InputError(
            f"axis {name}", "cannot have this value", repr(value)[:60], f"its default is {default!r}"
        )
    return value


def _shapes(value: Any) -> dict[str, list[int]] | None:
    if value is None:
        return None
    try:
        return {str(name): [int(size) for size in sizes] for name, sizes in sorted(value.items())}
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "axis shapes",
            "must be shapes by input name",
            repr(value)[:60],
            'write {"input": (1, 3, 224, 224)}',
        ) from None


def point_of(model: str, values: Mapping[str, Any]) -> Point:
    """The point of these values: defaults left out, the rest in one order."""
    point: Point = {"model": model, "soc": default_of("soc")}
    for name, value in sorted(values.items()):
        table, _, key = name.partition(".")
        if table == "set":
            point.setdefault("set", {})[key] = value
        elif table == "options":
            if value != profile_options(None)[key] or "release" in values:
                point.setdefault("options", {})[key] = value
        elif name == "soc":
            point["soc"] = fspath(value)
        elif value is not None and (name in ("batch", "shapes") or value != default_of(name)):
            point[name] = value
    return point


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise InputError(
            "the sweep",
            f"has {count:,} points, more than {limit:,}",
            remedy=f"give limit={count} if that is meant",
        )
