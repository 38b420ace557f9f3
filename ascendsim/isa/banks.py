"""Banks of UB: whether the reads of a vector instruction get into each other's way.

A bank group serves one block of 32 B a cycle, and neighbouring blocks lie in neighbouring groups (Ascend910B:
16 groups). Each repeat reads eight neighbouring blocks of every source, so two sources get along if they
start half a turn of the groups apart (source: vendor's example of bank conflicts: read-read conflicts are
decided by the group; a source that is read twice counts once).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.isa.instructions import Allocation, Buffer, Operand, Vector

_BLOCKS_PER_REPEAT = 8


def reads_conflict(vector: Vector, allocations: Mapping[str, Allocation], groups: int) -> bool:
    """Whether two different sources of an instruction hit the same bank groups in a repeat.

    Args:
        vector: The instruction.
        allocations: Pieces of UB by name.
        groups: Bank groups of the chip.
    """
    starts = {
        _address(source, allocations) // BLOCK_BYTES for source in vector.srcs if source.buffer is Buffer.UB
    }
    return any(_overlap(abs(a - b) % groups, groups) for a, b in combinations(starts, 2))


def _overlap(apart: int, groups: int) -> bool:
    return min(apart, groups - apart) < _BLOCKS_PER_REPEAT


def _address(operand: Operand, allocations: Mapping[str, Allocation]) -> int:
    """First byte in UB, in the first trip of all loops (slots have whole turns of the groups where it
    matters: large tiles).
    """
    allocation = allocations[operand.name]
    return (
        allocation.offset + operand.slot.base % allocation.slots * allocation.slot_bytes + operand.offset.base
    )
