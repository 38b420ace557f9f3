"""A task while it runs: its blocks still to place, its traffic bound to the links, and its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from simpy.events import Event

from ascendsim.isa.footprint import Footprint
from ascendsim.isa.program import Access, CoreKind, Task
from ascendsim.machine.binding import Binding, Readers
from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import CompiledBlock
from ascendsim.machine.core import CoreRun, Transfer
from ascendsim.machine.l2 import ALL, NONE, UNDIVIDED, Judged, L2State, in_all, part, ratio
from ascendsim.machine.links import Links
from ascendsim.machine.reuse import fetched_again, fetched_bytes, rewritten
from ascendsim.machine.wiring import Wiring
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import TaskRecord

COMPUTE_PIPES = ("M", "V")


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """Blocks of a task that do the same: how many, what they do, and the names of the regions that it knows
    by number.
    """

    compiled: CompiledBlock
    regions: tuple[str, ...]
    count: int


class Finished(NamedTuple):
    """What a core, or several in lock-step, did for a block.

    Attributes:
        kind: Of the cores.
        ticks: From dispatch to end.
        busy: Busy ticks of the scalar unit and each pipe.
        spans: Of pipes that worked, the first start and the last end.
    """

    kind: CoreKind
    cores: int
    ticks: int
    busy: Sequence[tuple[str, int]]
    spans: Sequence[tuple[str, int, int]]


@dataclass(slots=True)
class Work:
    """What a task has done on cores.

    Attributes:
        busy: Busy ticks by pipe, summed over blocks.
        block_ticks: Ticks from dispatch to end, summed over blocks.
        vector_busy, vector_ticks: What of these two is of blocks on vector cores.
        first, last: Ticks of the first start and the last end on a computing pipe, -1 if none.
        dispatch: Ticks that it took to hand out the blocks that started together first.
    """

    busy: dict[str, int] = field(default_factory=dict)
    block_ticks: int = 0
    vector_busy: dict[str, int] = field(default_factory=dict)
    vector_ticks: int = 0
    first: int = -1
    last: int = -1
    dispatch: int = 0

    def add(self, done: Finished) -> None:
        """Adds a finished block."""
        cores, on_vector = done.cores, done.kind is CoreKind.VECTOR
        for busy in (self.busy, self.vector_busy) if on_vector else (self.busy,):
            for name, own in done.busy:
                busy[name] = busy.get(name, 0) + own * cores
        self.block_ticks += done.ticks * cores
        self.vector_ticks += done.ticks * cores if on_vector else 0
        for name, first, last in done.spans:
            if name in COMPUTE_PIPES:
                self.first = first if self.first < 0 else min(self.first, first)
                self.last = max(self.last, last)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a record tells of a finished task besides names and ticks: the same for all tasks that do the
    same; see `TaskRecord`.
    """

    blocks: int
    rounds: int
    cores: int
    busy: Mapping[str, int]
    block_ticks: int
    vector_busy: Mapping[str, int]
    vector_ticks: int
    dispatch: int
    read_bytes: Mapping[str, int]
    write_bytes: Mapping[str, int]
    macs: int


@dataclass(frozen=True, slots=True)
class Phase:
    """What a part of a task does to L2; most tasks have one.

    Attributes:
        reads, writes: Number of the region, different bytes and all bytes.
        again: By number of the region, see `reuse.fetched_again`.
        rings: Numbers of regions, see `reuse.rewritten`.
    """

    reads: tuple[tuple[int, int, int], ...]
    writes: tuple[tuple[int, int, int], ...]
    again: tuple[tuple[int, Fraction], ...]
    rings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """What follows from a task's blocks and accesses whatever the names of its regions.

    Attributes:
        phases: One after the other; what one leaves in L2 the next ones find there.
        readers: By block and number of its region, who reads the same bytes.
    """

    phases: tuple[Phase, ...]
    readers: tuple[tuple[Readers, ...], ...]


KnownTraffic: TypeAlias = dict[Hashable, Traffic]


def _of_phase(
    accesses: Sequence[Access], prints: Sequence[tuple[Footprint, int]], write: bool
) -> list[Access]:
    """The part of a task's accesses that falls into the phase of some footprints."""
    moved: dict[str, int] = {}
    for footprint, count in prints:
        for region, size in footprint.moved(write).items():
            moved[region] = moved.get(region, 0) + size * count
    return [
        Access(access.region, min(access.unique_bytes, moved[access.region]), moved[access.region], write)
        for access in accesses
        if access.region in moved
    ]


