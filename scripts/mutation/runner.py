"""Runs tests against mutants, each in a forked process; the files on disk are never touched.

Collecting all tests takes far longer than running the few that see a line. So the tests are collected once,
and each child of that process gives the functions that a mutant changes their new code. What runs while
modules are imported (tables, class bodies, and functions that these call) cannot be changed afterwards, nor
can compiled kernels: those mutants run in a child of a process that has not imported the project yet, which
loads the mutated source.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mutation.mutants import Mutant

THIRD_PARTY = (
    "numpy",
    "scipy.optimize",
    "numba",
    "onnx",
    "onnxruntime",
    "matplotlib.pyplot",
    "pandas",
    "simpy",
    "rich",
    "ml_dtypes",
)
MEMORY = 12 << 30  # bytes of address space of a child: a mutant may ask for any amount
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--capture=no",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


@dataclass
class Outcome:
    """What became of a mutant.

    Attributes:
        status: `killed`, `crashed`, `survived`, `timeout`, `not covered`, `error` or `equivalent`.
        test: The test that failed, or what went wrong.
        seconds: Time until then.
    """

    status: str
    test: str = ""
    seconds: float = 0.0


@dataclass
class Job:
    """A mutant and the tests to run against it.

    Attributes:
        mutant: What to change; None runs the tests on the code as it is.
        text: Source of the mutated file.
        tests: Node ids in order.
        seconds: Recorded time of each.
        asked_by: The job that was killed by the last of these tests, and how.
        left_out: Tests that fail on the code as it is.
        folder: Where the child that runs it keeps its files.
    """

    mutant: Mutant | None
    text: str
    tests: list[str]
    seconds: list[float]
    asked_by: tuple[Job, Outcome] | None = None
    left_out: set[str] = field(default_factory=set)
    folder: Path = Path(os.devnull)

    def chosen(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """The tests that were collected, in order; the name of a file stands for all of its tests."""
        of_name: dict[str, list[pytest.Item]] = {}
        for item in items:
            of_name.setdefault(item.nodeid, []).append(item)
            of_name.setdefault(item.nodeid.split("::")[0], []).append(item)
        return list(
            dict.fromkeys(
                item
                for test in self.tests
                for item in of_name.get(test, ())
                if item.nodeid not in self.left_out
            )
        )

    def watch(self, test: str) -> None:
        """Notes which test begins, and ends this process if it uses far more processor time than when it was
        recorded.
        """
        (self.folder / "running").write_text(test)
        seconds = dict(zip(self.tests, self.seconds, strict=True)).get(test, 10.0)
        signal.setitimer(signal.ITIMER_PROF, (120 if self.compiled else 8) + 8 * seconds)

    @property
    def compiled(self) -> bool:
        """Whether the mutant is in a kernel, which the first test compiles."""
        return self.mutant is not None and self.mutant.path.startswith("kernels/")


@dataclass
class _Child:
    job: Job
    folder: Path
    start: float
    deadline: float


@dataclass
class Pool:
    """Forks a child for each job and tells what became of it.

    A test that kills is run once on the code as it is, after the same tests before it: if it fails there as
    well it says nothing about mutants and is left out.

    Attributes:
        work: What a child does with a job; returns the test that failed, or an empty text.
        done: Called with each mutant's outcome.
        jobs: Number of children at a time.
    """

    work: Callable[[Job], str]
    done: Callable[[Mutant, Outcome], None]
    jobs: int = 2
    sound: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    children: dict[int, _Child] = field(default_factory=dict)

    def run(self, queue: list[Job]) -> None:
        """Runs all jobs."""
        waiting = list(reversed(queue))
        try:
            while waiting or self.children:
                while waiting and len(self.children) < self.jobs:
                    self._start(waiting.pop())
                for pid in list(self.children):
                    found, status = os.waitpid(pid, os.WNOHANG)
                    if found == pid:
                        waiting += self._ended(self.children.pop(pid), status)
                    elif time.monotonic() > self.children[pid].deadline:
                        os.killpg(pid, signal.SIGKILL)
                time.sleep(0.02)
        finally:  # interrupted
            for pid, child in self.children.items():
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                shutil.rmtree(child.folder, ignore_errors=True)

    def _start(self, job: Job) -> None:
        job.left_out = self.broken
        job.folder = folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._child(job, folder)
        start = time.monotonic()
        self.children[pid] = _Child(job, folder, start, start + 300 + 20 * sum(job.seconds))

    def _child(self, job: Job, folder: Path) -> None:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            nowhere = os.open(os.devnull, os.O_RDWR)
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
            for target, source in ((0, nowhere), (1, nowhere), (2, log)):
                os.dup2(source, target)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
            if job.compiled:
                os.environ["NUMBA_CACHE_DIR"] = str(folder / "numba")
            (folder / "result").write_text(self.work(job))
            code = 0
        except BaseException as error:
            (folder / "error").write_text(f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def _ended(self, child: _Child, status: int) -> Iterator[Job]:
        job = child.job
        try:
            seconds = time.monotonic() - child.start
            if os.WIFSIGNALED(status):
                running = child.folder / "running"
                test = running.read_text() if running.is_file() else "(import)"
                late = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGKILL)
                outcome = Outcome("timeout" if late else "crashed", test, seconds)
            elif (child.folder / "result").is_file():
                test = (child.folder / "result").read_text()
                outcome = Outcome("killed" if test else "survived", test, seconds)
            else:
                reason = (
                    (child.folder / "error").read_text()
                    if (child.folder / "error").is_file()
                    else f"exit {status}"
                )
                outcome = Outcome("error", reason, seconds)
        finally:
            shutil.rmtree(child.folder, ignore_errors=True)
        yield from self._judge(job, outcome)

    def _judge(self, job: Job, outcome: Outcome) -> Iterator[Job]:
        if job.asked_by is not None:  # the code as it is
            asked, killed = job.asked_by
            if outcome.status == "survived":
                self.sound.add(killed.test)
                self._tell(asked, killed)
            else:
                self.broken.add(outcome.test if "::" in outcome.test else killed.test)
                yield asked
        elif outcome.status == "killed" and "::" in outcome.test and outcome.test not in self.sound:
            last = job.tests.index(outcome.test) if outcome.test in job.tests else 0
            yield Job(
                None,
                "",
                [*job.tests[:last], outcome.test],
                [*job.seconds[:last], 10.0],
                asked_by=(job, outcome),
            )
        else:
            self._tell(job, outcome)

    def _tell(self, job: Job, outcome: Outcome) -> None:
        if job.mutant is not None:
            self.done(job.mutant, outcome)


class _Failures:
    """Notes the first test that fails."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.first:
            self.first = f"(import) {report.nodeid}"


