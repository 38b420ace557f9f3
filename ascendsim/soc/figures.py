"""Reading chip files: TOML text becomes figures by dotted key, each with its source.

A file may build on another (`extends = "v100"`, a family or a chip); its figures replace the inherited ones
key by key, a table of intrinsics as a whole. `assumed = ["vector.latency_cycles", ...]` marks inherited
figures that were found on other hardware, `fitted_on = ["microbenchmark 47"]` of a figure names the
measurements that its value was chosen to meet.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ascendsim.core.errors import OptionWarning, SocError, suggest
from ascendsim.soc.schema import EXTENDS, Value, check_type, field_of, schema
from ascendsim.soc.spec import SocSpec

DATA = Path(__file__).parent / "data"
_MAX_BYTES = 1 << 20  # a chip file has a few kilobytes; more is some other file
_MAX_DEPTH = 8  # files that build on one another
_WHOLE_TABLE = "vector.intrinsics"  # a list of what exists cannot be merged
_FIGURE_KEYS = {"value", "source", "assumed", "fitted_on", "missing"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with where it comes from; `value` None = missing, and `source` says why.

    Attributes:
        fitted_on: Measurements that the value was fitted on ("microbenchmark 47").
    """

    value: Value | None
    source: str = ""
    assumed: bool = False
    fitted_on: tuple[str, ...] = ()


@dataclass(slots=True)
class ChipFile:
    """What a file and those it builds on say."""

    figures: dict[str, Figure] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)


def read_chip_file(path: Path, depth: int = 0) -> ChipFile:
    """Reads a chip or family file with all that it builds on.

    Raises:
        SocError: If a file cannot be read, is no TOML, has an unknown key, a wrong type, or a number without
            source.
    """
    where = path.name
    document = read_toml(path)
    chip = ChipFile()
    parent = document.pop(EXTENDS, None)
    if parent is not None:
        chip = (
            read_chip_file(_parent_path(parent, path), depth + 1) if depth < _MAX_DEPTH else _too_deep(where)
        )
    chip.references.update(references_of(document, where))
    _mark_assumed(chip, document.pop("assumed", []), where)
    document = document if DATA in path.resolve().parents else _with_assumptions(document, where)
    found = dict(figures_of(document, "", where, chip.references))
    if any(key.startswith(_WHOLE_TABLE + ".") for key in found):
        chip.figures = {
            key: figure for key, figure in chip.figures.items() if not key.startswith(_WHOLE_TABLE + ".")
        }
    chip.figures.update(found)
    return chip


def _with_assumptions(document: dict[str, Any], where: str, prefix: str = "") -> dict[str, Any]:
    """A user's file in which bare numbers count as assumed; a warning asks for their sources."""
    whole: dict[str, Any] = {}
    for name, item in document.items():
        key = prefix + name
        if isinstance(item, dict) and not _FIGURE_KEYS & item.keys():
            whole[name] = _with_assumptions(item, where, key + ".")
        elif isinstance(item, int | float) and not isinstance(item, bool) and key in schema():
            text = f"{where}: key {key} counts as assumed: write {name} = {{ value = {item}, source = ... }}"
            warnings.warn(text, OptionWarning, stacklevel=2)
            whole[name] = {"value": item, "assumed": True}
        else:
            whole[name] = item
    return whole


