"""How many threads NumPy's products use while the values of a graph are computed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

CHOICE = "OPENBLAS_NUM_THREADS"


@cache
def libraries() -> Any:
    """What knows the threads of the OpenBLAS libraries in this process; None without threadpoolctl, which
    comes with the extra `torch`.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(internal_api="openblas")


@contextmanager
def products_on(threads: int) -> Iterator[None]:
    """Within it NumPy's products use at most so many threads, in all of the process; not where
    OPENBLAS_NUM_THREADS says how many the user wants, or where NumPy has another library.

    Threads wait for each other busily, and for the next product too: where others want the cores, or
    products are short, several take far more time than one.
    """
    # an empty choice is none: OpenBLAS takes all cores then
    known = None if os.environ.get(CHOICE) else libraries()
    if known is None or threads >= max((each["num_threads"] for each in known.info()), default=0):
        yield
        return
    with known.limit(limits=threads):
        yield
