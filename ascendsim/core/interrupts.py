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
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], Any]


class Terminated(KeyboardInterrupt):
    """SIGTERM came: what ends a program's work when Ctrl-C comes ends it then, too."""


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code of a program that was stopped: 128 and the signal's number, as shells have it."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def raise_termination() -> None:
    """From here on SIGTERM is raised as `Terminated`. A handler that the caller has stays, and so does a
    signal that is ignored.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


@contextmanager
def interrupts_heard() -> Iterator[Callable[[], None]]:
    """Gives what raises KeyboardInterrupt (`Terminated` where SIGTERM is raised so) if one has come since the
    block began; to be called now and then.

    A first interrupt is raised where it comes, as without the block. Threads other than the main one, and
    processes that ignore interrupts or leave them to the system, get none.
    """
    handlers: dict[int, Handler] = {}
    for number in SIGNALS:
        before = signal.getsignal(number)
        if callable(before):
            handlers[number] = before
    if threading.current_thread() is not threading.main_thread() or not handlers:
        yield lambda: None
        return
    come: int = 0  # no threading.Event: a second interrupt while it is set would wait for its lock for ever

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal come
        come = number
        handlers[number](number, frame)

    def check() -> None:
        if come:
            raise Terminated if come == signal.SIGTERM else KeyboardInterrupt

    for caught in handlers:
        signal.signal(caught, note)
    try:
        yield check
    finally:
        for caught, handler in handlers.items():
            signal.signal(caught, handler)
