"""No file needs, by way of others, a file that needs it: neither at run time nor for the type checker
alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import ROOT, imported

PACKAGES = {"ascendsim": ROOT / "ascendsim", "ascendsim_kernels": ROOT / "kernels" / "ascendsim_kernels"}


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules that a file imports, wherever in the file; those of a package's own front door count as the
    modules behind it."""
    wanted = set()
    for node in imported(path):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif node.module is not None:
            wanted |= {
                f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in known else node.module
                for alias in node.names
            }
    return {module for module in wanted if module in known and module != name}


def circles(needs: dict[str, set[str]]) -> Iterator[list[str]]:
    """Groups of more than one node that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(needs[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(needs):
        if node not in index:
            visit(node)
    return iter(found)


def test_the_search_finds_circles() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c"]]
    assert not list(circles({"a": {"b"}, "b": set(), "d": {"a", "b"}}))


def test_no_circles_of_files() -> None:
    known = modules()
    needs = {name: imports(name, path, known) for name, path in known.items()}
    assert not list(circles(needs))
