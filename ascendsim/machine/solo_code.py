"""Compiled blocks as arrays of numbers, which `ascendsim_kernels.block_walk` walks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.machine.compiled import (
    BARRIER,
    END,
    FIXED,
    SET,
    TRANSFER,
    WAIT,
    CompiledBlock,
    Entry,
    LoopEnd,
)
from ascendsim_kernels import block_walk as kernels
from ascendsim_kernels.block_walk import Ints

NO_LANE = -2

# kinds go into the arrays as they are
assert (FIXED, SET, WAIT, TRANSFER, BARRIER) == (
    kernels.FIXED,
    kernels.SET,
    kernels.WAIT,
    kernels.TRANSFER,
    kernels.BARRIER,
)


@dataclass(frozen=True, slots=True)
class FlatBlock:
    """A block's code.

    Attributes:
        code: A row for each instruction and each end of a loop, in program order.
        reads: Operands that instructions read; an instruction has a first one and a number of them.
        longest: Most ticks that an instruction takes, issue and latency included.
        moving: Numbers of the lanes that have transfers.
    """

    code: Ints
    reads: Ints
    longest: int
    moving: tuple[int, ...]


def flatten(block: CompiledBlock) -> FlatBlock:
    """Writes runs and ends of loops out one after the other."""
    rows: list[tuple[int, ...]] = []
    reads: list[int] = []
    starts: list[int] = []
    moving: set[int] = set()
    longest = 0
    flags: dict[
        int, tuple[int, ...]
    ] = {}  # rows of those that set or wait for flags, which come several times
    for step in block.code:
        starts.append(len(rows))
        if step is END:
            rows.append((NO_LANE, 0, kernels.END, 0, 0, 0, -1, 0, 0))
        elif isinstance(step, LoopEnd):
            rows.append((NO_LANE, 0, kernels.LOOP, step.loop, step.trips, starts[step.first], -1, 0, 0))
        else:
            for entry in step:
                known = flags.get(id(entry))
                if known is not None:
                    rows.append(known)
                    continue
                row, ticks = _row(entry, reads)
                rows.append(row)
                longest = max(longest, ticks)
                kind = row[kernels.KIND]
                if kind == TRANSFER:
                    moving.add(row[kernels.LANE])
                elif kind in (SET, WAIT):
                    flags[id(entry)] = row
    return FlatBlock(np.array(rows, np.int64), np.array(reads, np.int64), longest, tuple(sorted(moving)))


def _row(entry: Entry, reads: list[int]) -> tuple[tuple[int, ...], int]:
    """An instruction as a row, and the most ticks that it takes by itself; appends what it reads."""
    lane, issue, operation = entry
    kind = operation[0]
    if kind == FIXED:
        _, occupancy, latency, head, operands, write, _ = operation
        first = len(reads)
        reads.extend(operands)
        row = lane, issue, kind, occupancy, latency, head, write, first, len(operands)
        return row, issue + occupancy + latency + head
    a = operation[1] if kind != BARRIER else 0  # flag, or occupancy of a transfer
    b = operation[2] if kind in (SET, TRANSFER) else 0  # how early it fires, or number of the demand
    return (lane, issue, kind, a, b, 0, -1, 0, 0), issue + (a if kind == TRANSFER else 0)
