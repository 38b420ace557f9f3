"""The page of columns: what stands in the files that runs write, from docs/columns.csv."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "columns.csv"
PAGE = "docs/reference/columns.md"
HEAD = """# Columns

What stands in the columns of the files that `result.save`, `ascendsim run --output` and `result.export`
write. Names, units and definitions are those of the tools that the files imitate; the last column numbers
where each was found (at the end of the page). What a run has no figure for is `N/A`. `save` counts times from
the start of the run, `export` since 1970.
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
    sources = {text: number for number, text in enumerate(dict.fromkeys(row["source"] for row in rows()), 1)}
    parts = [HEAD]
    for file, held in sorted(by_file().items()):
        lines = [
            f"| `{row['column']}` | {row['unit']} | {_cell(row['definition'])} | {sources[row['source']]} |"
            for row in held
        ]
        head = f"## {_cell(file)}\n\n| column | unit | meaning | source |\n|---|---|---|---|\n"
        parts.append(head + "\n".join(lines) + "\n")
    listed = "\n".join(f"{number}. {_cell(text)}" for text, number in sources.items())
    parts.append(f"## Sources\n\n{listed}\n")
    return {PAGE: "\n".join(parts)}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
