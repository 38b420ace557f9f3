"""Where the figures of a report come from: version, and every figure of the chips with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ascendsim.core import plugins
from ascendsim.core.version import __version__
from ascendsim.report.subject import Columns, Subject
from ascendsim.soc.table import spec_table


def provenance(subjects: Sequence[Subject]) -> Columns:
    """The version, those of plugins, and for each chip rows (figure, value, unit, origin, source): changed by
    the user and assumed ones first.
    """
    chips: dict[str, list[list[str]]] = {}
    for subject in subjects:
        soc = subject.profile.soc
        ranks = {"changed": 0, "assumed": 1, "": 2}
        rows = [
            [row.key, row.value, row.unit, _origin(row.key, row.assumed, soc.overrides), row.source]
            for row in spec_table(soc)
        ]
        rows.sort(key=lambda row: ranks[row[3]])  # stable: in the order of the chip's file otherwise
        name = soc.name if chips.get(soc.name, rows) == rows else f"{soc.name} ({subject.name})"
        chips[name] = rows
    return {
        "version": __version__,
        "plugins": plugins.versions(),
        "columns": ["Figure", "Value", "Unit", "Origin", "Source"],
        "chips": chips,
    }


def _origin(key: str, assumed: bool, overrides: Mapping[str, str]) -> str:
    return "changed" if key in overrides else "assumed" if assumed else ""
