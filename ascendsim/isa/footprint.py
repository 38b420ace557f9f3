"""What a block touches in global memory, read off its text: how far apart in time it comes back to the same bytes.

A transfer inside loops touches new bytes with every trip of a loop whose variable moves its offset, and the same bytes again with
every trip of a loop whose variable does not. Between two such visits the block touches what one trip of that loop touches: if that
fits in L2 the second visit hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ascendsim.isa.instructions import Buffer, Loop, Move, Statement
from ascendsim.isa.program import Block


@dataclass(frozen=True, slots=True)
class Stream:
    """One transfer of the text.

    Attributes:
        bytes: Useful bytes of one execution.
        loops: Numbers of the loops around it, outermost first.
        moving: For each of them, whether its variable moves the offset.
    """

    region: str
    write: bool
    bytes: int
    loops: tuple[int, ...]
    moving: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
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
        streams, uncached = ([replace(stream, region=names[stream.region]) for stream in all] for all in (self.streams, self.uncached))
        return Footprint(tuple(streams), self.trips, tuple(uncached))

    def touched(self) -> dict[str, int]:
        """Bytes of each region that the block touches through L2 at all (overlapping pieces count several times)."""
        return self._totals(self.streams)

    def read(self) -> dict[str, int]:
        """Bytes of each region that the block reads at all, through L2 or past it (overlapping pieces count several times)."""
        return self._totals([stream for stream in (*self.streams, *self.uncached) if not stream.write])

    def _totals(self, streams: Iterable[Stream]) -> dict[str, int]:
        totals: dict[str, int] = {}
        for stream in streams:
            totals[stream.region] = totals.get(stream.region, 0) + self._distinct(stream, 0)
        return totals

    def working_set(self, loop: int) -> dict[str, int]:
        """Bytes of each region that one trip of a loop touches."""
        totals: dict[str, int] = {}
        for stream in self.streams:
            if loop in stream.loops:
                totals[stream.region] = totals.get(stream.region, 0) + self._distinct(stream, stream.loops.index(loop) + 1)
        return totals

    def _distinct(self, stream: Stream, depth: int) -> int:
        """Different bytes of a transfer over the loops from `depth` inwards."""
        result = stream.bytes
        for loop, moving in zip(stream.loops[depth:], stream.moving[depth:], strict=True):
            result *= self.trips[loop] if moving else 1
        return result


def footprint(block: Block) -> Footprint:
    """The footprint of a block."""
    streams: list[Stream] = []
    uncached: list[Stream] = []
    trips: list[int] = []

    def visit(body: Iterable[Statement], loops: tuple[int, ...], variables: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                if statement.trips > 0:
                    trips.append(statement.trips)
                    visit(statement.body, (*loops, len(trips) - 1), (*variables, statement.variable))
            elif isinstance(statement, Move) and Buffer.GM in (statement.src.buffer, statement.dst.buffer):
                write = statement.dst.buffer is Buffer.GM
                operand = statement.dst if write else statement.src
                steps = {name for name, step in operand.offset.terms if step}
                kind = streams if statement.cached else uncached
                kind.append(Stream(operand.name, write, statement.bytes, loops, tuple(name in steps for name in variables)))

    visit(block.body, (), ())
    return Footprint(tuple(streams), tuple(trips), tuple(uncached))
