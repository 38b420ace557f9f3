"""Interrupts that come while a kernel is compiled.

Raised in the middle of a compilation they would end as errors of the compiler, or leave it in a state that
crashes the process. So they are held back until it is done. That can take a minute, of which the most is
spent in one call that hears nothing; a program that has nothing to lose then says so (`Interrupts.leave`) and
ends at once. Nothing but the compiler's own cache writes a file meanwhile, and what it writes is finished.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAVES = "save_overload"  # numba's function that writes a compiled kernel to the cache
_LOOK_S = 0.001  # between two looks at whether that is done


class Interrupts:
    """Holds interrupts back from `begin` to `end`, which may be nested. Threads other than the main one get
    no interrupts, and handlers that are no functions (ignored ones, the system's own) stay as they are.

    Attributes:
        leave: Ends the process at once, given the signal's number; None = interrupts wait.
    """

    def __init__(self) -> None:
        self.leave: Callable[[int], None] | None = None
        self._depth = 0
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._come: int | None = None
        self._pipe: tuple[int, int] | None = None
        self._woken = -1  # file descriptor that signals woke before

    def begin(self) -> None:
        """From now on interrupts are kept."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._come = None
        try:
            for number in SIGNALS:
                before = signal.getsignal(number)
                if callable(before):
                    self._before[number] = before
                    signal.signal(number, self._keep)
            if self.leave is not None and self._before:
                self._woken = signal.set_wakeup_fd(self._watched(), warn_on_full_buffer=False)
        except BaseException:  # one came before its turn
            self._give_back()
            raise

    def end(self) -> None:
        """Calls the handler of one that came."""
        if threading.current_thread() is not threading.main_thread() or not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            handlers = dict(self._before)
            self._give_back()
            if self._come is not None:
                handlers[self._come](self._come, None)

    def _give_back(self) -> None:
        self._depth = 0
        if self._pipe is not None:
            signal.set_wakeup_fd(self._woken)
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._come = number

    def _watched(self) -> int:
        """What signals write to as soon as they come, however busy the main thread is."""
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._watch, name="interrupts", daemon=True).start()
        return self._pipe[1]

    def _watch(self) -> None:
        assert self._pipe is not None
        while number := os.read(self._pipe[0], 1):
            while self._depth and _saving():
                time.sleep(_LOOK_S)
            if self._depth and self.leave is not None and number[0] in self._before:
                self.leave(number[0])


def _saving() -> bool:
    """Whether the main thread writes to the cache."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == _SAVES:
            return True
        frame = frame.f_back
    return False


interrupts = Interrupts()
