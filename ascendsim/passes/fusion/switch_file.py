"""Reading a fusion switch file: CANN's JSON form, and the old form of lines `PassName:on`.

    {"Switch": {"GraphFusion": {"ALL": "off", "SoftmaxFusionPass": "on"}, "UBFusion": {"ALL": "on"}},
     "Priority": {"GraphFusion": {"Main": {"MyPass": "1200"}}},
     "ExceptionalPassOfO1Level": ["MyPass"]}

The rules are those of the graph engine (hicann/ge, fusion_config_parser.cc). Messages carry CANN's error
codes EM_OPEN_FILE_FAILED and EM_INVALID_CONTENT. A switch file is data: its size is bounded, nothing in it is
executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NoReturn

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import read_bounded
from ascendsim.passes.fusion.catalogue import Family

ALL = "ALL"
FAMILY_KEYS: dict[str, Family] = {"GraphFusion": "graph", "UBFusion": "ub"}
# Stage -> [lowest, beyond the highest) priority, of passes that users bring or reorder and of CANN's own.
CUSTOM_RANGES = {"Top": (0, 1000), "Main": (1000, 2000), "Down": (2000, 3000)}
BUILT_IN_RANGES = {"Top": (3000, 4000), "Main": (4000, 5000), "Down": (5000, 6000)}
MAX_BYTES = 1 << 20  # CANN's own configuration with every pass it has is about 50 KiB
_JSON_SIGNS = '{}[]"'  # no name of a pass has them
_PAIRS = {"{": "}", "[": "]"}
_LISTED = 4  # brackets that a message names one by one; a switch file nests three deep
_SPOKEN = {"{": "brace", "}": "brace", "[": "bracket", "]": "bracket"}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_FORM = 'the form is {"Switch": {"GraphFusion": {"PassName": "off"}}}'
_TOP_KEYS = ("Switch", "Priority", "ExceptionalPassOfO1Level")


@dataclass(frozen=True, slots=True)
class SwitchFile:
    """What a switch file says.

    Attributes:
        switches: By family: pass name (or "ALL") -> on.
        priorities: By family: pass name -> priority.
        exceptional: Passes that stay on at `--oo_level=O1`.
        old: Whether it had the old form; its lines hold for both families.
    """

    switches: Mapping[Family, Mapping[str, bool]] = field(default_factory=dict)
    priorities: Mapping[Family, Mapping[str, int]] = field(default_factory=dict)
    exceptional: frozenset[str] = frozenset()
    old: bool = False


def read_switch_file(path: str | PathLike[str]) -> SwitchFile:
    """Reads a switch file.

    Raises:
        InputError: EM_OPEN_FILE_FAILED if it cannot be opened or is empty, EM_INVALID_CONTENT if its content
            breaks a rule.
    """
    subject = f"fusion switch file {str(path)!r}"
    content = read_bounded(path, subject, MAX_BYTES, " [EM_OPEN_FILE_FAILED]")
    if not content.strip():
        raise InputError(
            subject,
            "is empty [EM_OPEN_FILE_FAILED]",
            remedy='write {"Switch": {"GraphFusion": {"PassName": "off"}}}',
        )
    if len(content) > MAX_BYTES:
        _invalid(subject, f"must not be larger than {MAX_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        _invalid(subject, "must be UTF-8 text")
    return parse_switch_text(text, subject)


def parse_switch_text(text: str, subject: str = "fusion switch text") -> SwitchFile:
    """Reads the content of a switch file; text that is no JSON is read in the old form.

    Args:
        text: The content.
        subject: What messages call it.

    Raises:
        InputError: EM_INVALID_CONTENT if the content breaks a rule.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        _invalid(subject, "must not be nested that deeply")
    except ValueError as error:
        if any(sign in text for sign in _JSON_SIGNS):
            _no_json(text, subject, str(error))
        return _old_form(text, subject)
    return _json_form(data, subject)


def check_priority(stage: str, priority: int, ranges: Mapping[str, tuple[int, int]], subject: str) -> None:
    """Checks that a priority lies in the range of its stage.

    Raises:
        InputError: If the stage is unknown, or the priority no whole number or outside its range.
    """
    if stage not in ranges:
        raise InputError(f"{subject}: stage {stage!r}", "must be Top, Main or Down")
    low, high = ranges[stage]
    if type(priority) is not int:
        raise InputError(f"{subject}: priority", "must be a whole number", repr(priority))
    if not low <= priority < high:
        raise InputError(f"{subject}: priority of stage {stage}", f"must be in [{low}, {high})", priority)


