"""Walks one task by compiled code from its arrival at free cores to its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import CompiledBlock
from ascendsim.machine.links import Links
from ascendsim.machine.outcome import Outcome
from ascendsim.machine.placing import Delays, Placed
from ascendsim.machine.solo_code import FlatBlock, flatten
from ascendsim.machine.solo_state import Rows
from ascendsim.machine.tasks import Finished, TaskRun, Work
from ascendsim.soc.spec import SocSpec
from ascendsim_kernels import block_walk as kernels
from ascendsim_kernels.block_walk import Ints

SETS = 251  # rows of the first table of rates; it grows
LARGEST_KEY = 1 << 62


class Walker:
    """Walks tasks of a run, and keeps the code of their blocks."""

    def __init__(self, soc: SocSpec, clock: Clock, links: Links) -> None:
        self._soc, self._clock, self._links = soc, clock, links
        self._flat: dict[int, FlatBlock] = {}

    def walk(
        self, run: TaskRun, batch: Sequence[Placed], delays: Delays, executed: Sequence[int]
    ) -> Outcome | None:
        """What a task does all of whose blocks start together; None if it does not fit into 64 bits or comes
        to a standstill.

        Args:
            executed: By group of blocks, instructions that a block executes.
        """
        dispatch = delays.dispatch(batch, first=True)
        walked = self._to_the_end(run, batch, dispatch + delays.init, executed)
        if walked is None:
            return None
        rows, cores, lanes = walked
        work = Work(dispatch=dispatch)
        for number, placed in enumerate(batch):
            block, first = run.blocks[placed.group].compiled, rows.lanes[number]
            work.add(_finished(placed, block, cores[number], lanes[first : first + len(block.lanes)]))
        start, end = (None if tick < 0 else tick for tick in (work.first, work.last))
        return Outcome(_end(cores), run.figures_of(work), start, end, items=(), start=0)

    def ticks(
        self, run: TaskRun, batch: Sequence[Placed], delays: Delays, executed: Sequence[int]
    ) -> int | None:
        """The same, of which only the ticks until the end."""
        begin = delays.dispatch(batch, first=True) + delays.init
        walked = self._to_the_end(run, batch, begin, executed)
        return None if walked is None else _end(walked[1])

    def _to_the_end(
        self, run: TaskRun, batch: Sequence[Placed], begin: int, executed: Sequence[int]
    ) -> tuple[Rows, Ints, Ints] | None:
        """The rows of the task's cores and lanes when all is done; `begin` is the tick of the first
        instruction.
        """
        rows = Rows(begin, max(1, self._soc.dram.max_in_flight))
        for placed in batch:
            block = run.blocks[placed.group].compiled
            rows.add(
                block,
                self._flatten(block),
                len(placed.cores),
                transfers=run.transfers(placed.group, len(placed.cores), self._soc, self._clock, self._links),
                wires=run.wiring.wires(run.task.groups[placed.group], placed.flags),
                flag_ticks=self._soc.issue.flag_cycles * self._clock.cycle(block.block.core),
                executed=executed[placed.group],
            )
        if max(rows.most, rows.work) >= kernels.FAR or rows.place(len(rows.moving)) > LARGEST_KEY:
            return None
        arrays = rows.arrays()
        return (rows, arrays[3], arrays[5]) if _walk(rows, arrays, self._links) else None

    def _flatten(self, block: CompiledBlock) -> FlatBlock:
        known = self._flat.get(block.number)
        if known is None:
            known = self._flat[block.number] = flatten(block)
        return known


def _end(cores: Ints) -> int:
    return int(cores[:, kernels.END_TICK].max())


def _finished(placed: Placed, block: CompiledBlock, core: Ints, lanes: Ints) -> Finished:
    """What a core did, from its rows."""
    names = [pipe.value for pipe in block.lanes]
    busy = [("S", int(core[kernels.BUSY]))]
    busy += zip(names, lanes[:, kernels.PIPE_BUSY].tolist(), strict=True)
    firsts, lasts = lanes[:, kernels.FIRST].tolist(), lanes[:, kernels.LAST].tolist()
    spans = [span for span in zip(names, firsts, lasts, strict=True) if span[1] >= 0]
    return Finished(block.block.core, len(placed.cores), int(core[kernels.END_TICK]), busy, spans)


def _walk(rows: Rows, arrays: Sequence[Ints], links: Links) -> bool:
    """Walks to the end, and works out the rates of sets of transfers when they come up; tells whether it got
    there.
    """
    flows, clock = arrays[9], arrays[12]
    keys, rates = np.zeros(SETS, np.int64), np.zeros((SETS, len(flows)), np.int64)
    known = 0
    while (status := kernels.walk(*(*arrays, keys, rates))) == kernels.RATES:
        if 2 * known > len(keys):
            keys, rates = _grown(keys, rates)
        # a few rows, which plain lists hold better than small arrays
        active = [
            (flow, own[kernels.CLASS_OF])
            for flow, own in enumerate(flows.tolist())
            if own[kernels.ON] == kernels.NOW_ON
        ]
        found = links.rates(tuple([rows.classes[kind - 1] for _, kind in active]))
        if max(found) >= kernels.FAR:
            return False
        key = int(clock[kernels.SET_KEY])
        row = _free_row(keys, key)
        keys[row] = key
        for (flow, _), rate in zip(active, found, strict=True):
            rates[row, flow] = rate
        known += 1
    return bool(status == kernels.DONE)


def _free_row(keys: Ints, key: int) -> int:
    """Where a key goes in a hash table."""
    row = key % len(keys)
    while keys[row]:
        row = (row + 1) % len(keys)
    return row


def _grown(keys: Ints, rates: Ints) -> tuple[Ints, Ints]:
    """The same table with four times as many rows."""
    more, theirs = (
        np.zeros(4 * len(keys) - 1, np.int64),
        np.zeros((4 * len(keys) - 1, rates.shape[1]), np.int64),
    )
    for old in np.flatnonzero(keys):
        row = _free_row(more, int(keys[old]))
        more[row], theirs[row] = keys[old], rates[old]
    return more, theirs
