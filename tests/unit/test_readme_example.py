"""What README.md shows of a run is what the run gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import ascendsim as asim

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_readme() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("make_readme", ROOT / "scripts" / "make_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_example_is_up_to_date(make_readme: ModuleType) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    made = make_readme.renewed(page, make_readme.block(make_readme.comparison()))
    assert made == page, "run scripts/make_readme.py"


@pytest.mark.usefixtures("untimed_tiles")
def test_all_but_the_rows_of_the_tables_is_up_to_date(make_readme: ModuleType, models_dir: Path) -> None:
    """Columns, and the lines on accuracy and speed, with a small network in the place of the page's."""
    graph = asim.load(models_dir / "lenet5.onnx", weights="random")
    models = {
        name: asim.compile(graph, soc=make_readme.CHIP, fusion=level)
        for name, level in (("unfused", "off"), ("fused", "all"))
    }
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    made = make_readme.renewed(page, make_readme.block(asim.compare(models)))
    assert without_rows(made) == without_rows(page), "run scripts/make_readme.py"
    assert len(without_rows(page)) < len(page.splitlines())
    assert make_readme.PICTURE.is_file()


def without_rows(page: str) -> list[str]:
    """Lines of a page, of tables with figures their head alone."""
    lines = page.splitlines()
    return [
        line
        for place, line in enumerate(lines)
        if not line.startswith("| ") or lines[min(place + 1, len(lines) - 1)].startswith("|---")
    ]
