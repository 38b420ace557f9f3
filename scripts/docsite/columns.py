"""The page of columns: what stands in the files that runs write, from docs/columns.csv."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "columns.csv"
PAGE = "docs/reference/columns.md"
HEAD = """# Columns

What stands in the columns of the files that `result.save`, `ascendsim run --output` and `result.export`
write. Names, units and definitions are those of the tools that the files imitate; the last column says where
each was found. What a run has no figure for is `N/A`. `save` counts times from the start of the run, `export`
since 1970.
"""


def rows() -> list[dict[str, str]]:
    """The lines of docs/columns.csv: files, column, unit, definition, source."""
    with DATA.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def by_file() -> dict[str, list[dict[str, str]]]:
    """The lines of each file."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows():
        for file in row["files"].split("; "):
            found.setdefault(file, []).append(row)
    return found


def pages() -> dict[str, str]:
    """The page by its path."""
    parts = [HEAD]
    for file, held in sorted(by_file().items()):
        lines = [
            f"| `{row['column']}` | {row['unit']} | {_cell(row['definition'])} | {_cell(row['source'])} |"
            for row in held
        ]
        head = f"## {_cell(file)}\n\n| column | unit | meaning | source |\n|---|---|---|---|\n"
        parts.append(head + "\n".join(lines) + "\n")
    return {PAGE: "\n".join(parts)}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
