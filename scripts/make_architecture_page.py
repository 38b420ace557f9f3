"""Writes the table of stages into docs/architecture.md, from `compiler.pipeline`; a test compares the two."""

from __future__ import annotations

from pathlib import Path

from ascendsim.compiler.pipeline import STAGES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
BEGIN, END = "<!-- stages -->\n", "<!-- end of stages -->"


def table() -> str:
    """The stages as a Markdown table."""
    rows = [f"| `{stage.name}` | {stage.takes} | {stage.gives} |\n" for stage in STAGES]
    return "| stage | takes | gives |\n|---|---|---|\n" + "".join(rows)


def renewed(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    TARGET.write_text(renewed(TARGET.read_text()))
