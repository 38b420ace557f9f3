"""Transfers bound to the links: what the demand of an instruction becomes once it is known what L2 holds and
who else reads the same.

Work is counted in L2 bytes. Where reads and writes share one DRAM bus, writes load it in proportion to the
two rates, and a task that does both has the bus turned around again and again. An atomic write loads L2 both
ways, and DRAM delivers the old bytes that L2 lacks. Four effects are bound to a transfer's rate:

    misses          where requests hold their place in the engine until they are served, DRAM's latency lowers
                    the engine's rate, the more of them all cores have under way (`links`)
    the same lines  L2, or the DRAM channel behind it, serves the requests of several cores for one address
                    one after the other
    out of step     cores that are at different places of their loops ask of memory what they do on the
                    average (`mean_load`)
    first visits    a core that comes back to the same bytes waits for DRAM at first and for L2 after that,
                    one after the other
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from ascendsim.isa.cost_model import LinkDemand
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.l2 import ALL, NONE, Shares, part
from ascendsim.machine.links import WEIGHT, FlowClass, Link, Requests, capacities
from ascendsim.machine.mean_load import Loads, evened
from ascendsim.soc.spec import SocSpec

_MIXED = 4  # times the rarer direction's share of the bytes: 1 where the bus turns as often as it ever does


class Readers(NamedTuple):
    """Who else reads the bytes of a region.

    Attributes:
        shared: Whether several cores read them through L2 or past it.
        in_step: How many of these do the same at the same time: cores that run the same kind of block.
    """

    shared: bool
    in_step: Fraction


class Bound(NamedTuple):
    """A transfer bound to the links.

    Attributes:
        work: Work units.
        kind: What decides its rate.
        latency: Ticks after the last byte.
    """

    work: int
    kind: FlowClass
    latency: int


def _product(share: Fraction, ratio: Fraction) -> Fraction:
    """Their product; none or all of it, as mostly, is not worked out."""
    return share * ratio if share.denominator > 1 else ratio if share else NONE


def _weight(load: Fraction) -> int:
    """A load on a link as its weight there."""
    numerator, denominator = load.as_integer_ratio()
    return -(-numerator * WEIGHT // denominator)


@lru_cache(maxsize=256)  # of chips' figures
def _quotient(one: float, other: float) -> Fraction:
    """The quotient of two figures, exactly."""
    return Fraction(one) / Fraction(other)


class Binding:
    """Binds the transfers of one kind of block of a task.

    Args:
        shares: What share of each region goes to DRAM.
        cycle: Ticks of a cycle of the block's core.
        cores: Cores in lock-step that the transfer stands for.
        abreast: Cores that run the block side by side, whether they are simulated as one group or each by
            itself.
    """

    def __init__(
        self, shares: Shares, soc: SocSpec, clock: Clock, cycle: int, cores: int, abreast: int
    ) -> None:
        self.shares, self.soc, self.clock = shares, soc, clock
        self.cycle, self.cores, self.abreast = cycle, cores, abreast

    def out_of_step(
        self, transfers: Sequence[Bound], demands: Sequence[LinkDemand], moves: Sequence[int]
    ) -> list[Bound]:
        """All transfers of a block whose cores are at different places of their loops.

        Args:
            demands: Of each transfer.
            moves: How often the block makes it.
        """
        asking = [
            place
            for place, demand in enumerate(demands)
            if demand.waiting is not None and demand.waiting.loaded is not None
        ]
        if not asking:
            return list(transfers)
        found = list(transfers)
        loads = [Loads(found[place].work * moves[place], found[place].kind) for place in asking]
        kinds = evened(loads, self.abreast, capacities(self.soc, self.clock))
        for place, kind in zip(asking, kinds, strict=True):
            found[place] = found[place]._replace(kind=kind)
        return found

    def transfer(self, demand: LinkDemand, region: str, visits: int, readers: Readers) -> Bound:
        """A demand on a region as work, flow class and latency.

        Args:
            visits: How often the block comes back to the same bytes.
            readers: Who else reads the same bytes.
        """
        shares = self.shares
        miss = (shares.write_through if demand.write else shares.read_miss)[region] if demand.cached else ALL
        around_l2 = not demand.cached or (shares.bypass and miss == ALL)
        fetched: Fraction | int = demand.dram_bytes
        if not demand.write and demand.cached and region in shares.read_spread:
            fetched = min(fetched, part(demand.least_dram_bytes, shares.read_spread[region]))
        ratio = ALL
        if demand.l2_bytes and fetched != demand.l2_bytes:
            ratio = Fraction(fetched, demand.l2_bytes)
        old = shares.read_miss[region] if demand.atomic else NONE
        weights = self._weights(demand, miss, old, ratio, 0 if around_l2 else 1, readers)
        latency = demand.hit_latency + math.ceil(part(max(0, demand.miss_latency - demand.hit_latency), miss))
        if around_l2:
            latency = demand.miss_latency
        width = self._width(demand, miss, ratio, visits, readers)
        flow_class = FlowClass(max(1, width), weights, self.cores, self._requests(demand, float(miss)))
        return Bound(max(1, demand.l2_bytes * UNITS_PER_BYTE), flow_class, latency * self.cycle)

    def _weights(
        self,
        demand: LinkDemand,
        miss: Fraction,
        old: Fraction,
        ratio: Fraction,
        through_l2: int,
        readers: Readers,
    ) -> tuple[int, int, int, int]:
        """Load on each link per byte of L2; `old` is the share that DRAM delivers of what an atomic write
        finds there.
        """
        dram = self.soc.dram
        to_dram = _product(miss, ratio)
        read, write = (_product(old, ratio), to_dram) if demand.write else (to_dram, NONE)
        if demand.cached and self.shares.evicted:
            useful = Fraction(demand.bytes, demand.l2_bytes) if demand.l2_bytes else ALL
            write += self.shares.evicted * _product(ALL if demand.write else miss, useful)
        from_l2 = ALL if through_l2 and (demand.atomic or not demand.write) else NONE
        if from_l2 and readers.shared and not demand.write:
            from_l2 = self._same_lines_of_all
        if dram.half_duplex:
            if write:
                read += write * self._reads_per_write
            if read:
                read, write = read * self._turnaround, NONE
        to_l2 = through_l2 if demand.write else 0
        if self.soc.l2.half_duplex and to_l2:
            from_l2, to_l2 = from_l2 + self._l2_reads_per_write, 0
        return _weight(from_l2), to_l2 * WEIGHT, _weight(read), _weight(write)

    @cached_property
    def _l2_reads_per_write(self) -> Fraction:
        """Bytes that L2 delivers in the time in which it takes a byte."""
        l2 = self.soc.l2
        return _quotient(l2.read_bytes_per_cycle_per_core, l2.write_bytes_per_cycle_per_core)

    @cached_property
    def _reads_per_write(self) -> Fraction:
        """Bytes that DRAM reads in the time of a byte written."""
        return _quotient(self.soc.dram.read_gb_per_s, self.soc.dram.write_gb_per_s)

    @cached_property
    def _turnaround(self) -> Fraction:
        """How much longer the bus is busy because the task's reads and writes take turns on it.

        Whole where either is a quarter of the bytes at least; controllers collect writes, so that fewer of
        them cost proportionally less.
        """
        written, moved = self.shares.written.as_integer_ratio()
        rarer = _MIXED * min(written, moved - written)
        longest = _quotient(1, self.soc.dram.mixed_efficiency)
        if rarer >= moved:
            return longest
        return 1 + (longest - 1) * Fraction(rarer, moved) if rarer else ALL

    def _width(
        self, demand: LinkDemand, miss: Fraction, ratio: Fraction, visits: int, readers: Readers
    ) -> int:
        """The largest rate of one core, work units per tick."""
        port = demand.port_bytes_per_cycle
        if demand.request_bytes_per_cycle is not None:  # those that miss wait longer for their answers
            waiting = demand.waiting
            loaded = waiting is not None and waiting.loaded is not None  # which others decide: `links`
            slowdown = 1.0 if waiting is None or loaded else waiting.slowdown(float(miss), 0)
            port = min(port, demand.request_bytes_per_cycle / slowdown, self._in_turn(demand, readers))
        width = self.clock.width(port, self.cycle)
        if demand.write or visits == 1 or not 0 < miss * visits <= 1:
            return width
        return min(width, self._rate_over_visits(visits, miss * ratio * visits))

    def _requests(self, demand: LinkDemand, miss: float) -> Requests | None:
        """What the links need to know where memory takes the longer the more it is asked."""
        waiting = demand.waiting
        if waiting is None or waiting.loaded is None or demand.request_bytes_per_cycle is None or not miss:
            return None
        return Requests(
            self.clock.width(demand.request_bytes_per_cycle, self.cycle),
            (waiting.hit, waiting.idle, waiting.loaded),
            round(waiting.share(miss) * WEIGHT),
            round(waiting.under_way(miss) * WEIGHT / max(1, self.soc.ai_cores)),
        )

    def _rate_over_visits(self, visits: int, first: Fraction) -> int:
        """Rate of a core that reads the same bytes `visits` times: from DRAM at first, from L2 after that,
        one after the other.

        Cores in lock-step do so together, so neither link works while the other one is the bottleneck.

        Args:
            first: DRAM bytes for each L2 byte of the first visit.
        """
        capacity = capacities(self.soc, self.clock)
        from_l2 = Fraction(self.abreast, capacity[Link.L2_READ])
        from_dram = first * Fraction(self.abreast, capacity[Link.DRAM_READ])
        return int(visits / (max(from_l2, from_dram) + (visits - 1) * from_l2))

    @cached_property
    def _same_lines_of_all(self) -> Fraction:
        """How much longer L2 takes over lines that several cores read."""
        limit = self.soc.l2.same_line_bytes_per_cycle
        if limit is None:
            return Fraction(1)
        whole = Fraction(capacities(self.soc, self.clock)[Link.L2_READ])
        return max(Fraction(1), whole / (Fraction(limit) * UNITS_PER_BYTE / self.clock.ai_ticks))

    def _in_turn(self, demand: LinkDemand, readers: Readers) -> float:
        """Bytes a cycle of one core whose requests take turns with those of others for the same lines."""
        limit = self.soc.l2.same_line_requests_per_cycle
        if limit is None or demand.write or not demand.requests or readers.in_step <= 1:
            return math.inf
        return demand.l2_bytes / demand.requests * limit / float(readers.in_step)
