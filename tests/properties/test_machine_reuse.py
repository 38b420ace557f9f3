"""How often DRAM delivers what a task reads again and again, against a cache of tiles with
least-recently-used replacement."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from fractions import Fraction
from math import prod
from random import Random

import pytest

from ascendsim.isa.footprint import footprint
from ascendsim.isa.instructions import Affine, Buffer, Loop, Move, Operand, Pipe, Statement
from ascendsim.isa.program import Access, Block
from ascendsim.machine.reuse import fetched_again, fetched_bytes
from tests.support.reference_blocks import expanded
from tests.support.toy_programs import gm

TILE = 64
LOCAL = Operand(Buffer.UB, "u", TILE)


def random_nest(random: Random, still: tuple[int, ...]) -> tuple[Statement, ...]:
    """Loops three deep with a transfer of a region of its own here and there, which may come back in the
    loops of these depths."""
    numbers = iter(range(100))

    def transfer(around: tuple[tuple[str, int], ...]) -> Statement:
        name, room, terms = f"r{next(numbers)}", TILE, []
        for depth, (loop, trips) in enumerate(around):
            if depth not in still or random.random() < 0.5:
                terms.append((loop, room))
                room *= trips
        place = gm(name, TILE, Affine(0, tuple(terms)))
        return (
            Move(Pipe.MTE3, place, LOCAL, 1, TILE)
            if random.random() < 0.2
            else Move(Pipe.MTE2, LOCAL, place, 1, TILE)
        )

    def nest(depth: int, around: tuple[tuple[str, int], ...]) -> tuple[Statement, ...]:
        body: list[Statement] = [transfer(around)] if random.random() < 0.7 else []
        if depth:
            name, trips = f"i{next(numbers)}", random.randint(1, 4)
            body.insert(
                random.randint(0, len(body)), Loop(name, trips, nest(depth - 1, (*around, (name, trips))))
            )
        return tuple(body)

    return nest(3, ())


def places(body: Iterable[Statement]) -> list[tuple[str, bool, int]]:
    """Region, direction and offset of each transfer that runs."""
    found = []
    for item, variables in expanded(body):
        assert isinstance(item, Move)
        write = item.dst.buffer is Buffer.GM
        operand = item.dst if write else item.src
        found.append(
            (operand.name, write, sum(step * variables[name] for name, step in operand.offset.terms))
        )
    return found


def delivered(
    body: Iterable[Statement], blocks: int, cores: int, shared: set[str], capacity: int
) -> dict[str, int]:
    """Bytes that DRAM delivers to cores that go through their blocks in step, round by round."""
    run, cache, fetched = places(body), OrderedDict[tuple[str, int, int], None](), Counter[str]()
    for first in range(0, blocks, cores):
        for name, write, offset in run:
            for block in range(first, min(blocks, first + cores)):
                tile = (name, 0 if name in shared else block, offset)
                fetched[name] += 0 if write or tile in cache else TILE
                cache[tile] = None
                cache.move_to_end(tile)
                while len(cache) * TILE > capacity:
                    cache.popitem(last=False)
    return {name: size for name, size in fetched.items() if size}


@pytest.mark.parametrize("rounds", [1, 2])
def test_tiles_are_fetched_as_often_as_a_cache_of_tiles_misses_them(rounds: int) -> None:
    again = 0
    for seed in range(300):
        random = Random(seed)
        body = random_nest(random, (random.randint(0, 2),) if rounds == 1 else ())
        regions = {
            name: {offset for other, _, offset in places(body) if other == name}
            for name, _, _ in places(body)
        }
        at_once = random.randint(1, 3)
        cores = at_once if rounds > 1 else at_once + random.choice((0, 0, 1, 5))
        shared = {name for name in regions if random.random() < 0.5}
        blocks = at_once * rounds
        capacity = TILE * random.randint(1, 20)
        unique = {
            name: TILE * len(offsets) * (1 if name in shared else blocks) for name, offsets in regions.items()
        }
        wanted = delivered(body, blocks, cores, shared, capacity)
        accesses = [Access(name, size, 0, False) for name, size in unique.items()]
        found = fetched_bytes([(footprint(Block(body)), blocks)], accesses, capacity, cores)
        assert found == wanted, f"seed {seed}"
        again += any(size > unique[name] for name, size in wanted.items())
    assert again > 15


def test_never_less_than_a_somewhat_larger_cache_of_tiles_misses() -> None:
    """Where several loops come back, the last visit of one is closer to the first of the next than a trip, or
    a little further."""
    for seed in range(300):
        random = Random(seed)
        body = random_nest(random, (0, 1, 2))
        run = places(body)
        capacity = TILE * random.randint(1, 12)
        unique = {
            name: TILE * len({offset for other, _, offset in run if other == name}) for name, _, _ in run
        }
        wanted = delivered(body, 1, 1, set(), capacity + TILE * len(unique))
        accesses = [Access(name, size, 0, False) for name, size in unique.items()]
        found = fetched_bytes([(footprint(Block(body)), 1)], accesses, capacity, 1)
        assert found.keys() == wanted.keys()
        runs = Counter(name for name, _, _ in run)
        assert all(wanted[name] <= found[name] <= TILE * runs[name] for name in found), f"seed {seed}"


@pytest.mark.parametrize(
    ("fetched", "share"),
    [(40, None), (41, Fraction(41, 100)), (99, Fraction(99, 100)), (100, Fraction(1)), (300, Fraction(1))],
)
def test_only_what_is_fetched_more_than_once_is_a_share(fetched: int, share: Fraction | None) -> None:
    reads = [Access("x", 40, 100, False), Access("y", 40, 100, False)]
    assert fetched_again(reads, {"x": Fraction(fetched)}) == ({} if share is None else {"x": share})


def test_streams_of_several_blocks_add_up() -> None:
    """Two kinds of blocks with rows of their own: b is shared by all of them, a by none."""

    def rows(count: int) -> Block:
        b = Move(Pipe.MTE2, LOCAL, gm("b", TILE, Affine(0, (("n", TILE),))), 1, TILE)
        a = Move(Pipe.MTE2, LOCAL, gm("a", TILE, Affine(0, (("m", TILE),))), 1, TILE)
        return Block((Loop("m", count, (a, Loop("n", 5, (b,)))),))

    kinds = [(footprint(rows(3)), 2), (footprint(rows(1)), 1)]
    accesses = [Access("a", 7 * TILE, 0, False), Access("b", 5 * TILE, 0, False)]
    fits = fetched_bytes(kinds, accesses, 8 * TILE, 3)  # a tile of a for each of three cores, all of b
    assert fits == {"a": 7 * TILE, "b": 5 * TILE}
    turns = fetched_bytes(kinds, accesses, 8 * TILE - 1, 3)
    assert turns == {"a": 7 * TILE, "b": Fraction(prod((5, TILE)) * (3 * 2 + 1), 3)}
