"""Which flags of a block order nothing: without them it has no race either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ascendsim.core.errors import CompileError
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Loop, SetFlag, Statement, WaitFlag
from ascendsim.isa.program import Block

EVERYTHING = 10**9


def few_trips(body: Iterable[Statement], most: int = 3) -> tuple[Statement, ...]:
    """The statements with at most `most` trips or one more, so that loops over rings of two slots end at the
    slot that they end at."""

    def trips(count: int) -> int:
        return count if count <= most else most + (count - most) % 2

    return tuple(
        replace(item, trips=trips(item.trips), body=few_trips(item.body, most))
        if isinstance(item, Loop)
        else item
        for item in body
    )


def without(body: Iterable[Statement], flag: str) -> Iterator[Statement]:
    """The statements without the sets and waits of a flag."""
    for item in body:
        if isinstance(item, Loop):
            yield replace(item, body=tuple(without(item.body, flag)))
        elif not isinstance(item, SetFlag | WaitFlag) or item.flag != flag:
            yield item


def has_race(block: Block) -> bool:
    """Whether two pipes may reach the same bytes at the same time."""
    try:
        check_hazards(block, EVERYTHING)
    except CompileError:
        return True
    return False


def needless_flags(block: Block) -> list[str]:
    """Flags without which the block has no race either; its loops with few trips. Fails if it has one with
    all its flags."""
    short = replace(block, body=few_trips(block.body))
    check_hazards(short, EVERYTHING)
    return [
        flag.name
        for flag in block.flags
        if not has_race(replace(short, body=tuple(without(short.body, flag.name))))
    ]
