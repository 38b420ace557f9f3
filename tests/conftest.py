"""Fixtures and hypothesis profiles shared by all tests."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent

# Derandomised: the same examples on every run, so that a failure is a change of the code and never of the seed.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=500)
settings.load_profile(os.environ.get("ASCENDSIM_TEST_PROFILE", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the tests produced into tests/golden/ instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Returns a function (name, text) that compares text with the file tests/golden/<name>.

    With --update-golden the file is written instead; the change then shows in `git diff`.
    """
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(f"tests/golden/{name} does not exist; look at the output, then run pytest with --update-golden", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm="")
            difference = "\n".join(lines) or "only the line ends differ"
            pytest.fail(f"{difference}\n\nif this change is meant, run pytest with --update-golden", pytrace=False)

    return compare


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of network structures (tests/data/models/*.onnx)."""
    return TESTS / "data" / "models"
