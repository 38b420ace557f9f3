"""What L2 holds and what it gives up, on random sequences of tasks, against a model that looks at every
line."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from ascendsim.isa.program import Access, MemoryPlan, Region
from ascendsim.machine.l2 import Judged, L2State, Shares, in_all
from ascendsim.machine.regions import Regions
from tests.support.gate import every, in_one
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


@pytest.mark.parametrize("chunk", every(2, range(4)))
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


@in_one("seed", range(100))
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


def random_parts(random: Random) -> list[Judged]:
    """Parts of a task that touch the same few regions, with shares of any kind."""

    def share() -> Fraction:
        return random.choice((Fraction(0), Fraction(1), Fraction(random.randint(1, 6), 7)))

    parts = []
    for _ in range(random.randint(2, 4)):
        reads, writes = (
            [
                Access(name, 1, random.randint(0, 9), write)
                for name in random.sample("abcd", random.randint(0, 3))
            ]
            for write in (False, True)
        )
        shares = Shares(
            read_miss={access.region: share() for access in reads},
            read_spread={access.region: share() for access in reads if random.random() < 0.7},
            write_through={access.region: share() for access in writes},
            evicted=share(),
        )
        through, back = shares.dram_bytes(reads, writes)
        written = back / (through + back) if back else Fraction(0)
        parts.append(Judged(replace(shares, written=written), reads, writes))
    return parts


def test_a_task_moves_what_its_parts_move() -> None:
    """Read and written in all, the share of writes in it, and of each region; a region has no bound where one
    of the parts that read it has none, and the widest of the parts' bounds otherwise."""
    random, bounded, open_ended = Random(5), 0, 0
    for _ in range(300):
        parts = random_parts(random)
        whole = in_all(parts)
        reads, writes = (
            [access for part in parts for access in getattr(part, side)] for side in ("reads", "writes")
        )
        sides = [part.shares.dram_bytes(part.reads, part.writes) for part in parts]
        read, written = (sum((side[way] for side in sides), Fraction(0)) for way in (0, 1))
        assert whole.dram_bytes(reads, writes) == (read, written)
        assert whole.written == (written / (read + written) if written else 0)
        for name in "abcd":
            for kind, way in (("reads", 0), ("writes", 1)):
                moved = [[one for one in getattr(part, kind) if one.region == name] for part in parts]
                wanted = sum(
                    replace(part.shares, evicted=Fraction(0)).dram_bytes(
                        *((mine, []) if way == 0 else ([], mine))
                    )[way]
                    for part, mine in zip(parts, moved, strict=True)
                )
                every = [one for mine in moved for one in mine]
                both = (every, []) if way == 0 else ([], every)
                assert replace(whole, evicted=Fraction(0)).dram_bytes(*both)[way] == wanted
            readers = [part.shares for part in parts if any(one.region == name for one in part.reads)]
            bounds = [shares.read_spread[name] for shares in readers if name in shares.read_spread]
            if readers and len(bounds) == len(readers):
                bounded += 1
                assert whole.read_spread[name] == max(bounds)
            else:
                open_ended += bool(readers)
                assert name not in whole.read_spread
    assert bounded > 50
    assert open_ended > 50


def test_a_task_of_one_part_is_that_part() -> None:
    (part, *_) = random_parts(Random(1))
    assert in_all([part]) is part.shares
