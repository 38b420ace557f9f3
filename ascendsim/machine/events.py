"""SimPy events with the priorities that order what happens within one tick, and who goes on at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from simpy import Environment

# Within a tick: completions, wake-ups and arrivals (SimPy's own priorities 0 and 1) run until nothing
# changes, then free cores get new blocks, whose first actions run again at priority 0 and 1, then the shares
# of the links are computed, once. After that nothing more happens in the tick: the moment at which the
# machine's state is looked at.
BEGIN = 0
DISPATCH = 5
SHARES = 9
AFTER_ALL = 10


class Call:
    """Calls `action` after `delay` ticks, in the phase of that tick that `priority` names.

    All of an event that SimPy asks for when its time has come; a whole `Event` takes twice as long to make.
    """

    __slots__ = ("callbacks",)
    _ok = True

    def __init__(
        self, env: Environment, action: Callable[[], None], delay: int = 0, priority: int = 1
    ) -> None:
        self.callbacks = [lambda _event: action()]
        env.schedule(self, priority, delay)  # type: ignore[arg-type]


class Wakes:
    """Pipes that go on since what they waited for is there, one after another, before anything else happens.

    An event of SimPy for each would cost three times as much; what they do does not depend on their order.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ready: deque[Callable[[], object]] = deque()
        self._going = False

    def begin(self, pipes: Iterable[Callable[[], object]]) -> None:
        """Lets pipes begin in this tick, when all that is dispatched in it is there."""
        waiting = tuple(pipes)
        Call(self._env, lambda: self._all(waiting), 0, BEGIN)

    def _all(self, pipes: Iterable[Callable[[], object]]) -> None:
        self._ready.extend(pipes)
        self._go()

    def wake(self, pipe: Callable[[], object]) -> None:
        """Lets a pipe go on: now, or if another one is at work, when that one waits."""
        self._ready.append(pipe)
        if not self._going:
            self._go()

    def _go(self) -> None:
        ready = self._ready
        self._going = True
        try:
            while ready:
                ready.popleft()()
        finally:
            self._going = False
