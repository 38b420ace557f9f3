"""A chip as a file: every figure with its source, to start a chip of one's own from."""

from __future__ import annotations

import json
import re
from typing import Any

from ascendsim.soc.building import ONE_CLOCK
from ascendsim.soc.schema import field_of
from ascendsim.soc.spec import SocSpec
from ascendsim.soc.table import figures_by_key, gap_reasons

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# {name} with every figure, complete as it is: give the chip a name of its own and change what differs.
# A number has a source, or says assumed = true; {{ missing = "why" }} is a gap. A file that only changes some
# figures of {name} is shorter: name = "Mine", extends = "{name}", then these figures.
"""


def chip_file(spec: SocSpec) -> str:
    """The text of a chip file (TOML) that loads as this chip.

    What another figure says for it is left out: the clock of the vector unit where it is that of the core.
    """
    reasons = gap_reasons(spec)
    tables: dict[str, list[str]] = {"": []}
    for key, value in figures_by_key(spec).items():
        text = _figure(spec, key, value, reasons)
        if text is not None:
            field = field_of(key, "")
            table = field.key if field.table else key.rpartition(".")[0]  # entries of tables have dots too
            name = key.removeprefix(table).removeprefix(".")
            tables.setdefault(table, []).append(f"{_key(name)} = {text}")
    parts = [_HEAD.format(name=spec.name) + "\n" + "\n".join(tables.pop("")) + "\n"]
    for table, lines in tables.items():
        head = ".".join(map(_key, table.split(".")))
        parts.append(f"[{head}]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _figure(spec: SocSpec, key: str, value: Any, reasons: dict[str, str]) -> str | None:
    """What stands behind a key; None if the chip has no such thing, or nothing is known of it."""
    if key in reasons:
        return f"{{ missing = {_text(reasons[key])} }}" if reasons[key] else None
    source = spec.sources.get(key, "")
    if value is None or source.startswith(ONE_CLOCK):
        return None
    parts = [f"value = {_value(value)}"]
    if source:
        parts.append(f"source = {_text(source)}")
    if key in spec.assumed:
        parts.append("assumed = true")
    if key in spec.fitted_on:
        parts.append(f"fitted_on = [{', '.join(map(_text, spec.fitted_on[key]))}]")
    if len(parts) == 1 and field_of(key, "").kind in ("str", "bool"):  # these explain themselves
        return _value(value)
    return f"{{ {', '.join(parts)} }}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)
