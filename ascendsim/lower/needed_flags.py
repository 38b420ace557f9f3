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
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import gt
from typing import TypeAlias

from ascendsim.isa.instructions import Loop, Pipe, SetFlag, Statement, WaitFlag
from ascendsim.isa.program import Block
from ascendsim.lower.templates.stage import Stage

Clock: TypeAlias = list[int]  # by pipe: how many of its instructions are complete
Step: TypeAlias = tuple[str, int, str]  # set, wait or work; number of the pipe; the flag
_NUMBERS = {pipe: number for number, pipe in enumerate(Pipe)}


def with_needed_flags(stage: Stage) -> Stage:
    """The stage without flags that order nothing."""
    return replace(
        stage,
        groups=tuple([replace(group, block=_trimmed(group.block)) for group in stage.groups]),
    )


def _trimmed(block: Block) -> Block:
    if block.cross:
        return block  # what it knows of others' pipes cannot be told from it alone
    needed = needed_flags(block)
    if len(needed) == len(block.flags):
        return block
    kept = tuple([flag for flag in block.flags if flag.name in needed])
    return replace(block, body=tuple(_with_flags(block.body, needed)), flags=kept)


def _with_flags(body: Iterable[Statement], flags: Collection[str]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, Loop):
            yield replace(statement, body=tuple(_with_flags(statement.body, flags)))
        elif not isinstance(statement, SetFlag | WaitFlag) or statement.flag in flags:
            yield statement


def needed_flags(block: Block) -> frozenset[str]:
    """Names of the flags that order something."""
    flags = tuple([(flag.name, flag.initial, flag.shared) for flag in block.flags])
    return _needed(flags, tuple(_steps(shortened(block))))


@lru_cache(maxsize=1024)  # blocks of a kind differ in sizes more often than in steps
def _needed(flags: tuple[tuple[str, int, bool], ...], steps: tuple[Step, ...]) -> frozenset[str]:
    """Names of the flags that order something, of flags (name, tokens at first, whether shared)."""
    nothing = [0] * len(Pipe)
    clocks = [nothing] * len(Pipe)
    tokens = {name: deque([nothing] * initial) for name, initial, _ in flags}
    # by pipe: its waits since its last instruction
    taken: list[list[tuple[str, Clock]]] = [[] for _ in Pipe]
    needed = {name for name, _, shared in flags if shared}  # they order what other blocks do
    for kind, pipe, flag in steps:
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


def shortened(block: Block) -> tuple[Statement, ...]:
    """The body with so few trips that every ring just goes round, and ends at the slots at which it ends."""
    limits = [flag.limit for flag in block.flags]
    most, turn = max(limits, default=0) + 1, math.lcm(*limits)

    def short(body: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(
            [
                Loop(
                    item.variable,
                    item.trips if item.trips < most else most + (item.trips - most) % turn,
                    short(item.body),
                )
                if isinstance(item, Loop)
                else item
                for item in body
            ]
        )

    return short(block.body)


def _steps(body: Iterable[Statement]) -> list[Step]:
    """What the pipes do, in order; work that directly follows work of the same pipe adds nothing."""
    steps: list[Step] = []
    for statement in body:
        if isinstance(statement, Loop):
            steps += _steps(statement.body) * statement.trips
            continue
        number = _NUMBERS[statement.pipe]
        if isinstance(statement, SetFlag | WaitFlag):
            steps.append(("set" if isinstance(statement, SetFlag) else "wait", number, statement.flag))
        elif not steps or steps[-1] != ("work", number, ""):
            steps.append(("work", number, ""))
    return steps