def _no_json(text: str, subject: str, error: str) -> NoReturn:
    """Refuses text that has JSON's signs and is none: names the bracket that is missing, else what JSON's
    reader says.
    """
    opened: list[tuple[str, int]] = []
    for sign, line in _brackets(text):
        if sign in _PAIRS:
            opened.append((sign, line))
            continue
        if not opened:
            remedy = f"a {_SPOKEN[sign]} is missing in front, or this one is too many; {_FORM}"
            _invalid(subject, f"is no JSON: the {sign} of line {line} closes nothing", remedy=remedy)
        start, first = opened.pop()
        if _PAIRS[start] != sign:
            rule = f"is no JSON: the {start} of line {first} is not closed before the {sign} of line {line}"
            _invalid(subject, rule, remedy=f"add the missing {_SPOKEN[start]} {_PAIRS[start]}")
    if len(opened) > _LISTED:
        (sign, line), more = opened[-1], len(opened) - 1
        rule = f"is no JSON: never closed: {sign} of line {line} and {more} in front of it"
        _invalid(subject, rule, remedy=_FORM)
    if opened:
        listed = ", ".join(f"{sign} of line {line}" for sign, line in opened)
        missing = ", ".join(f"{_SPOKEN[sign]} {_PAIRS[sign]}" for sign, _ in reversed(opened))
        _invalid(subject, f"is no JSON: never closed: {listed}", remedy=f"add the missing {missing}; {_FORM}")
    _invalid(subject, f"is no JSON: {error}", remedy=_FORM)


def _brackets(text: str) -> Iterator[tuple[str, int]]:
    """Brackets outside of texts in quotes, with their lines."""
    for number, line in enumerate(text.splitlines(), 1):
        for sign in _QUOTED.sub("", line):
            if sign in "{}[]":
                yield sign, number


def _old_form(text: str, subject: str) -> SwitchFile:
    switches: dict[str, bool] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            _invalid(subject, f"line {number} must have the form Name:on or Name:off", _shown(line))
        if not name:
            _invalid(subject, f"line {number} must name a pass before the colon", _shown(line))
        if value not in ("on", "off"):
            _invalid(subject, f'line {number}: the value must be exactly "on" or "off"', _shown(value))
        if name in switches:
            _invalid(subject, f"names pass {name!r} twice (line {number})", remedy="remove one of the lines")
        switches[name] = value == "on"
    return SwitchFile(dict.fromkeys(FAMILY_KEYS.values(), switches), old=True)


def _json_form(data: Any, subject: str) -> SwitchFile:
    top = _object(data, "top level", subject)
    for key in top:
        if key.strip() not in _TOP_KEYS:
            _invalid(
                subject, f"has the unknown key {_shown(key)} at the top level", remedy=suggest(key, _TOP_KEYS)
            )
    top = {key.strip(): value for key, value in top.items()}
    switches = {
        family: _switches(value, f"Switch.{key}", subject)
        for key, family, value in _families(top, "Switch", subject)
    }
    priorities = {
        family: _priorities(value, f"Priority.{key}", subject)
        for key, family, value in _families(top, "Priority", subject)
    }
    names = top.get("ExceptionalPassOfO1Level", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        _invalid(
            subject,
            "ExceptionalPassOfO1Level must be an array of pass names",
            remedy='write ["PassName", ...]',
        )
    return SwitchFile(switches, priorities, frozenset(name for name in names if name))


def _families(top: Mapping[str, Any], part: str, subject: str) -> list[tuple[str, Family, Any]]:
    """(key, family, value) of the second level of "Switch" or "Priority"."""
    found = []
    for key, value in _object(top.get(part, {}), part, subject).items():
        if key.strip() not in FAMILY_KEYS:
            _invalid(
                subject, f"has the unknown key {_shown(key)} in {part}", remedy=suggest(key, FAMILY_KEYS)
            )
        found.append((key.strip(), FAMILY_KEYS[key.strip()], value))
    return found


def _switches(data: Any, place: str, subject: str) -> dict[str, bool]:
    switches = {}
    for name, value in _object(data, place, subject).items():
        if not isinstance(value, str) or value.strip() not in ("on", "off"):
            _invalid(subject, f'{place}.{name.strip()} must be exactly "on" or "off"', _shown(value))
        if name.strip():
            switches[name.strip()] = value.strip() == "on"
    return switches


def _priorities(data: Any, place: str, subject: str) -> dict[str, int]:
    priorities: dict[str, int] = {}
    for stage, passes in _object(data, place, subject).items():
        if stage.strip() not in CUSTOM_RANGES:
            _invalid(
                subject,
                f"has the unknown stage {_shown(stage)} in {place}",
                remedy="stages are Top, Main and Down",
            )
        for name, value in _object(passes, f"{place}.{stage}", subject).items():
            where = f"{place}.{stage}.{name.strip()}"
            if name.strip() in priorities:
                _invalid(subject, f"gives pass {name.strip()!r} two priorities ({where})", remedy="keep one")
            if not isinstance(value, str) or not _is_integer(value.strip()):
                _invalid(
                    subject,
                    f"{where} must be an integer written as a string",
                    _shown(value),
                    'write it in quotes, for example "1200"',
                )
            low, high = CUSTOM_RANGES[stage.strip()]
            if not low <= int(value) < high:
                _invalid(subject, f"{where} must be in [{low}, {high})", value.strip())
            if name.strip():
                priorities[name.strip()] = int(value)
    return priorities


def _object(data: Any, place: str, subject: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        _invalid(subject, f"{place} must be a JSON object", f"a {type(data).__name__}")
    return data


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and len(digits) < 10


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _invalid(subject: str, rule: str, actual: str | None = None, remedy: str = "") -> NoReturn:
    raise InputError(subject, f"{rule} [EM_INVALID_CONTENT]", actual, remedy)
