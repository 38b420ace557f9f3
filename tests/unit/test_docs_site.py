"""The documentation site: every page has a place, every link leads somewhere, every public name, option and
column is told. `make docs` builds it whole.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim import profiling
from ascendsim.cli.main import COMMANDS, main
from ascendsim.profiling.export import export_run
from ascendsim.profiling.images import COLUMNS as IMAGE_COLUMNS
from ascendsim.runtime.numerics import Numerics
from docsite import api, columns, commands, links
from tests.support.synthetic_run import synthetic_run

ROOT = Path(__file__).parents[2]
REPORTS = "docs/reference/reports.md"  # made with the sample reports


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The pages that are made, by path."""
    return {**api.pages(), **commands.pages(), **columns.pages()}


def test_no_link_is_dead(pages: dict[str, str]) -> None:
    made = frozenset((ROOT / path).resolve() for path in (*pages, REPORTS))
    assert links.dead_links(links.sources(), made) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What it is, and why\n\n## A `b_c`\n\n## A b_c\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#what-it-is-and-why) [c](other.md#a-b_c-1) [e](https://x.org/y)\n"
        "`[f](none.md)` n\\[8\\](o)\n```\n[g](none.md)\n```\n"
        "[h](none.md) ![i](none.png) [j](other.md#why) [k](<none two.md>) [m [n]](#none)\n"
    )
    assert [dead.partition(": ")[2] for dead in links.dead_links([page])] == [
        "none.md", "none.png", "other.md#why", "#none",
    ]  # fmt: skip


def test_faults_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a id="there" href="b.html#gone">x</a><a href="#there">y</a><img src="c.png">'
    )
    (tmp_path / "b.html").write_text(
        '<script src="https://cdn.org/x.js"></script><link rel="stylesheet" href="//fonts.org/a.css">'
        '<link rel="canonical" href="https://x.org/"><a href="https://x.org/">z</a>'
    )
    assert links.faults_of_site(tmp_path) == [
        "a.html links to b.html#gone, which is not there",
        "a.html links to c.png, which is not there",
        "b.html fetches https://cdn.org/x.js",
        "b.html fetches //fonts.org/a.css",
    ]


def test_every_page_has_one_place_behind_the_four_doors(pages: dict[str, str]) -> None:
    listed = links.listed_pages((ROOT / "index.md").read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed))
    written = {str(path.relative_to(ROOT)) for path in links.sources()} - {"index.md"}
    tops = {path for path in pages if path.count("/") == 2 or path.endswith("/index.md")}
    assert written | tops | {REPORTS} == set(listed), "list a new page in index.md"


def test_every_public_name_has_a_page(pages: dict[str, str]) -> None:
    folder = f"{api.FOLDER}/"
    found = {Path(path).stem: path for path in pages if path.startswith(folder)}
    assert set(found) - {"index"} == set(asim.__all__) - {"__version__"}
    assert len({path.lower() for path in pages}) == len(pages), "file systems that mix up A and a lose a page"
    lines = pages[f"{folder}index.md"].splitlines()
    for name in set(asim.__all__) - {"__version__"}:
        (line,) = [line for line in lines if line.startswith(f"| [{name}](")]
        place, told = re.fullmatch(r"\| \[\w+\]\((.*?)\) \| (.*) \|", line).groups()  # type: ignore[union-attr]
        assert f"{folder}{place}" == found[name]
        assert re.fullmatch(r"\w.{9,}[.:]", told), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_its_page(pages: dict[str, str], name: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([name, "--help"]) == 0
    page = pages[f"{commands.FOLDER}/{name}.md"]
    rows = re.findall(r"^\| (`-.*?) \|", page, re.MULTILINE)
    options = {option for row in rows for option in re.findall(r"`(-[-\w]+)", row)}
    assert set(re.findall(r"^  (?:-\w, )?(--\w[-\w]*)", out.getvalue(), re.MULTILINE)) <= options
    assert "--help" in options


def test_every_column_that_runs_write_is_explained(tmp_path: Path) -> None:
    told = {file: {row["column"]: row for row in rows} for file, rows in columns.by_file().items()}
    numerics = Numerics((), ()).table.columns
    written: dict[str, set[str]] = {"numerics.csv": set(numerics), "images.csv": set(IMAGE_COLUMNS)}
    for split in (False, True):
        run = synthetic_run(12, split=split, instructions=True)
        export = export_run(run, tmp_path / str(split), ("msprof", "ascend_pt", "opprof"))
        for path in (path for path in export.files if path.suffix == ".csv"):
            name = re.sub(r"^core.*?_(instr|code)", r"core*_\1", re.sub(r"_\d{14}", "", path.name))
            with path.open(encoding="utf-8", newline="") as stream:
                written.setdefault(name, set()).update(next(csv.reader(stream)))
        for table in (profiling.op_statistic(run, task_ids=True), profiling.ai_core_metrics(run)):
            written.setdefault(f"{table.name}.csv", set()).update(table.columns)
    assert {file: set(rows) for file, rows in told.items()} == written


def test_every_column_has_its_unit() -> None:
    for row in columns.rows():
        assert row["definition"], row
        assert row["source"], row
        unit = re.search(r"\(([^()]+)\)$", row["column"])
        if unit and unit[1] in ("us", "%"):
            assert row["unit"] == unit[1], row
