"""How often DRAM delivers the bytes that a task reads several times.

Cores that run side by side read what they share at about the same time, so one fetch serves them all. A block
comes back to the same bytes after one trip of the loop that does not move the transfer: that visit hits if
what all cores touch in such a trip fits in L2, and is another fetch if it does not (least-recently-used
replacement has then pushed the bytes out). So it is with a later transfer of the text to the same bytes, and
what is touched in between. Blocks of a later round find what an earlier round shared with them only if a
round's bytes fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from ascendsim.isa.footprint import Footprint
from ascendsim.isa.program import Access


def fetched_bytes(
    blocks: Sequence[tuple[Footprint, int]], accesses: Sequence[Access], capacity: int, cores: int
) -> dict[str, Fraction]:
    """Bytes of each region read that DRAM delivers in the course of a task, if nothing is resident at its
    start.

    Args:
        blocks: Footprints of the task's blocks and how often each runs.
        accesses: The task's accesses, one a region and direction; what it reads of its own results has no
            unique bytes.
        capacity: Bytes of L2.
        cores: Cores that run the task's blocks side by side.

    Returns:
        By region; never less than the unique bytes that the task reads.
    """
    made = {access.region for access in accesses if not access.write and not access.unique_bytes}
    judge = _Judge(blocks, accesses, capacity, cores)
    fits, unique, sharing = judge.fits, judge.unique, judge.sharing
    read: dict[str, int] = {}  # by each of those who read it
    for footprint, times in blocks:
        passes = {
            loop: 1 if fits(working_set) else footprint.trips[loop]
            for loop, working_set in footprint.working_sets(footprint.repeating()).items()
        }
        for stream, revisit in zip(footprint.streams, footprint.revisits(), strict=True):
            if stream.write or (revisit is not None and all(map(fits, revisit))):
                continue
            size = stream.bytes * times
            for loop, step in zip(stream.loops, stream.steps, strict=True):
                size *= footprint.trips[loop] if step else passes[loop]
            read[stream.region] = read.get(stream.region, 0) + size
    fetched: dict[str, Fraction] = {}
    for region, size in read.items():
        (many, each), own = sharing[region], unique[region] if region in made else 0
        # by each of those who share it, but at least once
        if size * each > unique[region] * many:
            fetched[region] = Fraction(size * each - own * many, many)
        else:
            fetched[region] = Fraction(unique[region] - own)
    return fetched


class _Judge:
    """Tells which stretches of a task's blocks fit in L2, all cores side by side."""

    def __init__(
        self,
        blocks: Sequence[tuple[Footprint, int]],
        accesses: Sequence[Access],
        capacity: int,
        cores: int,
    ) -> None:
        self.capacity = capacity
        self.unique: dict[str, int] = {}
        for access in accesses:
            self.unique[access.region] = max(self.unique.get(access.region, 0), access.unique_bytes)
        count = sum(times for _, times in blocks)
        rounds = -(-count // max(1, cores))
        self.side_by_side = min(count, max(1, cores))
        touched: dict[str, int] = {}
        for footprint, times in blocks:
            for region, size in footprint.touched().items():
                touched[region] = touched.get(region, 0) + size * times
        # cores that have the same bytes of a region: so many for each
        least = {region: max(1, self.unique[region]) for region in touched}
        self.sharing: dict[str, tuple[int, int]] = {
            region: (size, least[region]) if size > least[region] else (1, 1)
            for region, size in touched.items()
        }
        in_a_round = sum(min(self.unique[region], size // rounds) for region, size in touched.items())
        if rounds > 1 and in_a_round > capacity:
            self.sharing = {
                region: (many, each * rounds) if many > each * rounds else (1, 1)
                for region, (many, each) in self.sharing.items()
            }
        self._judged: dict[tuple[tuple[str, int], ...], bool] = {}

    def fits(self, working_set: Mapping[str, int]) -> bool:
        """Whether what each core touches of regions fits, all together."""
        key = tuple(working_set.items())
        if key not in self._judged:
            total: Fraction | int = 0
            for region, size in working_set.items():
                unique, cores = self.unique[region], self.side_by_side
                many, each = self.sharing[region]
                if many > cores * each:
                    many, each = cores, 1
                touched = size * cores * each  # times `many`
                if touched >= unique * many:
                    total += unique
                else:
                    total += Fraction(touched, many) if touched % many else touched // many
            self._judged[key] = total <= self.capacity
        return self._judged[key]


def rewritten(
    blocks: Sequence[tuple[Footprint, int]], accesses: Sequence[Access], capacity: int, cores: int
) -> frozenset[str]:
    """Regions that a task writes again and again while L2 holds what it wrote before (rings): what loops come
    back to fits with all that one trip of them touches. Arguments as of `fetched_bytes`.
    """
    judge = _Judge(blocks, accesses, capacity, cores)
    found = {stream.region for footprint, _ in blocks for stream in footprint.streams if stream.write}
    for footprint, _ in blocks:
        sets = footprint.working_sets(footprint.repeating())
        for stream in footprint.streams:
            repeats = [loop for loop, step in zip(stream.loops, stream.steps, strict=True) if not step]
            if stream.write and not all(judge.fits(sets[loop]) for loop in repeats):
                found.discard(stream.region)
    return frozenset(found)


def fetched_again(reads: Sequence[Access], fetched: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Shares of the bytes that a task reads which DRAM delivers, for regions of which it delivers bytes more
    than once.

    Args:
        reads: What the task reads, one access a region.
        fetched: By region, bytes that DRAM delivers if nothing is resident at the start; regions that are
            missing: each once.
    """
    shares: dict[str, Fraction] = {}
    for access in reads:
        size, moved = fetched.get(access.region, Fraction(0)), access.moved_bytes
        if size > access.unique_bytes:
            shares[access.region] = min(size / moved, Fraction(1))
    return shares
