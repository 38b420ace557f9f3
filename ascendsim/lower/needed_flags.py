"""Takes flags that order nothing out of finished blocks.

Templates guard every ring of slots by flags of its own, which makes them easy to read. Much of that order
follows from other flags: slots that are not filled a second time need not be given back, of two inputs that
are waited for together the one that comes last is enough, and a tile of L0C that the vector unit has fetched
is free once the bias of the next one is ready. Code generators for the chip leave such flags out (AKG's
`inject_sync.cc` links two pipes only where one does not reach the other already): every flag takes a place in
a queue.

A block is walked once, with few trips of its loops, every pipe with a vector clock of what it knows to be
complete (as `isa.hazards` does). A wait counts if it tells its pipe something that the pipe's other waits
before its next instruction do not; a flag of whose waits none counts goes.

What a wait tells may still be of no use: that the vector unit is done with a tile, to a load of a bias that
it has long read. The program that is kept is therefore walked again without each flag by itself, bytes and
all; a flag without which no two pipes meet goes too. This is too dear for each tiling that is only tried, and
compiled code does it once a process has loaded any (`compiled_races`).
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import gt
from typing import TypeAlias

from ascendsim.core.records import quickly_changed
from ascendsim.isa.hazards import Walk, has_race
from ascendsim.isa.instructions import Buffer, Loop, Pipe, SetFlag, Statement, WaitFlag
from ascendsim.isa.program import Block, BlockGroup
from ascendsim.isa.walk import reads, static, writes
from ascendsim.lower.templates.stage import Stage

Clock: TypeAlias = list[int]  # by pipe: how many of its instructions are complete
Races: TypeAlias = Callable[[Mapping[str, int]], bool]  # whether there are any with these flags
Step: TypeAlias = tuple[str, int, str]  # set, wait or work; number of the pipe; the flag
Turns: TypeAlias = "tuple[int, Outline]"  # a loop
Outline: TypeAlias = "tuple[Step | Turns, ...]"
_regrouped = quickly_changed(Stage, "groups")
_reblocked = quickly_changed(BlockGroup, "block")
_reflagged = quickly_changed(Block, "body", "flags")
_NUMBERS = {pipe: number for number, pipe in enumerate(Pipe)}
KERNELS = "ascendsim_kernels.block_walk"  # in a process that has loaded compiled code it looks for races too
MOST_WALKED = 5_000  # instructions of a block; a longer walk costs more than the flag that it may save


def with_needed_flags(stage: Stage) -> Stage:
    """The stage without flags that order nothing."""
    return _changed(stage, _trimmed)


def with_useful_flags(stage: Stage) -> Stage:
    """The same, also without flags that order only what never meets."""
    return _changed(stage, lambda block: _useful(_trimmed(block)))


def _changed(stage: Stage, change: Callable[[Block], Block]) -> Stage:
    return _regrouped(stage, tuple([_reblocked(group, change(group.block)) for group in stage.groups]))


def _trimmed(block: Block) -> Block:
    if block.cross:
        return block  # what it knows of others' pipes cannot be told from it alone
    return _only(block, needed_flags(block))


def _useful(block: Block) -> Block:
    """The block without flags that keep no two pipes off the same bytes."""
    if block.cross or _feeds_itself(block):
        return block
    short = replace(block, body=shortened(block))
    steps = _walked(short.body)
    if steps > MOST_WALKED:
        return block
    bodies = [short]
    if steps < _walked(block.body):  # with all its trips it reaches offsets that the short one does not
        bodies.append(block)
    checks = _compiled_checks(bodies) if KERNELS in sys.modules else None
    if checks is None:
        checks = [partial(has_race, walk, limit=MOST_WALKED) for walk in map(Walk, bodies)]
    kept = {flag.name: flag.initial for flag in block.flags}
    for flag in block.flags:
        others = {name: initial for name, initial in kept.items() if name != flag.name}
        if not flag.shared and not any(races(others) for races in checks):
            kept = others
    return _only(block, kept)


def _compiled_checks(bodies: Sequence[Block]) -> list[Races] | None:
    """What looks for races of each body without some flags, by compiled code; None if that has no room."""
    from ascendsim.lower.compiled_races import CompiledRaces  # brings numba

    code = CompiledRaces(bodies[-1])
    walks = [code.walk(list(_trips(body.body)), MOST_WALKED) for body in bodies]
    checks: list[Races] = [partial(walk.has_race, limit=MOST_WALKED) for walk in walks if walk is not None]
    return checks if len(checks) == len(walks) else None


def _trips(body: Iterable[Statement]) -> Iterator[int]:
    """Of the loops of a body that run at all, in program order."""
    for item in body:
        if isinstance(item, Loop) and item.trips > 0:
            yield item.trips
            yield from _trips(item.body)


def _feeds_itself(block: Block) -> bool:
    """Whether it reads from global memory what blocks like it have written: another core may have, of which
    a walk of one block says nothing.
    """
    written, read = (
        {
            operand.name
            for item, _ in static(block.body)
            for operand in touched(item)
            if operand.buffer is Buffer.GM
        }
        for touched in (writes, reads)
    )
    return bool(written & read)


def _walked(body: Iterable[Statement]) -> int:
    return sum(item.trips * _walked(item.body) if isinstance(item, Loop) else 1 for item in body)


def _only(block: Block, flags: Collection[str]) -> Block:
    """The block with these of its flags."""
    if len(flags) == len(block.flags):
        return block
    kept = tuple([flag for flag in block.flags if flag.name in flags])
    return _reflagged(block, _with_flags(block.body, flags), kept)


def _with_flags(body: Iterable[Statement], flags: Collection[str]) -> tuple[Statement, ...]:
    return tuple(
        [
            Loop(item.variable, item.trips, _with_flags(item.body, flags)) if isinstance(item, Loop) else item
            for item in body
            if not isinstance(item, SetFlag | WaitFlag) or item.flag in flags
        ]
    )


def needed_flags(block: Block) -> frozenset[str]:
    """Names of the flags that order something."""
    flags = tuple([(flag.name, flag.initial, flag.shared) for flag in block.flags])
    return _needed(flags, _outline(block.body, _trips_of(block)))


def _outline(body: Iterable[Statement], trips_of: Callable[[int], int]) -> Outline:
    """What pipes do, with loops as they are written; work that directly follows work of the same pipe adds
    nothing.
    """
    outline: list[Step | Turns] = []
    last: Pipe | None = None
    for statement in body:
        if isinstance(statement, (SetFlag, WaitFlag)):
            last, kind = None, "set" if isinstance(statement, SetFlag) else "wait"
            outline.append((kind, _NUMBERS[statement.pipe], statement.flag))
        elif isinstance(statement, Loop):
            last = None
            outline.append((trips_of(statement.trips), _outline(statement.body, trips_of)))
        elif statement.pipe is not last:
            last = statement.pipe
            outline.append(("work", _NUMBERS[last], ""))
    return tuple(outline)


@lru_cache(maxsize=4096)  # blocks of a kind differ in sizes more often than in what they do
def _needed(flags: tuple[tuple[str, int, bool], ...], outline: Outline) -> frozenset[str]:
    """Names of the flags that order something, of flags (name, tokens at first, whether shared)."""
    nothing = [0] * len(Pipe)
    clocks = [nothing] * len(Pipe)
    tokens = {name: deque([nothing] * initial) for name, initial, _ in flags}
    # by pipe: its waits since its last instruction
    taken: list[list[tuple[str, Clock]]] = [[] for _ in Pipe]
    needed = {name for name, _, shared in flags if shared}  # they order what other blocks do
    for kind, pipe, flag in _steps(outline):
        if kind == "wait":
            taken[pipe].append((flag, tokens[flag].popleft()))
            continue
        clock = clocks[pipe]
        if taken[pipe]:
            for awaited, token in reversed(taken[pipe]):  # what came last knows most
                if any(map(gt, token, clock)):
                    needed.add(awaited)
                    clock = list(map(max, clock, token))
            taken[pipe].clear()
            if len(needed) == len(tokens):
                break
        if kind == "set":
            tokens[flag].append(clock)
        else:
            clock = clock.copy()
            clock[pipe] += 1
        clocks[pipe] = clock
    return frozenset(needed)


def _steps(outline: Outline) -> list[Step]:
    """What pipes do, in order."""
    steps: list[Step] = []
    for item in outline:
        if isinstance(item[1], tuple):
            steps += _steps(item[1]) * item[0]
        else:
            steps.append(item)
    return steps


def _trips_of(block: Block) -> Callable[[int], int]:
    """So few trips of a loop that every ring just goes round, and ends at the slots at which it ends."""
    limits = [flag.limit for flag in block.flags]
    most, turn = max(limits, default=0) + 1, math.lcm(*limits)
    return lambda trips: trips if trips < most else most + (trips - most) % turn


def shortened(block: Block) -> tuple[Statement, ...]:
    """The body with few trips of its loops, see `_trips_of`."""
    trips_of = _trips_of(block)

    def short(body: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(
            [
                Loop(item.variable, trips_of(item.trips), short(item.body))
                if isinstance(item, Loop)
                else item
                for item in body
            ]
        )

    return short(block.body)
