"""A pytest plugin that records which lines every test runs; `scripts/mutate --map` loads it into each worker
of pytest-xdist.

Contexts of coverage.py are node ids of tests, or `fixture NAME` for what fixtures of wider scope than a test
run; the empty context is what runs when the project's modules are imported. What test files run while they
are collected belongs to no test: graphs that they build then are made by code as it is. Results of functions
that are cached are forgotten before each test, so that each test that needs one is seen to run it; but not
what collecting the tests has left in a cache, which is there in the forks of `mutation.runner` as well.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import pkgutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

FOLDER = "MUTATION_MAP_FOLDER"
PACKAGES = ("ascendsim", "ascendsim_kernels")
_OWN = (*PACKAGES, "tests", "test_")
COLLECTION = "(collection)"  # a context that is no test


def import_all() -> None:
    """Imports every module of the project, so that no test is the one that happens to import it."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def pytest_configure(config: pytest.Config) -> None:
    """Starts to measure, in workers only."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and FOLDER in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[FOLDER]), worker, config.rootpath))


class Recorder:
    """Measures one worker.

    Attributes:
        seconds: Processor time of each test with its fixtures, under measurement: it does not depend on what
            else the machine does.
        users: Tests by the context of the fixture that they use.
    """

    def __init__(self, folder: Path, worker: str, root: Path) -> None:
        self.path = folder / f"{worker}.json"
        sources = [str(root / "ascendsim"), str(root / "kernels" / "ascendsim_kernels")]
        self.coverage = coverage.Coverage(
            data_file=str(folder / f"{worker}.coverage"), source=sources, config_file=False
        )
        self.seconds: dict[str, float] = {}
        self.users: dict[str, list[str]] = {}
        self.caches: list[Any] = []
        self.context = ""
        self.coverage.start()
        import_all()
        self._switch(COLLECTION)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        gc.unfreeze()  # what is frozen is in no list of objects
        found = (item for item in gc.get_objects() if type(item) is functools._lru_cache_wrapper)
        own = [item for item in found if (getattr(item, "__module__", "") or "").startswith(_OWN)]
        self.caches = [item for item in own if not item.cache_info().currsize]
        gc.freeze()
        for item in session.items:
            info = getattr(item, "_fixtureinfo", None)
            for definitions in info.name2fixturedefs.values() if info else ():
                if definitions and definitions[-1].scope != "function":
                    self.users.setdefault(_context(definitions[-1]), []).append(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        for cached in self.caches:
            cached.cache_clear()
        self._switch(item.nodeid)
        start = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - start
            self._switch(COLLECTION)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        outer = self.context
        if fixturedef.scope != "function":
            self._switch(_context(fixturedef))
        try:
            return (yield)
        finally:
            self._switch(outer)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        self.path.write_text(json.dumps({"seconds": self.seconds, "users": self.users}))

    def _switch(self, context: str) -> None:
        if context != self.context:
            self.coverage.switch_context(context)
            self.context = context


def _context(definition: Any) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"
