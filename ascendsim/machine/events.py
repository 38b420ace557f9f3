"""SimPy events with the priorities that order what happens within one tick."""

from __future__ import annotations

from collections.abc import Callable

from simpy import Environment
from simpy.events import Event

# Within a tick: completions, wake-ups and arrivals (SimPy's own priorities 0 and 1) run until nothing
# changes, then free cores get new blocks, whose first actions run again at priority 0 and 1, then the shares
# of the links are computed, once. After that nothing more happens in the tick: the moment at which the
# machine's state is looked at.
DISPATCH = 5
SHARES = 9
AFTER_ALL = 10


class Call(Event):
    """Calls `action` after `delay` ticks, in the phase of that tick that `priority` names."""

    def __init__(
        self, env: Environment, action: Callable[[], None], delay: int = 0, priority: int = 1
    ) -> None:
        super().__init__(env)
        self.callbacks.append(lambda _event: action())
        self._ok = True
        self._value = None
        env.schedule(self, priority=priority, delay=delay)  # type: ignore[arg-type]
