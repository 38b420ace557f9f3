"""Fixtures and hypothesis profiles shared by all tests."""

from __future__ import annotations

import difflib
import gc
import logging
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

TESTS = Path(__file__).parent
# files that tests read, and what made them; kernels that need a compiler's own package to be imported
collect_ignore_glob = ["data/*", "support/triton_kernels.py"]
_RENEWED = "golden file renewed"

# Derandomised: the same examples on every run, so that a failure is a change of the code and never of the
# seed.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=500)
settings.load_profile(os.environ.get("ASCENDSIM_TEST_PROFILE", "quick"))

# Results do not depend on what else is installed; tests of plugins say what is.
os.environ["ASCENDSIM_PLUGINS"] = "off"
os.environ["ASCENDSIM_CACHE"] = "off"  # every test finds its tilings itself


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the tests produced into tests/golden/ instead of comparing",
    )


# What nobody listens to would go to the standard error that tests of commands read.
logging.getLogger("ascendsim").addHandler(logging.NullHandler())


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Looks for no examples in the docstrings of test files: they have tests for that, and it takes time."""
    collectors = yield
    tests = file_path.name.startswith("test_")
    return [each for each in collectors if not (tests and isinstance(each, DoctestModule))]


def pytest_collection_finish() -> None:
    """Takes modules and tests, which stay to the end, out of later garbage collections, and has fewer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what --update-golden changed, for a person to read."""
    for report in terminalreporter.getreports(""):
        for title, text in report.sections:
            if _RENEWED in title:
                terminalreporter.section(f"{_RENEWED} by {report.nodeid}")
                terminalreporter.write_line(text)


@pytest.fixture(autouse=True)
def nothing_before() -> None:
    """Every test lowers and times all by itself, whatever others have patched."""
    before = sys.modules.get("ascendsim.compiler.before")
    if before is not None:
        before.forget()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Returns a function (name, text) that compares text with the file tests/golden/<name>.

    With --update-golden the file is written instead, and the difference is printed at the end of the run.
    """
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        if not path.is_file() and not update:
            pytest.fail(
                f"tests/golden/{name} does not exist; look at the output, then run pytest with "
                f"--update-golden",
                pytrace=False,
            )
        expected = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text == expected:
            return
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm=""
        )
        difference = "\n".join(lines) or "only the line ends differ"
        if not update:
            pytest.fail(
                f"{difference}\n\nif this change is meant, run pytest with --update-golden", pytrace=False
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        request.node.add_report_section("call", _RENEWED, difference)

    return compare


@pytest.fixture
def untimed_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles with the closed form's tiles, as `options={"tiling": "closed_form"}` does: for tests to which
    tiles do not matter, since running the best few on the machine is half of a compilation.
    """
    monkeypatch.setattr("ascendsim.compiler.pipeline.tilings_of", lambda soc, options: None)


class _Blank:
    """Stands for any picture."""

    def save(self, path: Path) -> Path:
        path.write_bytes(b"")
        return path


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timelines are saved as empty files, other pictures are not painted: for tests of commands that write
    some among other things, since to draw one takes longer than to run a small network.
    """
    monkeypatch.setattr("ascendsim.plot.figures.save_figure", lambda _, path: _Blank().save(Path(path)))
    for drawing in ("result.Result.plot_timeline", "comparing.Comparison.plot_timelines"):
        monkeypatch.setattr(f"ascendsim.api.{drawing}", lambda *_, **__: _Blank())


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of network structures (tests/data/models/*.onnx)."""
    return TESTS / "data" / "models"
