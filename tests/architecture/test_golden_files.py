"""Every golden file is explained in docs/testing.md, and the page explains no other."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def test_the_page_on_tests_says_what_each_golden_file_is_for() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").split("## Golden files")[1]
    patterns = re.findall(r"^\| `([^`]+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    files = [path.relative_to(GOLDEN).as_posix() for path in sorted(GOLDEN.rglob("*")) if path.is_file()]
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in files)] == []
