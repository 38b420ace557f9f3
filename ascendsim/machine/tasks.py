"""A task while it runs: its blocks still to place, its traffic bound to the links, and its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from simpy.events import Event

from ascendsim.isa.cost_model import LinkDemand
from ascendsim.isa.program import Access, CoreKind, Task
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.compiled import CompiledBlock
from ascendsim.machine.core import CoreRun, Transfer
from ascendsim.machine.l2 import ALL, NONE, UNDIVIDED, L2State, Shares, part
from ascendsim.machine.links import WEIGHT, FlowClass, Link, Links, capacities
from ascendsim.machine.reuse import fetched_again, fetched_bytes
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import TaskRecord

COMPUTE_PIPES = ("M", "V")


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """Blocks of a task that do the same: how many, what they do, and the names of the regions that it knows by number."""

    compiled: CompiledBlock
    regions: tuple[str, ...]
    count: int


@dataclass(slots=True)
class Work:
    """What a task has done on cores.

    Attributes:
        busy: Busy ticks by pipe, summed over blocks.
        block_ticks: Ticks from dispatch to end, summed over blocks.
        first, last: Ticks of the first start and the last end on a computing pipe, -1 if none.
    """

    busy: dict[str, int] = field(default_factory=dict)
    block_ticks: int = 0
    first: int = -1
    last: int = -1

    def add(self, run: CoreRun, dispatched: int) -> None:
        """Adds a finished run, whose cores got it at tick `dispatched`."""
        cores, busy = len(run.cores), self.busy
        busy["S"] = busy.get("S", 0) + run.scalar.busy * cores
        for lane in run.lanes:
            busy[lane.name] = busy.get(lane.name, 0) + lane.busy * cores
            if lane.name in COMPUTE_PIPES and lane.first_tick >= 0:
                self.first = lane.first_tick if self.first < 0 else min(self.first, lane.first_tick)
                self.last = max(self.last, lane.last_tick)
        self.block_ticks += (run.end - dispatched) * cores


@dataclass(frozen=True, slots=True)
class Figures:
    """What a record tells of a finished task besides names and ticks: the same for all tasks that do the same; see `TaskRecord`."""

    blocks: int
    rounds: int
    cores: int
    busy: Mapping[str, int]
    block_ticks: int
    read_bytes: Mapping[str, int]
    write_bytes: Mapping[str, int]
    macs: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What follows from a task's blocks and accesses whatever the names of its regions.

    Attributes:
        again: By number of the region, see `reuse.fetched_again`.
        in_step: Whether all cores read the same lines together.
    """

    again: tuple[tuple[int, Fraction], ...]
    in_step: bool


KnownTraffic: TypeAlias = dict[Hashable, Traffic]