class _Quick:
    """Hypothesis without looking for the smallest example of a failure, and without its database."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", settings.default, phases=phases, database=None)
        settings.load_profile("mutation")


# Code that runs when modules are imported: a fresh process for each


def run_fresh(job: Job) -> str:
    """Runs the tests of a job in this process, which has not imported the project; returns the first that
    fails.
    """
    if job.mutant is not None:
        sys.meta_path.insert(0, Importer(job.mutant.path, job.text))
    failures = _Failures()
    files = dict.fromkeys(test.split("::")[0] for test in job.tests)
    code = pytest.main([*OPTIONS, "-x", *files], plugins=[failures, _Quick(), _Only(job)])
    if not failures.first and code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest ended with {code!r}")
    return failures.first


class _Only:
    """Runs some tests of the files that are collected, in a given order, each in bounded time."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def pytest_sessionstart(self) -> None:
        """Puts the mutant before pytest's own loader, which takes modules whose doctests are asked for."""
        sys.meta_path.sort(key=lambda finder: not isinstance(finder, Importer))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self.job.chosen(items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.job.watch(nodeid)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from a text instead of its file."""

    text = ""

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Importer(importlib.abc.MetaPathFinder):
    """Finds one module, and gives it a changed source.

    Args:
        path: The module's file, below the working directory.
        text: The source to load instead.
    """

    def __init__(self, path: str, text: str) -> None:
        parts = list(Path(path).with_suffix("").parts)
        parts = parts[1:] if parts[0] == "kernels" else parts
        self.loader = _Loader(
            ".".join(parts[:-1] if parts[-1] == "__init__" else parts), str(Path(path).resolve())
        )
        self.loader.text = text

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.loader.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.loader.path, loader=self.loader)


# Bodies of functions: one process with all tests collected


class Collected:
    """A pytest plugin that, in place of running the collected tests, runs the jobs on forks of this
    process.
    """

    def __init__(self, pool: Pool, queue: list[Job]) -> None:
        self.pool, self.queue = pool, queue
        self.items: list[pytest.Item] = []
        self.failures = _Failures()
        self.functions: dict[tuple[str, str, int], list[types.FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from mutation.recorder import import_all

        import_all()
        self.items = session.items
        gc.unfreeze()  # what is frozen is in no list of objects
        session.config.pluginmanager.register(self.failures)
        self.index()
        gc.collect()
        gc.freeze()
        self.pool.work = self.work
        self.pool.run(self.queue)
        return True

    def index(self) -> None:
        """Notes all functions of the project that exist, wherever they are held."""
        for item in gc.get_objects():
            if type(item) is types.FunctionType and "ascendsim" in item.__code__.co_filename:
                self.functions.setdefault(_key(item.__code__), []).append(item)

    def work(self, job: Job) -> str:
        """What a child does."""
        if job.mutant is not None:
            self.change(job.mutant, job.text)
        items = job.chosen(self.items)
        for item, following in zip(items, [*items[1:], None], strict=False):  # none: tests that are gone
            job.watch(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failures.first:
                break
        return self.failures.first

    def change(self, mutant: Mutant, text: str) -> None:
        """Gives the functions around the mutant their new code."""
        path = str(Path(mutant.path).resolve())
        changed = 0
        for code in _codes(compile(text, path, "exec", dont_inherit=True)):
            first, last = _span(code)
            if code.co_name != "<module>" and first <= mutant.last and mutant.line <= last:
                for function in self.functions.get(_key(code), ()):
                    function.__code__ = code
                    changed += 1
        if not changed:
            raise LookupError(f"no function holds {mutant}")


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return os.path.realpath(code.co_filename), code.co_qualname, code.co_firstlineno


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _span(code: types.CodeType) -> tuple[int, int]:
    last = max(
        (end for inner in _codes(code) for _, end, *_ in inner.co_positions() if end),
        default=code.co_firstlineno,
    )
    return code.co_firstlineno, last


def warm() -> None:
    """Imports what tests import from others."""
    for name in THIRD_PARTY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def run(
    queue: list[Job],
    fresh: list[Job],
    ignored: tuple[str, ...],
    done: Callable[[Mutant, Outcome], None],
    jobs: int,
) -> None:
    """Runs all jobs; the working directory is the root of the checkout."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # children are ended as well
    warm()
    pool = Pool(run_fresh, done, jobs)
    pool.run(fresh)
    if queue:
        _collect([_Quick(), Collected(pool, queue)], ignored)


def _collect(plugins: list[object], ignored: tuple[str, ...]) -> None:
    """Runs pytest; what it prints is shown if it fails."""
    sys.stdout.flush()
    stdout = os.dup(1)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 1)
        code = pytest.main([*OPTIONS, *(f"--ignore={name}" for name in ignored)], plugins=plugins)
        sys.stdout.flush()
        os.dup2(stdout, 1)
        if code != pytest.ExitCode.OK:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))


def report_line(mutant: Mutant, outcome: Outcome) -> str:
    """A result as a line of JSON."""
    where = {"id": mutant.id, "file": mutant.path, "line": mutant.line, "kind": mutant.kind}
    what = {
        "original": mutant.original,
        "mutated": mutant.mutated,
        "status": outcome.status,
        "test": outcome.test,
    }
    return json.dumps({**where, **what, "seconds": round(outcome.seconds, 2)}, ensure_ascii=False)
