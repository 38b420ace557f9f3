"""Which tensors lie in L2, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.isa.program import Access, MemoryPlan, Program, ProgramInfo, Region, Task, TaskKind, owner_of
from ascendsim.lower.l2_placement import (
    Placement,
    check_placement,
    plan_l2,
    weights_of_steps,
    with_placement,
)

KIB = 1024
PAGE = 4 * KIB
L2 = 64 * PAGE


def program(
    *tasks: tuple[str, str], sizes: dict[str, int] | None = None, kinds: dict[str, str] | None = None
) -> Program:
    """Tasks given by the names of the regions that they read and write, one letter each; a region has four
    pages."""
    made, lives = [], {}
    for number, (reads, writes) in enumerate(tasks):
        for name in reads + writes:
            first, _ = lives.get(name, (number, number))
            lives[name] = (first, number)
        bytes = {name: (sizes or {}).get(name, 4 * PAGE) for name in reads + writes}
        accesses = [Access(name, bytes[name], 2 * bytes[name], False) for name in reads]
        accesses += [Access(name, bytes[name], bytes[name], True) for name in writes]
        made.append(Task(number, f"t{number}", TaskKind.AI_CORE, accesses=tuple(accesses)))
    regions = {}
    for name, (first, last) in lives.items():
        kind = (kinds or {}).get(name, "activation")
        regions[name] = Region(name, 0, (sizes or {}).get(name, 4 * PAGE), kind, first=first, last=last)
    return Program(tuple(made), MemoryPlan(regions, 0, 0))


def test_a_chain_passes_its_tensors_through_l2() -> None:
    plan = plan_l2(program(("x", "a"), ("a", "b"), ("b", "y"), kinds={"x": "input", "y": "output"}), L2)
    assert [(item.region, item.offset, item.first, item.last) for item in plan.placed] == [
        ("a", 0, 0, 1),
        ("b", 4 * PAGE, 1, 2),
    ]
    assert plan.placed[0] == Placement("a", 0, 4 * PAGE, 0, 1, 8 * PAGE, 4 * PAGE)
    assert plan.saved_bytes == 24 * PAGE
    assert plan.peak_bytes == 8 * PAGE


def test_room_is_used_again_after_the_last_reader() -> None:
    plan = plan_l2(program(("", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "")), L2)
    assert [item.offset // PAGE for item in plan.placed] == [0, 4, 0, 4]


def test_inputs_outputs_weights_and_dead_ends_stay_in_ddr() -> None:
    given = program(("xw", "ay"), ("a", "z"), kinds={"x": "input", "y": "output", "w": "weight"})
    assert [item.region for item in plan_l2(given, L2).placed] == ["a"]  # nobody reads z


@pytest.mark.parametrize(("pages", "reason"), [(65, "larger than L2"), (61, "no room while it lives")])
def test_what_does_not_fit_is_refused_with_a_reason(pages: int, reason: str) -> None:
    given = program(("", "a"), ("a", "b"), ("ab", "c"), ("c", ""), sizes={"b": pages * PAGE})
    plan = plan_l2(given, L2)
    assert plan.refused == {"b": reason}
    assert [item.region for item in plan.placed] == ["a", "c"]


def test_no_more_than_eight_pieces_at_a_time() -> None:
    given = program(("", "abcdefghi"), ("abcdefghi", ""))
    plan = plan_l2(given, L2)
    assert "".join(item.region for item in plan.placed) == "abcdefgh"
    assert plan.refused == {"i": "8 tensors are in L2 already"}
    assert "i" in [item.region for item in plan_l2(given, L2, pieces=9).placed]


def test_what_a_concat_without_a_task_joins_stays_in_ddr() -> None:
    given = program(("", "ab"), ("c", "d"), ("d", ""))
    regions = dict(given.memory.regions)
    regions["c"] = replace(regions["c"], first=0)
    regions["a"] = replace(regions["a"], alias_of="c", cut=(1, 0))
    regions["b"] = replace(regions["b"], alias_of="c", cut=(1, 16))
    plan = plan_l2(replace(given, memory=replace(given.memory, regions=regions)), L2)
    assert [item.region for item in plan.placed] == ["d"]
    assert plan.refused == {"c": "a Concat or Split without a task lies in it"}


def test_pages_are_whole() -> None:
    plan = plan_l2(program(("", "ab"), ("ab", ""), sizes={"a": PAGE + 1, "b": 1}), L2)
    assert [(item.offset, item.bytes) for item in plan.placed] == [(0, 2 * PAGE), (2 * PAGE, PAGE)]


def test_results_of_the_ai_cpu_stay_in_ddr() -> None:
    given = program(("", "a"), ("a", "b"), ("b", ""))
    given = replace(
        given, tasks=(given.tasks[0], replace(given.tasks[1], kind=TaskKind.AI_CPU), given.tasks[2])
    )
    plan = plan_l2(given, L2)
    assert [item.region for item in plan.placed] == ["a"]
    assert plan.refused == {"b": "the AI CPU makes it"}


def test_preferred_tensors_come_first_and_others_only_if_they_are_candidates() -> None:
    given = program(("", "a"), ("a", "b"), ("ab", ""), sizes={"a": 40 * PAGE, "b": 40 * PAGE})
    assert [item.region for item in plan_l2(given, L2).placed] == ["a"]
    assert [item.region for item in plan_l2(given, L2, preferred=["b"]).placed] == ["b"]
    assert plan_l2(given, L2, candidates=()).placed == ()


def test_weights_stay_if_there_is_room_beside_the_tensors() -> None:
    given = program(("w", "a"), ("a", "b"), ("wb", "c"), ("c", ""), kinds={"w": "weight"})
    plan = plan_l2(given, L2, weights=["w"])
    kept = plan.placed[-1]
    # four reads, the first from DDR
    assert (kept.region, kept.weight, kept.read_bytes, kept.first, kept.last) == (
        "w",
        True,
        12 * PAGE,
        0,
        2,
    )
    assert plan_l2(given, 8 * PAGE, weights=["w"], pages=8).placed[-1].region != "w"
    marked = with_placement(given, plan).info
    assert (marked.l2_placed, marked.l2_kept) == (("a", "b", "c"), ("w",))


def test_weights_of_every_time_step_stay_and_come_from_ddr_once() -> None:
    given = program(("xw", "a"), ("a", "y"), kinds={"x": "input", "w": "weight", "y": "output"})
    marked = replace(
        given,
        info=ProgramInfo(
            tasks_of={"lstm": (0,), "relu": (1,)}, engines={"lstm": "sequence", "relu": "vector"}
        ),
    )
    assert weights_of_steps(marked) == ("w",)
    kept = plan_l2(given, L2, weights=["w"]).placed[-1]
    assert (kept.region, kept.weight, kept.first, kept.last, kept.read_bytes) == ("w", True, 0, 0, 4 * PAGE)
    once = [
        replace(task, accesses=tuple(replace(a, moved_bytes=a.unique_bytes) for a in task.accesses))
        for task in given.tasks
    ]
    assert "w" not in [
        item.region for item in plan_l2(replace(given, tasks=tuple(once)), L2, weights=["w"]).placed
    ]


def test_aliases_belong_to_the_region_that_owns_the_memory() -> None:
    given = program(("", "a"), ("b", ""))
    regions = {
        "a": replace(given.memory.regions["a"], last=1),
        "b": replace(given.memory.regions["b"], alias_of="a"),
    }
    given = replace(given, memory=MemoryPlan(regions, 0, 0))
    assert owner_of(given.memory.regions, "b") == "a"
    assert [item.region for item in plan_l2(given, L2).placed] == ["a"]


def test_the_check_finds_breaches() -> None:
    given = program(("", "a"), ("a", "b"), ("b", ""))
    plan = plan_l2(given, L2)
    assert check_placement(given, plan) == []
    a, b = plan.placed
    assert check_placement(given, replace(plan, placed=(a, replace(b, offset=PAGE)))) == [
        "a and b share bytes"
    ]
    assert check_placement(given, replace(plan, placed=(replace(a, offset=L2), b))) == ["a ends beyond L2"]
    assert check_placement(given, replace(plan, placed=(replace(a, last=0), b))) == [
        "a is used outside of its life"
    ]
