"""Placing pieces at offsets: best fit over all lives at once (the default), and first fit in the order of
first use.

Best fit takes the pieces in some order and puts each into the smallest gap that is free for the whole of its
life, or on top. Which order packs best differs from network to network, so a few are tried: largest first;
those of the fullest moments first; longest lives first; largest product of both; as they are needed; each
with open top and under a ceiling. As long as the peak is above the largest live set, pieces on top are taken
earlier and the rest is placed anew, a limited number of times. (Pisarchyk and Lee, "Efficient memory
management for deep neural net inference", 2020: greedy by size and by breadth.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from ascendsim.lower.memory.pieces import Board, Numbers

_WORK = (
    6_000  # pieces placed in all orders beyond the first: bounds the time of small and large networks alike
)
_GOOD = 1.025  # a peak this close to the largest live set is not worth another try


def best_fit(board: Board) -> tuple[Numbers, int]:
    """Offsets by piece, and the end of the arena."""
    if not len(board):
        return np.zeros(0, np.int64), 0
    bound = board.lower_bound()
    goal = int(bound * _GOOD)
    tries = max(1, _WORK // len(board))
    best: tuple[Numbers, int] | None = None
    found: tuple[Numbers, int] = (np.zeros(0, np.int64), 0)  # order and ceiling of the best so far
    for sequence in _orders(board):
        for ceiling in (0, bound):
            placed = place(board, sequence, ceiling)
            if best is None or placed[1] < best[1]:
                best, found = placed, (sequence, ceiling)
            tries -= 1
            if best[1] <= goal or tries <= 0:
                return best
    assert best is not None
    (order, ceiling), now = found, best
    for _ in range(tries):
        offsets, _ = now
        high = offsets + board.sizes > goal
        order = np.concatenate([order[high[order]], order[~high[order]]])
        now = place(board, order, ceiling)
        if now[1] < best[1]:
            best = now
        if best[1] <= goal:
            break
    return best


def first_fit(board: Board) -> tuple[Numbers, int]:
    """As an allocator that serves requests in the order in which they come: each piece at the lowest free
    address.
    """
    return place(board, _as_needed(board), lowest=True)


def apart(board: Board) -> tuple[Numbers, int]:
    """Every piece in a place of its own."""
    ends = np.cumsum(board.sizes)
    return ends - board.sizes, int(ends[-1]) if len(board) else 0


def place(
    board: Board, sequence: Sequence[int] | Numbers, ceiling: int = 0, lowest: bool = False
) -> tuple[Numbers, int]:
    """Places pieces one after another.

    Args:
        board: The pieces.
        sequence: In which order.
        ceiling: Height to stay below if possible: what lies in the topmost gap hangs from the ceiling instead
            of standing on what is below, so that neighbours of a chain come to lie at opposite ends.
        lowest: Take the lowest gap that is large enough instead of the smallest one.

    Returns:
        Offsets by piece, and the end of the arena.
    """
    order: Numbers = np.asarray(sequence, np.int64)
    offsets: Numbers = np.zeros(len(board), np.int64)
    everything, always = _Union(), _Union()
    lives = _Lives(board)
    sizes, held = board.sizes.tolist(), board.always.tolist()
    for piece in order.tolist():
        size = sizes[piece]
        if held[piece]:
            offset = _gap(size, *everything.arrays(), ceiling, lowest) if size else 0
            always.add(offset, offset + size)
        else:
            (low, low_ends), (near, near_ends) = always.arrays(), lives.meeting(piece)
            starts, ends = np.concatenate((near, low)), np.concatenate((near_ends, low_ends))
            offset = _gap(size, starts, ends, ceiling, lowest) if size else 0
            lives.add(piece, offset, offset + size)
        everything.add(offset, offset + size)
        offsets[piece] = offset
    return offsets, everything.ends[-1] if everything.ends else 0


class _Lives:
    """Pieces that have a place and live for a while, by rising offset, so that there is little to sort."""

    def __init__(self, board: Board) -> None:
        streams = board.order.streams
        self._whole: Numbers = np.concatenate((board.begin, board.end), axis=1).T
        self._own = list(zip(board.begin.tolist(), board.end.tolist(), strict=True))
        # by row: offsets, ends of the bytes, begins of the lives by stream, their ends by stream
        self._rows: Numbers = np.zeros((2 + 2 * streams, len(board)), np.int64)
        self._streams, self._count = streams, 0

    def meeting(self, piece: int) -> tuple[Numbers, Numbers]:
        """Offsets of those that may be in use at the same time as a piece, and the ends of their bytes: in
        some stream they end behind its begin, and in some they begin before its end.
        """
        rows, streams = self._rows[:, : self._count], self._streams
        begins, ends = self._own[piece]
        overlaps, follows = rows[2 + streams] > begins[0], rows[2] < ends[0]
        for stream in range(1, streams):
            overlaps |= rows[2 + streams + stream] > begins[stream]
            follows |= rows[2 + stream] < ends[stream]
        near = (overlaps & follows).nonzero()[0]
        return rows[0].take(near), rows[1].take(near)

    def add(self, piece: int, start: int, end: int) -> None:
        """Gives a piece its bytes."""
        rows, count = self._rows, self._count
        place = int(rows[0, :count].searchsorted(start))
        rows[:, place + 1 : count + 1] = rows[:, place:count]
        rows[:2, place] = start, end
        rows[2:, place] = self._whole[:, piece]
        self._count += 1


class _Union:
    """Bytes that are taken, as ranges that do not touch each other.

    What is in use during the whole run is in everybody's way, and everything is in the way of that: of a
    training step's thousands of weights such pieces leave some ranges.

    Attributes:
        starts, ends: Of the ranges, rising.
    """

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._arrays: tuple[Numbers, Numbers] | None = None

    def add(self, start: int, end: int) -> None:
        """Takes a range, which may overlap others."""
        low, high = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high], self.ends[low:high] = [start], [end]
        self._arrays = None

    def arrays(self) -> tuple[Numbers, Numbers]:
        """Starts and ends."""
        if self._arrays is None:
            self._arrays = np.array(self.starts, np.int64), np.array(self.ends, np.int64)
        return self._arrays


def _gap(size: int, starts: Numbers, ends: Numbers, ceiling: int, lowest: bool) -> int:
    """Offset of a piece in the smallest gap (or the lowest one) that is large enough, else on top.

    Args:
        size: Of the piece.
        starts, ends: Of what is there.
        ceiling: The topmost gap ends here; what fits in hangs from it.
        lowest: See `place`.
    """
    order = starts.argsort(kind="stable")
    floors: Numbers = np.zeros(len(order) + 1, np.int64)  # under each gap, and on top
    np.maximum.accumulate(ends[order], out=floors[1:])
    gaps = starts[order] - floors[:-1]
    top = int(floors[-1])
    large = (gaps >= size).nonzero()[0]
    if not len(large):
        hangs = ceiling - top >= size and top > 0
        return ceiling - size if hangs else top
    found = large[0] if lowest else large[gaps[large].argmin()]
    if not lowest and size <= ceiling - top < gaps[found]:
        return ceiling - size
    return int(floors[found])


def _orders(board: Board) -> Iterator[Numbers]:
    numbers = np.arange(len(board))
    lengths = (board.end - board.begin).sum(axis=1)
    yield np.lexsort((numbers, -lengths, -board.sizes))
    yield _by_breadth(board)
    yield np.lexsort((numbers, -board.sizes, -lengths))
    yield np.lexsort((numbers, -board.sizes * lengths))
    yield _as_needed(board)


def _as_needed(board: Board) -> Numbers:
    """Pieces in the order of their first use, larger ones first."""
    return np.lexsort((np.arange(len(board)), -board.sizes, board.begin.sum(axis=1)))


def _by_breadth(board: Board) -> Numbers:
    """Pieces of the fullest tasks first, larger ones first within a task."""
    live = board.live_bytes()
    fullest = np.zeros(len(board), np.int64)
    for number, piece in enumerate(board.pieces):
        during = live if piece.whole else live[piece.users[0] : piece.users[-1] + 1]
        fullest[number] = during.max(initial=0)
    return np.lexsort((np.arange(len(board)), -board.sizes, -fullest))
