"""What L2 holds, by region of global memory, and what share of a task's bytes therefore goes to DRAM.

A cache by whole regions with least-recently-used replacement, write-allocate and write-back. A task is judged
when it starts: what is resident and not pushed out before it is read hits, what is not is fetched as often as
`machine.reuse` says (once, unless the task comes back to it only after more than the capacity has passed);
what is written over sooner than that, such as a ring, goes out once.
Dirty bytes that the task's own allocations push out load the DRAM write link while those allocations run. New
data at addresses of a dead region overwrites its lines, so dead intermediate results never reach DRAM. Slices
of a region (parts of a batch, inputs of a Concat) are kept by themselves and join when the whole is touched.
A task of several parts is judged part by part, so that a part may find what the one before it has written.
Shares are exact fractions.

On chips whose L2 is managed by software (Ascend310) nothing is resident but what the program placed
(`ProgramInfo.l2_placed`, names of regions), and weights that it keeps there once they were read
("l2_kept").
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ascendsim.isa.program import Access, MemoryPlan, Task
from ascendsim.machine.regions import Regions
from ascendsim.soc.spec import L2Spec

NONE, ALL = Fraction(0), Fraction(1)


def part(size: int, share: Fraction) -> Fraction | int:
    """Returns size * share; most shares are none or all, which need no fractions.

    >>> part(7, Fraction(1)), part(7, Fraction(1, 2))
    (7, Fraction(7, 2))
    """
    return size * share if share.denominator > 1 else size * share.numerator


def ratio(part: int, whole: int) -> Fraction:
    """Returns part / whole; none or all, as mostly, is not worked out.

    >>> ratio(0, 7), ratio(7, 7), ratio(2, 6)
    (Fraction(0, 1), Fraction(1, 1), Fraction(1, 3))
    """
    if part == whole:
        return ALL
    return Fraction(part, whole) if part else NONE


@dataclass(slots=True)
class _Entry:
    """Bytes of one region in L2, and how many of them DRAM does not have yet."""

    resident: int
    dirty: int


@dataclass(frozen=True, slots=True)
class Shares:
    """How the traffic of a task splits.

    Attributes:
        bypass: L2 is not on the way (software-managed).
        read_miss: By region, share of the bytes read that DRAM delivers.
        read_spread: By region, most DRAM bytes a missed byte can cost: whole lines are fetched, but L2 keeps
            them, so short bursts cost no more than the region once; regions that are not listed pay for every
            burst.
        write_through: By region, share of the bytes written that go straight to DRAM.
        evicted: DRAM bytes written back for every byte that the task allocates in L2.
        written: Share of writes in all that the task moves from and to DRAM.
    """

    bypass: bool = False
    read_miss: Mapping[str, Fraction] = field(default_factory=dict)
    read_spread: Mapping[str, Fraction] = field(default_factory=dict)
    write_through: Mapping[str, Fraction] = field(default_factory=dict)
    evicted: Fraction = Fraction(0)
    written: Fraction = Fraction(0)

    def dram_bytes(
        self, reads: Sequence[Access], writes: Sequence[Access]
    ) -> tuple[Fraction | int, Fraction | int]:
        """Bytes from and to DRAM."""
        missed = sum([part(access.moved_bytes, self.read_miss[access.region]) for access in reads])
        out = sum([part(access.moved_bytes, self.write_through[access.region]) for access in writes])
        return missed, out + self.evicted * self.allocated(reads, writes) if self.evicted else out

    def allocated(self, reads: Iterable[Access], writes: Iterable[Access]) -> Fraction | int:
        """Bytes for which lines are taken: what misses, and what is written."""
        missed = sum([part(access.moved_bytes, self.read_miss[access.region]) for access in reads])
        return missed + sum([access.moved_bytes for access in writes])


UNDIVIDED = Shares()


@dataclass(frozen=True, slots=True)
class Judged:
    """Shares of a part of a task, and what it reads and writes."""

    shares: Shares
    reads: Sequence[Access]
    writes: Sequence[Access]


def in_all(parts: Sequence[Judged]) -> Shares:
    """The shares of a task whose parts were judged one after the other: of each region on the average over
    its bytes.
    """
    if len(parts) == 1:
        return parts[0].shares
    missed = _mean(
        [(access, part.shares.read_miss[access.region]) for part in parts for access in part.reads]
    )
    through = _mean(
        [(access, part.shares.write_through[access.region]) for part in parts for access in part.writes]
    )
    spread: dict[str, Fraction] = {}
    for region in missed:
        found = [
            part.shares.read_spread.get(region)
            for part in parts
            if any(access.region == region for access in part.reads)
        ]
        listed = [most for most in found if most is not None]
        if len(listed) == len(found):
            spread[region] = max(listed)
    allocated = [part.shares.allocated(part.reads, part.writes) for part in parts]
    pushed = sum((part.shares.evicted * size for part, size in zip(parts, allocated, strict=True)), NONE)
    sides = [part.shares.dram_bytes(part.reads, part.writes) for part in parts]
    out = sum([side[1] for side in sides])
    return Shares(
        parts[0].shares.bypass,
        missed,
        spread,
        through,
        pushed / sum(allocated) if pushed else NONE,
        Fraction(out, sum(map(sum, sides))) if out else NONE,
    )


def _mean(shares: Sequence[tuple[Access, Fraction]]) -> dict[str, Fraction]:
    """By region the mean share of the bytes that move."""
    moved: dict[str, int] = {}
    total: dict[str, Fraction] = {}
    for access, share in shares:
        moved[access.region] = moved.get(access.region, 0) + access.moved_bytes
        total[access.region] = total.get(access.region, NONE) + share * access.moved_bytes
    return {region: size / moved[region] if moved[region] else NONE for region, size in total.items()}


class L2State:
    """Residency between tasks; `enter` is called once a task, in the order in which tasks start."""

    def __init__(
        self, spec: L2Spec, memory: MemoryPlan, placed: Iterable[str] = (), kept: Iterable[str] = ()
    ) -> None:
        self._bypass = spec.software_managed
        self._capacity = spec.size or 0
        self._regions = Regions(memory)
        self._placed = {self._regions.root(name) for name in placed}
        self._kept = {self._regions.root(name) for name in kept}
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # least recently used first
        # start, end and owner of entries whose addresses another region may take over
        self._fleeting: dict[str, tuple[int, int, str]] = {}
        self._used = 0  # bytes of all entries
        # of the current task: bytes written back so far, bytes of all that it touches
        self._written_back = self._touched = 0

    @property
    def capacity(self) -> int:
        """Bytes that can be resident if it is a cache."""
        return self._capacity

    def resident(self, region: str) -> int:
        """Bytes of a region that L2 holds now."""
        return self._held(self._regions.key(region))

    def _held(self, key: str) -> int:
        if self._regions.undivided(key):
            entry = self._entries.get(key)
            return entry.resident if entry is not None else 0
        held = sum(
            self._entries[name].resident
            for name in (key, *self._regions.slices(key))
            if name in self._entries
        )
        whole = self._around(key)
        return held + (self._share(key, whole).resident if whole is not None else 0)

    def accesses(self, task: Task, moved: Mapping[str, int], write: bool) -> list[Access]:
        """One access a region with the bytes that the instructions really move; regions that the task does
        not list come last.
        """
        unique: dict[str, int] = {}
        for access in task.accesses:
            if access.write is write and access.region in moved:
                unique[access.region] = max(unique.get(access.region, 0), access.unique_bytes)
        for name in sorted(moved.keys() - unique):
            size = self._regions.size(name)
            unique[name] = moved[name] if size is None else size
        return [Access(name, min(size, moved[name]), moved[name], write) for name, size in unique.items()]

    def enter(
        self,
        reads: Sequence[Access],
        writes: Sequence[Access],
        again: Mapping[str, Fraction],
        rings: Collection[str] = (),
    ) -> Shares:
        """Judges a task and updates what L2 holds.

        Args:
            reads: What the task reads, one access a region.
            writes: What it writes.
            again: Shares of the bytes read that DRAM delivers, for regions of which it delivers bytes more
                than once; see `reuse.fetched_again`.
            rings: Regions that are written over while they are there whatever else passes; see
                `reuse.rewritten`.
        """
        if self._bypass:
            miss = {
                access.region: NONE if self._regions.root(access.region) in self._placed else ALL
                for access in (*reads, *writes)
            }
            for access in reads:
                miss[access.region] = self._first_reads(access) if miss[access.region] else NONE
            sides = Shares(True, miss, {}, miss)
            fetched, out = sides.dram_bytes(reads, writes)
            return replace(sides, written=Fraction(out, fetched + out)) if out else sides
        self._written_back = 0
        keys = {access.region: self._regions.key(access.region) for access in (*reads, *writes)}
        touched: dict[str, int] = {}
        for access in (*reads, *writes):
            key = keys[access.region]
            touched[key] = max(touched.get(key, 0), access.unique_bytes)
        self._touched = sum(touched.values())
        read_miss, spread, missed = self._read(reads, writes, keys, again)
        write_through, out = self._write(reads, writes, keys, rings)
        evicted = NONE
        allocated = missed + sum([access.moved_bytes for access in writes]) if self._written_back else 0
        if allocated:
            evicted, out = Fraction(self._written_back) / allocated, out + self._written_back
        written = Fraction(out, missed + out) if out else NONE
        return Shares(False, read_miss, spread, write_through, evicted, written)

    def passing(self, reads: Sequence[Access], writes: Sequence[Access]) -> Shares:
        """Judges what the AI CPU moves, which changes nothing: it finds what L2 holds, takes no lines in it,
        and writes to DRAM but for regions that the program placed in L2.
        """
        if self._bypass:
            kept = {access.region: self._regions.root(access.region) in self._placed for access in reads}
            kept |= {access.region: self._regions.root(access.region) in self._placed for access in writes}
            miss = {region: NONE if placed else ALL for region, placed in kept.items()}
            return Shares(True, miss, {}, miss)
        held = {access.region: min(access.unique_bytes, self.resident(access.region)) for access in reads}
        miss = {
            access.region: ratio(access.unique_bytes - held[access.region], access.unique_bytes)
            for access in reads
        }
        return Shares(True, miss, {}, dict.fromkeys([access.region for access in writes], ALL))

    def _first_reads(self, access: Access) -> Fraction:
        """Share of what a task reads of a region outside of L2 that DDR delivers: of a kept weight each byte
        once, then L2 has it.
        """
        root = self._regions.root(access.region)
        if root not in self._kept:
            return ALL
        self._placed.add(root)
        once = min(access.unique_bytes, self._regions.size(root) or access.unique_bytes)
        return Fraction(once, max(once, access.moved_bytes))

    def _read(
        self,
        reads: Sequence[Access],
        writes: Sequence[Access],
        keys: Mapping[str, str],
        again: Mapping[str, Fraction],
    ) -> tuple[dict[str, Fraction], dict[str, Fraction], Fraction | int]:
        """By region the shares `read_miss` and `read_spread`, and the bytes missed in all."""
        misses, spread = {}, {}
        total: Fraction | int = 0
        for access in reads:
            self._claim(keys[access.region])
        hits = self._hits([access for access in reads if access.region not in again], writes, keys)
        for access in reads:
            region, unique, moved = access.region, access.unique_bytes, access.moved_bytes
            if region in again:
                misses[region] = again[region]
                total += part(moved, again[region])
                continue
            missed = unique - hits[region]
            misses[region] = ratio(missed, moved)
            total += missed
            size = self._regions.size(region)
            if unique and size is not None:
                spread[region] = ratio(max(size, unique), unique)
        for access in reads:
            self._keep(keys[access.region], access.unique_bytes, dirty=0)
        return misses, spread, total

    def _hits(
        self, reads: Sequence[Access], writes: Sequence[Access], keys: Mapping[str, str]
    ) -> dict[str, int]:
        """By region, bytes that a task finds in L2 when it comes to them.

        Regions are read from their start to their end while results are written and what is missing is
        fetched, all in step. What is allocated pushes out the oldest lines: first those of regions that were
        used before, then those just ahead of the reader, since the ones behind it are fresh. From that moment
        on the reader finds nothing any more. Of a region that is resident in part, the end is there (the
        start was pushed out first).
        """
        inside = {
            access.region: min(access.unique_bytes, self._held(keys[access.region])) for access in reads
        }
        read = {keys[access.region] for access in reads}
        allocated = sum([access.unique_bytes for access in writes if keys[access.region] not in read])
        allocated += sum([access.unique_bytes - inside[access.region] for access in reads])
        room, before = self._capacity - self._used, dict[str, int]()
        if room >= allocated:
            return inside
        for name, entry in self._entries.items():
            if room >= allocated:
                break  # so it is for all later ones
            if name in read:
                before[name] = room
            else:
                room += entry.resident
        found = {}
        for access in reads:
            unique, there = access.unique_bytes, inside[access.region]
            free = before.get(keys[access.region], room)
            # where the reader is when the room is used up
            reached = unique if allocated <= free else free * unique // allocated
            found[access.region] = max(0, min(there, reached - (unique - there)))
        return found

    def _write(
        self,
        reads: Sequence[Access],
        writes: Sequence[Access],
        keys: Mapping[str, str],
        rings: Collection[str],
    ) -> tuple[dict[str, Fraction], int]:
        """By region the share `write_through`, and the bytes of all of them."""
        through, total = {}, 0
        for access in writes:
            key = keys[access.region]
            self._claim(key)
            self._overwrite(key)
            kept = self._stays(access.unique_bytes)
            moved = access.moved_bytes
            if moved > access.unique_bytes and (
                access.region in rings or self._between(access, (*reads, *writes)) <= self._capacity
            ):
                moved = access.unique_bytes  # written over while it is there: only the last goes out
            excess = max(0, moved - kept) if access.unique_bytes > kept else 0
            through[access.region] = ratio(excess, access.moved_bytes)
            total += excess
            self._keep(key, access.unique_bytes, dirty=kept)
        return through, total

    @staticmethod
    def _between(access: Access, touched: Iterable[Access]) -> int:
        """Bytes that a task touches between two writes of a byte, if it goes evenly through all."""
        unique, moved = access.unique_bytes, access.moved_bytes
        regions: dict[str, int] = {}
        for other in touched:
            passing = min(other.unique_bytes, -(-other.moved_bytes * unique // moved))
            regions[other.region] = max(regions.get(other.region, 0), passing)
        return sum(regions.values())

    def _claim(self, key: str) -> None:
        """Moves lines of a region that are kept under its slices, or under the whole that it is a slice of,
        to its own name.
        """
        if self._regions.undivided(key):
            return
        inner = [name for name in self._regions.slices(key) if name in self._entries]
        whole = self._around(key)
        own = self._entries.get(key, _Entry(0, 0))
        for name in inner:
            piece = self._drop(name)
            own = _Entry(own.resident + piece.resident, own.dirty + piece.dirty)
        if whole is not None:
            part, rest = self._share(key, whole), self._entries[whole]
            own = _Entry(own.resident + part.resident, own.dirty + part.dirty)
            self._entries[whole] = _Entry(rest.resident - part.resident, rest.dirty - part.dirty)
            if not self._entries[whole].resident:
                self._drop(whole)
        self._put(key, own)

    def _share(self, key: str, whole: str) -> _Entry:
        """What of a whole's lines belongs to one of its slices."""
        entry, all_bytes = self._entries[whole], self._regions.bytes(whole)
        size = min(self._regions.bytes(key), all_bytes)
        return _Entry(entry.resident * size // all_bytes, entry.dirty * size // all_bytes)

    def _around(self, key: str) -> str | None:
        """The region that keeps lines of a slice, if it is one."""
        root = self._regions.root(key)
        return root if root != key and root in self._entries else None

    def _keep(self, root: str, unique: int, dirty: int) -> None:
        """Makes a region the most recently used one and evicts others until all fit."""
        stays = self._stays(unique)
        if root not in self._entries:
            entry = _Entry(stays, dirty)
        else:
            entry = self._drop(root)
            self._used -= entry.resident
            if stays < unique:
                self._written_back += 0 if dirty else max(0, entry.dirty - stays)
                entry = _Entry(stays, dirty or min(entry.dirty, stays))
            else:
                entry = _Entry(max(entry.resident, unique), max(entry.dirty, dirty))
        while (surplus := self._used + entry.resident - self._capacity) > 0:
            name, oldest = next(iter(self._entries.items()))
            if surplus >= oldest.resident:
                self._drop(name)
                surplus = oldest.resident
            pushed = min(oldest.dirty, surplus)
            self._written_back += pushed
            oldest.resident -= surplus
            oldest.dirty -= pushed
            self._used -= surplus
        if entry.resident:
            self._put(root, entry)
            self._used += entry.resident

    def _stays(self, unique: int) -> int:
        """Bytes of a region that are still there when the task ends: the end of all that it touches, in
        proportion, if that is too much.
        """
        return unique if self._touched <= self._capacity else unique * self._capacity // self._touched

    def _put(self, key: str, entry: _Entry) -> None:
        self._entries[key] = entry
        if key in self._regions.reused:
            self._fleeting[key] = (*self._regions.addresses(key), self._regions.root(key))

    def _drop(self, key: str) -> _Entry:
        self._fleeting.pop(key, None)
        return self._entries.pop(key)

    def _overwrite(self, root: str) -> None:
        """Drops lines of other regions at the addresses of a region that is written anew."""
        owner = self._regions.root(root)
        start, end = self._regions.addresses(root)
        over = [
            (name, other_end - other_start - min(end, other_end) + max(start, other_start))
            for name, (other_start, other_end, other) in self._fleeting.items()
            if other_start < end and start < other_end and other != owner
        ]
        for name, outside in over:
            entry = self._entries[name]
            left = min(entry.resident, outside)
            self._used -= entry.resident - left
            entry.resident = left
            entry.dirty = min(entry.dirty, left)
            if not left:
                self._drop(name)
