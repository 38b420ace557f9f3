"""Interrupts that are not lost.

Python raises KeyboardInterrupt in whatever the main thread does at that moment. Finalizers and callbacks of
weak references cannot pass it on: Python prints that it is ignored, and the work goes on to its end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_heard() -> Iterator[Callable[[], None]]:
    """Gives what raises KeyboardInterrupt if one has come since the block began; to be called now and then.

    A first interrupt is raised where it comes, as without the block. Threads other than the main one, and
    processes that ignore interrupts, get none.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    come = False  # no threading.Event: a second interrupt while it is set would wait for its lock for ever

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal come
        come = True
        before(number, frame)

    def check() -> None:
        if come:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
