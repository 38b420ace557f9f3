"""Fills the table of what is off by more than a factor of three into docs/validate.md.

    python scripts/make_reasons_table.py

It comes from ascendsim/validate/data/operator_reasons.csv. A test fails while the page is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from ascendsim.core.files import write_whole
from ascendsim.validate.operator_reasons import reasons

TARGET = Path(__file__).resolve().parents[1] / "docs" / "validate.md"
_BLOCK = re.compile(r"(<!-- reasons -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its table made anew."""
    lines = ["| chips | operators | inputs | finding |", "|---|---|---|---|"]
    for one in reasons():
        inputs = "all" if one.inputs == "*" else f"`{one.inputs}`"
        lines.append(f"| {', '.join(one.chips)} | `{one.operators}` | {inputs} | {one.text} |")
    return _BLOCK.sub(lambda found: f"{found[1]}\n" + "\n".join(lines) + f"\n\n{found[2]}", page)


if __name__ == "__main__":
    write_whole(TARGET, filled(TARGET.read_text(encoding="utf-8")).encode())
