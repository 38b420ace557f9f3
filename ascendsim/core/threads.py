"""How many threads the library behind NumPy's products (OpenBLAS) uses."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module

_PREFIXES = ("scipy_openblas", "openblas")  # as NumPy's wheels call it, and as systems do
_SUFFIXES = ("64_", "")  # with indices of 64 and of 32 bits
CHOICE = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Library:
    """OpenBLAS.

    Attributes:
        tell: Gives the number of its threads.
        choose: Sets it.
    """

    tell: Callable[[], int]
    choose: Callable[[int], object]


@cache
def library() -> Library | None:
    """The one that NumPy has; None if it has another."""
    try:
        products = import_module("numpy._core._multiarray_umath")
        loaded = ctypes.CDLL(products.__file__)  # finds what it was linked to as well
    except (ImportError, OSError):
        return None
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            tell = getattr(loaded, f"{prefix}_get_num_threads{suffix}", None)
            choose = getattr(loaded, f"{prefix}_set_num_threads{suffix}", None)
            if tell is not None and choose is not None:
                return Library(tell, choose)
    return None


@contextmanager
def products_on(threads: int) -> Iterator[None]:
    """Within it NumPy's products use at most so many threads, in all of the process; not where
    OPENBLAS_NUM_THREADS says how many the user wants, or where NumPy has another library.

    Threads wait for each other busily, and for the next product too: where others want the cores, or
    products are short, several take far more time than one.
    """
    known = None if os.environ.get(CHOICE) else library()  # empty: OpenBLAS takes all cores then
    before = 0 if known is None else known.tell()
    if known is None or threads >= before:
        yield
        return
    known.choose(threads)
    try:
        yield
    finally:
        known.choose(before)
