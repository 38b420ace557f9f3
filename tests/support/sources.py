"""The project's source files as syntax trees, parsed once for all rules about them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from ascendsim.core.collection import without_collection

ROOT = Path(__file__).resolve().parents[2]


@cache
@without_collection
def parsed(path: Path) -> ast.Module:
    """The tree of a file; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
@without_collection
def told(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Constant, ...]:
    """What a file imports, wherever in it, and its literals: a walk over all nodes is as dear as parsing."""
    return tuple(
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Constant))
    )
