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
from typing import TypeAlias

from ascendsim.isa.instructions import Instruction, Loop, Pipe, SetFlag, Statement, WaitFlag
from ascendsim.isa.program import Block, BlockGroup
from ascendsim.lower.templates.stage import Stage

Clock: TypeAlias = list[int]  # by pipe: how many of its instructions are complete
_NUMBERS = {pipe: number for number, pipe in enumerate(Pipe)}


def with_needed_flags(stage: Stage) -> Stage:
    """The stage without flags that order nothing."""
    return replace(
        stage, groups=tuple([BlockGroup(_trimmed(group.block), group.count) for group in stage.groups])
    )


def _trimmed(block: Block) -> Block:
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


def needed_flags(block: Block) -> set[str]:
    """Names of the flags that order something."""
    nothing = [0] * len(Pipe)
    clocks = {pipe: nothing for pipe in Pipe}
    tokens = {flag.name: deque([nothing] * flag.initial) for flag in block.flags}
    # by its waits since its last instruction
    taken: dict[Pipe, list[tuple[str, Clock]]] = {pipe: [] for pipe in Pipe}
    needed = {flag.name for flag in block.flags if flag.shared}  # they order what other blocks do
    for instruction in _run(shortened(block)):
        pipe = instruction.pipe
        if isinstance(instruction, WaitFlag):
            taken[pipe].append((instruction.flag, tokens[instruction.flag].popleft()))
            continue
        clock = clocks[pipe]
        for flag, token in reversed(taken[pipe]):  # what came last knows most
            if any([other > own for other, own in zip(token, clock, strict=True)]):
                needed.add(flag)
                clock = [max(pair) for pair in zip(clock, token, strict=True)]
        taken[pipe].clear()
        if isinstance(instruction, SetFlag):
            tokens[instruction.flag].append(clock)
        else:
            clock = clock.copy()
            clock[_NUMBERS[pipe]] += 1
        clocks[pipe] = clock
    return needed


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


def _run(body: Iterable[Statement]) -> Iterator[Instruction]:
    for statement in body:
        if isinstance(statement, Loop):
            for _ in range(statement.trips):
                yield from _run(statement.body)
        else:
            yield statement
