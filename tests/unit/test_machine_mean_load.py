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
    ("dram", "ticks", "weight"),
    [
        (1_000_000, 20, 1.0),  # the link is never full
        (16_000, 20, 0.8),  # 25 ticks for the bytes of 4 cores: within the 30 that loads of both kinds take
        (10_000, 30, 0.75),  # 40 ticks: 10 of them pass while cores wait for L2
        (5000, 70, 0.875),
    ],
)
def test_loads_of_memory_take_what_is_left_of_the_time_that_its_link_needs(
    dram: int, ticks: int, weight: float
) -> None:
    hit, miss = evened([HIT, MISS], 4, (WIDE, WIDE, dram, WIDE))
    assert hit == HIT.kind
    (rate,) = shares([miss], (WIDE, WIDE, dram, WIDE))
    assert MISS.work / rate == pytest.approx(ticks, rel=0.001)
    assert miss.weights == (0, 0, pytest.approx(weight * WEIGHT, abs=1), 0)


def test_two_cores_are_out_of_step_and_one_is_not() -> None:
    """Of 30 ticks the loads of two cores have 20 for what DRAM's link takes 40 over, or one 20."""
    for cores, weight in ((1, 1.0), (2, 0.75)):
        _, miss = evened([HIT, MISS], cores, (WIDE, WIDE, 5000, WIDE))
        assert miss.weights[2] == pytest.approx(weight * WEIGHT, abs=1)


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


def test_a_narrow_path_of_a_core_is_slower_than_its_requests() -> None:
    """10 ticks through the path, as long as for what L2 answers: half of the load, however quick requests
    are."""
    waiting = Requests(100_000, (100, 200, 600), WEIGHT, WEIGHT // 4)
    loads = [HIT, Loads(1000, FlowClass(100, (0, 0, WEIGHT, 0), 1, waiting))]
    _, miss = evened(loads, 4, (WIDE, WIDE, WIDE, WIDE))
    assert miss.requests is not None
    assert miss.requests.load == pytest.approx(WEIGHT / 8, rel=0.001)


def test_what_comes_through_a_full_l2_takes_longer_and_leaves_memory_alone() -> None:
    """40 ticks of L2 for what would take a core 10: with the 20 of memory more than the 40 that DRAM's link
    needs."""
    slow = Loads(100_000, FlowClass(10_000, (WEIGHT, 0, 0, 0), 4))
    narrow = (10_000, WIDE, 10_000, WIDE)
    _, miss = evened([slow, MISS], 4, narrow)
    assert shares([miss], narrow) == [pytest.approx(5000, abs=1)]
    _, quick = evened([HIT, MISS], 4, narrow)
    assert shares([quick], narrow) == [pytest.approx(3333, abs=1)]


def into(region: str, size: int, step: int, buffer: Buffer) -> Move:
    source = gm(region, size, Affine(0, (("i", step),)) if step else Affine(0))
    return Move(Pipe.MTE2, Operand(buffer, "l", size), source, 1, size)


HIT_BYTES, MISS_BYTES, TRIPS, CORES = 8192, 4096, 40, 8


def looping(late: int = 0, meeting: bool = False, hits: int = 1, buffer: Buffer = Buffer.L1) -> Block:
    """A core that begins late and reads the same bytes of "a" some times, and new ones of "b", in turns."""
    again, new = into("a", HIT_BYTES, 0, buffer), into("b", MISS_BYTES, MISS_BYTES, buffer)
    body: list[Statement] = [Loop("j", hits, (again,)), new]
    if meeting:
        body += [SetFlag(Pipe.MTE2, "met"), WaitFlag(Pipe.MTE2, "met")]
    head = [Scalar(late, "wait")] if late else []
    flags = (Flag("met", Pipe.MTE2, Pipe.MTE2, shared=True),) if meeting else ()
    return block(*head, Loop("i", TRIPS, tuple(body)), flags=flags)


def end(*groups: tuple[Block, int], rate: float, loaded: int = 201, grouped: bool = True) -> int:
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
    program = program_of(task_of(*groups, accesses=reads), regions=regions)
    return run(program, soc, groups=grouped).end


def apart(rate: float, loaded: int, late: int, hits: int) -> int:
    """End of cores that begin one after the other and are simulated each as it is."""
    cores = [(looping(late=late * core, hits=hits), 1) for core in range(CORES)]
    return end(*cores, rate=rate, loaded=loaded) - late * (CORES - 1)


@pytest.mark.parametrize("rate", [60.0, 100.0, 140.0, 180.0, 400.0])
@pytest.mark.parametrize("loaded", [201, 600])
def test_cores_of_one_kind_take_as_long_as_cores_that_begin_one_after_the_other(
    rate: float, loaded: int
) -> None:
    """These find DRAM idle while others wait for L2; in lock-step it would be 16 to 35 % more up to 180
    GB/s."""
    together = end((looping(), CORES), rate=rate, loaded=loaded)
    assert together == pytest.approx(apart(rate, loaded, late=37, hits=1), rel=0.08)


@pytest.mark.parametrize("rate", [80.0, 100.0, 180.0])
def test_loads_count_as_often_as_a_block_makes_them(rate: float) -> None:
    """Three loads out of L2 for one that is not there; in lock-step 24 to 29 % more."""
    together = end((looping(hits=3), CORES), rate=rate, loaded=600)
    assert together == pytest.approx(apart(rate, 600, late=97, hits=3), rel=0.03)


def test_it_makes_no_difference_whether_equal_cores_are_simulated_as_one_group() -> None:
    for rate in (100.0, 180.0):
        assert end((looping(), CORES), rate=rate) == end((looping(), CORES), rate=rate, grouped=False)


def test_loads_into_ub_stay_in_lock_step() -> None:
    """As at barriers, but loads do not wait for the last bytes of those before."""
    expected = TRIPS * (128 + CORES * MISS_BYTES / 160)
    task = looping(buffer=Buffer.UB), CORES
    assert end(task, rate=160.0) == pytest.approx(expected, rel=0.02)


def test_dram_rests_while_cores_that_meet_at_barriers_wait_for_l2() -> None:
    """A trip takes 128 cycles for what L2 holds, through a port of 64 B, then DRAM's link 8 x 4096 / 160, and
    the last bytes 200 more to come."""
    expected = TRIPS * (128 + CORES * MISS_BYTES / 160 + 200)
    assert end((looping(meeting=True), CORES), rate=160.0) == pytest.approx(expected, rel=0.01)
