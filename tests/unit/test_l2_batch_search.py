"""Where to cut a batch: what pays is found, and what does not is left alone."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest

from ascendsim import soc as chips
from ascendsim.isa.program import Access, MemoryPlan, Program, ProgramInfo, Region, Task, TaskKind
from ascendsim.lower import batch_split
from ascendsim.lower.batch_split import BatchSearch
from ascendsim.lower.task_cost import Rates, TaskPrice, closed_form

# nominal rates
SOC = chips.load(
    "Ascend310", {"l2.read_bytes_per_cycle_per_core": 128, "l2.write_bytes_per_cycle_per_core": 64}
)
KIB = 1024
L2 = 1024 * KIB


def chain(batch: int, sizes: list[int], weight: int) -> Program:
    """A chain of tasks; tensor i has sizes[i] KiB a sample, every task reads its own weight of so many
    KiB."""
    regions, tasks = {}, []
    for number, size in enumerate(sizes):
        kind = "input" if number == 0 else "output" if number == len(sizes) - 1 else "activation"
        regions[f"x{number}"] = Region(
            f"x{number}",
            0,
            size * batch * KIB,
            kind,
            first=max(0, number - 1),
            last=min(number, len(sizes) - 2),
        )
    for number, (before, after) in enumerate(pairwise(sizes)):
        regions[f"w{number}"] = Region(f"w{number}", 0, weight * KIB, "weight")
        moved = [
            (f"x{number}", before * batch, False),
            (f"w{number}", weight, False),
            (f"x{number + 1}", after * batch, True),
        ]
        accesses = tuple(Access(name, size * KIB, size * KIB, write) for name, size, write in moved)
        tasks.append(Task(number, f"t{number}", TaskKind.AI_CORE, accesses=accesses))
    return Program(
        tuple(tasks),
        MemoryPlan(regions, 0, 0),
        info=ProgramInfo(tasks_of={task.name: (task.id,) for task in tasks}),
    )


def search(
    sizes: list[int], weight: int, legal: bool = True, batches: tuple[int, ...] = (1, 2, 4, 8)
) -> list[tuple[int, int, int]]:
    programs = {batch: chain(batch, sizes, weight) for batch in batches}
    units = [[f"t{number}"] for number in range(len(sizes) - 1)]
    found = BatchSearch(units, programs, SOC, L2, lambda first, end: legal).run()
    assert all(block.seconds < block.whole_seconds for block in found)
    return [(block.first, block.end, block.batch) for block in found]


def searcher(sizes: list[int], weight: int, batches: tuple[int, ...] = (1, 2, 4, 8)) -> BatchSearch:
    programs = {batch: chain(batch, sizes, weight) for batch in batches}
    return BatchSearch(
        [[f"t{number}"] for number in range(len(sizes) - 1)], programs, SOC, L2, lambda first, end: True
    )


def quiet_places(sizes: list[int]) -> list[int]:
    """Places between tasks where no neighbour has less alive, and both ends."""
    inner = [
        place for place in range(1, len(sizes) - 1) if sizes[place] <= min(sizes[place - 1], sizes[place + 1])
    ]
    return [0, *inner, len(sizes) - 1]


def test_no_way_to_cut_at_quiet_places_is_quicker() -> None:
    """Every way is tried; a smaller batch must make its block at least 1 % quicker."""
    found_some = 0
    for seed in range(25):
        random = Random(seed)
        sizes = [random.choice((8, 32, 64, 128, 256, 400)) for _ in range(random.randint(2, 7))]
        search_ = searcher(sizes, random.choice((1, 16, 200)))
        places = quiet_places(sizes)

        def piece(first: int, end: int, search_: BatchSearch = search_) -> float:
            whole = search_.seconds(first, end, 8)
            paying = [
                cut for batch in (1, 2, 4) if (cut := search_.seconds(first, end, batch)) < 0.99 * whole
            ]
            return min([whole, *paying])

        ways = (way for count in range(len(places) - 1) for way in combinations(places[1:-1], count))
        best = min(sum(piece(first, end) for first, end in pairwise([0, *way, places[-1]])) for way in ways)
        blocks = search_.run()
        edges = [0, *(edge for block in blocks for edge in (block.first, block.end)), len(sizes) - 1]

        def whole(start: int, stop: int, search_: BatchSearch = search_, places: list[int] = places) -> float:
            """The least that a stretch takes with the whole batch, in one block or in several."""
            inner = [place for place in places if start < place < stop]
            ways = (way for count in range(len(inner) + 1) for way in combinations(inner, count))
            return min(
                sum(search_.seconds(*ends, 8) for ends in pairwise([start, *way, stop])) for way in ways
            )

        between = [
            whole(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if start < stop
        ]
        assert sum(block.seconds for block in blocks) + sum(between) == pytest.approx(best), seed
        assert {edge for block in blocks for edge in (block.first, block.end)} <= set(places)
        assert all(block.seconds < 0.99 * block.whole_seconds for block in blocks)
        assert all(block.seconds == search_.seconds(block.first, block.end, block.batch) for block in blocks)
        found_some += len(blocks)
    assert found_some > 5


def test_of_many_quiet_places_those_with_least_alive_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [256, 256, 256, 9, *[3] * 20, 9, 256, 256, 256]  # of equal ones the first
    few = {0, 4, 5, len(sizes) - 1}

    def borders() -> set[int]:
        return {edge for block in searcher(sizes, 1).run() for edge in (block.first, block.end)}

    assert borders() - few
    monkeypatch.setattr(batch_split, "MOST_CUTS", 2)
    assert borders() <= few


def test_passes_bring_weights_again_unless_they_stay() -> None:
    """Two tasks at batch 4 of 8, all tensors in L2: what is left is weights, and their second coming if L2 is
    full."""
    light, heavy = searcher([8, 8, 8], 16), searcher([8, 8, 8], 900)
    for search_, stays in ((light, True), (heavy, False)):
        once, twice = search_.seconds(0, 2, 8), search_.seconds(0, 2, 4)
        launches = 2 * (SOC.launch.task_launch_us + SOC.launch.task_gap_us) * 1e-6
        assert twice > once
        again = twice - once - launches
        assert (again < 16e-6) == stays


def test_four_weights_can_stay_and_five_cannot() -> None:
    """Half of the descriptions that the driver takes are for weights, however small they are."""
    launch = (SOC.launch.task_launch_us + SOC.launch.task_gap_us) * 1e-6
    again = []
    for tasks in (4, 5):
        search_ = searcher([8] * (tasks + 1), 100)
        again.append(search_.seconds(0, tasks, 4) - search_.seconds(0, tasks, 8) - tasks * launch)
    assert again[1] > 2 * again[0]


def test_what_lives_through_all_passes_finds_the_room_that_the_fullest_task_leaves() -> None:
    near, room = searcher([8, 32, 800, 8, 32, 8], 1)._placed(1, 4, 1)  # 808 KiB, then 8
    assert near == {"x2", "x3"}  # not the 8 x 32 KiB on either side, which come again with every pass
    assert room == L2 - (800 + 16) * KIB  # in pages of 16 KiB
    assert searcher([8, 32, 400, 8, 32, 8], 1)._placed(1, 4, 1)[0] == {"x1", "x2", "x3", "x4"}


def test_a_chain_that_does_not_fit_runs_with_the_largest_batch_that_does() -> None:
    assert search([256, 256, 256, 256, 256], weight=1) == [(0, 4, 2)]  # two tensors of 2 x 256 KiB fill 1 MiB


def test_a_chain_that_fits_stays_whole() -> None:
    assert search([32, 32, 32, 32], weight=1) == []


def test_weights_that_are_read_in_every_pass_can_make_it_a_loss() -> None:
    assert search([256, 256, 256], weight=1) != []
    assert search([256, 256, 256], weight=8192) == []


def test_a_single_task_gains_nothing() -> None:
    assert search([512, 512], weight=1) == []


def test_what_is_not_legal_is_not_cut() -> None:
    assert search([256, 256, 256, 256], weight=1, legal=False) == []


def test_the_narrow_end_of_a_network_stays_whole() -> None:
    found = search([256, 256, 256, 8, 8, 8], weight=1)
    assert len(found) == 1
    first, end, batch = found[0]
    assert (first, batch) == (0, 2)
    assert end in (3, 4)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_prices_are_linear_in_the_bytes(share: float) -> None:
    assert TaskPrice(1.0, 3.0).seconds(share) == 3.0 - 2.0 * share


def test_the_closed_form_takes_bytes_at_the_rate_of_their_memory() -> None:
    task = chain(1, [1024, 1024], weight=0).tasks[0]
    price, rates = closed_form(task, SOC), Rates.of(SOC)
    assert rates.ddr == pytest.approx(45.6e9)
    start = (SOC.launch.task_launch_us + SOC.launch.task_gap_us) * 1e-6 + SOC.launch.kernel_init_ns * 1e-9
    assert price.far - start == pytest.approx(2048 * KIB / rates.ddr)
    assert price.near - start == pytest.approx(2048 * KIB / rates.l2)


@pytest.mark.parametrize(("seconds", "batches"), [(98.9, [4]), (99.1, []), (100.5, [])])
def test_a_cut_must_pay_one_percent(
    monkeypatch: pytest.MonkeyPatch, seconds: float, batches: list[int]
) -> None:
    monkeypatch.setattr(
        BatchSearch,
        "seconds",
        lambda _, first, end, batch: 100.0 if batch == 8 else seconds if batch == 4 else 200.0,
    )
    assert [block.batch for block in searcher([256, 256], 1).run()] == batches


def test_what_is_free_in_l2_is_what_the_most_tensors_at_a_time_leave() -> None:
    """Inside a run, tensors live from the task that makes them to the last that reads them; those of its ends
    live through all passes, with the whole batch."""
    random, crowded = Random(6), 0
    for _ in range(60):
        sizes = [random.choice((8, 32, 64, 128, 256)) for _ in range(random.randint(3, 8))]
        first = random.randrange(len(sizes) - 2)
        end, batch = random.randint(first + 1, len(sizes) - 1), random.choice((1, 2, 4, 8))
        near, free = searcher(sizes, 1)._placed(first, end, batch)
        inner = {f"x{number}" for number in range(first + 1, end)}
        ends = {f"x{number}" for number in (first, end) if 0 < number < len(sizes) - 1}
        assert near <= inner | ends
        size = {f"x{number}": sizes[number] * KIB for number in range(len(sizes))}
        staying = 8 * sum(size[name] for name in near & ends)
        at_once = [
            batch * sum(size[name] for name in near & inner & {f"x{unit}", f"x{unit + 1}"})
            for unit in range(first, end)
        ]
        assert free == L2 - staying - max(at_once) >= 0
        crowded += near < inner | ends
    assert crowded > 10
