"""What L2 holds between tasks and which share of the traffic reaches DRAM."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from ascendsim.isa.program import Access, MemoryPlan, Region, Task, TaskKind
from ascendsim.machine.l2 import L2State, Shares
from tests.support.toy_soc import TOY

KIB = 1024


def state(size: int = 100 * KIB, **regions: int) -> L2State:
    plan, offset = {}, 0
    for name, length in regions.items():
        plan[name] = Region(name, offset, length, "activation")
        offset += length
    return L2State(replace(TOY.l2, size=size), MemoryPlan(plan, offset, 0))


def enter(l2: L2State, reads: dict[str, tuple[int, int]] | None = None, writes: dict[str, tuple[int, int]] | None = None) -> Shares:
    """Runs a task that touches (unique, moved) KiB of regions."""
    accesses = [Access(name, unique * KIB, moved * KIB, False) for name, (unique, moved) in (reads or {}).items()]
    accesses += [Access(name, unique * KIB, moved * KIB, True) for name, (unique, moved) in (writes or {}).items()]
    task = Task(0, "t", TaskKind.AI_CORE, accesses=tuple(accesses))
    moved = [{access.region: access.moved_bytes for access in accesses if access.write is write} for write in (False, True)]
    return l2.enter(task, moved[0], moved[1])


def test_the_first_touch_misses_and_repeats_hit() -> None:
    l2 = state(a=40 * KIB)
    assert enter(l2, {"a": (40, 160)}).read_miss == {"a": Fraction(1, 4)}
    assert enter(l2, {"a": (40, 40)}).read_miss == {"a": 0}
    assert l2.resident("a") == 40 * KIB


def test_a_region_above_the_capacity_misses_every_time() -> None:
    l2 = state(a=200 * KIB)
    assert enter(l2, {"a": (200, 800)}).read_miss == {"a": 1}
    assert l2.resident("a") == 0


def test_regions_read_repeatedly_must_fit_together() -> None:
    l2 = state(a=60 * KIB, b=60 * KIB)
    assert enter(l2, {"a": (60, 120), "b": (60, 120)}).read_miss == {"a": Fraction(1, 2), "b": 1}


def test_results_are_found_by_the_next_task() -> None:
    l2 = state(a=40 * KIB)
    assert enter(l2, writes={"a": (40, 40)}).write_through == {"a": 0}
    assert enter(l2, {"a": (40, 40)}).read_miss == {"a": 0}


def test_the_least_recently_used_region_goes_first() -> None:
    l2 = state(a=40 * KIB, b=40 * KIB, c=40 * KIB)
    for name in ("a", "b", "a", "c"):
        enter(l2, {name: (40, 40)})
    assert [l2.resident(name) // KIB for name in "abc"] == [40, 20, 40]
    assert enter(l2, {"b": (40, 40)}).read_miss == {"b": Fraction(1, 2)}


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
    plan = {"a": Region("a", 0, KIB, "activation"), "view": Region("view", 0, KIB, "activation", alias_of="a")}
    l2 = L2State(TOY.l2, MemoryPlan(plan, 0, 0))
    enter(l2, writes={"a": (1, 1)})
    assert enter(l2, {"view": (1, 1)}).read_miss == {"view": 0}


def test_without_a_cache_everything_goes_to_dram_but_what_is_placed() -> None:
    plan = MemoryPlan({name: Region(name, 0, KIB, "activation") for name in "ab"}, 0, 0)
    shares = enter(L2State(replace(TOY.l2, software_managed=True), plan, ["b"]), {"a": (1, 4), "b": (1, 4)}, {"a": (1, 1)})
    assert shares.bypass
    assert shares.read_miss == {"a": 1, "b": 0}
    assert shares.write_through["a"] == 1


def test_short_bursts_cost_no_more_than_the_region_once() -> None:
    assert enter(state(a=40 * KIB), {"a": (10, 10)}).read_spread == {"a": 4}


@pytest.mark.parametrize("size", [None, 0])
def test_a_chip_without_l2_size_caches_nothing(size: int | None) -> None:
    l2 = L2State(replace(TOY.l2, size=size), MemoryPlan({}, 0, 0))
    assert enter(l2, {"a": (1, 4)}, {"b": (1, 1)}).read_miss == {"a": 1}
    assert enter(l2, writes={"b": (1, 1)}).write_through == {"b": 1}


def test_regions_that_the_task_does_not_list_count_as_read_once() -> None:
    l2 = state(a=10 * KIB)
    assert l2.enter(Task(0, "t", TaskKind.AI_CORE), {"a": 40 * KIB, "?": KIB}, {}).read_miss == {"a": Fraction(1, 4), "?": 1}