class TaskRun:
    """State of one task.

    Args:
        position: Place in launch order; settles ties.
        task: What to run.
        blocks: What runs, in the order of dispatch.
        done: Event of its end.
        core_counts: Number of cores by kind.
    """

    def __init__(self, position: int, task: Task, blocks: list[PlacedBlock], done: Event, core_counts: Mapping[CoreKind, int]) -> None:
        self.position, self.task, self.done = position, task, done
        self.blocks, self._core_counts = blocks, core_counts
        self.left = [block.count for block in blocks]
        self.unfinished = sum(self.left)
        self.dispatched = False
        self.ready = self.start = self.end = 0
        self.launch = (-1, -1)  # ticks between which the host launches it
        self.shares = UNDIVIDED
        self.running: list[CoreRun] = []
        self._bound: dict[tuple[int, int], list[Transfer]] = {}
        self.in_step = False  # all cores that run it read the same lines together
        self.work = Work()
        self._figures: Figures | None = None
        self._read, self._written = self._moved(write=False), self._moved(write=True)

    def enter_l2(self, state: L2State, known: KnownTraffic) -> None:
        """Judges the task's traffic against what L2 holds now; `known` keeps what was worked out for tasks before."""
        reads = state.accesses(self.task, self._read, write=False)
        writes = state.accesses(self.task, self._written, write=True)
        accesses = [*reads, *writes]
        numbers: dict[str, int] = {}
        for access in accesses:
            numbers.setdefault(access.region, len(numbers))
        blocks = [(block.compiled.number, block.count, tuple([numbers[name] for name in block.regions])) for block in self.blocks]
        key = (tuple(blocks), tuple([(numbers[access.region], access.unique_bytes, access.write) for access in accesses]))
        traffic = known.get(key)
        if traffic is None:
            again = fetched_again(reads, self._fetched(accesses, state.capacity))
            in_step = state.same_line_is_slow and self._reads_in_step(reads)
            traffic = known[key] = Traffic(tuple([(numbers[name], share) for name, share in again.items()]), in_step)
        names = tuple(numbers)
        self.in_step = traffic.in_step
        self.shares = state.enter(reads, writes, {names[number]: share for number, share in traffic.again})

    def _moved(self, write: bool) -> dict[str, int]:
        """Useful bytes that all blocks move, by region."""
        totals: dict[str, int] = {}
        for block in self.blocks:
            compiled, regions, count = block.compiled, block.regions, block.count
            for region, size in (compiled.write_bytes if write else compiled.read_bytes).items():
                totals[regions[region]] = totals.get(regions[region], 0) + size * count
        return totals

    def _fetched(self, accesses: Sequence[Access], capacity: int) -> dict[str, Fraction]:
        """See `fetched_bytes`."""
        prints = [
            (block.compiled.footprint.renamed(dict(zip(block.compiled.regions, block.regions, strict=True))), block.count)
            for block in self.blocks
        ]
        cores = sum(self._core_counts[kind] for kind in {block.compiled.block.core for block in self.blocks})
        return fetched_bytes(prints, accesses, capacity, cores)

    def _abreast(self, block: PlacedBlock) -> int:
        """Cores that run blocks of a kind side by side."""
        return min(block.count, self._core_counts[block.compiled.block.core])

    def through_l2(self, moved: Mapping[str, int], to_dram: Mapping[str, Fraction]) -> int:
        """Bytes that pass L2: all if it is a cache, those of regions that it holds if it is managed by software."""
        return sum(size for name, size in moved.items() if not (self.shares.bypass and to_dram[name] == ALL))

    def transfers(self, index: int, cores: int, soc: SocSpec, clock: Clock, links: Links) -> list[Transfer]:
        """Demands of block `index` as transfers of `cores` cores in lock-step."""
        known = self._bound.get((index, cores))
        if known is None:
            compiled, regions = self.blocks[index].compiled, self.blocks[index].regions
            cycle = clock.cycle(compiled.block.core)
            slowdown = _same_line_slowdown(soc) if self.in_step else Fraction(1)
            abreast = self._abreast(self.blocks[index])
            known = [
                bind(demand, regions[region], visits, abreast, self.shares, slowdown, soc, clock, cycle, cores, links.number_of)
                for (region, demand), visits in zip(compiled.demands, compiled.visits, strict=True)
            ]
            self._bound[index, cores] = known
        return known

    def _reads_in_step(self, reads: Sequence[Access]) -> bool:
        """Whether all cores do the same and each reads all that the task reads, so that nothing sets them apart."""
        if len(self.blocks) != 1 or self._abreast(self.blocks[0]) == 1 or not reads:
            return False
        (block,) = self.blocks
        names = dict(zip(block.compiled.regions, block.regions, strict=True))
        touched = {names[region]: size for region, size in block.compiled.footprint.touched().items()}
        return all(touched.get(access.region, 0) >= access.unique_bytes for access in reads)

    def absorb(self, run: CoreRun, dispatched: int) -> None:
        """Adds up what a finished run did; `dispatched` is the tick at which its cores got it."""
        self.work.add(run, dispatched)
        self.unfinished -= len(run.cores)

    def repeat(self, figures: Figures, first: int, last: int) -> None:
        """Ends the task with the figures of one that did the same, and its own first and last ticks on computing pipes."""
        self._figures, self.work.first, self.work.last = figures, first, last
        self.unfinished = 0

    @property
    def figures(self) -> Figures:
        """Figures of the finished task."""
        if self._figures is None:
            self._figures = self._added_up()
        return self._figures

    def _added_up(self) -> Figures:
        core_counts = self._core_counts
        read, write = self._read, self._written
        through = {name: self.shares.write_through.get(name, NONE) for name in write}
        missed = sum(part(size, self.shares.read_miss[name]) for name, size in read.items())
        wanted: dict[CoreKind, int] = {}
        for block in self.blocks:
            kind = block.compiled.block.core
            wanted[kind] = wanted.get(kind, 0) + block.count
        to_dram = sum(part(size, through[name]) for name, size in write.items()) + (missed + sum(write.values())) * self.shares.evicted
        return Figures(
            blocks=self.task.block_dim,
            rounds=max((-(-count // core_counts[kind]) for kind, count in wanted.items()), default=1),
            cores=sum(min(count, core_counts[kind]) for kind, count in wanted.items()),
            busy={name: self.work.busy[name] for name in sorted(self.work.busy)},
            block_ticks=self.work.block_ticks,
            read_bytes={
                "l2": self.through_l2(read, self.shares.read_miss),
                "ddr": math.floor(missed),
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
            read_bytes=figures.read_bytes,
            write_bytes=figures.write_bytes,
            first_compute=self.work.first,
            last_compute=self.work.last,
            macs=figures.macs,
            launch_start=self.launch[0],
            launch_end=self.launch[1],
        )


def bind(
    demand: LinkDemand,
    region: str,
    visits: int,
    abreast: int,
    shares: Shares,
    slowdown: Fraction,
    soc: SocSpec,
    clock: Clock,
    cycle: int,
    cores: int,
    number_of: Callable[[FlowClass], int],
) -> Transfer:
    """A demand on a region as work, flow class and latency, given the share of its region that goes to DRAM.

    Work is counted in L2 bytes. Where reads and writes share one DRAM bus, writes load it in proportion to the two rates.

    Args:
        visits: How often the block comes back to the same bytes.
        abreast: Cores that run the block side by side, whether they are simulated as one group or each by itself.
        slowdown: How much longer L2 takes for reads.
    """
    miss = (shares.write_through if demand.write else shares.read_miss)[region]
    fetched = Fraction(demand.dram_bytes)
    if not demand.write and region in shares.read_spread:
        fetched = min(fetched, shares.read_spread[region] * demand.least_dram_bytes)
    ratio = fetched / demand.l2_bytes if demand.l2_bytes else Fraction(1)
    useful = Fraction(demand.bytes, demand.l2_bytes) if demand.l2_bytes else Fraction(1)
    to_dram = miss * ratio
    read = Fraction(0) if demand.write else to_dram
    write = (to_dram if demand.write else Fraction(0)) + shares.evicted * useful * (1 if demand.write else miss)
    if soc.dram.half_duplex:
        read, write = read + write * Fraction(soc.dram.read_gb_per_s) / Fraction(soc.dram.write_gb_per_s), Fraction(0)
    around_l2 = shares.bypass and miss == ALL
    through_l2 = 0 if around_l2 else WEIGHT
    weights = (
        0 if demand.write else math.ceil(through_l2 * slowdown),
        through_l2 if demand.write else 0,
        math.ceil(read * WEIGHT),
        math.ceil(write * WEIGHT),
    )
    latency = demand.hit_latency + math.ceil(max(0, demand.miss_latency - demand.hit_latency) * miss)
    if around_l2:
        latency = demand.miss_latency
    width = clock.width(demand.port_bytes_per_cycle, cycle)
    if not demand.write and visits > 1 and 0 < miss * visits <= 1:
        width = min(width, _rate_over_visits(visits, miss * ratio * visits, capacities(soc, clock), abreast))
    cap = max(1, width)
    return Transfer(max(1, demand.l2_bytes * UNITS_PER_BYTE), number_of(FlowClass(cap, weights, cores)), latency * cycle)


def _rate_over_visits(visits: int, first: Fraction, capacity: Sequence[int], abreast: int) -> int:
    """Rate of a core that reads the same bytes `visits` times: from DRAM at first, from L2 after that, one after the other.

    Cores in lock-step do so together, so neither link works while the other one is the bottleneck.

    Args:
        first: DRAM bytes for each L2 byte of the first visit.
        capacity: Work units per tick of each link.
        abreast: Cores that do so at the same time.
    """
    from_l2 = Fraction(abreast, capacity[Link.L2_READ])
    from_dram = first * Fraction(abreast, capacity[Link.DRAM_READ])
    return int(visits / (max(from_l2, from_dram) + (visits - 1) * from_l2))


def _same_line_slowdown(soc: SocSpec) -> Fraction:
    """How much longer L2 takes where all cores ask for the same lines at the same time."""
    limit = soc.l2.same_line_bytes_per_cycle
    whole = soc.l2.read_bytes_per_cycle_per_core * soc.ai_cores
    return Fraction(1) if limit is None else max(Fraction(1), Fraction(whole) / Fraction(limit))
