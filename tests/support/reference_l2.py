"""L2 the slow way: a list of lines of one byte, oldest first, that are looked at one by one.

Written from the description at the head of `machine.l2`. A line knows the region under whose name it is kept
and whether DRAM lacks it. Of a region that is there in part, the lines that DRAM lacks stand first: they were
written first and are pushed out first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ascendsim.isa.program import Access, Region


@dataclass(frozen=True)
class Line:
    """A byte in L2.

    Attributes:
        region: Under whose name it is kept.
        dirty: Whether DRAM does not have it yet.
    """

    region: str
    dirty: bool


@dataclass(frozen=True)
class Split:
    """How the traffic of a task splits; see `machine.l2.Shares`."""

    read_miss: dict[str, Fraction]
    read_spread: dict[str, Fraction]
    write_through: dict[str, Fraction]
    evicted: Fraction


class PlainL2:
    """A cache of so many bytes in front of a memory with these regions."""

    def __init__(self, capacity: int, regions: Mapping[str, Region]) -> None:
        self.capacity, self.regions = capacity, regions
        self.lines: list[Line] = []  # oldest first
        self.written_back = 0

    # ------------------------------------------------------------------------------------------------- what l

    def owner(self, name: str) -> str:
        """Whose bytes a region has."""
        while name in self.regions and (above := self.regions[name].alias_of) is not None:
            name = above
        return name

    def key(self, name: str) -> str:
        """Under which name lines of a region are kept: slices have a name of their own, other aliases do
        not."""
        while (
            name in self.regions
            and self.regions[name].cut is None
            and (above := self.regions[name].alias_of) is not None
        ):
            name = above
        return name

    def size(self, name: str) -> int:
        return self.regions[name].bytes if name in self.regions else 0

    def span(self, name: str) -> set[int]:
        """Addresses of a region."""
        return (
            set(range(self.regions[name].offset, self.regions[name].offset + self.size(name)))
            if name in self.regions
            else set()
        )

    def is_part(self, inner: str, outer: str) -> bool:
        """Whether all bytes of one name are a slice of another's."""
        if inner == outer or self.owner(inner) == inner or self.owner(inner) != self.owner(outer):
            return False
        return self.owner(outer) == outer or self.span(inner) <= self.span(outer)

    def of(self, name: str) -> list[Line]:
        return [line for line in self.lines if line.region == name]

    def share(self, name: str) -> tuple[int, int]:
        """Lines, and dirty ones, that are kept under the owner's name and belong to one of its slices: in
        proportion."""
        owner = self.owner(name)
        whole = self.of(owner) if owner != name else []
        if not whole:
            return 0, 0
        size, of_all = min(self.size(name), self.size(owner)), self.size(owner)
        return len(whole) * size // of_all, sum(line.dirty for line in whole) * size // of_all

    def held(self, name: str) -> int:
        """Bytes of a region that are there, under whatever name."""
        inner = sum(self.is_part(line.region, name) for line in self.lines)
        return len(self.of(name)) + inner + self.share(name)[0]

    # ------------------------------------------------------------------------------------------------------ w

    def put(self, name: str, count: int, dirty: int, place: int | None = None) -> None:
        """Puts a region's lines behind all others, or at a place."""
        rest = [line for line in self.lines if line.region != name]
        lines = [Line(name, number < dirty) for number in range(count)]
        at = len(rest) if place is None else place
        self.lines = rest[:at] + lines + rest[at:]

    def claim(self, name: str) -> None:
        """Lines of a region that are kept under other names come under its own."""
        inner = [line for line in self.lines if self.is_part(line.region, name)]
        taken, taken_dirty = self.share(name)
        owner = self.owner(name)
        if not inner and not (owner != name and self.of(owner)):
            return
        own = self.of(name)
        if taken:
            whole = self.of(owner)
            at = self.lines.index(whole[0])
            self.put(owner, len(whole) - taken, sum(line.dirty for line in whole) - taken_dirty, at)
        self.lines = [line for line in self.lines if line not in inner]
        if not own:
            self.put(name, len(inner) + taken, sum(line.dirty for line in inner) + taken_dirty)
            return
        at = self.lines.index(own[0])
        dirty = sum(line.dirty for line in (*own, *inner)) + taken_dirty
        self.put(name, len(own) + len(inner) + taken, dirty, at)

    def make_room(self, count: int) -> None:
        """Pushes out the oldest lines until so many more fit."""
        while len(self.lines) + count > self.capacity:
            self.written_back += self.lines.pop(0).dirty

    def overwrite(self, name: str) -> None:
        """New data at these addresses: lines of others that had them are gone, without going to DRAM."""
        for other in dict.fromkeys(line.region for line in self.lines):
            lost = len(self.span(name) & self.span(other)) if self.owner(other) != self.owner(name) else 0
            if lost:
                left = min(len(self.of(other)), max(0, self.size(other) - lost))
                dirty = min(left, sum(line.dirty for line in self.of(other)))
                at = self.lines.index(self.of(other)[0])
                self.put(other, left, dirty, at)

    def finds(self, access: Access, reads: Sequence[Access], allocated: int) -> int:
        """Bytes that the reader of a region finds, going from its start to its end while all else goes on in
        step."""
        name, unique = self.key(access.region), access.unique_bytes
        there = min(unique, self.held(name))
        read = {self.key(other.region) for other in reads}
        room = self.capacity - len(self.lines)
        for line in self.lines:  # what goes before the reader's own lines do
            if line.region == name:
                break
            room += line.region not in read
        found = 0
        for number in range(unique):
            resident = number >= unique - there
            filled = Fraction((number + 1) * allocated, unique)  # when the reader is through with this byte
            found += resident and (filled <= room or allocated <= room)
        return found

    def task(self, reads: Sequence[Access], writes: Sequence[Access], again: Mapping[str, Fraction]) -> Split:
        """One task; see `machine.l2.L2State.enter`."""
        self.written_back = 0
        most: dict[str, int] = {}
        for access in (*reads, *writes):
            key = self.key(access.region)
            most[key] = max(most.get(key, 0), access.unique_bytes)
        touched = sum(most.values())

        def stays(unique: int) -> int:
            return unique if touched <= self.capacity else unique * self.capacity // touched

        for access in reads:
            self.claim(self.key(access.region))
        plain = [access for access in reads if access.region not in again]
        read_keys = {self.key(access.region) for access in plain}
        allocated = sum(
            access.unique_bytes - min(access.unique_bytes, self.held(self.key(access.region)))
            for access in plain
        )
        allocated += sum(access.unique_bytes for access in writes if self.key(access.region) not in read_keys)
        misses, spread = dict[str, Fraction](), dict[str, Fraction]()
        for access in plain:
            missed = access.unique_bytes - self.finds(access, plain, allocated)
            misses[access.region] = Fraction(missed, access.moved_bytes)
            if access.region in self.regions:
                spread[access.region] = max(
                    Fraction(1), Fraction(self.size(access.region), access.unique_bytes)
                )
        misses.update({access.region: again[access.region] for access in reads if access.region in again})
        for access in reads:
            self.keep(self.key(access.region), access.unique_bytes, stays(access.unique_bytes), 0)
        through = {}
        for access in writes:
            key, kept = self.key(access.region), stays(access.unique_bytes)
            self.claim(key)
            self.overwrite(key)
            moved = access.moved_bytes
            between = {  # all that is touched while the writer goes through its region once
                (other.region, byte % other.unique_bytes)
                for other in (*reads, *writes)
                if other.unique_bytes and moved
                for byte in range(-(-other.moved_bytes * access.unique_bytes // moved))
            }
            if moved > access.unique_bytes and len(between) <= self.capacity:
                moved = access.unique_bytes
            lost = max(0, moved - kept) if kept < access.unique_bytes else 0
            through[access.region] = Fraction(lost, access.moved_bytes)
            self.keep(key, access.unique_bytes, kept, kept)
        into = sum((misses[access.region] * access.moved_bytes for access in reads), Fraction(0))
        into += sum(access.moved_bytes for access in writes)
        return Split(misses, spread, through, Fraction(self.written_back) / into if into else Fraction(0))

    def keep(self, name: str, unique: int, stays: int, dirty: int) -> None:
        """A region was used just now: its lines are the youngest, and as many as stay."""
        own = self.of(name)
        was_dirty = sum(line.dirty for line in own)
        self.lines = [line for line in self.lines if line.region != name]
        if stays < unique:
            self.written_back += 0 if dirty else max(0, was_dirty - stays)
            count, now_dirty = stays, dirty or min(was_dirty, stays)
        else:
            count, now_dirty = max(len(own), unique), max(was_dirty, dirty)
        self.make_room(count)
        self.put(name, count, now_dirty)
