"""The machine's time, from which whole periods can be left out.

SimPy's clock counts the ticks that are simulated. `Timeline.now` adds those that were skipped because nothing
new would have happened in them. What goes on inside running cores and on the links is kept in SimPy's ticks
and need not be touched by a skip: all of it moves along. What stands at a fixed tick of the machine (starts
of tasks, ends of blocks, AI CPU work) is registered here and comes nearer by what is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from simpy import Environment

from ascendsim.machine.events import Call, Wakes


class Timeline:
    """Machine ticks on top of a SimPy environment.

    Attributes:
        skipped: Ticks of the machine that SimPy's clock has not seen.
        wakes: Who goes on in this tick.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.skipped = 0
        self.wakes = Wakes(env)
        self._appointments: dict[int, tuple[int, Callable[[], None]]] = {}
        self._made = 0

    @property
    def now(self) -> int:
        """The tick of the machine."""
        return int(self.env.now) + self.skipped

    @property
    def next_appointment(self) -> int | None:
        """The earliest tick at which something registered will happen."""
        return min((tick for tick, _ in self._appointments.values()), default=None)

    def at(self, tick: int, action: Callable[[], None]) -> None:
        """Calls `action` at a tick of the machine."""
        self._made += 1
        self._appointments[self._made] = tick, action
        self._arm(self._made)

    def skip(self, ticks: int) -> None:
        """Moves the machine's time on without SimPy's; no appointment may lie in between."""
        self.skipped += ticks
        for number in self._appointments:
            self._arm(number)  # comes before the call made earlier, which then finds nothing to do

    def _arm(self, number: int) -> None:
        tick, _ = self._appointments[number]
        Call(self.env, partial(self._keep, number), tick - self.now)

    def _keep(self, number: int) -> None:
        appointment = self._appointments.pop(number, None)
        if appointment is not None:
            appointment[1]()
