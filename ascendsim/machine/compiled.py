"""Blocks in the compact form that the machine walks: runs of plain tuples between ends of loops, each
instruction costed once.

The code of a block is a flat list of steps: a run of entries that are issued one after the other, or the end
of a loop, which goes back to the loop's first step until its trips are done. An entry of a run is `(lane,
issue, op)`: the pipe's number in the block (-1 = the scalar unit itself), ticks that the scalar unit spends
on issuing it, and the operation, a tuple that starts with its kind:

    (FIXED, occupancy, latency, head, reads, write, instruction)     a unit works for a known time
    (SET, flag, ticks by which it fires early, instruction)    (WAIT, flag, instruction)
    (TRANSFER, occupancy, index of the link demand, instruction)
    (BARRIER, instruction)                                           results of the pipe are there first

A barrier of all pipes is a flag from each of them to the scalar unit, which waits for all before it goes on.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ascendsim.core.errors import CompileError, suggest
from ascendsim.isa.cost_compute import unit_flag_cycles
from ascendsim.isa.cost_key import cost_key
from ascendsim.isa.cost_model import LinkDemand
from ascendsim.isa.costs import cost
from ascendsim.isa.footprint import Footprint, footprint
from ascendsim.isa.instructions import (
    Barrier,
    Buffer,
    CrossFlag,
    Flag,
    Instruction,
    Loop,
    Mmad,
    Move,
    Pipe,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, CoreKind
from ascendsim.isa.walk import static
from ascendsim.machine.block_key import regions_of, stays
from ascendsim.machine.clock import Clock
from ascendsim.soc.spec import SocSpec

FIXED, SET, WAIT, TRANSFER, BARRIER = range(5)
SCALAR_LANE = -1

Operation: TypeAlias = tuple[Any, ...]
Entry: TypeAlias = tuple[int, int, Operation]
Run: TypeAlias = tuple[Entry, ...]
END: Run = ((-2, 0, ()),)  # the last step of every block; compared by identity, never executed


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """The last step of a loop.

    Attributes:
        loop: Number of the loop in its block.
        first: Index of the loop's first step.
    """

    loop: int
    trips: int
    first: int


class Price(NamedTuple):
    """What an instruction costs in ticks.

    Attributes:
        issue: Of the scalar unit.
        occupancy, latency, head, link: See `Cost`.
    """

    issue: int
    occupancy: int
    latency: int
    head: int
    link: LinkDemand | None


# of instructions, by core and by what decides it; all of one chip
Prices: TypeAlias = dict[CoreKind, dict[Hashable, Price]]


@dataclass(slots=True)
class CompiledBlock:
    """A block ready to run, and all blocks like it: regions go by numbers, which each of them has names for.

    Attributes:
        block: The first of these blocks.
        number: Tells compiled blocks apart.
        regions: Names of the regions in `block`, by number; the footprint and the demands use them.
        code: What the scalar unit walks.
        trips: Trips of each loop, by its number.
        lanes: Pipes that the block uses, scalar unit left out; an entry's lane indexes this.
        depths: Queue depth of each lane.
        heads: Longest time that an instruction of each lane takes to fill its unit.
        flags: The block's flags, those between cores, and those that barriers of all pipes stand for; an
            operation's flag indexes this.
        ends: By flag, numbers of the lanes that set it and wait for it; -1 is the scalar unit, also for a
            lane that does not exist.
        scalar_sets: Whether the scalar unit sets flags that pipes may wait for.
        demands: Link demands of the transfers, each with the number of its region.
        visits: Of each transfer, how often the loops around it come back to the same bytes.
        moves: Of each transfer, how often the whole block makes it.
        read_bytes, uncached_bytes, write_bytes: Useful bytes by number of the region over the whole block:
            read through L2, read past it, written.
        distinct: By number of the region, different bytes that the block reads.
        footprint: What the block touches in global memory, for reuse in L2.
        macs: Useful multiply-accumulates of the whole block.
        operands: Vector operands that results are tracked for.
    """

    block: Block
    number: int
    regions: tuple[str, ...]
    code: tuple[Run | LoopEnd, ...] = ()
    trips: tuple[int, ...] = ()
    lanes: tuple[Pipe, ...] = ()
    depths: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    flags: tuple[Flag | CrossFlag, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    scalar_sets: bool = False
    demands: list[tuple[int, LinkDemand]] = field(default_factory=list)
    visits: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    read_bytes: dict[int, int] = field(default_factory=dict)
    uncached_bytes: dict[int, int] = field(default_factory=dict)
    write_bytes: dict[int, int] = field(default_factory=dict)
    footprint: Footprint = field(default_factory=lambda: Footprint((), ()))
    distinct: dict[int, int] = field(default_factory=dict)
    macs: int = 0
    operands: int = 0


def compile_block(
    block: Block,
    soc: SocSpec,
    clock: Clock,
    number: int = 0,
    regions: Sequence[str] | None = None,
    prices: Prices | None = None,
) -> CompiledBlock:
    """Costs every instruction of a block once and resolves pipes, flags and regions to numbers.

    Args:
        number: Tells compiled blocks apart.
        regions: Names of the block's regions in the order of `block_key`, if they are known.
        prices: What was worked out for other blocks of the chip; what is new is added.

    Raises:
        CompileError: An instruction does not exist on the chip or the core, a flag is unknown or used by the
            wrong pipe.
    """
    names = regions_of(block) if regions is None else tuple(regions)
    known = {} if prices is None else prices
    return _Compiler(block, soc, clock, number, names, known.setdefault(block.core, {})).compile()


class _Compiler:
    def __init__(
        self,
        block: Block,
        soc: SocSpec,
        clock: Clock,
        number: int,
        regions: tuple[str, ...],
        prices: dict[Hashable, Price],
    ) -> None:
        self.block, self.soc, self.clock = block, soc, clock
        self.cycle = clock.cycle(block.core)
        self.lanes: dict[Pipe, int] = {}
        self.known_flags: tuple[Flag | CrossFlag, ...] = (*block.flags, *block.cross)
        self.flags = {flag.name: number for number, flag in enumerate(self.known_flags)}
        self.crossing: dict[
            tuple[type, int], Pipe
        ] = {}  # pipes that set flags between cores or wait for them
        self.operands: dict[str, int] = {}
        self.heads: dict[int, int] = {}
        self.code: list[Run | LoopEnd] = []
        self.trips: list[int] = []
        self.open: list[Loop] = []  # loops around the statement that is being compiled
        self.mmad: Mmad | None = None  # the last one
        self.result = CompiledBlock(block, number, regions)
        self.prices = prices
        self.demands: dict[tuple[int, int], int] = {}  # numbers, by id of the price and visits
        self.issues: dict[int, int] = {}
        self.flag_entries: dict[tuple[type, Pipe, str, int], Entry] = {}
        self.drained: list[Flag] = []  # to the scalar unit: this pipe is through with all before a barrier
        self.regions = {name: number for number, name in enumerate(regions)}

    def compile(self) -> CompiledBlock:
        result = self.result
        self.body(self.block.body, 1)
        result.flags = (*self.known_flags, *self.drained)
        result.code = (*self.code, END)
        result.trips = tuple(self.trips)
        result.lanes = tuple(self.lanes)
        result.depths = tuple(self.depth(pipe) for pipe in self.lanes)
        result.heads = tuple(self.heads.get(lane, 0) for lane in range(len(self.lanes)))
        result.ends = tuple(
            (self.lanes.get(source, SCALAR_LANE), self.lanes.get(target, SCALAR_LANE))
            for source, target in map(self.pipes_between, range(len(result.flags)), result.flags)
        )
        result.footprint = footprint(self.block)
        result.distinct = {self.regions[region]: size for region, size in result.footprint.read().items()}
        result.operands = len(self.operands)
        return result

    def pipes_between(self, number: int, flag: Flag | CrossFlag) -> tuple[Pipe, Pipe]:
        """Pipes that set a flag and wait for it; the scalar unit where this core does not."""
        if isinstance(flag, Flag):
            return flag.source, flag.target
        return self.crossing.get((SetFlag, number), Pipe.S), self.crossing.get((WaitFlag, number), Pipe.S)

    def depth(self, pipe: Pipe) -> int:
        depth = self.soc.issue.depth(pipe.value)
        if depth < 1:
            raise CompileError(
                f"issue.queue_depth of {pipe.value}",
                "must be at least 1",
                depth,
                "the pipe could never get an instruction",
            )
        return depth

    def body(self, statements: tuple[Statement, ...], times: int) -> None:
        """Appends statements that run `times` times in all to the code; consecutive instructions become one
        run.
        """
        run: list[Entry] = []

        def close() -> None:
            if run:
                self.code.append(tuple(run))
                run.clear()

        for statement in statements:
            if isinstance(statement, (SetFlag, WaitFlag)):  # half of all
                run.append(self.flag_entry(statement))
                continue
            if isinstance(statement, Barrier):
                run += self.barrier_entries(statement)
                continue
            if not isinstance(statement, Loop):
                run.append(self.entry(statement, times))
                continue
            if statement.trips < 0:
                raise CompileError(
                    f"loop {statement.variable}",
                    "must not run a negative number of times",
                    statement.trips,
                    "clip it at 0",
                )
            if statement.trips:
                close()
                first = len(self.code)
                self.open.append(statement)
                self.body(statement.body, times * statement.trips)
                self.open.pop()
                if len(self.code) > first:
                    self.code.append(LoopEnd(len(self.trips), statement.trips, first))
                    self.trips.append(statement.trips)
        close()

    def entry(self, instruction: Instruction, times: int) -> Entry:
        if isinstance(instruction, Mmad):
            self.mmad = instruction
            self.result.macs += instruction.m * instruction.k * instruction.n * times
        price = self.price(instruction)
        if instruction.pipe is Pipe.S:
            return SCALAR_LANE, price.issue, (FIXED, price.occupancy, 0, 0, (), -1, instruction)
        lane = self.lane(instruction.pipe)
        if price.link is not None:
            number = self.demand(price, price.link, self.visits_of(instruction), times)
            return lane, price.issue, (TRANSFER, price.occupancy, number, instruction)
        self.heads[lane] = max(self.heads.get(lane, 0), price.head)
        reads: tuple[int, ...] = ()
        write = -1
        if isinstance(instruction, Vector):
            reads = tuple(sorted({self.operand(operand.name) for operand in instruction.srcs}))
            write = self.operand(instruction.dst.name)
            if stays(instruction.dst) and write not in reads:
                reads = (*reads, write)  # it overwrites what the last one wrote, in order
        work = (FIXED, price.occupancy, price.latency, price.head, reads, write, instruction)
        return lane, price.issue, work

    def price(self, instruction: Instruction) -> Price:
        """The cost of an instruction in ticks; equal instructions are costed once."""
        key: Hashable = cost_key(instruction)
        if isinstance(instruction, Move):
            key = key, instruction.src.name, instruction.dst.name
        known = self.prices.get(key)
        if known is None:
            found, cycle = cost(instruction, self.soc, self.block.core), self.cycle
            issue = self.issue_ticks(found.issues)
            known = self.prices[key] = Price(
                issue, found.occupancy * cycle, found.latency * cycle, found.head * cycle, found.link
            )
        return known

    def demand(self, price: Price, link: LinkDemand, visits: int, times: int) -> int:
        """The number of a transfer's demand on the links; equal transfers share one."""
        result, region = self.result, self.regions[link.region]
        totals = (
            result.write_bytes if link.write else result.read_bytes if link.cached else result.uncached_bytes
        )
        totals[region] = totals.get(region, 0) + link.bytes * times
        if link.atomic:
            result.read_bytes[region] = result.read_bytes.get(region, 0) + link.bytes * times
        key = id(price), visits  # `prices` keeps them alive
        if key not in self.demands:
            self.demands[key] = len(result.demands)
            result.demands.append((region, link))
            result.visits.append(visits)
            result.moves.append(0)
        result.moves[self.demands[key]] += times
        return self.demands[key]

    def lane(self, pipe: Pipe) -> int:
        return self.lanes.setdefault(pipe, len(self.lanes))

    def visits_of(self, instruction: Instruction) -> int:
        """How often the loops around a transfer come back to the same bytes of global memory."""
        if not isinstance(instruction, Move):
            return 1
        operand = instruction.dst if instruction.dst.buffer is Buffer.GM else instruction.src
        moving = {name for name, step in operand.offset.terms if step}
        return math.prod(loop.trips for loop in self.open if loop.variable not in moving)

    def operand(self, name: str) -> int:
        return self.operands.setdefault(name, len(self.operands))

    def issue_ticks(self, issues: int) -> int:
        ticks = self.issues.get(issues)
        if ticks is None:
            ticks = math.ceil(round(self.soc.issue.scalar_cycles * issues * self.cycle, 6))
            self.issues[issues] = ticks
        return ticks

    def flag_entry(self, instruction: SetFlag | WaitFlag) -> Entry:
        early = -1  # it is no UnitFlag
        if isinstance(instruction, SetFlag) and instruction.unit_flag:
            early = self.early_ticks(instruction)
        key = type(instruction), instruction.pipe, instruction.flag, early
        known = self.flag_entries.get(key)
        if known is None:
            lane, number = self.flag_end(instruction)
            wait = isinstance(instruction, WaitFlag)
            operation = (WAIT, number, instruction) if wait else (SET, number, max(0, early), instruction)
            known = self.flag_entries[key] = lane, self.issue_ticks(1), operation
        return known

    def flag_end(self, instruction: SetFlag | WaitFlag) -> tuple[int, int]:
        """Lane and number of the flag that a pipe sets or waits for."""
        number = self.flags.get(instruction.flag)
        if number is None:
            raise CompileError(
                f"flag {instruction.flag!r}",
                "is not declared in its block",
                remedy=suggest(instruction.flag, self.flags),
            )
        flag, is_set = self.known_flags[number], isinstance(instruction, SetFlag)
        if isinstance(flag, CrossFlag):
            allowed = self.crossing.setdefault((type(instruction), number), instruction.pipe)
        else:
            allowed = flag.source if is_set else flag.target
        if instruction.pipe is not allowed:
            verb = "set" if is_set else "waited for"
            raise CompileError(
                flag.text,
                f"may be {verb} by {allowed.value} only",
                instruction.pipe.value,
                "declare another flag",
            )
        if instruction.pipe is Pipe.S:
            self.result.scalar_sets |= is_set
            return SCALAR_LANE, number
        return self.lane(instruction.pipe), number

    def barrier_entries(self, barrier: Barrier) -> list[Entry]:
        if barrier.pipe is not Pipe.S:
            return [(self.lane(barrier.pipe), self.issue_ticks(1), (BARRIER, barrier))]
        if not self.drained:
            used = dict.fromkeys(item.pipe for item, _ in static(self.block.body) if item.pipe is not Pipe.S)
            self.drained = [Flag(f"PIPE_ALL {pipe.value}", pipe, Pipe.S) for pipe in used]
        sets: list[Entry] = []
        waits: list[Entry] = []
        for number, flag in enumerate(self.drained, len(self.known_flags)):
            issue = 0 if sets else self.issue_ticks(1)  # it is one instruction
            sets.append((self.lane(flag.source), issue, (SET, number, 0, barrier)))
            waits.append((SCALAR_LANE, 0, (WAIT, number, barrier)))
        return sets + waits

    def early_ticks(self, instruction: SetFlag) -> int:
        """By how much a flag fires before the end of the mmad ahead of it, if FIXPIPE follows that mmad unit
        by unit.
        """
        if self.mmad is None or instruction.pipe is not Pipe.M or not self.soc.cube.unit_flag:
            raise CompileError(
                f"flag {instruction.flag!r}",
                "can be a UnitFlag only after an mmad on chips that have it",
                remedy="set a plain flag",
            )
        return unit_flag_cycles(self.mmad, self.soc) * self.cycle
