"""Fills the figures of docs/how_time_is_modelled.md in from the chip files.

    python scripts/make_time_page.py

A line `<!-- figures KEY KEY ... -->` is followed by a table of these keys for a chip of each kind, `<!--
fitted -->` by the figures that were fitted and on what; `<!-- end -->` closes either. A test fails while the
page is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ascendsim import soc
from ascendsim.core.files import write_whole

TARGET = Path(__file__).resolve().parents[1] / "docs" / "how_time_is_modelled.md"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
_BLOCK = re.compile(r"(<!-- (figures [^>]*|fitted) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its tables made anew."""
    specs = [soc.load(name) for name in CHIPS]

    def table(found: re.Match[str]) -> str:
        kind, *keys = found[2].split()
        lines = _figures(keys, specs) if kind == "figures" else _fitted()
        return found[1] + "\n" + "\n".join(lines) + "\n\n" + found[3]

    return _BLOCK.sub(table, page)


def _figures(keys: Sequence[str], specs: Sequence[soc.SocSpec]) -> list[str]:
    rows = [{row.key: row for row in soc.spec_table(spec)} for spec in specs]
    lines = ["| figure | " + " | ".join(CHIPS) + " | unit |", "|---|" + "---|" * (len(CHIPS) + 1)]
    for key in keys:
        cells = []
        for spec, known in zip(specs, rows, strict=True):
            row = known.get(key)
            mark = " f" if key in spec.fitted_on else " a" if row is not None and row.assumed else ""
            cells.append((row.value if row is not None else "none") + mark)
        units = {row.unit for known in rows if (row := known.get(key)) is not None and row.unit}
        lines.append(f"| `{key}` | " + " | ".join(cells) + f" | {'/'.join(sorted(units))} |")
    return lines


def _fitted() -> list[str]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in soc.names():
        spec = soc.load(name)
        values = {row.key: f"{row.value} {row.unit}".strip() for row in soc.spec_table(spec)}
        for key, measurements in spec.fitted_on.items():
            found.setdefault((key, values[key], ", ".join(measurements)), []).append(name)
    lines = ["| figure | value | chips | fitted on |", "|---|---|---|---|"]
    for (key, value, on), chips in sorted(found.items()):
        shown = chips[0] if len(chips) == 1 else f"{chips[0]} and {len(chips) - 1} more"
        lines.append(f"| `{key}` | {value} | {shown} | {on} |")
    return lines


if __name__ == "__main__":
    write_whole(TARGET, filled(TARGET.read_text(encoding="utf-8")).encode())
