"""Keeps Python's collector of cyclic garbage from running while much is built and little is thrown away.

Compiling and simulating make hundreds of thousands of small objects that stay. The collector walks all of
them each time their number has grown by a quarter, which costs a fifth to a third of the time and frees next
to nothing; reference counts free the rest as ever. What the pause leaves behind is collected by the first
collection after it.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pauses the collector of cyclic garbage; inside of another pause, or where the user has switched it off,
    nothing changes.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def without_collection(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function with the collector paused while it runs."""

    @wraps(function)
    def paused(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with paused_collection():
            return function(*args, **kwargs)

    return paused


def no_collection_at_exit() -> None:
    """Lets this process end without the collections that Python runs at last: they walk all that was built
    once more, which takes a fifth of a short command's time. For processes that are ours from start to end.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
