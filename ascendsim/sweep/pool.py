"""Processes of one's own that work on points: started afresh, never forked, and gone when their parent is."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any

from ascendsim.sweep.work import watch_parent


class _Worker(SpawnProcess):
    """A process that does not run the user's script again: nothing that it works on comes from there, and a
    script without `if __name__ == "__main__"` would start its sweep anew in every worker.
    """

    started: list[_Worker] = []  # noqa: RUF012 - all of this process, so that they can be ended

    def start(self) -> None:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script
        _Worker.started.append(self)


class _Context(SpawnContext):
    Process = _Worker


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent decides what follows
    watch_parent(parent)


class Processes:
    """A pool of worker processes that can be ended at once.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._known = len(_Worker.started)
        self.executor: Executor = ProcessPoolExecutor(
            count, mp_context=_Context(), initializer=_begin, initargs=(os.getpid(),)
        )

    def close(self, at_once: bool = False) -> None:
        """Ends the workers, when they are done or `at_once`."""
        mine = _Worker.started[self._known :]
        del _Worker.started[self._known :]
        if at_once:
            for process in mine:
                process.kill()
        self.executor.shutdown(wait=True, cancel_futures=True)


def usable_cpus() -> int:
    """Processors that this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
