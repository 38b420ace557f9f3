"""Which bytes of a region a block reads or writes, burst by burst."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instructions import Buffer, Move
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order

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
