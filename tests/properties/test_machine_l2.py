"""What L2 holds and what it gives up, on random sequences of tasks, against a model that looks at every
line."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from ascendsim.isa.program import Access, MemoryPlan, Region
from ascendsim.machine.l2 import L2State
from ascendsim.machine.regions import Regions
from tests.support.reference_l2 import PlainL2
from tests.support.toy_soc import TOY

TASKS = 14


def random_regions(random: Random) -> dict[str, Region]:
    """Owners at addresses that some of them share, views of all of one, slices, slices of slices, and views
    of slices."""
    regions: dict[str, Region] = {}
    for number in range(random.randint(1, 6)):
        name = f"r{number}"
        regions[name] = Region(name, random.randint(0, 40), random.randint(1, 16), "activation")
        for kind in random.choices(("view", "slice"), k=random.choice((0, 0, 1, 3))):
            above = random.choice([region for region in regions.values() if region.name.startswith(name)])
            inner = f"{name}.{len(regions)}"
            if kind == "view":
                regions[inner] = replace(above, name=inner, alias_of=above.name, cut=None)
            else:
                start = random.randint(0, above.bytes - 1)
                # padding may stick out
                size = random.choice((above.bytes - start, random.randint(1, above.bytes - start + 2)))
                regions[inner] = Region(
                    inner, above.offset + start, size, "activation", alias_of=above.name, cut=(0, start)
                )
    return regions


def random_accesses(random: Random, regions: dict[str, Region], write: bool) -> list[Access]:
    names = random.sample([*regions, "unknown"], random.randint(0, min(3, len(regions))))
    sizes = {name: regions[name].bytes if name in regions else 5 for name in names}
    unique = {name: random.choice((size, size, random.randint(1, size))) for name, size in sizes.items()}
    return [Access(name, size, size * random.choice((1, 1, 2, 3)), write) for name, size in unique.items()]


@pytest.mark.parametrize("chunk", range(4))
def test_random_tasks_find_and_leave_what_a_list_of_lines_has(chunk: int) -> None:
    evicted = partial = 0
    for seed in range(chunk * 100, (chunk + 1) * 100):
        random = Random(seed)
        regions, capacity = random_regions(random), random.choice((4, 12, 24, 48))
        state = L2State(replace(TOY.l2, size=capacity), MemoryPlan(regions, 0, 0))
        plain = PlainL2(capacity, regions)
        for number in range(TASKS):
            reads, writes = (random_accesses(random, regions, write) for write in (False, True))
            again = {
                access.region: Fraction(random.randint(1, 4), 4) for access in reads if random.random() < 0.15
            }
            shares, wanted = state.enter(reads, writes, again), plain.task(reads, writes, again)
            where = f"seed {seed}, task {number}"
            assert shares.read_miss == wanted.read_miss, where
            assert shares.read_spread == wanted.read_spread, where
            assert shares.write_through == wanted.write_through, where
            assert shares.evicted == wanted.evicted, where
            assert {name: state.resident(name) for name in regions} == {
                name: plain.held(plain.key(name)) for name in regions
            }, where
            evicted += shares.evicted > 0
            partial += any(0 < share < 1 for share in shares.read_miss.values())
    assert evicted > 100
    assert partial > 100


@pytest.mark.parametrize("seed", range(100))
def test_regions_lie_to_each_other_as_their_bytes_do(seed: int) -> None:
    regions = random_regions(Random(seed))
    lookup, plain = Regions(MemoryPlan(regions, 0, 0)), PlainL2(0, regions)
    keys = {plain.key(name) for name in regions}
    for name in [*regions, "unknown"]:
        assert (lookup.root(name), lookup.key(name)) == (plain.owner(name), plain.key(name))
        start, end = lookup.addresses(name)
        assert set(range(start, end)) == plain.span(name)
        assert lookup.size(name) == (plain.size(name) if name in regions else None)
    for key in keys:
        assert set(lookup.slices(key)) == {name for name in keys if plain.is_part(name, key)}
    shared = {
        key
        for key in keys
        if any(
            plain.owner(other) != plain.owner(key) and plain.span(other) & plain.span(key) for other in keys
        )
    }
    assert shared <= lookup.reused
    assert all(any(plain.span(name) & plain.span(other) for other in keys - {name}) for name in lookup.reused)
