"""Where to cut a batch: what pays is found, and what does not is left alone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ascendsim import soc as chips
from ascendsim.isa.program import Access, MemoryPlan, Program, Region, Task, TaskKind
from ascendsim.lower.batch_split import BatchSearch
from ascendsim.lower.task_cost import Rates, TaskPrice, closed_form

SOC = chips.load("Ascend310", {"l2.read_bytes_per_cycle_per_core": 128, "l2.write_bytes_per_cycle_per_core": 64})  # nominal rates
KIB = 1024
L2 = 1024 * KIB


def chain(batch: int, sizes: list[int], weight: int) -> Program:
    """A chain of tasks; tensor i has sizes[i] KiB a sample, every task reads its own weight of so many KiB."""
    regions, tasks = {}, []
    for number, size in enumerate(sizes):
        kind = "input" if number == 0 else "output" if number == len(sizes) - 1 else "activation"
        regions[f"x{number}"] = Region(
            f"x{number}", 0, size * batch * KIB, kind, first=max(0, number - 1), last=min(number, len(sizes) - 2)
        )
    for number, (before, after) in enumerate(pairwise(sizes)):
        regions[f"w{number}"] = Region(f"w{number}", 0, weight * KIB, "weight")
        moved = [(f"x{number}", before * batch, False), (f"w{number}", weight, False), (f"x{number + 1}", after * batch, True)]
        accesses = tuple(Access(name, size * KIB, size * KIB, write) for name, size, write in moved)
        tasks.append(Task(number, f"t{number}", TaskKind.AI_CORE, accesses=accesses))
    return Program(tuple(tasks), MemoryPlan(regions, 0, 0), metadata={"tasks_of": {task.name: (task.id,) for task in tasks}})


def search(sizes: list[int], weight: int, legal: bool = True, batches: tuple[int, ...] = (1, 2, 4, 8)) -> list[tuple[int, int, int]]:
    programs = {batch: chain(batch, sizes, weight) for batch in batches}
    units = [[f"t{number}"] for number in range(len(sizes) - 1)]
    found = BatchSearch(units, programs, SOC, L2, lambda first, end: legal).run()
    assert all(block.seconds < block.whole_seconds for block in found)
    return [(block.first, block.end, block.batch) for block in found]


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
    assert rates.ddr == pytest.approx(42e9)
    start = (SOC.launch.task_launch_us + SOC.launch.task_gap_us) * 1e-6 + SOC.launch.kernel_init_ns * 1e-9
    assert price.far - start == pytest.approx(2048 * KIB / rates.ddr)
    assert price.near - start == pytest.approx(2048 * KIB / rates.l2)
