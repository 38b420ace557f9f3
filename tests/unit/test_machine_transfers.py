"""Times of transfers and shared links against values worked out by hand, on the chip with round numbers (one
tick = 1 ns = 1 cycle)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.isa.instructions import Affine, Buffer, Flag, Loop, Move, Operand, Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import Access, Task
from ascendsim.machine import run
from ascendsim.soc.spec import SocSpec
from tests.support.toy_machine import BIG, UB, add, block, load, simulate, spans, store
from tests.support.toy_programs import gm, program_of, task_of
from tests.support.toy_soc import bare


def test_a_transfer_takes_bytes_over_the_narrowest_link() -> None:
    assert spans(simulate(block(load(4096))), "MTE2") == [(0, 128)]  # DRAM: 32 B per cycle
    wide = bare(dram={"read_gb_per_s": 1000})
    assert spans(simulate(block(load(4096)), wide), "MTE2") == [(0, 64)]  # port: 64 B per cycle
    slow = bare(dram={"read_gb_per_s": 1000}, l2={"read_bytes_per_cycle_per_core": 8})
    assert spans(simulate(block(load(4096)), slow), "MTE2") == [(0, 256)]  # L2: 2 cores x 8 B per cycle


def test_cores_share_the_links() -> None:
    trace = simulate(block(load(4096)), count=2)
    assert [(item.cores, item.start, item.end) for item in trace.instructions] == [((0, 1), 0, 256)]


def test_shares_change_when_a_transfer_ends() -> None:
    # Core 0 loads 4096 B, core 1 8192 B. Both get 16 B/cycle up to tick 256, then core 1 alone 32 B/cycle for
    # the other 4096 B.
    program = program_of(task_of((block(load(4096)), 1), (block(load(8192)), 1)), regions=BIG)
    trace = run(program, bare(), instructions=True)
    assert sorted((item.cores, item.end) for item in trace.instructions) == [((0,), 256), ((1,), 384)]


def test_shares_change_when_a_transfer_begins() -> None:
    # Core 1 begins at tick 64, when 2048 of core 0's 4096 B are left: 16 B/cycle each until core 0 is done at
    # tick 192. By then core 1 has 2048 B, and gets the other 2048 B at 32 B/cycle.
    late = block(
        add(64),
        SetFlag(Pipe.V, "go"),
        WaitFlag(Pipe.MTE2, "go"),
        load(4096),
        flags=(Flag("go", Pipe.V, Pipe.MTE2),),
    )
    program = program_of(task_of((block(load(4096)), 1), (late, 1)), regions=BIG)
    trace = run(program, bare(), instructions=True)
    assert sorted(
        (item.cores, item.start, item.end) for item in trace.instructions if item.pipe == "MTE2"
    ) == [
        ((0,), 0, 192),
        ((1,), 64, 256),
    ]


def test_reads_and_writes_have_links_of_their_own_unless_the_bus_is_half_duplex() -> None:
    both = block(load(4096), store(4096))
    writes = {"software_managed": True}
    assert spans(simulate(both, bare(l2=writes)), "MTE2") == [(0, 128)]
    assert spans(simulate(both, bare(l2=writes)), "MTE3") == [(0, 128)]
    half = bare(l2=writes, dram={"half_duplex": True})
    assert spans(simulate(both, half), "MTE2") == [(0, 256)]
    assert spans(simulate(both, half), "MTE3") == [(0, 256)]


def test_a_half_duplex_bus_is_loaded_in_proportion_to_its_rates() -> None:
    # Writing at 16 GB/s takes twice the bus time of reading at 32 GB/s: at equal rates r, r / 32 + r / 16 = 1
    # gives r = 32 / 3 B/cycle.
    half = bare(l2={"software_managed": True}, dram={"half_duplex": True, "write_gb_per_s": 16})
    trace = simulate(block(load(3200), store(3200)), half)
    assert spans(trace, "MTE2") == spans(trace, "MTE3")
    # 3200 B are rounded up to 7 transactions of 512 B of DRAM; a tick more for rates rounded down
    assert spans(trace, "MTE2")[0][1] in (336, 337)


def test_reads_and_writes_take_turns_where_l2_is_half_duplex() -> None:
    # Reads alone take 4096 / 16 = 256 cycles of L2's 2 cores x 8 B, writes alone 4096 / 8 = 512.
    rates = {"read_bytes_per_cycle_per_core": 8, "write_bytes_per_cycle_per_core": 4}
    fast = {"read_gb_per_s": 1000, "write_gb_per_s": 1000}
    both = block(load(4096), store(4096))
    apart = simulate(both, bare(l2=rates, dram=fast))
    assert (spans(apart, "MTE2"), spans(apart, "MTE3")) == ([(0, 256)], [(0, 512)])
    turns = bare(l2={**rates, "half_duplex": True}, dram=fast)
    shared = simulate(both, turns)
    # at equal rates r, r / 16 + r / 8 = 1: both end at 256 + 512
    assert spans(shared, "MTE2") == spans(shared, "MTE3")
    assert spans(shared, "MTE2")[0][1] in (768, 769)
    assert spans(simulate(block(store(4096)), turns), "MTE3") == [(0, 512)]


def test_latency_does_not_hold_the_link_but_the_flag() -> None:
    soc = bare(dram={"read_latency_cycles": 300})
    flags = (Flag("full", Pipe.MTE2, Pipe.V),)
    trace = simulate(
        block(
            load(4096), SetFlag(Pipe.MTE2, "full"), load(4096), WaitFlag(Pipe.V, "full"), add(10), flags=flags
        ),
        soc,
    )
    assert spans(trace, "MTE2") == [(0, 128), (128, 256)]
    assert spans(trace, "V") == [(128 + 300, 438)]


def test_bytes_that_a_task_reads_again_come_from_l2() -> None:
    soc = bare(dram={"read_latency_cycles": 300})
    body = block(
        load(4096),
        load(4096),
        SetFlag(Pipe.MTE2, "full"),
        WaitFlag(Pipe.V, "full"),
        add(10),
        flags=(Flag("full", Pipe.MTE2, Pipe.V),),
    )
    task = task_of((body, 1), accesses=(Access("x", 4096, 8192, False),))
    trace = run(program_of(task, regions=BIG), soc, instructions=True)
    # Every second byte comes from DRAM: the port's 64 B per cycle are the narrowest, and latency is half of
    # DRAM's.
    assert spans(trace, "MTE2") == [(0, 64), (64, 128)]
    assert spans(trace, "V") == [(128 + 150, 288)]
    assert trace.tasks[0].read_bytes == {"l2": 8192, "ddr": 4096}


def test_a_core_that_reads_the_same_bytes_again_waits_for_one_link_after_the_other() -> None:
    soc = bare(ai_cores=1, dram={"read_gb_per_s": 32}, l2={"read_bytes_per_cycle_per_core": 64})
    read = Move(Pipe.MTE2, UB, gm("x", 4096, Affine(0, (("i", 4096),))), 1, 4096)
    once = 8 * 4096
    task = task_of(
        (block(Loop("pass", 4, (Loop("i", 8, (read,)),))), 1), accesses=(Access("x", once, 4 * once, False),)
    )
    trace = run(program_of(task, regions=BIG), soc, instructions=True)
    # 32 B a cycle from DRAM in the first pass, 64 from L2 and through the port in three more: in all, not
    # side by side
    assert spans(trace, "MTE2")[-1][1] == pytest.approx(once / 32 + 3 * once / 64, abs=64)


def test_cores_that_read_the_same_lines_share_a_narrow_path() -> None:
    free, narrow = bare(), bare(l2={"same_line_bytes_per_cycle": 32})
    together = task_of((block(load(4096)), 2), accesses=(Access("x", 4096, 2 * 4096, False),))
    one_by_one = task_of(
        (block(load(4096)), 1), (block(load(4096), add(1)), 1), accesses=(Access("x", 4096, 2 * 4096, False),)
    )
    apart = task_of((block(load(4096)), 2), accesses=(Access("x", 2 * 4096, 2 * 4096, False),))

    def end(task: Task, soc: SocSpec) -> int:
        return run(program_of(task, regions=BIG), soc).end

    assert end(together, narrow) == pytest.approx(2 * 4096 / 32, abs=2)  # 16 B a cycle for each of two cores
    assert end(together, narrow) > end(together, free)
    # cores that do different things share lines too
    assert end(one_by_one, narrow) == pytest.approx(end(together, narrow), abs=2)
    assert end(apart, narrow) == end(apart, free)  # each has lines of its own


def around(size: int = 4096) -> Move:
    return replace(load(size), cached=False)


def test_reads_past_l2_load_dram_and_leave_l2_alone() -> None:
    soc = bare(l2={"read_bytes_per_cycle_per_core": 1}, dram={"uncached_latency_cycles": 70})
    twice = program_of(
        task_of((block(around()), 1)),
        task_of(
            (
                block(
                    around(),
                    SetFlag(Pipe.MTE2, "f"),
                    WaitFlag(Pipe.V, "f"),
                    add(1),
                    flags=(Flag("f", Pipe.MTE2, Pipe.V),),
                ),
                1,
            ),
            id=1,
        ),
        regions=BIG,
    )
    trace = run(twice, soc, instructions=True)
    first, second = spans(trace, "MTE2")
    assert first == (0, 128)  # 32 B a cycle from DRAM, not 1 from L2
    assert second[1] - second[0] == 128  # nothing of it was kept
    assert spans(trace, "V")[0][0] == second[1] + 70
    assert [task.read_bytes for task in trace.tasks] == [{"l2": 0, "ddr": 4096}] * 2


def test_cores_in_step_past_l2_wait_for_one_line_and_staggered_ones_do_not() -> None:
    # 8 requests of 512 B of each core, one in 64 cycles: 8 B a cycle
    soc = bare(
        l2={"same_line_requests_per_cycle": 1 / 64, "line_bytes": 512},
        dram={"uncached_latency_cycles": 0},
        dma={"reads_hold_requests": True},
    )
    in_step = task_of((block(around()), 2), accesses=(Access("x", 4096, 2 * 4096, False),))
    staggered = task_of(
        (block(around()), 1), (block(around()), 1), accesses=(Access("x", 4096, 2 * 4096, False),)
    )
    assert run(program_of(in_step, regions=BIG), soc).end == pytest.approx(2 * 4096 / 8, abs=2)
    assert run(program_of(staggered, regions=BIG), soc).end == pytest.approx(2 * 4096 / 32, abs=2)


def test_misses_lower_the_rate_of_an_engine_whose_requests_wait() -> None:
    """With half of the bytes in DRAM, at twice the latency, the path of 64 B a cycle gets 64 / 1.5."""
    figures = {
        "l2": {"read_latency_cycles": 100},
        "dram": {"read_latency_cycles": 200, "read_gb_per_s": 1000},
    }
    body = block(load(4096), load(4096))
    task = task_of((body, 1), accesses=(Access("x", 4096, 8192, False),))
    ends = {}
    for holding in (False, True):
        soc = bare(**figures, dma={"reads_hold_requests": holding})
        ends[holding] = spans(run(program_of(task, regions=BIG), soc, instructions=True), "MTE2")[-1][1]
    assert ends[False] == pytest.approx(8192 / 64, abs=1)
    assert ends[True] == pytest.approx(8192 / 64 * 1.5, abs=2)


def test_a_flag_waits_for_a_store_behind_which_a_quicker_move_went_through_the_same_unit() -> None:
    soc = bare(dram={"write_latency_cycles": 500}, l2={"software_managed": True}, ports={"ub_to_l1": 64})
    inside = Move(Pipe.MTE3, Operand(Buffer.L1, "l", 64), UB, 1, 64)
    for first, second in ((store(512), inside), (inside, store(512))):
        body = block(
            first,
            second,
            SetFlag(Pipe.MTE3, "f"),
            WaitFlag(Pipe.V, "f"),
            add(1),
            flags=(Flag("f", Pipe.MTE3, Pipe.V),),
        )
        trace = simulate(body, soc)
        stored = max(end for start, end in spans(trace, "MTE3") if end - start == 16)
        assert spans(trace, "V")[0][0] == stored + 500


def test_few_transfers_are_in_flight() -> None:
    soc = bare(dram={"read_latency_cycles": 1000, "max_in_flight": 2}, l2={"software_managed": True})
    trace = simulate(block(*[load(512)] * 5), soc)
    assert spans(trace, "MTE2") == [(0, 16), (16, 32), (1016, 1032), (1032, 1048), (2032, 2048)]


def test_bytes_pass_an_l2_that_software_manages_only_where_they_lie_in_it() -> None:
    soc = bare(l2={"software_managed": True})
    copied = task_of((block(load(), store()), 1))
    for placed, read, written in (((), (0, 4096), (0, 4096)), (("x", "y"), (4096, 0), (4096, 0))):
        (task,) = run(program_of(copied, regions=BIG, l2_placed=placed), soc).tasks
        assert (task.read_bytes["l2"], task.read_bytes["ddr"]) == read
        assert (task.write_bytes["l2"], task.write_bytes["ddr"]) == written
