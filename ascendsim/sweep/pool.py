"""Processes of one's own that work on points: started afresh, never forked, and gone when their parent is."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any

from ascendsim.core.collection import no_collection_at_exit
from ascendsim.sweep.work import watch_parent


class _Worker(SpawnProcess):
    """A process that does not run the user's script again: nothing that it works on comes from there, and a
    script without `if __name__ == "__main__"` would start its sweep anew in every worker.
    """

    def start(self) -> None:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script


class _Context(SpawnContext):
    """Starts such processes, and knows those that it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Worker] = []

    def Process(self, *args: Any, **more: Any) -> _Worker:  # type: ignore[override]  # noqa: N802
        self.started.append(_Worker(*args, **more))
        return self.started[-1]


def begin_sweeping(parent: int) -> None:
    """Sets up a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent decides what follows
    watch_parent(parent)
    no_collection_at_exit()


class Processes:
    """A pool of worker processes that can be ended at once.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._context = _Context()
        self.executor: Executor = ProcessPoolExecutor(
            count, mp_context=self._context, initializer=begin_sweeping, initargs=(os.getpid(),)
        )

    def close(self, at_once: bool = False) -> None:
        """Ends the workers, when they are done or `at_once`."""
        if at_once:
            for process in self._context.started:
                if process.is_alive():
                    process.kill()
        self.executor.shutdown(wait=True, cancel_futures=True)


def usable_cpus() -> int:
    """Processors that this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
