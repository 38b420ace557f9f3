"""Reference pages of the Python interface: one for each name of `ascendsim.__all__`."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import ascendsim

FOLDER = "docs/reference/api"
# Rooms whose names a user writes too: asim.asc.jit, asim.torch.backend.
HEADS = {"function": "Functions", "class": "Classes", "error": "Errors", "module": "Modules"}


def kind_of(thing: Any) -> str:
    """What a public name is: one of `HEADS`, or "data"."""
    if isinstance(thing, ModuleType):
        return "module"
    if inspect.isclass(thing):
        return "error" if issubclass(thing, Exception) else "class"
    return "function" if callable(thing) else "data"


def address(name: str) -> str:
    """Where a name's page is, without suffix; small and capital letters apart, which file systems mix up."""
    return f"{FOLDER}/{kind_of(resolved(name))}/{name}"


def resolved(name: str) -> Any:
    """What a public name stands for; for a package that is called as its main function, that function."""
    thing = getattr(ascendsim, name)
    return getattr(thing, name) if isinstance(thing, ModuleType) and hasattr(thing, name) else thing


def summary(thing: Any) -> str:
    """The first sentence of a docstring, for a table."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def pages() -> dict[str, str]:
    """Text of each page by its path."""
    names = [name for name in ascendsim.__all__ if kind_of(resolved(name)) != "data"]
    made = {f"{address(name)}.md": _page(name) for name in names}
    made[f"{FOLDER}/index.md"] = _index(names)
    return made


def _page(name: str) -> str:
    thing = resolved(name)
    lines = {
        "function": [f".. autofunction:: ascendsim.{name}"],
        "class": [f".. autoclass:: ascendsim.{name}", "   :members:", "   :undoc-members:"],
        "error": [f".. autoexception:: ascendsim.{name}", "   :show-inheritance:"],
        "module": [f".. automodule:: ascendsim.{name}", "   :members:", "   :undoc-members:"],
    }[kind_of(thing)]
    if kind_of(thing) == "function" and isinstance(getattr(ascendsim, name), ModuleType):
        lines = [f".. autofunction:: {thing.__module__}.{name}"]
    text = "\n".join(lines)
    return f"# {name}\n\n```{{eval-rst}}\n{text}\n```\n"


def _index(names: list[str]) -> str:
    parts = ["# Python\n\n`import ascendsim as asim`; every name is `asim.<name>`, loaded on first use.\n"]
    for kind, head in HEADS.items():
        mine = [name for name in names if kind_of(resolved(name)) == kind]
        rows = [f"| [{name}]({kind}/{name}.md) | {summary(resolved(name))} |" for name in mine]
        parts.append(f"## {head}\n\n| name | |\n|---|---|\n" + "\n".join(rows) + "\n")
    listed = "\n".join(f"{kind_of(resolved(name))}/{name}" for name in names)
    return "\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"])
