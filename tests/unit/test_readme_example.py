"""What README.md shows of a run is what the run gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_readme", ROOT / "scripts" / "make_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert module.renewed(page, module.block(module.comparison())) == page, "run scripts/make_readme.py"
    assert module.PICTURE.is_file()
