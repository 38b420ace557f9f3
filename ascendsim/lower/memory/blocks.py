"""GE's own assigners: memory in blocks of few sizes, each block for one tensor after another.

A block has the size of a class. A tensor takes a free block of its class (the one freed last) or a new one,
and gives it back after its last use; in the end every block shrinks to its largest member, and the blocks lie
one behind the other.

    max-block      one class, as large as the largest tensor
    binary-block   classes that halve from the largest tensor down to 512 B; those with few members join the
                   next larger one

The hybrid assigner runs both and keeps the smaller total (GE binary_block_mem_assigner.cc,
max_block_mem_assigner.cc, block_mem_assigner.cc, hybrid_mem_assigner.cc). Its further cases (blocks larger
than needed if more than ten are free, continuous inputs, labels of batches) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.core.formats import REGION_BYTES
from ascendsim.lower.memory.pieces import Board, Numbers

_LARGE = 8 << 20  # bytes; classes of such members are not merged if there are two or more in them


@dataclass(slots=True)
class _Block:
    """A block: the class it belongs to, its largest member, and when it becomes free."""

    size: int
    largest: int
    end: Numbers
    members: list[int]


def binary_classes(sizes: Sequence[int]) -> list[int]:
    """Block sizes of the binary-block assigner, rising.

    Sizes at or below the lowest ceiling are in no class of their own; they take blocks of the lowest class
    that holds them.

    >>> binary_classes([512, 1024, 4096, 4096, 8192, 8192])
    [4096, 8192]
    """
    left = sorted(size for size in sizes if size > 0)
    if not left:
        return []
    least = REGION_BYTES if left[-1] > REGION_BYTES else left[0]
    count = max(1, _log2_ceil(left[-1], least))
    fewest = len(left) // count
    slack = REGION_BYTES if left[-1] > REGION_BYTES else 0
    ceiling = left[-1]
    classes: list[list[int]] = []  # from the largest down, members falling
    for _ in range(count - 1):
        ceiling //= 2
        members = []
        while left and left[-1] > ceiling + slack:
            members.append(left.pop())
        classes.append(members)
    return sorted(max(members) for members in _merged(classes[::-1], fewest))


def max_classes(sizes: Sequence[int]) -> list[int]:
    """Block sizes of the max-block assigner: the largest tensor's."""
    return [max(sizes)] if len(sizes) else []


def assign_blocks(board: Board, classes: Sequence[int]) -> tuple[Numbers, int]:
    """Places pieces in blocks, in the order of their first use.

    Args:
        board: The pieces.
        classes: Block sizes, rising; larger pieces get blocks of their own size.

    Returns:
        Offsets by piece, and the end of the arena.
    """
    order = np.lexsort((np.arange(len(board)), board.begin.sum(axis=1)))
    blocks: list[_Block] = []
    by_size: dict[int, list[_Block]] = {}
    for piece in order:
        size = next(
            (ceiling for ceiling in classes if ceiling >= board.sizes[piece]), int(board.sizes[piece])
        )
        same = by_size.setdefault(size, [])
        free = [block for block in same if (block.end <= board.begin[piece]).all()]
        if free:
            block = max(free, key=lambda block: int(block.end.sum()))
        else:
            block = _Block(size, 0, board.end[piece], [])
            same.append(block)
            blocks.append(block)
        block.members.append(int(piece))
        block.largest = max(block.largest, int(board.sizes[piece]))
        block.end = board.end[piece]
    offsets: Numbers = np.zeros(len(board), np.int64)
    at = 0
    for block in blocks:
        offsets[block.members] = at
        at += block.largest
    return offsets, at


def _merged(classes: list[list[int]], fewest: int) -> list[list[int]]:
    """Joins classes with too few members to the next larger one; empty ones go."""
    result: list[list[int]] = []
    carried: list[int] = []
    last = max((number for number, members in enumerate(classes) if members), default=-1)
    for number, members in enumerate(classes):
        joined = [*members, *carried]
        if not joined:
            continue
        keep = len(joined) >= fewest or number >= last or (joined[0] >= _LARGE and len(joined) >= 2)
        carried = [] if keep else joined
        if keep:
            result.append(joined)
    return result


def _log2_ceil(size: int, unit: int) -> int:
    """The least n with unit * 2^n >= size.

    >>> [_log2_ceil(size, 512) for size in (1, 512, 513, 1024, 1025)]
    [0, 0, 1, 1, 2]
    """
    count = 0
    while unit << count < size:
        count += 1
    return count
