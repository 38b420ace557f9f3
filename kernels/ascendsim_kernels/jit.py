"""The one way in which kernels are compiled: `@kernel`, cached on disk under a key made of all kernel
sources.

Numba keys its cache on the file that holds a function, so an edited helper in another file would leave a
stale result behind. Here the cache folder is named after a hash of every source file of the package; any edit
starts a new one, and environments that have the same sources and versions share one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import config, event

from ascendsim_kernels.checked_cache import CheckedCache
from ascendsim_kernels.interrupts import interrupts

Function = TypeVar("Function", bound=Callable[..., Any])
_LOG = logging.getLogger("ascendsim")


class _Compiling(event.Listener):  # type: ignore[misc] # numba has no types
    """Hears when the compiler begins and ends."""

    def on_start(self, event: event.Event) -> None:
        interrupts.begin()

    def on_end(self, event: event.Event) -> None:
        interrupts.end()


event.register("numba:compiler_lock", _Compiling())


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None if no folder can be written, so that every process compiles anew.

    `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/ascendsim`, else `~/.cache/ascendsim`; where that cannot be
    written (a container without a home), a folder of the user's own among the temporary files.
    """
    versions = (numba.__version__, llvmlite.__version__, np.__version__)  # environments share the folder
    digest = hashlib.sha256(" ".join(versions).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + source.read_bytes())
    key = digest.hexdigest()[:16]
    base = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ascendsim"
    )
    if not (Path(base) / key).exists():
        _LOG.warning("kernels are compiled when they are first used on this machine: about 15 s, once")
    if _is_writable(Path(base) / key):
        return Path(base) / key
    own = Path(tempfile.gettempdir()) / f"ascendsim-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    if _is_private(own) and _is_writable(own / key):
        _LOG.warning("compiled kernels go to %s: %s cannot be written", own, base)
        return own / key
    _LOG.warning("kernels are compiled in every run: neither %s nor %s can be written", base, own)
    return None


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    """Whether a folder among everybody's files belongs to this user alone: what is in it will be executed."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and mine and not status.st_mode & 0o077


def kernel(function: Function) -> Function:
    """Compiles a function of arrays and numbers on first call: nopython, cached, without the interpreter
    lock.

    Divisions by zero follow IEEE (no Python exception), as on the chip.
    """
    return _cached(function)


def lean(function: Function) -> Function:
    """As `kernel`, for small functions that hand many arrays on to one another and make none: these go
    without the count of references, which every call would move up and down, and take a sixth of the time.
    """
    return _cached(function, _nrt=False)


def _cached(function: Function, part: str = "", **options: bool) -> Function:
    folder, previous = cache_folder(), config.CACHE_DIR
    if folder is not None:
        folder /= part
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if folder is not None:
        config.CACHE_DIR = str(folder)  # read when a cache is made; other numba users keep their own
        try:
            compiled._cache = CheckedCache(function)  # as `cache=True` does with numba's own
        except (OSError, RuntimeError):  # no place for it: this process alone has what it compiles
            pass
        finally:
            config.CACHE_DIR = previous
    return cast(Function, compiled)


def compiled_with_callees(function: Function, package: str, arguments: Sequence[object]) -> Function:
    """Compiles a function of numbers, strings and arrays, and all functions of a package that it calls, which
    stay as they are for the interpreter. Cached under a key made of all their sources too.

    Args:
        function: To be compiled.
        package: Name of the package.
        arguments: Of a call. The compiled form is for others of the same types, at which it does not look:
            for named tuples that would take longer than many a call.
    """
    found: dict[FunctionType, dict[str, FunctionType]] = {}

    def collect(one: FunctionType) -> None:
        if one in found:
            return
        named = {name: one.__globals__.get(name) for name in one.__code__.co_names}
        found[one] = {
            name: value
            for name, value in named.items()
            if isinstance(value, FunctionType) and value.__module__.split(".")[0] == package
        }
        for value in found[one].values():
            collect(value)

    assert isinstance(function, FunctionType)
    collect(function)
    files = sorted({one.__code__.co_filename for one in found})
    digest = hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:16]
    made: dict[FunctionType, Any] = {}

    def compiled(one: FunctionType) -> Any:
        if one not in made:
            scope = one.__globals__ | {name: compiled(value) for name, value in found[one].items()}
            copy = FunctionType(one.__code__, scope, one.__name__, one.__defaults__)
            copy.__module__, copy.__qualname__ = one.__module__, one.__qualname__
            made[one] = _cached(copy, digest)
        return made[one]

    result: Function = compiled(function).compile(tuple(map(numba.typeof, arguments)))
    return result


def inlined(function: Function) -> Function:
    """Compiles a small function of numbers into every kernel that calls it, so that the caller's loop can
    become vector code.
    """
    compiled: Function = numba.njit(forceinline=True, nogil=True, error_model="numpy")(function)
    return compiled
