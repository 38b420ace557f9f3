"""The dotted keys of `SocSpec`, derived from its dataclasses: which kind of value each key takes and in which
unit.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ascendsim.core.errors import SocError, suggest
from ascendsim.soc.spec import SocSpec

Kind = Literal["int", "float", "bool", "str", "strings"]
Value = Union[int, float, bool, str, tuple[str, ...]]

# Fields of SocSpec that the loader fills in; no file and no override sets them.
_RECORDS = {"sources", "assumed", "fitted_on", "overrides", "missing"}
EXTENDS = "extends"  # the key of a file for the chip or family that it builds on
# what other formats call it
_PARENT_WORDS = {"base", "based_on", "base_chip", "parent", "inherits", "inherit", "inherits_from", "from"}
_PARENT_WORDS |= {"extend", "include", "import", "template", "derived_from", "chip", "soc", "super"}
# Optional figures that a run needs nevertheless, on every chip, on coupled cores and on split cores.
_NEEDED = {"buffers.l0a", "buffers.l0b", "buffers.l0c", "buffers.l1", "buffers.ub", "l2.size"}
_NEEDED |= {"ports.l1_to_l0a", "ports.l1_to_l0b", "ports.gm_to_l1", "ports.gm_to_ub", "ports.ub_to_gm"}
_NEEDED_COUPLED = "ports.l0c_to_ub"
_NEEDED_SPLIT = "ports.l0c_to_gm"
# Table entries without which a chip has no peak.
_NEEDED_ENTRIES = ("cube.k0.float16", "cube.cycles_per_block.float16")

_ENDINGS = (
    ("bytes_per_cycle_per_core", "B/cycle"),
    ("bytes_per_cycle", "B/cycle"),
    ("_bytes", "B"),
    ("gb_per_s", "GB/s"),
    ("frequency_mhz", "MHz"),
    ("elements_per_us", "elements/us"),
    ("elements_per_cycle", "elements/cycle"),
    ("requests_per_cycle", "requests/cycle"),
    ("_fps_1080p", "images/s"),
    ("_cycles", "cycles"),
    ("_ns", "ns"),
    ("_us", "us"),
)
_SECTION_UNITS = {
    "buffers": "B",
    "ports": "B/cycle",
    "cube.cycles_per_block": "cycles",
    "vector.cycles_per_repeat": "cycles",
}
# Far above anything that could be built; keeps a slip of the keyboard from becoming hours of simulation. "" =
# counts (cores, queue slots).
_MOST = {
    "": 4096,
    "B": 1 << 40,
    "B/cycle": 1 << 20,
    "GB/s": 10**6,
    "images/s": 10**6,
    "MHz": 10**5,
    "cycles": 10**6,
    "ns": 10**9,
    "us": 10**9,
}
_ZERO_UNITS = {"cycles", "ns", "us"}  # a latency or an overhead may be 0, a size, a rate or a count may not


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a chip description.

    Attributes:
        kind: Type of the value (of an entry, for a table).
        table: The key takes entries: "cube.k0" has "cube.k0.float16".
        optional: None is a valid value (no such path, unknown size).
        unit: Unit of the value for people, "" for counts and texts.
        may_be_zero: Whether 0 is a sensible number.
        most: The largest number that makes sense, None if there is no such bound.
    """

    key: str
    kind: Kind
    table: bool
    optional: bool
    unit: str
    may_be_zero: bool
    most: int | None = None


@cache
def schema(owner: type = SocSpec) -> Mapping[str, Field]:
    """All fields of a description by dotted key, in the order of the dataclasses."""
    return {field.key: field for field in _walk(owner, "")}


def field_of(key: str, where: str, owner: type = SocSpec) -> Field:
    """The field that a dotted key belongs to; a key below a table ("cube.k0.int8") gives the table.

    Raises:
        SocError: If there is no such key; `where` names the file or option.
    """
    known = schema(owner)
    if key in known and not known[key].table:
        return known[key]
    section, _, entry = key.partition(".")
    name, _, entry = entry.partition(".")
    table = known.get(f"{section}.{name}")
    if table is not None and table.table and entry:
        return table
    if key in known:
        raise SocError(
            f"{where}: key {key}", "is a table", remedy=f"name an entry, for example {key}.float16"
        )
    raise SocError(f"{where}: key {key}", "does not exist", remedy=_nearest(key, known))


