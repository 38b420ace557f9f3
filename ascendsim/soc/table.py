"""A chip as rows for people: every figure with unit and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ascendsim.core.units import format_size
from ascendsim.soc.schema import Field, schema
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class SpecRow:
    """One figure of a chip.

    Attributes:
        value: Text of the value; "unknown" if a run would need it, "none" if the chip has no such thing.
    """

    key: str
    value: str
    unit: str
    source: str
    assumed: bool


def spec_table(spec: SocSpec) -> tuple[SpecRow, ...]:
    """All figures of a chip in the order of the spec's fields; tables one row an entry."""
    reasons = gap_reasons(spec)
    rows: list[SpecRow] = []
    for field in schema().values():
        value = _value(spec, field.key)
        if not field.table:
            rows.append(_row(spec, field, field.key, value, reasons))
            continue
        entries: Mapping[str, Any] = value
        rows += [_row(spec, field, f"{field.key}.{name}", entry, reasons) for name, entry in entries.items()]
    return tuple(rows)


def figures_by_key(spec: SocSpec) -> dict[str, Any]:
    """Every figure of a chip by dotted key, entries of tables one by one; None = none, or not known."""
    found: dict[str, Any] = {}
    for field in schema().values():
        value = _value(spec, field.key)
        if field.table:
            found |= {f"{field.key}.{name}": entry for name, entry in value.items()}
        else:
            found[field.key] = value
    return found


def gap_reasons(spec: SocSpec) -> dict[str, str]:
    """Keys without a figure that a run would need, and why; "" if no reason is known."""
    return dict(_split_reason(gap) for gap in spec.missing)


def _row(spec: SocSpec, field: Field, key: str, value: Any, reasons: Mapping[str, str]) -> SpecRow:
    if key in reasons:
        return SpecRow(key, "unknown", field.unit, reasons[key], False)
    unit = field.unit
    if value is None:
        text, unit = "none", ""
    elif isinstance(value, tuple):
        text = ", ".join(value)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif unit == "B":
        text, unit = format_size(value).split(" ")
    else:
        text = f"{value:.12g}" if isinstance(value, float) else str(value)
    source = spec.sources.get(key, "")
    if key in spec.fitted_on:
        source += f"; fitted on {', '.join(spec.fitted_on[key])}"
    return SpecRow(key, text, unit, source, key in spec.assumed)


def _value(spec: SocSpec, key: str) -> Any:
    value: Any = spec
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _split_reason(gap: str) -> tuple[str, str]:
    key, _, reason = gap.partition(" ")
    return key, reason.removeprefix("(").removesuffix(")")
