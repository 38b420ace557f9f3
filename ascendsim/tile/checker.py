"""The checker: races and misused flags of the cores of a launch, from their recorded rows alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.capacity import capacity
from ascendsim.isa.forms import Form
from ascendsim.isa.instructions import Buffer
from ascendsim.soc.spec import SocSpec
from ascendsim.tile.accesses import Tables
from ascendsim.tile.crossing import Crossing
from ascendsim.tile.evaluate import ON_CHIP
from ascendsim.tile.findings import Findings
from ascendsim.tile.flags import deadlock, left_set, set_twice
from ascendsim.tile.order import Scheduler
from ascendsim.tile.wording import Conflict, say
from ascendsim_kernels import tile_cross as x
from ascendsim_kernels import tile_order as o
from ascendsim_kernels import tile_race as r

MOST = 256  # different races that are kept
_Rows = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class _Memories:
    """Columns of accesses, made when a form first needs them; large ones cost room only where touched.

    Args:
        sizes: Bytes of the memories.
        shared: Whether other cores touch them too.
        room: Where the table and `latest` are to lie, all 0; None for room of its own.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        shared: bool,
        room: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> None:
        self.sizes = sizes
        self.table, self.latest = room or (
            np.zeros((len(sizes), r.MEMORY_WIDTH), np.int64),
            np.zeros((len(sizes), r.LATEST), np.int64),
        )
        self.latest[:, r.LOWEST] = 1 << 62
        self.table[:, r.SIZE], self.table[:, r.SHARED] = sizes, shared
        self._kept: list[NDArray[Any]] = []

    def want(self, memory: int, column: int) -> None:
        """Gives a memory a column."""
        row, size = self.table[memory], self.sizes[memory]
        if not row[r.PROMOTED]:
            row[r.PROMOTED] = self._zeros(size // 32 + 1, np.uint8)
        if not row[column]:
            row[column] = self._zeros(size // 32 + 1, np.int32)
            row[r.COLUMNS + column] = self._zeros(size + 32, np.int32)

    def _zeros(self, size: int, dtype: Any) -> int:
        array = np.zeros(size, dtype)
        self._kept.append(array)
        start: int = array.__array_interface__["data"][0]
        return start


class Checker:
    """What the cores of a launch have touched.

    Args:
        soc: The chip.
        regions: Names and bytes of the arrays in global memory.
        forms: All forms of the launch, also those that come later.
        places: By form: compiled text and place in it, for the names of operands.
        findings: Takes what is found.
        manual: Whether order within a pipe, and with the scalar unit, is the kernel's own business; if not,
            the compiler sees to both (BiSheng compiler, automatic synchronization).
    """

    def __init__(
        self,
        soc: SocSpec,
        regions: Iterable[tuple[str, int]],
        forms: Sequence[Form],
        places: Sequence[tuple[Any, int]],
        findings: Findings,
        manual: bool = False,
    ) -> None:
        self.soc, self.forms, self.places, self.findings, self.manual = soc, forms, places, findings, manual
        listed = list(regions)
        self.names = [name for name, _ in listed]
        self.chip = [capacity(soc, buffer) for buffer in ON_CHIP]
        self.outside = [size for _, size in listed]
        numbers = {(buffer, ""): number for number, buffer in enumerate(ON_CHIP)}
        numbers |= {(Buffer.GM, name): len(ON_CHIP) + at for at, name in enumerate(self.names)}
        self.tables = Tables(forms, lambda box: numbers[box.buffer, box.name])
        self.shared = _Memories(self.outside, True)
        self.log: NDArray[np.int32] = np.zeros(1 << 12, np.int32)
        self.rows = 0
        self.starts: list[int] = []  # of the cores: numbers of their first rows
        self.cores: list[int] = []
        self.extents: dict[tuple[int, str], tuple[int, int]] = {}  # bytes that a core wrote, by region
        self.steps = 0

    def core(self, core: int, crossing: tuple[Crossing, int] | None = None) -> CoreChecker:
        """Begins with a core.

        Args:
            core: Its number.
            crossing: The cores that wait for one another, and the core's number there, if they do: each has a
                checker of its own then.
        """
        self.starts.append(self.rows + 1)
        self.cores.append(core)
        return CoreChecker(self, core, crossing)

    def note(self, forms: NDArray[np.int32]) -> NDArray[np.int64]:
        """Gives rows their numbers over all cores."""
        first = self.rows + 1
        self.rows += len(forms)
        if self.rows >= len(self.log):
            self.log = np.concatenate([self.log, np.zeros(max(len(self.log), self.rows), np.int32)])
        self.log[first : self.rows + 1] = forms
        return np.arange(first, self.rows + 1)

    def core_of(self, row: int) -> tuple[int, int]:
        """Core of a row, and the row's number on it."""
        at = bisect_right(self.starts, row) - 1
        return self.cores[at], row - self.starts[at]

    def name(self, memory: int) -> str:
        """What a memory is called: an array's name, or a buffer's."""
        chip = len(ON_CHIP)
        return ON_CHIP[memory].value if memory < chip else self.names[memory - chip]


class CoreChecker:
    """Follows one core.

    Args:
        whole: The launch.
        core: Number of the core.
        crossing: See `Checker.core`.
    """

    def __init__(self, whole: Checker, core: int, crossing: tuple[Crossing, int] | None = None) -> None:
        self.whole, self.core = whole, core
        start = whole.starts[-1]
        chip = len(ON_CHIP)
        self.crossing = None if crossing is None else crossing[0]
        self.mine = 0 if crossing is None else crossing[1]
        room = None
        if self.crossing is not None:
            room = self.crossing.tables[self.mine], self.crossing.latest[self.mine]
            self.crossing.cores[self.mine] = self
        self.memories = _Memories([*whole.chip, *whole.outside], False, room)
        self.memories.table[chip:] = whole.shared.table
        self.memories.latest[chip:] = whole.shared.latest
        self.memories.latest[chip:, r.LOWEST :] = (1 << 62, 0)
        self.known = np.full((r.PIPES, r.PIPES), start - 1, np.int64)
        self.seen: NDArray[np.int64] = np.zeros(r.PIPES, np.int64)
        self.state: NDArray[np.int64] = np.zeros(r.STATE, np.int64)
        self.state[:] = int(whole.manual), start, 0, r.MTE3
        self.reports: NDArray[np.int64] = np.zeros((MOST, r.REPORT), np.int64)
        self.others: NDArray[np.int64] = np.zeros((MOST, r.REPORT), np.int64)  # between waiting cores
        self.scheduler = Scheduler(whole.tables, "program", core, True)
        self.tokens: NDArray[np.int64] = np.zeros((0, r.TOKENS, r.PIPES), np.int64)
        self.queue: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self.initial: NDArray[np.int64] = np.zeros(0, np.int64)
        self.sums: NDArray[np.int64] = np.zeros(0, np.int64)
        self.binary: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.faults: NDArray[np.int64] = np.zeros((0, 4), np.int64)
        self.steps = 0

    def run(self, rows: NDArray[np.int32], values: NDArray[np.int64], end: bool = False) -> None:
        """Takes rows in the order of the program."""
        whole, tables = self.whole, self.whole.tables
        tables.update()
        self._grow()
        numbers = whole.note(rows)
        before = self.sums.copy()
        straight = o.count(rows, tables.steps, self.binary, self.initial, self.sums, self.faults)
        waiting = len(self.scheduler.rows)
        if waiting or not straight:
            if not waiting:  # all before this ran in the order of the program
                self.scheduler.flags = self.initial + before
                self.scheduler.count = int(numbers[0]) - whole.starts[-1]
            rows, values, at = self.scheduler.run(rows, values, end)
            numbers = at + whole.starts[-1]
        widths = tables.widths[rows]
        starts = np.cumsum(widths) - widths
        if self.crossing is not None:
            self._meet_others(self.crossing, (rows, numbers, values, starts))
        r.race(
            rows,
            numbers,
            values,
            starts,
            tables.steps,
            tables.boxes,
            tables.runs,
            self.memories.table,
            self.memories.latest,
            whole.log,
            self.known,
            self.seen,
            self.tokens,
            self.queue,
            self.state,
            self.reports,
        )

    def _meet_others(self, crossing: Crossing, rows: _Rows) -> None:
        tables, mine = self.whole.tables, self.mine
        crossing.outs[mine] = self.state[r.OUT]
        crossing.logs[mine] = self.whole.log.__array_interface__["data"][0]
        x.meet_others(
            mine,
            len(ON_CHIP),
            *rows,
            tables.steps,
            tables.boxes,
            tables.runs,
            crossing.tables,
            crossing.latest,
            crossing.clocks[mine],
            crossing.outs,
            crossing.logs,
            self.others,
        )

    def released(self, pipe: int) -> NDArray[np.int64]:
        """What is complete on this core when a pipe sets a flag for other cores: that was its last row."""
        last = self.whole.rows
        if len(self.scheduler.rows):  # the pipe waits for what is still to come; it then knows more than now
            return np.full(r.PIPES, last, np.int64)
        clock: NDArray[np.int64] = self.known[pipe].copy()
        clock[pipe] = clock[r.S] = last  # the scalar unit has issued the flag
        return clock

    def learned(self, clock: NDArray[np.int64]) -> None:
        """The scalar unit has waited for other cores, which knew this of this core."""
        np.maximum(self.known[r.S], clock, out=self.known[r.S])
        self.state[r.VERSION] += 1

    def _grow(self) -> None:
        """Makes room for forms and flags that are new to this core."""
        tables, chip = self.whole.tables, len(ON_CHIP)
        for step in tables.steps[self.steps :]:
            if step[r.KIND] != r.INSTRUCTION:
                continue
            for memory, write in tables.boxes[step[r.BOX] : step[r.BOX] + step[r.BOXES], :2]:
                pipe = r.ATOMIC if write == 2 else step[r.PIPE]
                if write == 2:
                    self.state[r.OUT] = step[r.PIPE]
                if memory < chip:
                    self.memories.want(memory, 2 * pipe + min(write, 1))
                    continue
                for column in (2 * pipe + min(write, 1), 2 * r.PIPES + min(write, 1)):
                    self.whole.shared.want(memory - chip, column)
                partly = self.memories.table[memory, r.PARTLY]  # blocks are counted here
                self.memories.table[memory] = self.whole.shared.table[memory - chip]
                self.memories.table[memory, r.PARTLY] = partly
        self.steps = len(tables.steps)
        more = len(tables.initial) - len(self.initial)
        if not more:
            return
        initial = np.array(tables.initial[len(self.initial) :], np.int64)
        none = np.zeros(more, np.int64)
        self.tokens = np.concatenate([self.tokens, np.zeros((more, r.TOKENS, r.PIPES), np.int64)])
        self.queue = np.concatenate([self.queue, np.stack([none, initial], 1)])
        self.initial, self.sums = np.concatenate([self.initial, initial]), np.concatenate([self.sums, none])
        self.faults = np.concatenate([self.faults, np.zeros((more, 4), np.int64)])
        self.binary = np.array(tables.binary, np.bool_)

    def end(self) -> None:
        """Says what was found, and what is wrong with flags at the end.

        Raises:
            FaultError: The core cannot come to its end.
        """
        whole, chip = self.whole, len(ON_CHIP)
        if len(self.scheduler.rows):
            self.run(np.zeros(0, np.int32), np.zeros(0, np.int64), True)
        whole.shared.table[:] = self.memories.table[chip:]
        whole.shared.latest[:] = self.memories.latest[chip:]
        for at, name in enumerate(whole.names):
            extent = self.extent(chip + at)
            if extent is not None:
                whole.extents[self.core, name] = extent
        for report in self.reports[1 : int(self.reports[0, 0]) + 1].tolist():
            self._say(report)
        waiting = self.scheduler.rows.tolist()
        if waiting:
            raise deadlock(self.core, waiting, whole.forms, whole.findings)
        for number, ((name, _), fault) in enumerate(
            zip(whole.tables.flags, self.faults.tolist(), strict=False)
        ):
            if fault[0]:
                again, before = whole.forms[fault[1]], whole.forms[fault[2]]
                raise set_twice(self.core, name, again, before, fault[0], whole.findings)
            if self.binary[number] and self.sums[number] > 0:
                raise left_set(self.core, name, whole.forms[fault[3]], whole.findings)

    def say_others(self) -> None:
        """Says what was found between this core and others that it waits for, or they for it."""
        for report in self.others[1 : int(self.others[0, 0]) + 1].tolist():
            self._say(report)

    def _say(self, report: Sequence[int]) -> None:
        whole, crossing = self.whole, self.crossing
        first, second = whole.forms[report[r.FIRST]], whole.forms[report[r.SECOND]]
        late = whole.core_of(report[r.LATE])
        name = whole.name(report[r.SPACE])
        box = whole.tables.listed[report[r.PLACE]]
        operand = int(whole.tables.boxes[report[r.PLACE], r.OPERAND])
        names: tuple[str, str] | None = None
        if crossing is not None and report[r.OTHER] >= x.FOREIGN:
            other = crossing.cores[report[r.OTHER] - x.FOREIGN]
            names = crossing.names[other.mine], crossing.names[self.mine]
            early = other.core, report[r.EARLY] - 1
            extents = (other.extent(report[r.SPACE]), self.extent(report[r.SPACE]))
        else:
            early = whole.core_of(report[r.EARLY])
            extents = (whole.extents.get((early[0], name)), whole.extents.get((late[0], name)))
        conflict = Conflict(
            first,
            second,
            box,
            operand,
            whole.places[second.number],
            bool(report[r.EARLY_WRITES]),
            (report[r.LOW], report[r.HIGH] - 1),
            name,
            (early[0], late[0]),
            late[1],
            report[r.COUNT],
            extents,
            names,
        )
        kind = {-1: "operands", 0: "race"}.get(report[r.OTHER], "cores")
        finding = say(kind, conflict)
        whole.findings.add(finding, f"{first.site}{name}{operand}", report[r.COUNT])

    def extent(self, memory: int) -> tuple[int, int] | None:
        """First byte that this core wrote to a memory, and the one behind the last."""
        low, high = self.memories.latest[memory, r.LOWEST :].tolist()
        return (low, high) if low < high else None
