"""Which generated pages are older than the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

import make_pages
from make_pages import PAGES, Page, older, stamp, stamps

ROOT = Path(__file__).resolve().parents[2]
# made with other times by nature: wall clock, weights of packages, or no times at all
BY_THEMSELVES = {"export", "operators", "pytorch", "pytorch_results", "tile_values", "validate"}
PAGE = Page("one", "docs/one.md", "make_one.py", ("A", "B"))


def test_every_page_that_a_script_makes_is_known() -> None:
    made = {path.stem for path in (ROOT / "docs").glob("*.md") if "scripts/make_" in path.read_text("utf-8")}
    known = {Path(page.path).stem for page in PAGES if page.path.startswith("docs/")}
    assert made - BY_THEMSELVES == known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_and_scripts_exist(page: Page) -> None:
    assert (ROOT / page.path).is_file()
    assert (ROOT / "scripts" / page.script.split()[0]).is_file()
    assert page.name in stamps()


def test_a_page_is_older_where_times_of_one_of_its_chips_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_pages, "digest", lambda chip: f"{chip}1")
    assert older([PAGE], {"one": stamp(PAGE)}) == []
    assert older([PAGE], {"one": "A=A1 B=B0"}) == [(PAGE, "B")]
    assert older([PAGE], {"one": "A=A1"}) == [(PAGE, "B")]  # a chip that came later
    assert older([PAGE], {}) == [(PAGE, "not known by what it was made")]
