"""The one way in which kernels are compiled: `@kernel`, cached on disk under a key made of all kernel
sources.

Numba keys its cache on the file that holds a function, so an edited helper in another file would leave a
stale result behind. Here the cache folder is named after a hash of every source file of the package; any edit
starts a new one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/ascendsim`, else
    `~/.cache/ascendsim`.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + source.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ascendsim"
    )
    return Path(base) / digest.hexdigest()[:16]


def kernel(function: Function) -> Function:
    """Compiles a function of arrays and numbers on first call: nopython, cached, without the interpreter
    lock.

    Divisions by zero follow IEEE (no Python exception), as on the chip.
    """
    return _compile(function, parallel=False)


def parallel_kernel(function: Function) -> Function:
    """As `kernel`, for functions that split their outermost loop with `numba.prange`."""
    return _compile(function, parallel=True)


def inlined(function: Function) -> Function:
    """Compiles a small function of numbers into every kernel that calls it, so that the caller's loop can
    become vector code.
    """
    compiled: Function = numba.njit(forceinline=True, nogil=True, error_model="numpy")(function)
    return compiled


def _compile(function: Function, parallel: bool) -> Function:
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())  # read when the decorator runs; other numba users keep their own
    try:
        compiled: Function = numba.njit(cache=True, nogil=True, error_model="numpy", parallel=parallel)(
            function
        )
    finally:
        config.CACHE_DIR = previous
    return compiled
