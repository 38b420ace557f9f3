"""Checks block programs for results in place: whether a block reads bytes of its input that it has already
overwritten."""

from __future__ import annotations

import numpy as np

from ascendsim.isa.instructions import Buffer, Move
from ascendsim.isa.program import Block, Program
from ascendsim.isa.walk import in_order


def overwritten_reads(program: Program) -> list[str]:
    """Tasks of which a block reads an input at bytes where it has written a result that lies in the input's
    place."""
    regions = program.memory.regions
    source_of = {
        name: region.in_place_of for name, region in regions.items() if region.in_place_of is not None
    }
    first = {}
    for name in source_of:
        first[regions[name].first] = [*first.get(regions[name].first, ()), name]
    found = []
    for task in program.tasks:
        for result in first.get(task.id, ()):
            found += [
                f"{task.name}: {result}"
                for group in task.groups
                if _reads_overwritten(group.block, result, str(source_of[result]), program)
            ]
    return found


def _reads_overwritten(block: Block, result: str, source: str, program: Program) -> bool:
    regions = program.memory.regions
    names = {name for name, region in regions.items() if _root(program, name) == source}
    written = np.zeros(max(regions[result].bytes, regions[source].bytes) + 1, bool)
    for instruction, variables in in_order(block.body):
        if not isinstance(instruction, Move):
            continue
        if instruction.src.buffer is Buffer.GM and instruction.src.name in names:
            start = instruction.src.offset.at(variables)
            step = instruction.src_stride or instruction.burst_bytes
            if any(
                written[at : at + instruction.burst_bytes].any()
                for at in range(start, start + step * instruction.bursts, step or 1)
            ):
                return True
        if instruction.dst.buffer is Buffer.GM and instruction.dst.name == result:
            start = instruction.dst.offset.at(variables)
            step = instruction.dst_stride or instruction.burst_bytes
            for at in range(start, start + step * instruction.bursts, step or 1):
                written[at : at + instruction.burst_bytes] = True
    return False


def _root(program: Program, name: str) -> str:
    while (source := program.memory.regions[name].alias_of) is not None:
        name = source
    return name
