"""Block programs the slow way: loops written out, flags counted one by one, order between pipes as a graph of
all that runs.

Written from the descriptions in `isa.instructions`, not from the code that it serves to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ascendsim.isa.instructions import (
    Buffer,
    Img2Col,
    Instruction,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block


def expanded(
    body: Iterable[Statement], variables: Mapping[str, int] | None = None
) -> Iterator[tuple[Instruction, dict[str, int]]]:
    """Every instruction as often as it runs, with the values of the loop variables around it."""
    for statement in body:
        if not isinstance(statement, Loop):
            yield statement, dict(variables or {})
            continue
        trip = 0
        while trip < statement.trips:
            yield from expanded(statement.body, {**(variables or {}), statement.variable: trip})
            trip += 1


def levels(body: Iterable[Statement], flag: str) -> list[int]:
    """How far a flag's count is from the one at the start, after every instruction that changes it; begins
    with 0."""
    seen = [0]
    for instruction, _ in expanded(body):
        if isinstance(instruction, SetFlag) and instruction.flag == flag:
            seen.append(seen[-1] + 1)
        if isinstance(instruction, WaitFlag) and instruction.flag == flag:
            seen.append(seen[-1] - 1)
    return seen


def bytes_of(operand: Operand, variables: Mapping[str, int], block: Block) -> tuple[object, range]:
    """Where an operand lies: what it is a part of, and its bytes there."""
    offset = operand.offset.base
    for name, step in operand.offset.terms:
        offset += step * variables[name]
    if operand.buffer is Buffer.GM:
        return ("GM", operand.name), range(offset, offset + operand.bytes)
    (allocation,) = [one for one in block.allocations if one.name == operand.name]
    slot = operand.slot.base
    for name, step in operand.slot.terms:
        slot += step * variables[name]
    start = allocation.offset + (slot % allocation.slots) * allocation.slot_bytes + offset
    return operand.buffer, range(start, start + operand.bytes)


def touched(instruction: Instruction) -> tuple[list[Operand], list[Operand]]:
    """What an instruction reads, and what it writes."""
    if isinstance(instruction, Move | Img2Col):
        return [instruction.src], [instruction.dst]
    if isinstance(instruction, Vector):
        return list(instruction.srcs), [instruction.dst]
    if isinstance(instruction, Mmad):
        return [instruction.a, instruction.b] + [instruction.dst] * instruction.accumulate, [instruction.dst]
    return [], []


@dataclass(frozen=True)
class Race:
    """Two instructions that may touch the same bytes at the same time, by place in the order in which they
    run."""

    first: int
    second: int


def races(block: Block) -> list[Race]:
    """All pairs of accesses that nothing orders, one of them a write."""
    run = list(expanded(block.body))
    before: list[set[int]] = []  # by instruction, all that has ended when it starts
    last: dict[Pipe, int] = {}
    sets = {flag.name: [-1] * flag.initial for flag in block.flags}  # -1: there from the start
    for place, (instruction, _) in enumerate(run):
        known: set[int] = set()
        if instruction.pipe in last:
            known |= {last[instruction.pipe]} | before[last[instruction.pipe]]
        if isinstance(instruction, WaitFlag):
            source = sets[instruction.flag].pop(0)
            if source >= 0:
                known |= {source} | before[source]
        if isinstance(instruction, SetFlag):
            sets[instruction.flag].append(place)
        before.append(known)
        last[instruction.pipe] = place
    accesses = []
    for place, (instruction, variables) in enumerate(run):
        reads, writes = touched(instruction)
        accesses += [(place, False, *bytes_of(operand, variables, block)) for operand in reads]
        accesses += [(place, True, *bytes_of(operand, variables, block)) for operand in writes]
    found = []
    for number, (first, wrote, where, low) in enumerate(accesses):
        for second, writes_too, elsewhere, high in accesses[number + 1 :]:
            meet = where == elsewhere and max(low.start, high.start) < min(low.stop, high.stop)
            if meet and (wrote or writes_too) and first not in before[second] and first != second:
                found.append(Race(first, second))
    return found
