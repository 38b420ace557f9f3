"""Which bytes a block reads or writes, burst by burst: of a region of global memory, and in the buffers of
its core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instructions import Buffer, Move
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order, reads, writes

Spans = NDArray[np.int64]  # rows of first and last (excluded) byte


def transfers(block: Block, region: str, write: bool) -> Spans:
    """Every burst that the block moves from or to a region, in order."""
    found: list[NDArray[np.int64]] = []
    for item, variables in in_order(block.body):
        if not isinstance(item, Move):
            continue
        side, stride = (item.dst, item.dst_stride) if write else (item.src, item.src_stride)
        if side.buffer is Buffer.GM and side.name == region:
            first = side.offset.at(variables) + np.arange(item.bursts) * (stride or item.burst_bytes)
            found.append(np.stack([first, first + item.burst_bytes], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 2), np.int64)


def union(spans: Spans) -> list[tuple[int, int]]:
    """Bytes that are in any of the spans, as spans that neither touch nor overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans.tolist()):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def length(spans: list[tuple[int, int]]) -> int:
    """Bytes in spans."""
    return sum(last - first for first, last in spans)


def on_chip(block: Block, buffer: Buffer) -> dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    """What the block reads and what it writes of each allocation in a buffer, as spans; slots lie side by
    side."""
    allocations = {allocation.name: allocation for allocation in block.allocations}
    found: dict[str, tuple[list[Spans], list[Spans]]] = {}
    for item, variables in in_order(block.body):
        for kind, operands in enumerate((reads(item), writes(item))):
            for operand in operands:
                if operand.buffer is not buffer:
                    continue
                place = allocations[operand.name]
                first = operand.slot.at(variables) % place.slots * place.slot_bytes + operand.offset.at(
                    variables
                )
                stride = (item.src_stride, item.dst_stride)[kind] if isinstance(item, Move) else 0
                starts = first + (
                    np.arange(item.bursts) * stride
                    if isinstance(item, Move) and stride
                    else np.zeros(1, np.int64)
                )
                length = item.burst_bytes if isinstance(item, Move) and stride else operand.bytes
                found.setdefault(operand.name, ([], []))[kind].append(
                    np.stack([starts, starts + length], axis=1)
                )
    nothing = [np.zeros((0, 2), np.int64)]
    return {
        name: (union(np.concatenate(read or nothing)), union(np.concatenate(made or nothing)))
        for name, (read, made) in found.items()
    }
