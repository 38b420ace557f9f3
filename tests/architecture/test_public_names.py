"""Public names: every name in an `__all__` exists, and the package imports without its heavy dependencies."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import ascendsim

HEAVY = ("numba", "matplotlib", "onnx", "simpy", "pandas", "scipy", "rich", "jinja2")


def _modules() -> list[str]:
    return ["ascendsim", *(module.name for module in pkgutil.walk_packages(ascendsim.__path__, "ascendsim."))]


def test_every_public_name_exists_and_is_named_once() -> None:
    names = _modules()
    assert len(names) > 500
    problems = {}
    for name in names:
        module = importlib.import_module(name)
        exported = list(getattr(module, "__all__", ()))
        wrong = [one for one in exported if not hasattr(module, one) or exported.count(one) > 1]
        if wrong:
            problems[name] = wrong
    assert not problems


def _loaded_by(statement: str) -> list[str]:
    program = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_import_is_light() -> None:
    assert _loaded_by("import ascendsim") == []


def test_chips_and_graphs_are_light() -> None:
    assert (
        _loaded_by(
            "import ascendsim; from ascendsim import soc; soc.load('Ascend310'); ascendsim.GraphBuilder"
        )
        == []
    )


def test_help_of_the_command_is_light() -> None:
    statement = (
        "import contextlib, io\nfrom ascendsim.cli.main import main\nwith "
        "contextlib.redirect_stdout(io.StringIO()): main(['--help'])"
    )
    assert _loaded_by(statement) == []
