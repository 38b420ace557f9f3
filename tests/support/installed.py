"""Packages as importlib.metadata sees them, without installing any: a folder with the metadata of each."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ascendsim.core import plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
Install = Callable[..., None]


@contextmanager
def installing(folder: Path, mode: str = "on") -> Iterator[Install]:
    """Gives a function that installs a package for as long as the block lasts.

    Its arguments: name, version, entry points as group -> name -> value, the Python text of its one module
    (None: there is none), and requirements.
    """
    before = set(sys.modules)

    def install(
        name: str,
        version: str = "1.0",
        entries: Mapping[str, Mapping[str, str]] | None = None,
        module: str | None = None,
        requires: tuple[str, ...] = (),
    ) -> None:
        metadata = folder / f"{name}-{version}.dist-info"
        metadata.mkdir()
        needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        groups = (
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
            for group, points in (entries or {}).items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(groups))
        if module is not None:
            (folder / f"{name}.py").write_text(module)
        plugins.forget()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, mode)
        patch.syspath_prepend(str(folder))
        plugins.forget()
        try:
            yield install
        finally:
            plugins.forget()
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith((str(folder), str(EXAMPLE))):
                    del sys.modules[name]


@contextmanager
def example_plugin(folder: Path, mode: str = "on") -> Iterator[None]:
    """The package of examples/plugin as if it were installed, by what its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with installing(folder, mode) as install, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        requires = tuple(project["dependencies"])
        install(project["name"], project["version"], project["entry-points"], requires=requires)
        yield
