"""Where the figures of a report come from: version, and every figure of the chips with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ascendsim.core import plugins
from ascendsim.core.errors import InputError
from ascendsim.core.table import Cell, Row, Table
from ascendsim.core.version import __version__
from ascendsim.report.subject import Columns, Subject
from ascendsim.soc.table import spec_table

CHANGES = ("Change at low(%)", "Change at high(%)")
_ENTRIES = ".*"  # behind the name of a table whose entries were moved together


def provenance(subjects: Sequence[Subject], sensitivity: Table | None = None) -> Columns:
    """The version, those of plugins, and for each chip rows (figure, value, unit, origin, source): changed by
    the user and assumed ones first.

    Args:
        subjects: The runs.
        sensitivity: What each figure could change (`Sensitivity.table()`): two columns more, in front of the
            source, and the largest first among those of one origin.

    Raises:
        InputError: If the table is another one.
    """
    changes = _changes(sensitivity)
    chips: dict[str, list[Row]] = {}
    for subject in subjects:
        soc = subject.profile.soc
        ranks = {"changed": 0, "assumed": 1, "": 2}
        rows: list[Row] = []
        for row in spec_table(soc):
            known = (row.key, row.value, row.unit, _origin(row.key, row.assumed, soc.overrides))
            own = () if changes is None else _of_key(changes, row.key)
            rows.append((*known, *own, row.source))
        # stable: in the order of the chip's file otherwise
        rows.sort(
            key=lambda row: (ranks[str(row[3])], -max((abs(float(c or 0)) for c in row[4:-1]), default=0.0))
        )
        name = soc.name if chips.get(soc.name, rows) == rows else f"{soc.name} ({subject.name})"
        chips[name] = rows
    return {
        "version": __version__,
        "plugins": plugins.versions(),
        "columns": ["Figure", "Value", "Unit", "Origin", *(CHANGES if changes is not None else ()), "Source"],
        "chips": {name: [list(row) for row in rows] for name, rows in chips.items()},
    }


def _changes(sensitivity: Table | None) -> dict[str, Row] | None:
    """Changes in percent by the name of the figure that was moved."""
    if sensitivity is None:
        return None
    if not {"Figure", *CHANGES} <= set(sensitivity.columns):
        raise InputError(
            "option sensitivity", "must be the table of a sensitivity", sensitivity.name, "give its table()"
        )
    return {str(row["Figure"]): tuple(_short(row[name]) for name in CHANGES) for row in sensitivity.records()}


def _short(percent: Cell) -> float | None:
    return None if percent is None else round(float(percent), 3)


def _of_key(changes: Mapping[str, Row], key: str) -> Row:
    """The changes of a figure, by itself or with its table."""
    tables = (name for name in changes if name.endswith(_ENTRIES) and key.startswith(name[:-1]))
    return changes.get(key) or changes.get(next(tables, ""), (None, None))


def _origin(key: str, assumed: bool, overrides: Mapping[str, str]) -> str:
    return "changed" if key in overrides else "assumed" if assumed else ""
