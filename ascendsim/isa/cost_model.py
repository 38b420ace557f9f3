"""The three parts that every instruction cost keeps apart: how long the unit is busy, when the result may be
read, what links carry.

Units are cycles of the clock of the core that executes the instruction. Docs: docs/how_time_is_modelled.md;
figures come from `SocSpec`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascendsim.core.errors import CompileError
from ascendsim.core.records import quickly_made
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long the requests of a read wait, in cycles.

    Attributes:
        hit: If L2 answers.
        idle: If memory answers that nobody else asks.
        loaded: If all requests of all cores that can have so many are for memory; None = as long as idle.
        lines: Requests for each line that they bring, at least 1: of those only the first waits for memory.
    """

    hit: int
    idle: int
    loaded: int | None = None
    lines: float = 1.0

    def share(self, miss: float) -> float:
        """Of requests that memory answers, if L2 lacks such a share of the bytes."""
        return miss / self.lines

    def under_way(self, miss: float) -> float:
        """Share of the requests that wait at a time that are for memory, which takes longest over them."""
        return waiting_share(self.hit, self.most, self.share(miss))

    def slowdown(self, miss: float, cores: float) -> float:
        """How much longer requests wait on the average than for L2.

        Args:
            miss: Share of the bytes that L2 lacks.
            cores: Share of the cores that read so.
        """
        return slowdown(self.hit, self.idle, self.most, self.share(miss), cores)

    @property
    def most(self) -> int:
        """If all requests are for memory."""
        return self.idle if self.loaded is None else self.loaded


def waiting_share(hit: int, loaded: int, share: float) -> float:
    """`Waiting.under_way` of plain numbers, for a share of requests that memory answers."""
    slow = share * loaded
    return slow / (slow + (1 - share) * hit) if slow else 0.0


def slowdown(hit: int, idle: int, loaded: int, share: float, cores: float) -> float:
    """`Waiting.slowdown` of plain numbers."""
    more = (loaded - idle) * cores * waiting_share(hit, loaded, share)
    return max(1.0, 1 + share * ((idle + more) / hit - 1))


@quickly_made
@dataclass(frozen=True, slots=True)
class LinkDemand:
    """What a transfer asks of the links that cores share (L2 and DRAM).

    Attributes:
        region: Global memory region that it reads or writes.
        write: Towards global memory.
        bytes: Useful bytes.
        cached: Whether it goes through L2.
        atomic: Whether L2 reads the old bytes and writes what becomes of them and the new ones.
        l2_bytes: Bytes of L2 link time that it costs: bursts rounded up to whole requests, inflated by
            misalignment.
        dram_bytes: The same at DRAM, in bursts of `dram.transaction_bytes`, if every byte missed L2.
        least_dram_bytes: The same if L2 keeps the rest of every transaction until it is asked for.
        port_bytes_per_cycle: Width of the core's own path in bytes of L2: the path carries blocks of 32 B,
            and a burst takes a least time.
        request_bytes_per_cycle: What the engine's outstanding requests allow if L2 holds the data, in bytes
            of L2; None = all.
        waiting: How long requests wait for their answers; None = that does not decide.
        requests: How many there are, 0 where they do not decide.
        hit_latency: Cycles until the result is visible after the last byte passed, if L2 holds the data.
        miss_latency: The same if DRAM has to deliver it.
    """

    region: str
    write: bool
    bytes: int
    l2_bytes: int
    dram_bytes: int
    least_dram_bytes: int
    port_bytes_per_cycle: float
    hit_latency: int
    miss_latency: int
    request_bytes_per_cycle: float | None = None
    waiting: Waiting | None = None
    requests: int = 0
    cached: bool = True
    atomic: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class Cost:
    """What an instruction costs on its pipe.

    Attributes:
        occupancy: Cycles for which the pipe is busy; with a link demand, those before the transfer itself.
        latency: Further cycles until a flag set after it may fire; they do not hold the pipe.
        issues: Machine instructions that the scalar unit issues for it.
        head: Cycles to fill the unit before the pipe gets busy; hidden behind the instruction before if that
            is still running.
        bytes: Bytes moved, 0 if none.
        link: Demand on shared links, if it touches global memory.
    """

    occupancy: int
    latency: int = 0
    issues: int = 1
    head: int = 0
    bytes: int = 0
    link: LinkDemand | None = None


def start_cycles(soc: SocSpec, megahertz: int) -> float:
    """Cycles that an instruction spends on starting inside its unit (Ascend310: 40 ns, elsewhere 0)."""
    return soc.issue.instruction_start_ns * megahertz / 1000


def with_start(cycles: float, start: float, calls: int = 1) -> tuple[int, int]:
    """Occupancy and head of `calls` equal instructions of `cycles` each, whose start is a stage of its own
    ahead of the work.

    One instruction alone takes start + cycles; back to back each takes the longer of the two, since the next
    one starts while this one works. Measured on Ascend310: long moves and products run at the full width of
    their path although each takes 40 ns to start.

    >>> with_start(100, 28), with_start(10, 28), with_start(10, 28, 3)
    ((100, 28), (28, 10), (84, 10))
    """
    return whole_cycles(calls * max(cycles, start)), whole_cycles(min(cycles, start))


def whole_cycles(cycles: float) -> int:
    """Rounds up to whole cycles, forgiving the last bits of floating point.

    >>> whole_cycles(3 * 0.1 * 10), whole_cycles(3.01)
    (3, 4)
    """
    return math.ceil(round(cycles, 6))


def path_width(width: float | None, what: str, soc: SocSpec) -> float:
    """Returns the width of a path, or raises CompileError if the chip has no such path."""
    if not width:
        raise CompileError(
            f"path {what}",
            f"does not exist on {soc.name}",
            remedy="route the data through a buffer that the chip connects",
        )
    return width
