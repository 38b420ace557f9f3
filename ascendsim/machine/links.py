"""Links that all cores share (L2 and DRAM, each way): max-min fair rates among the transfers that are active.

Rates change only when a transfer begins or ends and are computed once at the end of such a tick, from the set
of active transfers alone; so a result does not depend on the order in which transfers were announced, and n
equal transfers behave as one of multiplicity n. All arithmetic is on integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from simpy import Environment

from ascendsim.core.errors import SimulationError
from ascendsim.machine.clock import Clock
from ascendsim.machine.events import SHARES, Call
from ascendsim.soc.spec import SocSpec

WEIGHT = 1 << 16  # a flow's weight on a link of 1.0: it loads the link with as many bytes as it moves itself


class Link(IntEnum):
    """Index of a link in weights and capacities."""

    L2_READ = 0
    L2_WRITE = 1
    DRAM_READ = 2
    DRAM_WRITE = 3


class Requests(NamedTuple):
    """How long the requests of a transfer wait, which decides its rate.

    Attributes:
        rate: Of one core in work units per tick, if L2 answers all.
        cycles: That a request waits for L2, for idle memory, and for memory that all cores ask for all they
            can.
        missing: Share of requests that memory answers, in 1/WEIGHT.
        load: What one core adds to the load of memory, in 1/WEIGHT.
    """

    rate: int
    cycles: tuple[int, int, int]
    missing: int
    load: int

    def cap(self, load: int) -> int:
        """The rate of one core under such a load of memory, in 1/WEIGHT."""
        hit, idle, loaded = self.cycles
        wait = idle * WEIGHT + (loaded - idle) * min(load, WEIGHT)
        mean = (WEIGHT - self.missing) * hit * WEIGHT + self.missing * wait
        return max(1, self.rate * hit * WEIGHT * WEIGHT // max(mean, hit * WEIGHT * WEIGHT))


class FlowClass(NamedTuple):
    """What decides a transfer's rate.

    Attributes:
        cap: Largest rate of one core in work units per tick.
        weights: Load on each link per unit of work, in 1/WEIGHT.
        cores: Cores in lock-step that do the same transfer at the same time.
        requests: Where they decide; None = the cap holds whatever others do.
    """

    cap: int
    weights: tuple[int, int, int, int]
    cores: int
    requests: Requests | None = None


class Flow:
    """The one transfer that a pipe has on the links at a time; `done` is called at its end."""

    __slots__ = ("done", "kind", "rate", "remaining")

    def __init__(self) -> None:
        self.remaining = 0
        self.rate = 0
        self.kind = 0
        self.done: Callable[[], object] = nothing


def nothing() -> None:
    """What a flow that nobody waits for does at its end."""


def capacities(soc: SocSpec, clock: Clock) -> tuple[int, int, int, int]:
    """Work units per tick of each link of the chip.

    Raises:
        SimulationError: A bandwidth is zero.
    """
    per_core = soc.ai_cores * soc.frequency_mhz * 1e6
    rates = {
        "l2.read_bytes_per_cycle_per_core": soc.l2.read_bytes_per_cycle_per_core * per_core,
        "l2.write_bytes_per_cycle_per_core": soc.l2.write_bytes_per_cycle_per_core * per_core,
        "dram.read_gb_per_s": soc.dram.read_gb_per_s * 1e9,
        "dram.write_gb_per_s": soc.dram.write_gb_per_s * 1e9,
    }
    for key, rate in rates.items():
        if clock.rate(rate) < 1:
            raise SimulationError(f"{key} of {soc.name}", "must be above 0", rate, "no data could ever move")
    read, write, dram_read, dram_write = (clock.rate(rate) for rate in rates.values())
    return read, write, dram_read, dram_write


def shares(flows: Sequence[FlowClass], capacity: Sequence[int]) -> list[int]:
    """Max-min fair rates: all rates rise together; a flow stops at its cap or when a link that it uses is
    full. Memory answers requests the later the more of them all flows have under way.

    Args:
        flows: The active transfers.
        capacity: Work units per tick of each link.

    Returns:
        Work units per tick for each flow (of one core), at least 1.

    >>> shares([FlowClass(100, (0, 0, WEIGHT, 0), 1), FlowClass(10, (0, 0, WEIGHT, 0), 2)], (0, 0, 60, 0))
    [40, 10]
    """
    rates = [0] * len(flows)
    rising = list(range(len(flows)))
    memory = sum(flow.requests.load * flow.cores for flow in flows if flow.requests is not None)
    caps = [flow.cap if flow.requests is None else min(flow.cap, flow.requests.cap(memory)) for flow in flows]
    left = [link * WEIGHT for link in capacity]
    while rising:
        load = [sum(flows[i].weights[link] * flows[i].cores for i in rising) for link in range(len(capacity))]
        levels = [left[link] // load[link] if load[link] else None for link in range(len(capacity))]
        level = min([caps[i] for i in rising] + [at for at in levels if at is not None])
        full = [link for link, at in enumerate(levels) if at == level]
        stopped = [i for i in rising if caps[i] == level or any(flows[i].weights[link] for link in full)]
        for i in stopped:
            rates[i] = max(level, 1)
            for link, weight in enumerate(flows[i].weights):
                left[link] = max(0, left[link] - weight * flows[i].cores * level)
        rising = [i for i in rising if i not in stopped]
    return rates


class Links:
    """The shared links of a chip in a running simulation."""

    def __init__(self, env: Environment, soc: SocSpec, clock: Clock) -> None:
        self._env = env
        self._capacity = capacities(soc, clock)
        self._classes: dict[FlowClass, int] = {}
        self._by_number: list[FlowClass] = []
        self._active: list[Flow] = []
        self._settled = 0  # tick up to which `remaining` of the active flows is up to date
        self._version = 0
        self._computing = False
        self._known: dict[tuple[int, ...], list[int]] = {}

    def number_of(self, flow_class: FlowClass) -> int:
        """A small number that stands for a class of flows."""
        number = self._classes.setdefault(flow_class, len(self._by_number))
        if number == len(self._by_number):
            self._by_number.append(flow_class)
        return number

    def rates(self, kinds: tuple[int, ...]) -> list[int]:
        """Rates of transfers that are active together, by the numbers of their classes."""
        rates = self._known.get(kinds)
        if rates is None:
            rates = self._known[kinds] = shares([self._by_number[number] for number in kinds], self._capacity)
        return rates

    def enter(self, flow: Flow, at: int) -> None:
        """Puts a flow on the links at tick `at`. `remaining`, `kind` and `done` must be set."""
        delay = at - int(self._env.now)
        if delay > 0:
            Call(self._env, lambda: self._add(flow), delay)
        else:
            self._add(flow)

    def _add(self, flow: Flow) -> None:
        self.settle()
        flow.rate = 0
        self._active.append(flow)
        self._changed()

    def settle(self) -> None:
        """Brings `remaining` of the active flows up to date."""
        now = int(self._env.now)
        passed = now - self._settled
        if passed:
            for flow in self._active:
                flow.remaining -= flow.rate * passed
            self._settled = now

    def _changed(self) -> None:
        if not self._computing:
            self._computing = True
            Call(self._env, self._compute, 0, SHARES)

    def _compute(self) -> None:
        self._computing = False
        self._version += 1
        active = self._active
        for flow, rate in zip(active, self.rates(tuple([flow.kind for flow in active])), strict=True):
            flow.rate = rate
        version, soonest = self._version, min([-(-flow.remaining // flow.rate) for flow in active])
        Call(self._env, lambda: self._complete(version), soonest)

    def _complete(self, version: int) -> None:
        if version != self._version:
            return  # the set changed since; a newer completion is on its way
        self.settle()
        ended = [flow for flow in self._active if flow.remaining <= 0]
        self._active = [flow for flow in self._active if flow.remaining > 0]
        self._version += 1
        if self._active:
            self._changed()
        for flow in ended:
            flow.done()
