"""Cores that are walked by compiled code: their rows in the arrays of `ascendsim_kernels.block_walk`.

All ticks are counted from the task's arrival at the cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ascendsim.isa.instructions import Flag
from ascendsim.machine.barrier import Barrier, Wire
from ascendsim.machine.compiled import CompiledBlock
from ascendsim.machine.core import Transfer
from ascendsim.machine.solo_code import FlatBlock
from ascendsim_kernels import block_walk as kernels
from ascendsim_kernels.block_walk import Ints

SPARE = 64  # settings of a flag that nobody has waited for yet, beyond those that it begins with


class Rows:
    """Collects cores, and makes arrays of them.

    Args:
        begin: Tick of the first instruction.
        max_in_flight: Transfers of one pipe whose results may be outstanding at a time.

    Attributes:
        lanes: Of each core, its first lane.
        classes: Numbers of the flow classes on the links, by what stands for them in here less 1.
        moving: Lanes that have transfers, in the order of the flows.
        most: More ticks than all instructions take together, transfers and waiting for them left out.
        work: Most that a transfer moves.
    """

    def __init__(self, begin: int, max_in_flight: int) -> None:
        self._begin, self._in_flight = begin, max_in_flight
        self.lanes: list[int] = []
        self.classes: list[int] = []
        self.moving: list[int] = []
        self.most = begin
        self.work = 0
        self._numbers: dict[int, int] = {}
        self._blocks: dict[int, int] = {}  # by number of a block, where its code begins
        self._code: list[Ints] = []
        self._reads: list[Ints] = []
        self._transfers: list[tuple[int, int, int]] = []
        self._core_rows: list[list[int]] = []
        self._lane_rows: list[list[int]] = []
        self._flag_rows: list[list[int]] = []
        self._loops = self._operands = self._depth = 1
        self._tokens = 0
        self._members: list[tuple[int, int, int]] = []
        self._barriers: dict[int, int] = {}
        self._barrier_rows: list[list[int]] = []
        self._hearing: list[list[int]] = []

    def add(
        self,
        block: CompiledBlock,
        flat: FlatBlock,
        cores: int,
        *,
        transfers: Sequence[Transfer],
        wires: Mapping[str, Wire],
        flag_ticks: int,
        executed: int,
    ) -> None:
        """A core, or several in lock-step, that run a block of `executed` instructions."""
        number, lane0, begin = len(self._core_rows), len(self._lane_rows), self._begin
        code0 = self._code_of(block, flat)
        own = [code0, lane0, len(self._flag_rows), self._loops, len(self._transfers)]
        own += [flag_ticks, block.scalar_sets, code0, begin, 0, 0, -1, -1, 0, len(block.lanes), -1]
        self._core_rows.append(own)
        self.lanes.append(lane0)
        for lane, depth in enumerate(block.depths):
            flow = -1
            if lane in flat.moving:
                flow = len(self.moving)
                self.moving.append(lane0 + lane)
            row = [number, depth, 0, 0, 0, begin, begin, begin, 0, -1, -1, kernels.GOING, 0, 0, flow, 0]
            self._lane_rows.append(row)
            self._depth = max(self._depth, depth)
        self._loops += len(block.trips)
        self._operands = max(self._operands, block.operands)
        for transfer in transfers:
            kind = self._numbers.setdefault(transfer.kind, len(self._numbers) + 1)
            self._transfers.append((transfer.work, kind, transfer.latency))
            self.work = max(self.work, transfer.work)
        self.classes = list(self._numbers)
        latest = max([transfer.latency for transfer in transfers], default=0)
        ticks = flat.longest + flag_ticks + latest
        for flag in block.flags:
            initial = flag.initial if isinstance(flag, Flag) else 0
            member = -1
            if flag.name in wires:
                wire = wires[flag.name]
                ticks = max(ticks, flat.longest + flag_ticks + latest + wire.sets.ticks)
                member = len(self._members)
                self._members.append((self._barrier(wire.sets), cores, 0))
                self._hearing[self._barrier(wire.hears)].append(len(self._flag_rows))
            self._flag_rows.append([0, initial, -1, member])
            self._tokens = max(self._tokens, initial)
        self.most += executed * ticks

    def _code_of(self, block: CompiledBlock, flat: FlatBlock) -> int:
        known = self._blocks.get(block.number)
        if known is not None:
            return known
        code0 = sum(len(code) for code in self._code)
        code = flat.code
        if self._reads:
            code = code.copy()
            code[:, kernels.READS] += sum(len(reads) for reads in self._reads)
        self._code.append(code)
        self._reads.append(flat.reads)
        self._blocks[block.number] = code0
        return code0

    def _barrier(self, barrier: Barrier) -> int:
        number = self._barriers.setdefault(id(barrier), len(self._barriers))
        if number == len(self._barrier_rows):
            self._barrier_rows.append([barrier.cores, barrier.ticks, 0, 0, 0, 0])
            self._hearing.append([])
        return number

    def place(self, flow: int) -> int:
        """What a flow of class 1 adds to the key of a set of transfers; the key is a number whose digits are
        the classes.
        """
        return int((len(self.classes) + 1) ** flow)

    def arrays(self) -> tuple[Ints, ...]:
        """The arguments of `walk`, but for the table of rates."""
        lanes, cores = len(self._lane_rows), len(self._core_rows)
        units = lanes + cores
        work = np.ones((2, units), np.int64)  # all of them can go on
        work[0] = np.arange(units)[::-1]
        clock = np.zeros(6, np.int64)
        clock[kernels.WORK_COUNT] = units
        heard = [flag for own in self._hearing for flag in own]
        first = 0
        for row, own in zip(self._barrier_rows, self._hearing, strict=True):
            row[kernels.HEARD0], row[kernels.HEARD] = first, len(own)
            first += len(own)
        flow_rows = [[lane, 0, 0, 0, 0, 0, self.place(number)] for number, lane in enumerate(self.moving)]
        begin = self._begin
        return (
            self._code[0] if len(self._code) == 1 else np.concatenate(self._code),
            self._reads[0] if len(self._reads) == 1 else np.concatenate(self._reads),
            _table(self._transfers, 3),
            _table(self._core_rows, kernels.CORE),
            np.zeros(self._loops, np.int64),
            _table(self._lane_rows, kernels.PIPE),
            np.full((lanes, self._depth, 3), begin, np.int64),
            np.full((lanes, self._in_flight), begin, np.int64),
            np.zeros((lanes, self._operands), np.int64),
            _table(flow_rows, 7),
            _table(self._flag_rows, 4),
            np.full((len(self._flag_rows), self._tokens + SPARE), begin, np.int64),
            clock,
            work,
            _table(self._members, 3),
            _table(self._barrier_rows, 6),
            np.zeros((len(self._barrier_rows), SPARE, 2), np.int64),
            np.array(heard, np.int64),
        )


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), columns)
