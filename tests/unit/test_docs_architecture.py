"""The architecture page has the stages that the compiler has."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_stages() -> None:
    spec = importlib.util.spec_from_file_location(
        "make_architecture_page", ROOT / "scripts" / "make_architecture_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert module.table() in page
    assert module.renewed(page) == page
