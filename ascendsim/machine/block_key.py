"""What decides the time of a block, as a key: equal keys mean equal times, whatever their regions of global
memory are called.

Layers of a network repeat the same work on tensors of other names. The key holds all that `compile_block`
reads, with regions numbered in the order of their first use, and offsets counted from the first one in their
region; a test changes every field of every instruction and proves that nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, TypeAlias

from ascendsim.isa.cost_key import cost_key
from ascendsim.isa.instructions import Buffer, Flag, Loop, Move, Operand, Statement, Vector
from ascendsim.isa.program import Block

Key: TypeAlias = tuple[Hashable, ...]
_Regions: TypeAlias = dict[str, tuple[int, int]]  # by name: number, and offset of the first operand

_FLAG: Callable[[Flag], tuple[Any, ...]] = attrgetter(
    "name", "source._name_", "target._name_", "initial", "limit", "shared", "event"
)


def block_key(block: Block) -> tuple[Key, tuple[str, ...]]:
    """The key of a block, and the names of the regions that the key knows by number."""
    regions: _Regions = {}
    parts: list[Hashable] = [block.core.name, tuple([_FLAG(flag) for flag in block.flags])]
    parts += [(flag.name, flag.mode, flag.id) for flag in block.cross]
    parts += [(allocation.name, allocation.part) for allocation in block.allocations if allocation.part]
    _add(block.body, parts, regions)
    return tuple(parts), tuple(regions)


def regions_of(block: Block) -> tuple[str, ...]:
    """The names of the regions by which the key would know them."""
    names: dict[str, None] = {}
    _add_regions(block.body, names)
    return tuple(names)


def _add_regions(body: Iterable[Statement], names: dict[str, None]) -> None:
    for statement in body:
        if isinstance(statement, Loop):
            if statement.trips > 0:
                _add_regions(statement.body, names)
        elif isinstance(statement, Move):
            if statement.dst.buffer is Buffer.GM:
                names[statement.dst.name] = None
            elif statement.src.buffer is Buffer.GM:
                names[statement.src.name] = None


def _add(body: Iterable[Statement], parts: list[Hashable], regions: _Regions) -> None:
    for statement in body:
        if isinstance(statement, Loop):
            parts.append((statement.variable, statement.trips))
            if statement.trips > 0:
                _add(statement.body, parts, regions)
                parts.append("end")
            continue
        parts.append(cost_key(statement))
        if isinstance(statement, Move):
            if statement.dst.buffer is Buffer.GM:
                parts.append(_in_memory(statement.dst, regions))
            elif statement.src.buffer is Buffer.GM:
                parts.append(_in_memory(statement.src, regions))
        elif isinstance(statement, Vector):
            parts.append(tuple([source.name for source in statement.srcs]))
            parts.append(stays(statement.dst))


def stays(operand: Operand) -> bool:
    """Whether an operand is at the same place in every trip of the loops around it."""
    return not operand.slot.terms and not operand.offset.terms


def _in_memory(operand: Operand, regions: _Regions) -> Hashable:
    """Number of an operand's region, its offset from the first operand there, and by how much loops move
    it.
    """
    offset = operand.offset
    number, start = regions.setdefault(operand.name, (len(regions), offset.base))
    return number, offset.base - start, offset.terms
