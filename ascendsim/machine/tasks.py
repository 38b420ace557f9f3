"""A task while it runs: its blocks still to place, its traffic bound to the links, and its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from simpy.events import Event

from ascendsim.isa.cost_model import LinkDemand
from ascendsim.isa.program import CoreKind, Task
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.compiled import CompiledBlock
from ascendsim.machine.core import CoreRun, Transfer
from ascendsim.machine.l2 import L2State, Shares
from ascendsim.machine.links import WEIGHT, FlowClass, Links
from ascendsim.machine.reuse import fetched_bytes
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import TaskRecord

COMPUTE_PIPES = ("M", "V")


class TaskRun:
    """State of one task.

    Args:
        position: Place in launch order; settles ties.
        task: What to run.
        blocks: Compiled blocks and how often each runs, in the order of dispatch.
        done: Event of its end.
    """

    def __init__(self, position: int, task: Task, blocks: list[tuple[CompiledBlock, int]], done: Event) -> None:
        self.position, self.task, self.done = position, task, done
        self.blocks = [compiled for compiled, _ in blocks]
        self.left = [count for _, count in blocks]
        self.counts = tuple(self.left)
        self.unfinished = sum(self.left)
        self.dispatched = False
        self.ready = self.start = self.end = 0
        self.shares = Shares()
        self.running: list[CoreRun] = []
        self._bound: dict[tuple[int, int], list[Transfer]] = {}
        self._busy: dict[str, int] = {}
        self._block_ticks = 0
        self._first = self._last = -1

    def enter_l2(self, state: L2State, cores_of: Callable[[CoreKind], int]) -> None:
        """Judges the task's traffic against what L2 holds now."""
        reads = state.accesses(self.task, self.moved(write=False), write=False)
        writes = state.accesses(self.task, self.moved(write=True), write=True)
        blocks = [(compiled.footprint, count) for compiled, count in zip(self.blocks, self.counts, strict=True)]
        cores = sum(cores_of(kind) for kind in {compiled.block.core for compiled in self.blocks})
        self.shares = state.enter(reads, writes, fetched_bytes(blocks, [*reads, *writes], state.capacity, cores))

    def moved(self, write: bool) -> dict[str, int]:
        """Useful bytes that all blocks move, by region."""
        totals: dict[str, int] = {}
        for compiled, count in zip(self.blocks, self.counts, strict=True):
            for region, size in (compiled.write_bytes if write else compiled.read_bytes).items():
                totals[region] = totals.get(region, 0) + size * count
        return totals

    def through_l2(self, moved: Mapping[str, int], to_dram: Mapping[str, Fraction]) -> int:
        """Bytes that pass L2: all if it is a cache, those of placed regions if it is managed by software."""
        return sum(size for name, size in moved.items() if not (self.shares.bypass and to_dram[name]))

    def transfers(self, index: int, cores: int, soc: SocSpec, clock: Clock, links: Links) -> list[Transfer]:
        """Demands of block `index` as transfers of `cores` cores in lock-step."""
        known = self._bound.get((index, cores))
        if known is None:
            compiled = self.blocks[index]
            cycle = clock.cycle(compiled.block.core)
            known = [bind(demand, self.shares, soc, clock, cycle, cores, links.number_of) for demand in compiled.demands]
            self._bound[index, cores] = known
        return known

    def absorb(self, run: CoreRun, dispatched: int) -> None:
        """Adds up what a finished run did; `dispatched` is the tick at which its cores got it."""
        cores = len(run.cores)
        busy = self._busy
        busy["S"] = busy.get("S", 0) + run.scalar.busy * cores
        for lane in run.lanes:
            busy[lane.name] = busy.get(lane.name, 0) + lane.busy * cores
            if lane.name in COMPUTE_PIPES and lane.first_tick >= 0:
                self._first = lane.first_tick if self._first < 0 else min(self._first, lane.first_tick)
                self._last = max(self._last, lane.last_tick)
        self._block_ticks += (run.end - dispatched) * cores
        self.unfinished -= cores

    def record(self, cores_of: Callable[[CoreKind], int]) -> TaskRecord:
        """The finished task as a record."""
        read, write = self.moved(write=False), self.moved(write=True)
        through = {name: self.shares.write_through.get(name, Fraction(0)) for name in write}
        allocated = sum(size * self.shares.read_miss[name] for name, size in read.items()) + sum(write.values())
        wanted: dict[CoreKind, int] = {}
        for compiled, count in zip(self.blocks, self.counts, strict=True):
            wanted[compiled.block.core] = wanted.get(compiled.block.core, 0) + count
        to_dram = sum(size * through[name] for name, size in write.items()) + allocated * self.shares.evicted
        return TaskRecord(
            task=self.task.id,
            name=self.task.name,
            kind=self.task.kind.value,
            stream=self.task.stream,
            ready=self.ready,
            start=self.start,
            end=self.end,
            blocks=self.task.block_dim,
            rounds=max((-(-count // cores_of(kind)) for kind, count in wanted.items()), default=1),
            cores=sum(min(count, cores_of(kind)) for kind, count in wanted.items()),
            busy={name: self._busy[name] for name in sorted(self._busy)},
            block_ticks=self._block_ticks,
            read_bytes={
                "l2": self.through_l2(read, self.shares.read_miss),
                "ddr": math.floor(sum((size * self.shares.read_miss[name] for name, size in read.items()), Fraction(0))),
            },
            write_bytes={"l2": self.through_l2(write, through), "ddr": math.floor(to_dram)},
            first_compute=self._first,
            last_compute=self._last,
            macs=sum(compiled.macs * count for compiled, count in zip(self.blocks, self.counts, strict=True)),
        )


def bind(
    demand: LinkDemand, shares: Shares, soc: SocSpec, clock: Clock, cycle: int, cores: int, number_of: Callable[[FlowClass], int]
) -> Transfer:
    """A demand as work, flow class and latency, given the share of its region that goes to DRAM.

    Work is counted in L2 bytes. Where reads and writes share one DRAM bus, writes load it in proportion to the two rates.
    """
    miss = (shares.write_through if demand.write else shares.read_miss)[demand.region]
    ratio = Fraction(demand.dram_bytes, demand.l2_bytes) if demand.l2_bytes else Fraction(1)
    if not demand.write and demand.region in shares.read_spread:
        ratio = min(ratio, shares.read_spread[demand.region])
    to_dram = miss * ratio
    read = Fraction(0) if demand.write else to_dram
    useful = Fraction(demand.bytes, demand.l2_bytes) if demand.l2_bytes else Fraction(1)
    write = (to_dram if demand.write else Fraction(0)) + shares.evicted * useful * (1 if demand.write else miss)
    if soc.dram.half_duplex:
        read, write = read + write * Fraction(soc.dram.read_gb_per_s) / Fraction(soc.dram.write_gb_per_s), Fraction(0)
    through_l2 = 0 if shares.bypass and miss else WEIGHT
    weights = (
        0 if demand.write else through_l2,
        through_l2 if demand.write else 0,
        math.ceil(read * WEIGHT),
        math.ceil(write * WEIGHT),
    )
    latency = demand.hit_latency + math.ceil(max(0, demand.miss_latency - demand.hit_latency) * miss)
    if shares.bypass and miss:
        latency = demand.miss_latency
    cap = max(1, clock.width(demand.port_bytes_per_cycle, cycle))
    return Transfer(max(1, demand.l2_bytes * UNITS_PER_BYTE), number_of(FlowClass(cap, weights, cores)), latency * cycle)
