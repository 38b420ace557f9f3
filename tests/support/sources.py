"""The project's source files as syntax trees, parsed once for all rules about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ascendsim.core.collection import without_collection

ROOT = Path(__file__).resolve().parents[2]


@cache
@without_collection
def parsed(path: Path) -> ast.Module:
    """The tree of a file; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))


_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def statements(block: ast.AST) -> Iterator[ast.AST]:
    """The statements right below one, or below a module; not the expressions, which are most of a tree."""
    for _, value in ast.iter_fields(block):
        if isinstance(value, list) and value and isinstance(value[0], _STATEMENTS):
            yield from value


def imported(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """What a file imports, wherever in it."""
    left: list[ast.AST] = [parsed(path)]
    for block in left:  # grows
        if isinstance(block, (ast.Import, ast.ImportFrom)):
            yield block
        left.extend(statements(block))
