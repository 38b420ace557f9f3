"""A run on the axis of an export: every time as a whole number of nanoseconds since 1970.

The simulated time is added to a fixed epoch, so that equal runs give equal bytes. A float cannot hold such a
time to the nanosecond, so that no time is one before it is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property

from ascendsim.core.errors import InputError
from ascendsim.core.table import Row, Table
from ascendsim.profiling.op_summary import COUPLED_PIPES, CUBE_CORE_PIPES, VECTOR_CORE_PIPES
from ascendsim.profiling.view import Part, ProfiledRun, TaskView

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LAST_NS = 2**63 - 1  # what SQLite's integers hold
Interval = tuple[int, int]

# what texts of tools cannot carry: SQLite and C programs end at NUL, UTF-8 has no lone surrogates, and a line
# break ends a row for readers of CSV that know no quotes
_UNREADABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def readable(text: str) -> str:
    """A name as all tools can read it: what they cannot is the replacement character.

    >>> readable("a;b" + chr(0)) == "a;b" + chr(0xFFFD)
    True
    """
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def readable_table(table: Table) -> Table:
    """A table whose texts all tools can read."""
    rows: list[Row] = [
        tuple([readable(cell) if isinstance(cell, str) else cell for cell in row]) for row in table.rows
    ]
    return replace(table, rows=tuple(rows))


def us_text(ns: int) -> str:
    """Microseconds with three decimals, exactly.

    >>> us_text(1_767_225_600_000_001_500)
    '1767225600000001.500'
    """
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The time that some intervals cover, as intervals that do not touch; empty ones are left out.

    >>> merged([(4, 6), (0, 2), (1, 3), (3, 3)])
    [(0, 3), (4, 6)]
    """
    result: list[Interval] = []
    for start, end in sorted(item for item in intervals if item[0] < item[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def outside(intervals: Iterable[Interval], covered: Iterable[Interval]) -> list[Interval]:
    """What is left of intervals outside others; both merged.

    >>> outside([(0, 10)], [(2, 3), (5, 20)])
    [(0, 2), (3, 5)]
    """
    taken, result, at = list(covered), list[Interval](), 0
    for first, end in intervals:
        start = first
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        following = at
        while following < len(taken) and taken[following][0] < end:
            low, high = taken[following]
            if low > start:
                result.append((start, low))
            start = max(start, high)
            following += 1
        if start < end:
            result.append((start, end))
    return result


@dataclass(frozen=True)
class Capture:
    """What is exported.

    Attributes:
        run: The run.
        scopes: Modules around each operator of the user's model, outermost first, where the file names them.
        epoch: When the run started.
    """

    run: ProfiledRun
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    epoch: datetime = EPOCH

    @cached_property
    def base(self) -> int:
        """Nanoseconds since 1970 at which the run started."""
        return int(self.epoch.timestamp()) * 10**9 + self.epoch.microsecond * 1000

    @cached_property
    def end(self) -> int:
        """Nanoseconds since 1970 at which it ended.

        Raises:
            InputError: If that is beyond what the formats can hold.
        """
        end = self.base + self.run.ns(self.run.trace.end)
        if end > LAST_NS:
            raise InputError(
                "the end of the run",
                "must be before 2^63 ns since 1970, the largest time of the profilers' files",
                f"{self.run.us(self.run.trace.end):,.0f} us of simulated time",
                "export a shorter run",
            )
        return end

    @property
    def stamp(self) -> str:
        """The epoch as names of files have it, 14 digits."""
        return self.epoch.strftime("%Y%m%d%H%M%S")

    @property
    def long_stamp(self) -> str:
        """The epoch as names of folders have it, 17 digits."""
        return f"{self.stamp}{self.epoch.microsecond // 1000:03d}"

    def at(self, ticks: int) -> int:
        """Nanoseconds since 1970 of a time of the machine."""
        return self.base + self.run.ns(ticks)

    def span(self, view: TaskView) -> Interval:
        """From when to when a task ran."""
        return self.at(view.record.start), self.at(view.record.end)

    def launch(self, view: TaskView) -> Interval | None:
        """From when to when the host launched a task; None if it did not."""
        record = view.record
        return None if record.launch_end < 0 else (self.at(record.launch_start), self.at(record.launch_end))

    @property
    def host_launches(self) -> bool:
        """Whether the host launched any task."""
        return any(view.record.launch_end >= 0 for view in self.run.tasks)

    @cached_property
    def overlap(self) -> tuple[list[Interval], ...]:
        """When the device computed, communicated, communicated without computing, and did neither: in the
        order of `schema.OVERLAP_TYPES`.
        """
        spans = [(view.is_communication, self.span(view)) for view in self.run.tasks]
        computing = merged(span for communicates, span in spans if not communicates)
        communication = merged(span for communicates, span in spans if communicates)
        whole = merged([(self.base, self.end)])
        free = outside(whole, merged([*computing, *communication]))
        return computing, communication, outside(communication, computing), free

    @property
    def overlap_ns(self) -> tuple[int, int, int, int]:
        """Nanoseconds of each kind of `overlap`."""
        computing, communication, alone, free = (
            sum(end - start for start, end in intervals) for intervals in self.overlap
        )
        return computing, communication, alone, free

    def blocks(self, view: TaskView) -> tuple[int, int]:
        """Blocks of a task, and blocks on vector cores beside its Cube's, as op_summary has them."""
        vector, every = view.vector_blocks, view.task.block_dim
        mixed = vector if self.run.soc.split_cores and view.on_ai_core and 0 < vector < every else 0
        return every - mixed, mixed

    def counters(self, view: TaskView) -> list[tuple[str, int | float]]:
        """Counters of the cores under the names of msprof's databases: times in ns, ratios, cycles."""
        soc, record = self.run.soc, view.record
        if not view.on_ai_core or not record.block_ticks:
            return []
        if not soc.split_cores:
            whole = Part(record.blocks, record.block_ticks, record.busy)
            return self._counters(view, whole, "", soc.frequency_mhz, COUPLED_PIPES)
        mhz = soc.vector_frequency_mhz or soc.frequency_mhz
        return [
            *self._counters(view, view.beside_vector, "aic_", soc.frequency_mhz, CUBE_CORE_PIPES),
            *self._counters(view, view.on_vector, "aiv_", mhz, VECTOR_CORE_PIPES),
        ]

    def _counters(
        self, view: TaskView, part: Part, prefix: str, mhz: int, pipes: Mapping[str, str]
    ) -> list[tuple[str, int | float]]:
        if not part.ticks:
            return []
        found: list[tuple[str, int | float]] = [
            # readers look for these two names of the same figure
            (f"{prefix}total_time" if prefix else "aicore_time", self._mean_ns(view, part.ticks, part)),
            (f"{prefix}total_cycles", self.run.cycles(part.ticks, mhz)),
        ]
        for name, pipe in pipes.items():
            found.append((f"{prefix}{name}_time", self._mean_ns(view, part.busy.get(pipe, 0), part)))
            found.append((f"{prefix}{name}_ratio", part.ratio(pipe)))
        return found

    def _mean_ns(self, view: TaskView, ticks: int, part: Part) -> int:
        """As `ProfiledRun.mean_block_us`, in whole nanoseconds."""
        rounds = Fraction(max(view.record.rounds, 1), max(part.blocks, 1))
        return int(ticks * rounds * self.run.trace.tick_seconds * 10**9 + Fraction(1, 2))