class TaskRun:
    """State of one task.

    Args:
        position: Place in launch order; settles ties.
        task: What to run.
        blocks: What runs, in the order of dispatch.
        done: Event of its end.
        core_counts: Number of cores by kind.
        barrier_ticks: From the last core's arrival at a barrier until all go on.
    """

    def __init__(
        self,
        position: int,
        task: Task,
        blocks: list[PlacedBlock],
        done: Event,
        core_counts: Mapping[CoreKind, int],
        barrier_ticks: int = 0,
    ) -> None:
        self.position, self.task, self.done = position, task, done
        self.blocks, self._core_counts = blocks, core_counts
        self.left = [block.count for block in blocks]
        self.unfinished = sum(self.left)
        self.at_once = False  # it ended without events, since what it does was known
        self.dispatched = False
        self.ready = self.start = self.end = 0
        self.launch = (-1, -1)  # ticks between which the host launches it
        self.shares = UNDIVIDED
        self.running: list[CoreRun] = []
        self.wiring = Wiring(task, barrier_ticks)
        self._bound: dict[tuple[int, int], list[Transfer]] = {}
        self.readers: tuple[tuple[Readers, ...], ...] = ()  # see `Traffic`
        self.work = Work()
        self._figures: Figures | None = None
        self._read = self._moved(lambda compiled: compiled.read_bytes)
        self._uncached = self._moved(lambda compiled: compiled.uncached_bytes)
        self._written = self._moved(lambda compiled: compiled.write_bytes)

    def pass_l2(self, state: L2State) -> None:
        """What the AI CPU moves, judged against what L2 holds now: all that the task lists, once."""
        reads = [access for access in self.task.accesses if not access.write]
        writes = [access for access in self.task.accesses if access.write]
        self._read = {access.region: access.moved_bytes for access in reads}
        self._written = {access.region: access.moved_bytes for access in writes}
        self.shares = state.passing(reads, writes)

    def enter_l2(self, state: L2State, known: KnownTraffic) -> None:
        """Judges the task's traffic against what L2 holds now; `known` keeps what was worked out for tasks
        before.
        """
        reads, writes, around = (
            state.accesses(self.task, moved, write) if moved else []
            for moved, write in ((self._read, False), (self._written, True), (self._uncached, False))
        )
        accesses = [*reads, *writes, *around]
        numbers: dict[str, int] = {}
        for access in accesses:
            numbers.setdefault(access.region, len(numbers))
        blocks = [
            (block.compiled.number, block.count, tuple([numbers[name] for name in block.regions]))
            for block in self.blocks
        ]
        key = (
            tuple(blocks),
            tuple([(numbers[access.region], access.unique_bytes, access.write) for access in accesses]),
        )
        traffic = known.get(key)
        if traffic is None:
            phases = self._phases(reads, writes, numbers, state.capacity)
            traffic = known[key] = Traffic(phases, self._sharing(accesses))
        names = tuple(numbers)
        self.readers = traffic.readers
        judged: list[Judged] = []
        for phase in traffic.phases:
            if len(traffic.phases) > 1:
                reads, writes = (
                    [Access(names[number], unique, moved, write) for number, unique, moved in listed]
                    for listed, write in ((phase.reads, False), (phase.writes, True))
                )
            judged.append(
                Judged(
                    state.enter(
                        reads,
                        writes,
                        {names[number]: share for number, share in phase.again},
                        [names[number] for number in phase.rings],
                    ),
                    reads,
                    writes,
                )
            )
        self.shares = in_all(judged)

    def _moved(self, bytes_of: Callable[[CompiledBlock], Mapping[int, int]]) -> dict[str, int]:
        """Useful bytes that all blocks move in one way, by region."""
        totals: dict[str, int] = {}
        for block in self.blocks:
            compiled, regions, count = block.compiled, block.regions, block.count
            for region, size in bytes_of(compiled).items():
                totals[regions[region]] = totals.get(regions[region], 0) + size * count
        return totals

    def _phases(
        self, reads: Sequence[Access], writes: Sequence[Access], numbers: Mapping[str, int], capacity: int
    ) -> tuple[Phase, ...]:
        """What the parts of the task do to L2, each by itself."""
        prints = [
            (
                block.compiled.footprint
                if block.regions == block.compiled.regions
                else block.compiled.footprint.renamed(
                    dict(zip(block.compiled.regions, block.regions, strict=True))
                ),
                block.count,
            )
            for block in self.blocks
        ]
        steps = sorted({stream.phase for footprint, _ in prints for stream in footprint.streams})
        phases = []
        for step in steps if len(steps) > 1 else (None,):
            inside = (
                prints if step is None else [(footprint.in_phase(step), count) for footprint, count in prints]
            )
            own_reads, own_writes = (
                all_of if step is None else _of_phase(all_of, inside, write)
                for all_of, write in ((reads, False), (writes, True))
            )
            again = fetched_again(own_reads, self._fetched(inside, [*own_reads, *own_writes], capacity))
            listed = [
                tuple(
                    [(numbers[access.region], access.unique_bytes, access.moved_bytes) for access in accesses]
                )
                for accesses in (own_reads, own_writes)
            ]
            rings: frozenset[str] = frozenset()
            if any(access.moved_bytes > access.unique_bytes for access in own_writes):
                rings = self._rings(inside, [*own_reads, *own_writes], capacity)
            phases.append(
                Phase(
                    listed[0],
                    listed[1],
                    tuple([(numbers[name], share) for name, share in again.items()]),
                    tuple(sorted(numbers[name] for name in rings)),
                )
            )
        return tuple(phases)

    def _by_kind(
        self, prints: Sequence[tuple[Footprint, int]]
    ) -> Iterator[tuple[list[tuple[Footprint, int]], int]]:
        """What cores of a kind touch, and how many there are. Both kinds of a team go through much the same
        bytes at a time, so each is judged by itself.
        """
        kinds = [block.compiled.block.core for block in self.blocks]
        for kind in dict.fromkeys(kinds):
            yield [one for one, of in zip(prints, kinds, strict=True) if of is kind], self._core_counts[kind]

    def _fetched(
        self, prints: Sequence[tuple[Footprint, int]], accesses: Sequence[Access], capacity: int
    ) -> dict[str, Fraction]:
        """Bytes that DRAM delivers, by region; what several kinds read comes once for all."""
        fetched: dict[str, Fraction] = {}
        for own, cores in self._by_kind(prints):
            for region, size in fetched_bytes(own, accesses, capacity, cores).items():
                fetched[region] = max(fetched.get(region, size), size)
        return fetched

    def _rings(
        self, prints: Sequence[tuple[Footprint, int]], accesses: Sequence[Access], capacity: int
    ) -> frozenset[str]:
        """Regions that cores of each kind find in L2 when they write them again."""
        kept: set[str] = set()
        lost: set[str] = set()
        for own, cores in self._by_kind(prints):
            found = rewritten(own, accesses, capacity, cores)
            kept |= found
            lost |= {s.region for footprint, _ in own for s in footprint.streams if s.write} - found
        return frozenset(kept - lost)

    @property
    def wanted_cores(self) -> dict[CoreKind, int]:
        """Blocks by the kind of core that they need."""
        wanted: dict[CoreKind, int] = {}
        for block in self.blocks:
            kind = block.compiled.block.core
            wanted[kind] = wanted.get(kind, 0) + block.count
        return wanted

    def _abreast(self, block: PlacedBlock) -> int:
        """Cores that run blocks of a kind side by side."""
        return min(block.count, self._core_counts[block.compiled.block.core])

    def through_l2(self, moved: Mapping[str, int], to_dram: Mapping[str, Fraction]) -> int:
        """Bytes that pass L2: all if it is a cache, those of regions that it holds if it is managed by
        software.
        """
        return sum(size for name, size in moved.items() if not (self.shares.bypass and to_dram[name] == ALL))

    def transfers(self, index: int, cores: int, soc: SocSpec, clock: Clock, links: Links) -> list[Transfer]:
        """Demands of block `index` as transfers of `cores` cores in lock-step."""
        known = self._bound.get((index, cores))
        if known is None:
            compiled, regions = self.blocks[index].compiled, self.blocks[index].regions
            cycle = clock.cycle(compiled.block.core)
            binding = Binding(self.shares, soc, clock, cycle, cores, self._abreast(self.blocks[index]))
            bound = [
                binding.transfer(demand, regions[region], visits, self.readers[index][region])
                for (region, demand), visits in zip(compiled.demands, compiled.visits, strict=True)
            ]
            if not self.wiring.together:  # no barriers bring the cores into step
                bound = binding.out_of_step(bound, [demand for _, demand in compiled.demands], compiled.moves)
            known = [Transfer(work, links.number_of(kind), latency) for work, kind, latency in bound]
            self._bound[index, cores] = known
        return known

    def _sharing(self, accesses: Sequence[Access]) -> tuple[tuple[Readers, ...], ...]:
        """See `Traffic.readers`; pieces of one core may overlap, so that several means twice as many bytes as
        there are.
        """
        unique: dict[str, int] = {}
        for access in accesses:
            unique[access.region] = max(unique.get(access.region, 0), access.unique_bytes)
        read = [
            {
                name: block.compiled.distinct.get(number, 0) * self._abreast(block)
                for number, name in enumerate(block.regions)
            }
            for block in self.blocks
        ]
        together = {name: sum(own.get(name, 0) for own in read) for name in unique}
        return tuple(
            tuple(
                [
                    Readers(together[name] >= 2 * unique[name], ratio(own[name], max(1, unique[name])))
                    for name in own
                ]
            )
            for own in read
        )

    def absorb(self, run: CoreRun, dispatched: int) -> None:
        """Adds up what a finished run did; `dispatched` is the tick at which its cores got it."""
        self.work.add(
            Finished(
                run.block.block.core,
                len(run.cores),
                run.end - dispatched,
                [("S", run.scalar.busy), *[(lane.name, lane.busy) for lane in run.lanes]],
                [(lane.name, lane.first_tick, lane.last_tick) for lane in run.lanes if lane.first_tick >= 0],
            )
        )
        self.unfinished -= len(run.cores)

    @property
    def ended(self) -> bool:
        """Whether it has ended and who waited for it knows."""
        return self.at_once or self.done.processed

    def repeat(self, figures: Figures, first: int, last: int) -> None:
        """Ends the task with the figures of one that did the same, and its own first and last ticks on
        computing pipes.
        """
        self._figures, self.work.first, self.work.last = figures, first, last
        self.unfinished = 0

    @property
    def figures(self) -> Figures:
        """Figures of the finished task."""
        if self._figures is None:
            self._figures = self.figures_of(self.work)
        return self._figures

    def figures_of(self, work: Work) -> Figures:
        """What the task's record will tell when that is done."""
        core_counts = self._core_counts
        read, write = self._read, self._written
        through = {name: self.shares.write_through.get(name, NONE) for name in write}
        missed = sum(part(size, self.shares.read_miss[name]) for name, size in read.items())
        wanted = self.wanted_cores
        to_dram = (
            sum(part(size, through[name]) for name, size in write.items())
            + (missed + sum(write.values())) * self.shares.evicted
        )
        return Figures(
            blocks=self.task.block_dim,
            rounds=max((-(-count // core_counts[kind]) for kind, count in wanted.items()), default=1),
            cores=sum(min(count, core_counts[kind]) for kind, count in wanted.items()),
            busy={name: work.busy[name] for name in sorted(work.busy)},
            block_ticks=work.block_ticks,
            vector_busy={name: work.vector_busy[name] for name in sorted(work.vector_busy)},
            vector_ticks=work.vector_ticks,
            dispatch=work.dispatch,
            read_bytes={
                "l2": self.through_l2(read, self.shares.read_miss),
                "ddr": math.floor(missed) + sum(self._uncached.values()),
            },
            write_bytes={"l2": self.through_l2(write, through), "ddr": math.floor(to_dram)},
            macs=sum(block.compiled.macs * block.count for block in self.blocks),
        )

    def record(self) -> TaskRecord:
        """The finished task as a record."""
        task, figures = self.task, self.figures
        return TaskRecord(
            task=task.id,
            name=task.name,
            kind=task.kind.value,
            stream=task.stream,
            ready=self.ready,
            start=self.start,
            end=self.end,
            blocks=figures.blocks,
            rounds=figures.rounds,
            cores=figures.cores,
            busy=figures.busy,
            block_ticks=figures.block_ticks,
            vector_busy=figures.vector_busy,
            vector_ticks=figures.vector_ticks,
            dispatch=figures.dispatch,
            read_bytes=figures.read_bytes,
            write_bytes=figures.write_bytes,
            first_compute=self.work.first,
            last_compute=self.work.last,
            macs=figures.macs,
            launch_start=self.launch[0],
            launch_end=self.launch[1],
        )
