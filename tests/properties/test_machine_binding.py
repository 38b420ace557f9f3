"""Transfers bound to the links: the bytes that each of them puts on L2 and DRAM, and the time that it takes
by itself, added up plainly."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from ascendsim.isa.cost_model import LinkDemand, Waiting
from ascendsim.machine.binding import Binding, Readers
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.l2 import Shares
from ascendsim.machine.links import WEIGHT, Link
from ascendsim.soc.spec import SocSpec
from tests.support.toy_soc import toy

ALONE = Readers(False, Fraction(1))


def random_demand(random: Random) -> LinkDemand:
    size = random.choice((32, 100, 4096))
    l2_bytes = size + random.choice((0, 28, 400))
    dram_bytes = l2_bytes + random.choice((0, 512))
    return LinkDemand(
        region="x",
        write=random.random() < 0.4,
        bytes=size,
        l2_bytes=l2_bytes,
        dram_bytes=dram_bytes,
        least_dram_bytes=random.choice((size, l2_bytes)),
        port_bytes_per_cycle=random.choice((16.0, 64.0, 200.0)),
        hit_latency=random.choice((0, 100)),
        miss_latency=random.choice((50, 300)),
        request_bytes_per_cycle=random.choice((None, 24.0)),
        waiting=random.choice((None, Waiting(100, 300))),
        requests=random.choice((0, 1, 8)),
        cached=random.random() < 0.8,
    )


def random_chip(random: Random) -> SocSpec:
    narrow = random.choice((None, 4.0, 1e9))
    return toy(
        ai_cores=4,
        frequency_mhz=random.choice((1000, 500)),
        l2={
            "same_line_bytes_per_cycle": narrow,
            "same_line_requests_per_cycle": random.choice((None, 0.02, 1e9)),
        },
        dram={
            "half_duplex": random.random() < 0.3,
            "read_gb_per_s": 40,
            "write_gb_per_s": 20,
        },
    )


@pytest.mark.parametrize("chunk", range(4))
def test_every_link_carries_what_the_transfer_asks_of_it(chunk: int) -> None:
    for seed in range(chunk * 100, (chunk + 1) * 100):
        random = Random(seed)
        soc, demand = random_chip(random), random_demand(random)
        clock = Clock.of(soc)
        miss = random.choice((Fraction(0), Fraction(1), Fraction(1, 3)))
        spread = random.choice((None, Fraction(1), Fraction(8, 7)))
        shares = Shares(
            bypass=random.random() < 0.2,
            read_miss={"r": miss},
            read_spread={} if spread is None else {"r": spread},
            write_through={"r": miss},
            evicted=random.choice((Fraction(0), Fraction(1, 4))),
        )
        readers = Readers(random.random() < 0.5, random.choice((Fraction(0), Fraction(1), Fraction(5, 2))))
        binding = Binding(shares, soc, clock, clock.ai_ticks, cores=3, abreast=3)
        transfer = binding.transfer(demand, "r", 1, readers)
        kind = transfer.kind
        assert kind.cores == 3
        assert transfer.work == demand.l2_bytes * UNITS_PER_BYTE
        carried = [float(Fraction(weight * demand.l2_bytes, WEIGHT)) for weight in kind.weights]
        assert carried == pytest.approx(
            loads(demand, shares, miss, spread, readers, soc), abs=demand.l2_bytes * 2 / WEIGHT
        ), f"seed {seed}"
        alone = transfer.work / kind.cap  # ticks
        expected = cycles(demand, miss, readers, soc) * clock.ai_ticks
        assert alone == pytest.approx(expected, rel=1e-4), f"seed {seed}"
        assert transfer.latency == latency(demand, shares, miss) * clock.ai_ticks


def loads(
    demand: LinkDemand,
    shares: Shares,
    miss: Fraction,
    spread: Fraction | None,
    readers: Readers,
    soc: SocSpec,
) -> list[float]:
    """Bytes on each link over the whole transfer."""
    found = [0.0, 0.0, 0.0, 0.0]
    past = not demand.cached
    outside = past or (shares.bypass and miss == 1)
    share = 1.0 if past else float(miss)
    if not outside:
        found[Link.L2_WRITE if demand.write else Link.L2_READ] = demand.l2_bytes
    whole = float(demand.dram_bytes)
    if not demand.write and not past and spread is not None:
        whole = min(whole, float(spread) * demand.least_dram_bytes)
    found[Link.DRAM_WRITE if demand.write else Link.DRAM_READ] = share * whole
    if not past:  # what it allocates in L2 pushes out dirty bytes
        found[Link.DRAM_WRITE] += float(shares.evicted) * demand.bytes * (1 if demand.write else share)
    limit = soc.l2.same_line_bytes_per_cycle
    if limit is not None and readers.shared and not demand.write:
        found[Link.L2_READ] *= max(1.0, soc.l2.read_bytes_per_cycle_per_core * soc.ai_cores / limit)
    if soc.dram.half_duplex:  # one bus; writing takes it longer
        found[Link.DRAM_READ] += found[Link.DRAM_WRITE] * soc.dram.read_gb_per_s / soc.dram.write_gb_per_s
        found[Link.DRAM_WRITE] = 0
    return found


def cycles(demand: LinkDemand, miss: Fraction, readers: Readers, soc: SocSpec) -> float:
    """Cycles through the core's own path, for its requests to be answered, and for those of all cores in step
    that ask for the same lines."""
    path = demand.l2_bytes / demand.port_bytes_per_cycle
    if demand.request_bytes_per_cycle is None:
        return path
    share = 1.0 if not demand.cached else float(miss)
    hits = demand.l2_bytes / demand.request_bytes_per_cycle
    answered = hits * (1 - share) + hits * share * (1 if demand.waiting is None else 3)
    turns = 0.0
    if soc.l2.same_line_requests_per_cycle is not None and readers.in_step > 1 and not demand.write:
        turns = demand.requests * float(readers.in_step) / soc.l2.same_line_requests_per_cycle
    return max(path, answered, turns)


def latency(demand: LinkDemand, shares: Shares, miss: Fraction) -> int:
    """Of what comes from DRAM and from L2 in proportion, in whole cycles; DRAM is never taken for the quicker
    one."""
    if not demand.cached or (shares.bypass and miss == 1):
        return demand.miss_latency
    slower = max(demand.hit_latency, demand.miss_latency)
    return -int(-(slower * miss + demand.hit_latency * (1 - miss)) // 1)


@pytest.mark.parametrize(("visits", "first"), [(1, 1.0), (4, 1.0), (4, 0.5), (5, 0.01)])
@pytest.mark.parametrize("port", [10_000.0, 30.0])
@pytest.mark.parametrize("abreast", [1, 4])
def test_a_core_that_comes_back_waits_for_dram_first_and_for_l2_after_that(
    visits: int, first: float, port: float, abreast: int
) -> None:
    """Passes one after the other: the first is as slow as the slower of the two links, the others as L2
    is."""
    soc = toy(ai_cores=4, dram={"read_gb_per_s": 40}, l2={"read_bytes_per_cycle_per_core": 64})
    clock = Clock.of(soc)
    demand = LinkDemand("x", False, 4096, 4096, 4096, 4096, port, 0, 0)
    shares = Shares(read_miss={"x": Fraction(first).limit_denominator() / visits})
    binding = Binding(shares, soc, clock, clock.ai_ticks, cores=1, abreast=abreast)
    kind = binding.transfer(demand, "x", visits, ALONE).kind
    l2 = 4096 * abreast / (64 * 4)
    dram = 4096 * abreast * first / 40
    passes = max(l2, dram) + (visits - 1) * l2 if visits > 1 else 0.0
    expected = max(passes, visits * 4096 / port)
    assert visits * 4096 * UNITS_PER_BYTE / kind.cap == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("write", "visits", "miss"),
    [(True, 4, Fraction(1, 4)), (False, 4, Fraction(0)), (False, 4, Fraction(1, 2)), (False, 1, Fraction(1))],
)
def test_only_reads_that_miss_once_and_hit_after_that_are_slowed_down_so(
    write: bool, visits: int, miss: Fraction
) -> None:
    soc = toy(ai_cores=4, dram={"read_gb_per_s": 1}, l2={"read_bytes_per_cycle_per_core": 64})
    clock = Clock.of(soc)
    binding = Binding(
        Shares(read_miss={"x": miss}, write_through={"x": miss}),
        soc,
        clock,
        clock.ai_ticks,
        cores=1,
        abreast=1,
    )
    demand = LinkDemand("x", write, 4096, 4096, 4096, 4096, 50.0, 0, 0)
    kind = binding.transfer(demand, "x", visits, ALONE).kind
    assert kind.cap == 50 * UNITS_PER_BYTE


@pytest.mark.parametrize(
    ("written", "loss"),
    [
        (Fraction(0), 0.0),
        (Fraction(1), 0.0),
        (Fraction(1, 2), 1.0),
        (Fraction(1, 4), 1.0),
        (Fraction(7, 8), 0.5),
    ],
)
def test_a_bus_that_turns_around_carries_less(written: Fraction, loss: float) -> None:
    """Half of the rate if reads and writes take turns; writes alone, or reads, have all of it."""
    soc = toy(ai_cores=4, dram={"half_duplex": True, "mixed_efficiency": 0.5})
    clock = Clock.of(soc)
    demand = LinkDemand("x", False, 4096, 4096, 4096, 4096, 50.0, 0, 0)
    shares = Shares(read_miss={"x": Fraction(1)}, written=written)
    binding = Binding(shares, soc, clock, clock.ai_ticks, cores=1, abreast=1)
    kind = binding.transfer(demand, "x", 1, ALONE).kind
    assert kind.weights[Link.DRAM_READ] == pytest.approx(WEIGHT * (1 + loss), abs=1)
