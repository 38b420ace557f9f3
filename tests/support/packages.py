"""Model files of packages that ship them (tests/requirements-models.txt)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def file_of(package: str, name: str) -> Path:
    """Path of a file inside an installed package, found without running the package; skips the test where it
    is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"package {package} is not installed (tests/requirements-models.txt)")
    return Path(found.origin).parent / name
