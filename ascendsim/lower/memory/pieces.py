"""Pieces of memory to place, and which of them may share bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.lower.memory.order import TaskOrder

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that needs memory while tasks run: a tensor with all that shares its bytes, or a workspace.

    Attributes:
        name: Of the region that owns the bytes.
        bytes: Size, not rounded.
        users: Numbers of the tasks that read or write it, rising.
        whole: It lives for the whole run (inputs and outputs of the graph: they are the caller's).
    """

    name: str
    bytes: int
    users: tuple[int, ...]
    whole: bool = False


class Board:
    """Pieces with their sizes and lives as arrays.

    Args:
        pieces: What to place.
        order: Which task happens before which.

    Attributes:
        pieces, order: As given.
        always: By piece: whether it is in use during the whole run.
        sizes: Bytes by piece, rounded up to `REGION_BYTES`.
        begin: By piece and stream: how many tasks of the stream have ended before its first use.
        end: By piece and stream: how many tasks of the stream must have ended before its bytes are free.
    """

    def __init__(self, pieces: Sequence[Piece], order: TaskOrder) -> None:
        self.pieces, self.order = tuple(pieces), order
        self.sizes: Numbers = np.array([align(piece.bytes, REGION_BYTES) for piece in pieces], np.int64)
        self.always = np.array([piece.whole or not len(order) for piece in pieces], bool)
        if order.streams == 1:
            whole = (0, len(order) + 1)
            lives = [
                whole if piece.whole or not len(order) else (piece.users[0], piece.users[-1] + 1)
                for piece in pieces
            ]
            ends: Numbers = np.array(lives, np.int64).reshape(len(pieces), 2)
            self.begin, self.end = ends[:, :1], ends[:, 1:]
            return
        self.begin = np.zeros((len(pieces), order.streams), np.int64)
        self.end = np.full((len(pieces), order.streams), len(order) + 1, np.int64)
        passing = np.flatnonzero(~self.always)
        if len(passing):
            number, users, begins = self._users(passing)
            self.begin[passing] = np.minimum.reduceat(order.before[users], begins)
            self.end[passing] = 0
            np.maximum.at(self.end, (number, order.stream[users]), order.position[users] + 1)

    def _users(self, numbers: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Of some pieces: by use, number of the piece and of the task; and where the uses of each begin."""
        lives = [self.pieces[number].users for number in numbers.tolist()]
        counts = np.array([len(users) for users in lives])
        users = np.fromiter(chain.from_iterable(lives), np.int64)
        return numbers.repeat(counts), users, counts.cumsum() - counts

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def spans(self) -> tuple[Numbers, Numbers]:
        """By piece: first and last task during which it may be in use, counted in launch order.

        With one stream these are its first and last use. With several, tasks that may run at the same time
        are counted in, so that pieces whose spans are apart never meet.
        """
        order = self.order
        if order.streams == 1:
            return self.begin[:, 0], np.minimum(self.end[:, 0] - 1, max(0, len(order) - 1))
        first = np.full(len(self), max(0, len(order) - 1), np.int64)
        last = np.zeros(len(self), np.int64)
        for stream in range(order.streams):
            tasks = np.flatnonzero(order.stream == stream)
            if not len(tasks):
                continue
            # the first task of the stream that does not happen before the piece
            unordered = self.begin[:, stream] < len(tasks)
            first[unordered] = np.minimum(first[unordered], tasks[self.begin[unordered, stream]])
            after = np.max(
                [np.searchsorted(order.before[tasks, s], self.end[:, s]) for s in range(order.streams)],
                axis=0,
            )
            some = after > 0
            last[some] = np.maximum(last[some], tasks[after[some] - 1])
        return first, last

    def live_bytes(self) -> Numbers:
        """By task: bytes of the pieces that are alive while it runs, at whatever speed the streams go.

        A piece is alive at a task if one of its uses is the task or happens before it, and one is the task or
        happens after it. In each stream these are neighbours, from the first task that knows of a use to the
        last one that a use knows of.
        """
        order = self.order
        if order.streams == 1:
            return _sums(self.spans[0], self.spans[1] + 1, self.sizes, len(order))
        first = np.full_like(self.begin, len(order))
        live = np.zeros(len(order), np.int64)
        if not len(self) or not len(order):
            return live
        number, users, begins = self._users(np.arange(len(self)))
        np.minimum.at(first, (number, order.stream[users]), order.position[users])
        reach = np.maximum.reduceat(order.through[users], begins)
        for stream in range(order.streams):
            tasks = np.flatnonzero(order.stream == stream)
            known = [
                np.searchsorted(order.through[tasks, s], first[:, s], side="right")
                for s in range(order.streams)
            ]
            start = np.where(self.always, 0, np.min(known, axis=0))
            stop = np.where(self.always, len(tasks), np.maximum(start, reach[:, stream]))
            live[tasks] = _sums(start, stop, self.sizes, len(tasks))
        return live

    def lower_bound(self) -> int:
        """Bytes that no plan can do without: those of the largest live set."""
        return int(self.live_bytes().max(initial=0))


def _sums(starts: Numbers, stops: Numbers, sizes: Numbers, count: int) -> Numbers:
    """By place: sum of the sizes whose range (`stop` excluded) covers it."""
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, np.minimum(starts, count), sizes)
    np.subtract.at(steps, np.minimum(stops, count), sizes)
    return np.cumsum(steps)[:count]
