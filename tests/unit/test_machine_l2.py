"""What L2 holds between tasks and which share of the traffic reaches DRAM."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from ascendsim.isa.program import Access, MemoryPlan, Region, Task, TaskKind
from ascendsim.machine.l2 import L2State, Shares
from ascendsim.machine.reuse import fetched_again
from tests.support.toy_soc import TOY

KIB = 1024


def state(size: int = 100 * KIB, **regions: int) -> L2State:
    plan, offset = {}, 0
    for name, length in regions.items():
        plan[name] = Region(name, offset, length, "activation")
        offset += length
    return L2State(replace(TOY.l2, size=size), MemoryPlan(plan, offset, 0))


def enter(
    l2: L2State,
    reads: dict[str, tuple[int, int]] | None = None,
    writes: dict[str, tuple[int, int]] | None = None,
    **fetched: int,
) -> Shares:
    """Runs a task that touches (unique, moved) KiB of regions and, if nothing was resident, would fetch so
    many KiB of them."""
    read = [Access(name, unique * KIB, moved * KIB, False) for name, (unique, moved) in (reads or {}).items()]
    written = [
        Access(name, unique * KIB, moved * KIB, True) for name, (unique, moved) in (writes or {}).items()
    ]
    return l2.enter(
        read, written, fetched_again(read, {name: Fraction(size * KIB) for name, size in fetched.items()})
    )


def test_the_first_touch_misses_and_repeats_hit() -> None:
    l2 = state(a=40 * KIB)
    assert enter(l2, {"a": (40, 160)}).read_miss == {"a": Fraction(1, 4)}
    assert enter(l2, {"a": (40, 40)}).read_miss == {"a": 0}
    assert l2.resident("a") == 40 * KIB


def test_bytes_that_are_fetched_again_and_again_count_as_often() -> None:
    l2 = state(a=60 * KIB)
    assert enter(l2, {"a": (60, 240)}, a=180).read_miss == {"a": Fraction(3, 4)}
    # what was resident is pushed out on the way
    assert enter(l2, {"a": (60, 240)}, a=180).read_miss == {"a": Fraction(3, 4)}
    assert enter(l2, {"a": (60, 240)}, a=60).read_miss == {"a": 0}


def test_only_the_end_of_a_region_above_the_capacity_stays_and_is_gone_when_the_next_reader_gets_there() -> (
    None
):
    l2 = state(a=200 * KIB, b=50 * KIB)
    enter(l2, {"b": (50, 50)})
    assert enter(l2, {"a": (200, 200)}).read_miss == {"a": 1}
    assert (l2.resident("a"), l2.resident("b")) == (100 * KIB, 0)
    assert enter(l2, {"a": (200, 200)}).read_miss == {"a": 1}


def test_results_push_out_what_is_not_read_yet() -> None:
    """40 of 100 KiB are free: half of the 80 KiB of results is written when they are used up, so half of the
    input was read."""
    l2 = state(a=60 * KIB, b=80 * KIB)
    enter(l2, writes={"a": (60, 60)})
    assert enter(l2, {"a": (60, 60)}, {"b": (80, 80)}).read_miss == {"a": Fraction(1, 2)}
    fits = state(a=50 * KIB, b=50 * KIB)
    enter(fits, writes={"a": (50, 50)})
    assert enter(fits, {"a": (50, 50)}, {"b": (50, 50)}).read_miss == {"a": 0}


def test_what_a_task_touches_beyond_the_capacity_stays_in_proportion() -> None:
    l2 = state(a=100 * KIB, b=300 * KIB)
    shares = enter(l2, {"a": (100, 100)}, {"b": (300, 300)})
    assert (l2.resident("a"), l2.resident("b")) == (25 * KIB, 75 * KIB)
    assert shares.write_through == {"b": Fraction(3, 4)}


def test_results_are_found_by_the_next_task() -> None:
    l2 = state(a=40 * KIB)
    assert enter(l2, writes={"a": (40, 40)}).write_through == {"a": 0}
    assert enter(l2, {"a": (40, 40)}).read_miss == {"a": 0}


def test_the_least_recently_used_region_goes_first() -> None:
    l2 = state(a=40 * KIB, b=40 * KIB, c=40 * KIB)
    for name in ("a", "b", "a", "c"):
        enter(l2, {name: (40, 40)})
    assert [l2.resident(name) // KIB for name in "abc"] == [40, 20, 40]
    # fetching its start pushes out its end, the oldest lines there are
    assert enter(l2, {"b": (40, 40)}).read_miss == {"b": 1}


def test_dirty_bytes_load_dram_when_they_are_pushed_out() -> None:
    l2 = state(a=80 * KIB, b=60 * KIB)
    enter(l2, writes={"a": (80, 80)})
    assert enter(l2, {"b": (60, 60)}).evicted == Fraction(40, 60)
    assert enter(l2, {"b": (60, 60)}).evicted == 0


def test_a_result_above_the_capacity_is_written_through_in_part() -> None:
    l2 = state(a=400 * KIB)
    assert enter(l2, writes={"a": (400, 400)}).write_through == {"a": Fraction(3, 4)}
    assert l2.resident("a") == 100 * KIB


def test_new_data_at_old_addresses_replaces_it_without_traffic() -> None:
    old, new = Region("old", 0, 60 * KIB, "activation"), Region("new", 0, 60 * KIB, "activation")
    l2 = L2State(replace(TOY.l2, size=100 * KIB), MemoryPlan({"old": old, "new": new}, 0, 0))
    enter(l2, writes={"old": (60, 60)})
    assert enter(l2, writes={"new": (60, 60)}).evicted == 0
    assert (l2.resident("old"), l2.resident("new")) == (0, 60 * KIB)


def test_an_alias_shares_its_bytes() -> None:
    plan = {
        "a": Region("a", 0, KIB, "activation"),
        "view": Region("view", 0, KIB, "activation", alias_of="a"),
    }
    l2 = L2State(TOY.l2, MemoryPlan(plan, 0, 0))
    enter(l2, writes={"a": (1, 1)})
    assert enter(l2, {"view": (1, 1)}).read_miss == {"view": 0}


def test_without_a_cache_everything_goes_to_dram_but_what_is_placed() -> None:
    plan = MemoryPlan({name: Region(name, 0, KIB, "activation") for name in "ab"}, 0, 0)
    shares = enter(
        L2State(replace(TOY.l2, software_managed=True), plan, ["b"]),
        {"a": (1, 4), "b": (1, 4)},
        {"a": (1, 1)},
    )
    assert shares.bypass
    assert shares.read_miss == {"a": 1, "b": 0}
    assert shares.write_through["a"] == 1
    assert shares.written == Fraction(1, 5)  # of 4 KiB read and 1 KiB written past L2


def test_what_is_written_to_a_placed_region_turns_no_bus_around() -> None:
    plan = MemoryPlan({name: Region(name, 0, KIB, "activation") for name in "ab"}, 0, 0)
    l2 = L2State(replace(TOY.l2, software_managed=True), plan, ["b"])
    assert enter(l2, {"a": (1, 4)}, {"b": (1, 1)}).written == 0


def test_a_kept_weight_comes_from_dram_once_and_from_l2_after_that() -> None:
    plan = MemoryPlan({"w": Region("w", 0, KIB, "weight")}, 0, 0)
    l2 = L2State(replace(TOY.l2, software_managed=True), plan, kept=["w"])
    assert enter(l2, {"w": (4, 4)}).read_miss == {"w": Fraction(1, 4)}  # a task that reads it four times
    assert enter(l2, {"w": (4, 4)}).read_miss == {"w": 0}


def test_a_kept_weight_counts_no_more_bytes_than_it_has() -> None:
    plan = MemoryPlan(
        {"w": Region("w", 0, KIB, "weight"), "v": Region("v", 0, KIB, "weight", alias_of="w")}, 0, 0
    )
    for name, unique, share in (
        ("w", 4, Fraction(1, 8)),
        ("v", 4, Fraction(1, 8)),
        ("w", 8, Fraction(1, 8)),
        ("unknown", 4, Fraction(1, 2)),
    ):
        l2 = L2State(replace(TOY.l2, software_managed=True), plan, kept=["w", "unknown"])
        assert enter(l2, {name: (unique, 8)}).read_miss == {name: share}
        assert enter(l2, {name: (unique, 8)}).read_miss == {name: 0}
    once = L2State(replace(TOY.l2, software_managed=True), plan, kept=["unknown"])
    assert enter(once, {"unknown": (8, 8)}).read_miss == {"unknown": 1}


def test_short_bursts_cost_no_more_than_the_region_once() -> None:
    assert enter(state(a=40 * KIB), {"a": (10, 10)}).read_spread == {"a": 4}


@pytest.mark.parametrize("size", [None, 0])
def test_a_chip_without_l2_size_caches_nothing(size: int | None) -> None:
    l2 = L2State(replace(TOY.l2, size=size), MemoryPlan({}, 0, 0))
    assert enter(l2, {"a": (1, 4)}, {"b": (1, 1)}, a=4).read_miss == {"a": 1}
    assert enter(l2, {"a": (1, 1)}).read_miss == {"a": 1}
    assert enter(l2, writes={"b": (1, 1)}).write_through == {"b": 1}


def test_accesses_take_unique_bytes_from_the_task_and_moved_bytes_from_the_instructions() -> None:
    l2 = state(a=10 * KIB, b=10 * KIB)
    listed = Task(
        0, "t", TaskKind.AI_CORE, accesses=(Access("b", 2 * KIB, 7, False), Access("a", 3, 3, True))
    )
    accesses = l2.accesses(listed, {"a": 40 * KIB, "b": 5 * KIB, "?": KIB}, write=False)
    assert accesses == [
        Access("b", 2 * KIB, 5 * KIB, False),
        Access("?", KIB, KIB, False),  # neither listed nor in the plan: each byte once
        Access("a", 10 * KIB, 40 * KIB, False),  # not listed as read: the whole region
    ]


def test_a_slice_that_covers_its_whole_tensor_is_counted_once() -> None:
    whole = Region("whole", 0, 10 * KIB, "activation")
    piece = Region("piece", 0, 10 * KIB, "activation", alias_of="whole", cut=(0, 0))
    l2 = L2State(replace(TOY.l2, size=100 * KIB), MemoryPlan({"whole": whole, "piece": piece}, 0, 0))
    enter(l2, writes={"whole": (10, 10)})
    assert l2.resident("piece") == 10 * KIB
    assert enter(l2, {"piece": (10, 10)}).read_miss == {"piece": 0}


def test_only_regions_at_reused_addresses_are_dropped() -> None:
    regions = {
        name: Region(name, offset * KIB, size * KIB, "activation")
        for name, offset, size in (
            ("long", 0, 30),
            ("inside", 10, 5),
            ("behind", 30, 10),
            ("across", 38, 4),
            ("apart", 60, 5),
        )
    }
    l2 = L2State(replace(TOY.l2, size=100 * KIB), MemoryPlan(regions, 0, 0))
    for name in ("long", "behind", "apart"):
        enter(l2, {name: (regions[name].bytes // KIB,) * 2})
    enter(l2, writes={"inside": (5, 5)})
    enter(l2, writes={"across": (4, 4)})
    assert {name: l2.resident(name) // KIB for name in regions} == {
        "long": 25,
        "inside": 5,
        "behind": 8,
        "across": 4,
        "apart": 5,
    }


def test_a_ring_that_is_written_over_goes_out_once() -> None:
    """A ring of 20 KiB beside 120 that pass once, in 100: with 10 rounds a byte of the ring is written again
    after 12 + 20 others; with 1 1/4 rounds only after 96 + 20.
    """
    ring = enter(state(x=120 * KIB, ring=20 * KIB), {"x": (120, 120)}, {"ring": (20, 200)})
    assert 0 < ring.write_through["ring"] <= Fraction(20, 200)
    slow = enter(state(x=120 * KIB, ring=20 * KIB), {"x": (120, 120)}, {"ring": (20, 25)})
    assert slow.write_through["ring"] > Fraction(5, 25)
