"""L2 placement against a plain model: a table of tasks and pages in which pieces are written one after
another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random

import numpy as np

from ascendsim.isa.program import Access, MemoryPlan, Program, ProgramInfo, Region, Task, TaskKind
from ascendsim.lower.l2_placement import (
    check_placement,
    plan_l2,
    touched_roots,
    weights_of_steps,
    with_placement,
)

PAGE, PAGES = 512, 16


def program_of(seed: int) -> Program:
    """Tasks, some on the AI CPU, with regions of every kind; some are slices of others."""
    random = Random(seed)
    count = random.randint(2, 9)
    accesses: list[list[Access]] = [[] for _ in range(count)]
    regions: dict[str, Region] = {}
    for number in range(random.randint(1, 14)):
        users = sorted(random.sample(range(count), random.randint(1, min(3, count))))
        bytes, name = random.choice((1, random.randint(1, PAGE * 12))), f"r{number}"
        kind = random.choice(("activation", "activation", "activation", "weight", "weight", "output"))
        regions[name] = Region(name, 0, bytes, kind, first=users[0], last=users[-1])
        if kind == "activation" and random.random() < 0.2:
            regions[f"{name}/part"] = Region(
                f"{name}/part", 0, bytes, kind, name, users[0], users[-1], random.choice(((0, 0), None))
            )
        for user in users:
            write = user == users[0] and kind != "weight"
            shown = random.choice([item for item in regions if item.startswith(name)])
            accesses[user].append(Access(shown, bytes, bytes * random.randint(1, 3), write))
    kinds = [TaskKind.AI_CPU if random.random() < 0.15 else TaskKind.AI_CORE for _ in range(count)]
    tasks = tuple(
        Task(number, f"t{number}", kind, accesses=tuple(items))
        for number, (kind, items) in enumerate(zip(kinds, accesses, strict=True))
    )
    return Program(tasks, MemoryPlan(regions, 0, 0))


def reference(
    program: Program,
    candidates: Collection[str] | None,
    preferred: Collection[str],
    weights: Collection[str],
    pieces: int,
) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """Offset and saved bytes of what is placed, and what is refused."""
    regions = program.memory.regions
    uses: dict[str, list[tuple[Task, Access]]] = {}
    for task in program.tasks:
        for access in task.accesses:
            uses.setdefault(regions[access.region].alias_of or access.region, []).append((task, access))
    cut = {region.alias_of or region.name for region in regions.values() if region.cut is not None}
    table = np.zeros((len(program.tasks), PAGES), bool)
    number = np.zeros(len(program.tasks), int)
    placed: dict[str, tuple[int, int]] = {}
    refused: set[str] = set()

    def put(name: str, first: int, last: int, saved: int) -> bool:
        size = -(-regions[name].bytes // PAGE)
        life = slice(first, last + 1)
        free = [page for page in range(PAGES - size + 1) if not table[life, page : page + size].any()]
        if not free or number[life].max() >= pieces:
            return False
        table[life, free[0] : free[0] + size] = True
        number[life] += 1
        placed[name] = free[0] * PAGE, saved
        return True

    order = sorted(uses, key=lambda name: (name not in preferred, uses[name][0][0].id, name))
    for name in order:
        region, found = regions[name], uses[name]
        if region.kind != "activation" or (candidates is not None and name not in candidates):
            continue
        if not any(access.write for _, access in found) or all(access.write for _, access in found):
            continue
        by_cpu = any(access.write and task.kind is TaskKind.AI_CPU for task, access in found)
        if (
            name in cut
            or by_cpu
            or not put(name, region.first, region.last, sum(access.moved_bytes for _, access in found))
        ):
            refused.add(name)
    for name in sorted(set(weights)):
        found = uses.get(name, [])
        again = sum(access.moved_bytes for _, access in found) - regions[name].bytes
        if regions[name].kind == "weight" and again > 0:
            put(name, found[0][0].id, found[-1][0].id, again)
    return placed, refused


def test_placement_is_that_of_the_table() -> None:
    seen = 0
    for seed in range(300):
        random, program = Random(-seed), program_of(seed)
        owners = [name for name, region in program.memory.regions.items() if region.alias_of is None]
        candidates = random.choice((None, random.sample(owners, random.randint(0, len(owners)))))
        preferred = random.sample(owners, random.randint(0, min(3, len(owners))))
        weights = random.sample(owners, random.randint(0, len(owners)))
        pieces = random.randint(1, 5)
        plan = plan_l2(program, PAGE * PAGES, candidates, preferred, weights, pages=PAGES, pieces=pieces)
        placed, refused = reference(program, candidates, preferred, weights, pieces)
        assert {item.region: (item.offset, item.saved_bytes) for item in plan.placed} == placed, seed
        assert set(plan.refused) == refused, seed
        assert check_placement(program, plan) == []
        assert (
            plan.peak_bytes
            == max([item.offset + item.bytes for item in plan.placed], default=0)
            <= plan.capacity
        )
        assert plan.saved_bytes == sum(saved for _, saved in placed.values())
        kinds = {item.region: program.memory.regions[item.region].kind for item in plan.placed}
        assert all(item.weight == (kinds[item.region] == "weight") for item in plan.placed)
        assert all(
            item.bytes % PAGE == 0
            and item.bytes - PAGE < program.memory.regions[item.region].bytes <= item.bytes
            for item in plan.placed
        )
        info = with_placement(program, plan).info
        assert {*info.l2_placed, *info.l2_kept} == set(placed)
        assert set(info.l2_kept) == {name for name, kind in kinds.items() if kind == "weight"}
        seen += len(placed)
    assert seen > 300


def test_reasons_say_what_was_in_the_way() -> None:
    sizes = {"huge": PAGE * 17, "a": PAGE * 10, "b": PAGE * 7, "c": PAGE, "d": PAGE}
    regions = {name: Region(name, 0, bytes, "activation", first=0, last=1) for name, bytes in sizes.items()}
    both = [
        tuple(Access(name, bytes, bytes, write) for name, bytes in sizes.items()) for write in (True, False)
    ]
    tasks = tuple(
        Task(number, f"t{number}", TaskKind.AI_CORE, accesses=accesses)
        for number, accesses in enumerate(both)
    )
    plan = plan_l2(Program(tasks, MemoryPlan(regions, 0, 0)), PAGE * PAGES, pages=PAGES, pieces=2)
    assert [item.region for item in plan.placed] == ["a", "c"]
    assert plan.refused == {
        "huge": "larger than L2",
        "b": "no room while it lives",
        "d": "2 tensors are in L2 already",
    }


def test_breaches_of_a_plan_are_found() -> None:
    program = next(
        program
        for program in map(program_of, range(300))
        if len(plan_l2(program, PAGE * PAGES, pages=PAGES).placed) > 1
    )
    plan = plan_l2(program, PAGE * PAGES, pages=PAGES)
    first, *others = plan.placed
    beyond = replace(first, offset=plan.capacity - first.bytes + 1)
    assert f"{first.region} ends beyond L2" in check_placement(
        program, replace(plan, placed=(beyond, *others))
    )
    assert f"{first.region} ends beyond L2" in check_placement(
        program, replace(plan, placed=(replace(first, offset=-1), *others))
    )
    together = replace(others[0], offset=first.offset + first.bytes - 1, first=first.last, last=first.last)
    assert f"{first.region} and {together.region} share bytes" in check_placement(
        program, replace(plan, placed=(first, together))
    )
    beside = replace(together, offset=first.offset + first.bytes)
    assert not any(
        "share" in breach for breach in check_placement(program, replace(plan, placed=(first, beside)))
    )
    users = [task.id for task, _, _ in touched_roots(program)[first.region]]
    for life in ((min(users) + 1, max(users)), (min(users), max(users) - 1)):
        shorter = replace(first, first=life[0], last=life[1])
        assert f"{first.region} is used outside of its life" in check_placement(
            program, replace(plan, placed=(shorter,))
        )


def test_weights_of_steps_are_those_of_recurrent_tasks() -> None:
    regions = {
        name: Region(name, 0, 64, kind)
        for name, kind in (("w", "weight"), ("v", "weight"), ("x", "input"), ("h", "activation"))
    }
    reads = (("x", "w", "h"), ("v",))
    tasks = tuple(
        Task(
            number, name, TaskKind.AI_CORE, accesses=tuple(Access(region, 64, 64, False) for region in names)
        )
        for number, (name, names) in enumerate(zip(("lstm", "conv"), reads, strict=True))
    )
    info = ProgramInfo(tasks_of={"lstm": (0,), "conv": (1,)}, engines={"lstm": "sequence", "conv": "cube"})
    assert weights_of_steps(Program(tasks, MemoryPlan(regions, 0, 0), info=info)) == ("w",)
