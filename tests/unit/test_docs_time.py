"""The page on how time is modelled: its figures are those of the chip files, and the keys and files that it
names exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from ascendsim.soc.schema import field_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how_time_is_modelled.md"


def test_the_figures_are_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    filled = runpy.run_path(str(ROOT / "scripts" / "make_time_page.py"))["filled"]
    assert filled(text) == text, "run python scripts/make_time_page.py"


def test_keys_and_files_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    keys = set(
        re.findall(
            r"`((?:issue|cube|vector|ports|dma|dram|l2|launch|ai_cpu|ctrl_cpu|dvpp)\.[a-z0-9_.]+)`", text
        )
    )
    assert len(keys) > 30
    for key in sorted(keys):
        if key != "vector.cycles_per_repeat":  # a table
            field_of(key, "page")
    named = set(re.findall(r"`((?:isa|machine|lower)/[a-z_/0-9]+\.py)`", text))
    assert len(named) > 10
    assert not [name for name in sorted(named) if not (ROOT / "ascendsim" / name).is_file()]
