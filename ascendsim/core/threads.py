"""How many threads NumPy's and SciPy's products take while values are computed.

A library for products (BLAS) adds up in another order on another number of threads, so results would change
in their last bits from machine to machine, and with variables such as OPENBLAS_NUM_THREADS. So it is one
thread, unless ASCENDSIM_THREADS says how many: results are equal to the byte wherever that number is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

from ascendsim.core.errors import InputError

CHOICE = "ASCENDSIM_THREADS"
MOST = 1024
_lock = threading.Lock()
_inside = 0  # blocks that are under way in all threads: the number belongs to the process
_limits: list[Any] = []


def chosen() -> int:
    """The number of threads that the user chose, 1 if none.

    Raises:
        InputError: If what was chosen is no such number.
    """
    text = os.environ.get(CHOICE) or "1"
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST:
        remedy = f"unset it, or set it to {os.cpu_count() or 1}"
        rule = f"must be from 1 to {MOST}"
        raise InputError(f"environment variable {CHOICE}", rule, repr(text)[:40], remedy)
    return int(text)


def _take_control() -> None:
    """Newer versions of threadpoolctl let one thread of the process alone set the number."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    if openblas is not None and hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@contextmanager
def fixed_threads() -> Iterator[None]:
    """Within it, or within a function that it decorates, products run on the chosen number of threads in all
    of the process; afterwards on as many as before.
    """
    global _inside
    with _lock:
        count = chosen()
        _take_control()
        # in inner blocks, too: a library that was loaded since is then known
        _limits.append(threadpoolctl.threadpool_limits(count, user_api="blas"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            _take_control()
            while _limits and not _inside:
                _limits.pop().restore_original_limits()
