"""The pages on scheduling, memory and saved models: their Python runs, and what they say about options is
so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascendsim.api.saving_manifest import Manifest
from ascendsim.graph.sorting import MODES as SORTING_MODES
from ascendsim.isa.program import MODES
from ascendsim.lower.streams import PARALLEL_MODES

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("scheduling", "memory", "file_format")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        small = re.sub(r"models/\w+\.onnx", "models/lenet5.onnx", block)  # stands for any network
        exec(compile(small, page, "exec"), {})


def test_the_page_on_scheduling_names_every_mode() -> None:
    text = (ROOT / "docs" / "scheduling.md").read_text()
    assert all(f"`{mode}`" in text for mode in MODES)
    assert all(f'"{mode}' in text for mode in PARALLEL_MODES)
    assert all(re.search(rf"\b{mode} ", text) for mode in SORTING_MODES)


def test_the_page_on_the_file_format_names_every_key() -> None:
    text = (ROOT / "docs" / "file_format.md").read_text()
    assert all(f"`{name}`" in text for name in Manifest.__annotations__)
