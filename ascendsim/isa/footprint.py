"""What a block touches in global memory, read off its text: how far apart in time it comes back to the same
bytes.

A transfer inside loops touches new bytes with every trip of a loop whose variable moves its offset, and the
same bytes again with every trip of a loop whose variable does not. Between two such visits the block touches
what one trip of that loop touches: if that fits in L2 the second visit hits. A later transfer of the text may
come back to the bytes of an earlier one, too: the same tiles of B pass for the rows that are left over when
the tiles of A are done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

from ascendsim.core.records import quickly_changed, quickly_made
from ascendsim.isa.distinct import Item, distinct
from ascendsim.isa.instructions import Buffer, Loop, Move, Statement
from ascendsim.isa.program import Block

# offset, number of bursts, bytes of one, bytes from one to the next
Piece: TypeAlias = tuple[int, int, int, int]
# see `Footprint._extent`
Extent: TypeAlias = tuple[tuple[str, bool, Piece], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]


@quickly_made
@dataclass(frozen=True, slots=True)
class Stream:
    """One transfer of the text.

    Attributes:
        piece: What the first execution moves; its offset counts from the block's first transfer to or from
            the region.
        loops: Numbers of the loops around it, outermost first.
        steps: For each of them, by how many bytes a trip moves the offset.
        phase: Which part of the block it belongs to, where the parts run one after the other and are not
            repeated.
    """

    region: str
    write: bool
    piece: Piece
    loops: tuple[int, ...]
    steps: tuple[int, ...]
    phase: int = 0

    @property
    def bytes(self) -> int:
        """Useful bytes of one execution."""
        _, bursts, burst_bytes, _ = self.piece
        return bursts * burst_bytes

    def shared_depth(self, other: Stream) -> int:
        """Number of outer loops around both streams that move both alike."""
        depth = 0
        for loop, step, others_loop, others_step in zip(
            self.loops, self.steps, other.loops, other.steps, strict=False
        ):
            if (loop, step) != (others_loop, others_step):
                break
            depth += 1
        return depth


_of_region = quickly_changed(Stream, "region")


class Revisit(NamedTuple):
    """What lies between two visits of the same bytes: different bytes of each region, part of either.

    Attributes:
        turn: In the last turn of the earlier stream, which is one trip of the loop that repeats it if there
            is one.
        rest: From there to the end of the later one's turn (in a matmul: a tile of rows, and the rows that
            are left over).
    """

    turn: dict[str, int]
    rest: dict[str, int]


@dataclass(frozen=True)
class Footprint:
    """All transfers of a block to and from global memory.

    Attributes:
        streams: Those through L2.
        trips: Trips of each loop, by number.
        uncached: Reads past L2.
    """

    streams: tuple[Stream, ...]
    trips: tuple[int, ...]
    uncached: tuple[Stream, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Footprint:
        """The same with other names of regions."""
        streams, uncached = (
            [_of_region(stream, names[stream.region]) for stream in all]
            for all in (self.streams, self.uncached)
        )
        return Footprint(tuple(streams), self.trips, tuple(uncached))

    def in_phase(self, phase: int) -> Footprint:
        """The transfers through L2 of one phase."""
        return Footprint(tuple([stream for stream in self.streams if stream.phase == phase]), self.trips)

    def moved(self, write: bool) -> dict[str, int]:
        """Bytes that pass L2 one way, by region, every visit counted."""
        totals: dict[str, int] = {}
        for stream in self.streams:
            if stream.write is write:
                size = stream.bytes * math.prod([self.trips[loop] for loop in stream.loops])
                totals[stream.region] = totals.get(stream.region, 0) + size
        return totals

    def touched(self) -> dict[str, int]:
        """Bytes of each region that the block touches through L2 at all (pieces that overlap in part count
        several times).
        """
        return self._added(zip(self.streams, self._extents, strict=True))

    def read(self) -> dict[str, int]:
        """Bytes of each region that the block reads at all, through L2 or past it (pieces that overlap in
        part count several times).
        """
        through_l2 = zip(self.streams, self._extents, strict=True)
        past_it = ((stream, self._extent(stream, 0)) for stream in self.uncached)
        return self._added(pair for pair in chain(through_l2, past_it) if not pair[0].write)

    def repeating(self) -> set[int]:
        """Loops that come back to the same bytes of a stream with every trip."""
        return {
            loop
            for stream in self.streams
            for loop, step in zip(stream.loops, stream.steps, strict=True)
            if not step
        }

    def working_sets(self, loops: Iterable[int]) -> dict[int, dict[str, int]]:
        """Bytes of each region that one trip of a loop touches."""
        spans = self._spans
        sets: dict[int, dict[str, int]] = {}
        for loop in loops:
            start, end = spans.get(loop, (0, 0))
            inside = self.streams[start:end]
            sets[loop] = self._added(
                (stream, self._extent(stream, stream.loops.index(loop) + 1)) for stream in inside
            )
        return sets

    def earlier(self) -> list[int | None]:
        """For each of `streams` the number of the one before it, if any, that goes the same way through the
        very same bytes.
        """
        last: dict[Extent, int] = {}
        result: list[int | None] = []
        for number, extent in enumerate(self._extents):
            result.append(last.get(extent))
            last[extent] = number
        return result

    def revisits(self) -> list[Revisit | None]:
        """For each of `streams` that comes back to the bytes of one before it, what lies between the last
        visits of that one and its own.
        """
        spans = self._spans
        found: list[Revisit | None] = [None] * len(self.streams)
        asked: dict[int, list[tuple[int, int]]] = {}  # stretches of streams, by depth
        places: list[tuple[int, int, int, int, int]] = []  # of a stream: its two stretches in `asked`
        for number, first in enumerate(self.earlier()):
            if first is None:
                continue
            steps, depth = self.streams[first].steps, self.streams[first].shared_depth(self.streams[number])
            start, end = self._around(spans, first, depth)
            _, last = self._around(spans, number, depth)
            inner = depth + 1 if len(steps) > depth and not steps[depth] else depth
            turns, rests = asked.setdefault(inner, []), asked.setdefault(depth, [])
            turns.append((start, end))
            turn = len(turns) - 1
            rests.append((end, last))
            places.append((number, inner, turn, depth, len(rests) - 1))
        counted = {depth: self._distinct(depth, stretches) for depth, stretches in asked.items()}
        for number, inner, turn, depth, rest in places:
            found[number] = Revisit(counted[inner][turn], counted[depth][rest])
        return found

    @cached_property
    def _extents(self) -> list[Extent]:
        """Of `streams`, in all of their loops."""
        return [self._extent(stream, 0) for stream in self.streams]

    @cached_property
    def _spans(self) -> dict[int, tuple[int, int]]:
        """First and last (exclusive) number of the streams inside each loop."""
        spans: dict[int, tuple[int, int]] = {}
        for number, stream in enumerate(self.streams):
            for loop in stream.loops:
                spans[loop] = spans.get(loop, (number, 0))[0], number + 1
        return spans

    def _around(self, spans: Mapping[int, tuple[int, int]], number: int, depth: int) -> tuple[int, int]:
        """First and last (exclusive) number of the streams in the loop at a depth around one of them; itself
        if there is none.
        """
        loops = self.streams[number].loops
        return spans[loops[depth]] if len(loops) > depth else (number, number + 1)

    def _distinct(self, depth: int, stretches: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
        """Different bytes of each region in stretches of streams, in the loops from a depth inwards."""
        items = []
        extents = self._extents if depth == 0 else [self._extent(stream, depth) for stream in self.streams]
        for stream, extent in zip(self.streams, extents, strict=True):
            items.append(Item(extent, stream.region, self._bytes(stream, extent)))
        return distinct(items, stretches)

    def _bytes(self, stream: Stream, extent: Extent) -> int:
        _, _, inner = extent
        return stream.bytes * math.prod([trips for _, trips in inner])

    def _added(self, touched: Iterable[tuple[Stream, Extent]]) -> dict[str, int]:
        """Different bytes of each region in what streams touch."""
        totals: dict[str, int] = {}
        seen: set[Extent] = set()
        for stream, extent in touched:
            if extent not in seen:
                seen.add(extent)
                totals[stream.region] = totals.get(stream.region, 0) + self._bytes(stream, extent)
        return totals

    def _extent(self, stream: Stream, depth: int) -> Extent:
        """Equal for streams that touch the same bytes in the loops from `depth` inwards, whatever the order
        of these.
        """
        steps = list(zip(stream.loops, stream.steps, strict=True))
        outer = tuple([(loop, step) for loop, step in steps[:depth] if step])
        inner = tuple(sorted([(step, self.trips[loop]) for loop, step in steps[depth:] if step]))
        return (stream.region, stream.write, stream.piece), outer, inner


def footprint(block: Block) -> Footprint:
    """The footprint of a block."""
    streams: list[Stream] = []
    uncached: list[Stream] = []
    trips: list[int] = []
    starts: dict[str, int] = {}
    parts = {allocation.name: allocation.part for allocation in block.allocations}

    def visit(body: Iterable[Statement], loops: tuple[int, ...], variables: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                if statement.trips > 0:
                    trips.append(statement.trips)
                    visit(statement.body, (*loops, len(trips) - 1), (*variables, statement.variable))
            elif isinstance(statement, Move) and Buffer.GM in (statement.src.buffer, statement.dst.buffer):
                write = statement.dst.buffer is Buffer.GM
                operand, inside = (statement.dst, statement.src) if write else (statement.src, statement.dst)
                offset = operand.offset.base - starts.setdefault(operand.name, operand.offset.base)
                stride = statement.dst_stride if write else statement.src_stride
                piece = offset, statement.bursts, statement.burst_bytes, stride
                steps = dict(operand.offset.terms)
                kind = streams if statement.cached else uncached
                moves = tuple(steps.get(name, 0) for name in variables)
                for way in (False, True) if statement.atomic else (write,):
                    kind.append(Stream(operand.name, way, piece, loops, moves, parts.get(inside.name, 0)))

    visit(block.body, (), ())
    outer = {(stream.loops[0], stream.phase) for stream in streams if stream.loops}
    if len(outer) > len({loop for loop, _ in outer}):  # parts in a loop around them come again and again
        streams = [replace(stream, phase=0) for stream in streams]
    return Footprint(tuple(streams), tuple(trips), tuple(uncached))