def _nearest(key: str, known: Mapping[str, Field]) -> str:
    """The key that is meant, or all that can stand there: of the table, or at the top of a file."""
    section, dot, _ = key.partition(".")
    tops = dict.fromkeys(each.partition(".")[0] for each in known)
    if not dot and section.lower() in _PARENT_WORDS:
        return f'did you mean {EXTENDS}? {EXTENDS} = "Ascend310P3" builds on that chip'
    near = suggest(key, (*known, EXTENDS))
    if near.startswith("did you mean"):
        return near
    if dot and section in tops:
        return "known are " + ", ".join(each for each in known if each.startswith(section + "."))
    return f"known are {', '.join((EXTENDS, *tops))}"


def needed_keys(split_cores: bool) -> tuple[str, ...]:
    """Keys without which a chip cannot be run, in schema order."""
    extra = _NEEDED_SPLIT if split_cores else _NEEDED_COUPLED
    keys = [
        field.key
        for field in schema().values()
        if not field.table and (not field.optional or field.key in _NEEDED | {extra})
    ]
    return (*keys, *_NEEDED_ENTRIES)


def check_type(value: Any, field: Field, where: str, key: str) -> Value:
    """Returns a value in the field's type.

    Raises:
        SocError: If the value has another type or, as a number, is not positive where it has to be or
            absurdly large.
    """
    subject = f"{where}: key {key}"
    if field.kind == "strings":
        if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        rule = "must be a list of element types" if field.table else "must be a list of words"
        raise SocError(subject, rule, repr(value))
    if field.kind == "bool" or field.kind == "str":
        if type(value).__name__ == field.kind:
            return value  # type: ignore[no-any-return]
        raise SocError(
            subject, "must be true or false" if field.kind == "bool" else "must be text", repr(value)
        )
    whole = field.kind == "int"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise SocError(subject, "must be a whole number" if whole else "must be a number", repr(value))
    if not (0 <= value < float("inf")) or (value == 0 and not field.may_be_zero):
        raise SocError(
            subject,
            "must be a finite number that is not negative"
            if field.may_be_zero
            else "must be a finite number above 0",
            value,
        )
    if field.most is not None and value > field.most:
        raise SocError(
            subject, f"must not be above {field.most}{' ' + field.unit if field.unit else ''}", value
        )
    return value if whole else float(value)


def _walk(owner: type, prefix: str) -> list[Field]:
    found: list[Field] = []
    hints = get_type_hints(owner)
    for field in fields(owner):
        hint, key = hints[field.name], prefix + field.name
        if key in _RECORDS:
            continue
        if is_dataclass(hint):
            found += _walk(hint, key + ".")  # type: ignore[arg-type]
            continue
        table = get_origin(hint) is Mapping
        inner = get_args(hint)[1] if table else hint
        optional = get_origin(inner) is types.UnionType
        if optional:
            inner = next(part for part in get_args(inner) if part is not type(None))
        kind: Kind = "strings" if get_origin(inner) is tuple else inner.__name__
        unit = _unit(key) if kind in ("int", "float") else ""
        may_be_zero = key in ("vector_cores", "dram.reserved") or (unit in _ZERO_UNITS and not table)
        most = _MOST.get(unit) if kind in ("int", "float") else None
        found.append(Field(key, kind, table, optional, unit, may_be_zero, most))
    return found


def _unit(key: str) -> str:
    for ending, unit in _ENDINGS:
        if key.endswith(ending):
            return unit
    section = key.partition(".")[0]
    if key in ("l2.size", "dram.size", "dram.reserved"):
        return "B"
    if key.startswith("ports.load3d_least"):
        return ""
    return _SECTION_UNITS.get(key) or _SECTION_UNITS.get(section, "")