def read_toml(path: Path) -> dict[str, Any]:
    """The text of a chip or server file as tables.

    Raises:
        SocError: If it cannot be read or is no TOML.
    """
    try:
        if path.exists() and not path.is_file():
            raise SocError(
                f"chip file {path}",
                "is no regular file",
                remedy="see `ascendsim soc list` for built-in chips",
            )
        if path.stat().st_size > _MAX_BYTES:
            raise SocError(
                f"chip file {path}",
                f"must not be above {_MAX_BYTES} bytes",
                f"{path.stat().st_size}",
                "is it a chip file?",
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise SocError(
            f"chip file {path}",
            f"cannot be read ({reason})",
            remedy="see `ascendsim soc list` for built-in chips",
        ) from None
    except UnicodeDecodeError:
        raise SocError(f"chip file {path}", "must be UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SocError(f"chip file {path}", f"is not valid TOML: {error}") from None
    except ValueError:
        raise SocError(f"chip file {str(path)!r}", "cannot be read (it has a NUL character)") from None


def _parent_path(parent: object, path: Path) -> Path:
    candidates = [
        DATA / "families" / f"{parent}.toml",
        DATA / f"{parent}.toml",
        path.parent / f"{parent}.toml",
    ]
    if isinstance(parent, str):
        for candidate in candidates:
            if candidate.is_file() and candidate.resolve() != path.resolve():
                return candidate
    known = [file.stem for file in (*DATA.glob("*.toml"), *(DATA / "families").glob("*.toml"))]
    raise SocError(
        f"{path.name}: key extends", "must name a chip or family", repr(parent), suggest(str(parent), known)
    )


def _too_deep(where: str) -> ChipFile:
    raise SocError(
        f"{where}: key extends",
        f"builds on more than {_MAX_DEPTH} files",
        remedy="look for files that extend each other",
    )


def references_of(document: dict[str, Any], where: str) -> dict[str, str]:
    """Takes the short names of sources out of a document."""
    table = document.pop("references", {})
    if not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
        raise SocError(f"{where}: key references", "must be a table of texts", repr(table)[:80])
    return table


def _mark_assumed(chip: ChipFile, prefixes: object, where: str) -> None:
    """Marks inherited figures as assumed: they were found on other hardware than what this file describes."""
    if not isinstance(prefixes, list) or not all(isinstance(prefix, str) for prefix in prefixes):
        raise SocError(f"{where}: key assumed", "must be a list of keys", repr(prefixes)[:80])
    for prefix in prefixes:
        hits = [key for key in chip.figures if key == prefix or key.startswith(prefix + ".")]
        if not hits:
            raise SocError(
                f"{where}: key assumed", "names no inherited key", repr(prefix), suggest(prefix, schema())
            )
        for key in hits:
            chip.figures[key] = replace(chip.figures[key], assumed=True)


def figures_of(
    table: Mapping[str, Any], prefix: str, where: str, references: Mapping[str, str], owner: type = SocSpec
) -> Iterator[tuple[str, Figure]]:
    """Figures of a document by dotted key, which are those of the dataclass `owner`.

    Raises:
        SocError: If a key is unknown, a value has the wrong type, or a number no source.
    """
    for name, item in table.items():
        key = prefix + name
        if isinstance(item, dict) and not _FIGURE_KEYS & item.keys():
            yield from figures_of(item, key + ".", where, references, owner)
        else:
            yield key, _figure(item, key, where, references, owner)


def _figure(item: Any, key: str, where: str, references: Mapping[str, str], owner: type) -> Figure:
    rule = field_of(key, where, owner)
    subject = f"{where}: key {key}"
    if not isinstance(item, dict):  # names and switches explain themselves, numbers do not
        if rule.kind not in ("str", "bool"):
            form = "{ value = ..., source = ... } or { value = ..., assumed = true }"
            raise SocError(subject, "must say where it comes from", repr(item), f"write {form}")
        return Figure(check_type(item, rule, where, key))
    unknown = sorted(item.keys() - _FIGURE_KEYS)
    if unknown:
        raise SocError(f"{subject}: {unknown[0]}", "does not exist", remedy=suggest(unknown[0], _FIGURE_KEYS))
    source, assumed, missing = item.get("source", ""), item.get("assumed", False), item.get("missing")
    fitted_on = item.get("fitted_on", [])
    if not isinstance(fitted_on, list) or not all(isinstance(name, str) and name for name in fitted_on):
        raise SocError(
            subject,
            "must list the measurements that it was fitted on",
            repr(fitted_on)[:80],
            'write ["microbenchmark 47"]',
        )
    if not isinstance(source, str) or not isinstance(assumed, bool) or not isinstance(missing, str | None):
        raise SocError(
            subject, "must have text as source and missing, and true or false as assumed", repr(item)[:80]
        )
    if missing is not None:
        return Figure(None, missing)
    if "value" not in item:
        raise SocError(subject, "has no value", remedy="add value = ..., or missing = why")
    if not source and not assumed:
        raise SocError(subject, "has no source", remedy='add source = "...", or assumed = true')
    return Figure(
        check_type(item["value"], rule, where, key), _expand(source, references), assumed, tuple(fitted_on)
    )


def _expand(source: str, references: Mapping[str, str]) -> str:
    """Puts the full texts of references in place of their names: "asc, att: 7; mskpp: 3" -> ...

    >>> _expand("a, b: 7; c: 3", {"a": "Alpha", "b": "Beta"})
    'Alpha and Beta: 7; c: 3'
    """
    parts = []
    for part in source.split("; "):
        head, colon, rest = part.partition(": ")
        names = head.split(", ")
        known = all(name in references for name in names)
        parts.append((" and ".join(references[name] for name in names) if known else head) + colon + rest)
    return "; ".join(parts)
