"""What cores that are not in step ask of memory: by hand, and against cores that are simulated one by one."""

from __future__ import annotations

import pytest

from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Flag,
    Loop,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.program import Access, Block
from ascendsim.machine import run
from ascendsim.machine.links import WEIGHT, FlowClass, Requests, shares
from ascendsim.machine.mean_load import Loads, evened
from tests.support.toy_machine import block
from tests.support.toy_programs import gm, program_of, task_of
from tests.support.toy_soc import bare

WIDE = 1_000_000_000
HIT = Loads(100_000, FlowClass(10_000, (0, 0, 0, 0), 4))  # 10 ticks
MISS = Loads(100_000, FlowClass(5000, (0, 0, WEIGHT, 0), 4))  # 20 ticks


@pytest.mark.parametrize(
    ("dram", "ticks"),
    [
        (1_000_000, 20),  # the link is never full
        (16_000, 20),  # 25 ticks for the bytes of 4 cores: within the 30 that loads of both kinds take
        (10_000, 30),  # 40 ticks: 10 of them pass while cores wait for L2
        (5000, 70),
    ],
)
def test_loads_of_memory_take_what_is_left_of_the_time_that_its_link_needs(dram: int, ticks: int) -> None:
    hit, miss = evened([HIT, MISS], 4, (WIDE, WIDE, dram, WIDE))
    assert hit == HIT.kind
    (rate,) = shares([miss], (WIDE, WIDE, dram, WIDE))
    assert MISS.work / rate == pytest.approx(ticks, rel=0.001)


def test_loads_of_memory_alone_keep_their_weight() -> None:
    for cores in (1, 4):
        assert evened([MISS], cores, (WIDE, WIDE, 4000, WIDE)) == [MISS.kind]


def test_the_load_of_memory_is_what_it_is_on_the_average() -> None:
    """Under half of the load a request waits 400 cycles, four times as long as for L2: loads that need 25
    ticks from L2 take 100, as long as those that L2 answers, and memory is asked half of the time."""
    waiting = Requests(100_000, (100, 200, 600), WEIGHT, WEIGHT // 4)
    loads = [
        Loads(1_000_000, FlowClass(10_000, (0, 0, 0, 0), 1)),
        Loads(2_500_000, FlowClass(WIDE, (0, 0, WEIGHT, 0), 1, waiting)),
    ]
    _, miss = evened(loads, 4, (WIDE, WIDE, WIDE, WIDE))
    assert miss.requests is not None
    assert miss.requests.load == pytest.approx(WEIGHT / 8, rel=0.001)
    assert miss.requests.cap(4 * miss.requests.load) == pytest.approx(25_000, rel=0.001)


def test_what_comes_through_a_full_l2_takes_longer_and_leaves_memory_alone() -> None:
    """40 ticks of L2 for what would take a core 10: with the 20 of memory more than the 40 that DRAM's link
    needs."""
    slow = Loads(100_000, FlowClass(10_000, (WEIGHT, 0, 0, 0), 4))
    narrow = (10_000, WIDE, 10_000, WIDE)
    _, miss = evened([slow, MISS], 4, narrow)
    assert shares([miss], narrow) == [pytest.approx(5000, abs=1)]
    _, quick = evened([HIT, MISS], 4, narrow)
    assert shares([quick], narrow) == [pytest.approx(3333, abs=1)]


def into_l1(region: str, size: int, step: int) -> Move:
    source = gm(region, size, Affine(0, (("i", step),)) if step else Affine(0))
    return Move(Pipe.MTE2, Operand(Buffer.L1, "l", size), source, 1, size)


HIT_BYTES, MISS_BYTES, TRIPS, CORES = 8192, 4096, 40, 8


def looping(late: int = 0, meeting: bool = False) -> Block:
    """A core that begins late and reads the same bytes of "a", and new ones of "b", in turns."""
    body: list[Statement] = [into_l1("a", HIT_BYTES, 0), into_l1("b", MISS_BYTES, MISS_BYTES)]
    if meeting:
        body += [SetFlag(Pipe.MTE2, "met"), WaitFlag(Pipe.MTE2, "met")]
    head = [Scalar(late, "wait")] if late else []
    flags = (Flag("met", Pipe.MTE2, Pipe.MTE2, shared=True),) if meeting else ()
    return block(*head, Loop("i", TRIPS, tuple(body)), flags=flags)


def end(*groups: tuple[Block, int], rate: float, loaded: int = 201) -> int:
    """End of a task whose cores find "a" in L2 and each have a part of "b" of their own."""
    soc = bare(
        ai_cores=CORES,
        l2={
            "read_latency_cycles": 100,
            "read_bytes_per_cycle_per_core": 1000,
            "line_bytes": 512,
            "size": 1 << 24,
        },
        dram={"read_latency_cycles": 200, "loaded_latency_cycles": loaded, "read_gb_per_s": rate},
        dma={"reads_hold_requests": True},
    )
    cores = sum(count for _, count in groups)
    reads = (
        Access("a", HIT_BYTES, cores * TRIPS * HIT_BYTES, False),
        Access("b", cores * TRIPS * MISS_BYTES, cores * TRIPS * MISS_BYTES, False),
    )
    regions = {"a": HIT_BYTES, "b": cores * TRIPS * MISS_BYTES}
    return run(program_of(task_of(*groups, accesses=reads), regions=regions), soc).end


@pytest.mark.parametrize("rate", [60.0, 100.0, 140.0, 180.0, 400.0])
@pytest.mark.parametrize("loaded", [201, 600])
def test_cores_of_one_kind_take_as_long_as_cores_that_begin_one_after_the_other(
    rate: float, loaded: int
) -> None:
    """Those that differ in when they begin are simulated one by one, as they are, and find DRAM idle while
    others wait for L2. In lock-step that would be 16 to 35 % more up to 180 GB/s."""
    apart = [(looping(late=37 * core), 1) for core in range(CORES)]
    assert end((looping(), CORES), rate=rate, loaded=loaded) == pytest.approx(
        end(*apart, rate=rate, loaded=loaded) - 37 * (CORES - 1), rel=0.08
    )


def test_dram_rests_while_cores_that_meet_at_barriers_wait_for_l2() -> None:
    """A trip takes 128 cycles for what L2 holds, through a port of 64 B, then DRAM's link 8 x 4096 / 160, and
    the last bytes 200 more to come."""
    expected = TRIPS * (128 + CORES * MISS_BYTES / 160 + 200)
    assert end((looping(meeting=True), CORES), rate=160.0) == pytest.approx(expected, rel=0.01)
