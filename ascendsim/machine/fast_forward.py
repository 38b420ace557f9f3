"""Exact fast-forward: when the machine comes back to a state that it was in before, whole periods are
skipped.

Between two appointments of the timeline (a start of a task, an end of a block, AI CPU work) the running cores
and the links are a closed system: deterministic, with integer state, and without any use of absolute time or
of addresses, whose cost is bound to the instructions when a task starts. So if all of it, relative to now, is
the same at two ticks, it goes on from the second as it did from the first, for as long as every loop that
moved on has trips left and no appointment comes up. That many periods are skipped at once: the counters of
those loops, busy ticks and records move on by as many periods, the machine's time with them.

A state is taken at the end of a tick in which a core's scalar unit passed the boundary of a loop, when
nothing more can happen in that tick. It holds, for every running core, the place in the program without the
trips of the loops, queues, free queue slots, flags, results and transfers that are outstanding, and what is
left of the transfer on the links. A tick that lies so far back that nothing can depend on it any more counts
as the latest such tick; otherwise old values would make equal states look different.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ascendsim.machine.compiled import TRANSFER, WAIT
from ascendsim.machine.core import CoreRun
from ascendsim.machine.events import AFTER_ALL, Call
from ascendsim.machine.links import Links
from ascendsim.machine.log import Repeat
from ascendsim.machine.skipping_clock import Timeline

State: TypeAlias = tuple[Any, ...]

# States are taken at every boundary of a loop at first, and then at every eighth, so that a program that
# never repeats itself is not slowed down much. The number that is kept at a time is bounded.
EAGER = 16
SELDOM = 8
LARGEST_TABLE = 2048
LONGEST_SEARCH = 32


@dataclass(slots=True)
class Statistics:
    """What the shortcuts of a run have saved.

    Attributes:
        states: States taken at loop boundaries.
        jumps: Times that periods were skipped.
        periods: Periods skipped.
        ticks: Ticks of the machine skipped.
        replayed: Tasks that were replayed from a record.
        simulated: Tasks on cores that were simulated.
        solo: Those of them that compiled code walked.
    """

    states: int = 0
    jumps: int = 0
    periods: int = 0
    ticks: int = 0
    replayed: int = 0
    simulated: int = 0
    solo: int = 0


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """How far everything was when a state was taken.

    Attributes:
        counters: Trips of the loops of each core.
        busy: Busy ticks of each core's scalar unit and pipes.
        touched: Of each core's pipes, how often new work was found.
        logged: Length of the log of instructions.
    """

    tick: int
    counters: tuple[tuple[int, ...], ...]
    busy: tuple[tuple[int, ...], ...]
    touched: tuple[tuple[int, ...], ...]
    logged: int


class FastForward:
    """Watches the running cores and skips periods.

    Args:
        log: Where instruction records go; skipped ones are added as `Repeat`.
    """

    def __init__(self, timeline: Timeline, links: Links, log: list[Any], statistics: Statistics) -> None:
        self._timeline, self._links, self._log, self._statistics = timeline, links, log, statistics
        self._cores: list[CoreRun] = []
        self._table: dict[State, list[_Snapshot]] = {}
        self._passed: dict[int, int] = {}  # by loop of the first core, how often its boundary was passed
        self._due = False

    def add(self, core: CoreRun) -> None:
        """A core starts: what was seen before does not count any more."""
        self._cores.append(core)
        self._forget()

    def remove(self, core: CoreRun) -> None:
        """A core has placed its last instruction in time; its end is an appointment."""
        self._cores.remove(core)
        self._forget()

    def passed(self, core: CoreRun, loop: int) -> None:
        """A scalar unit goes back to the start of a loop; boundaries of the first core decide when states are
        taken.
        """
        if self._due or core is not self._cores[0]:
            return
        if core.scalar.counters[loop] + 1 == core.block.trips[loop]:
            return  # no trip is left to skip; those of a loop around it are seen at its own boundary
        count = self._passed[loop] = self._passed.get(loop, 0) + 1
        if count <= EAGER or count % SELDOM == 0:
            self._due = True
            Call(self._timeline.env, self._look, 0, AFTER_ALL)

    def _forget(self) -> None:
        self._table.clear()
        self._passed.clear()
        self._kept = 0

    def _look(self) -> None:
        self._due = False
        if not self._cores:
            return
        self._links.settle()
        now = int(self._timeline.env.now)
        state = tuple([core_state(core, now) for core in self._cores])
        snapshot = self._snapshot()
        self._statistics.states += 1
        known = self._table.get(state)
        if known is None:
            if self._kept >= LARGEST_TABLE:
                self._forget()
            self._table[state] = [snapshot]
        else:
            self._jump(known[-LONGEST_SEARCH:], snapshot)
            known.append(snapshot)
        self._kept += 1

    def _snapshot(self) -> _Snapshot:
        cores, skipped = self._cores, self._timeline.skipped
        for core in cores:
            for lane in core.lanes:
                lane.settle(skipped)
        return _Snapshot(
            self._timeline.now,
            tuple([tuple(core.scalar.counters) for core in cores]),
            tuple(
                [
                    (core.scalar.busy, *[lane.busy + lane.skipped_busy for lane in core.lanes])
                    for core in cores
                ]
            ),
            tuple([tuple([lane.touched for lane in core.lanes]) for core in cores]),
            len(self._log),
        )

    def _jump(self, earlier: Sequence[_Snapshot], now: _Snapshot) -> None:
        """Skips as many ticks as one of the earlier snapshots of the same state allows."""
        appointment = self._timeline.next_appointment
        best: tuple[int, int, _Snapshot] | None = None
        for snapshot in earlier:
            period = now.tick - snapshot.tick
            times = _trips_left(self._cores, snapshot.counters, now.counters)
            if appointment is not None:
                times = min(times, (appointment - now.tick) // period)
            if times > 0 and (best is None or times * period > best[0]):
                best = (times * period, times, snapshot)
        if best is not None:
            self._skip(best[2], now, best[1])

    def _skip(self, before: _Snapshot, now: _Snapshot, times: int) -> None:
        period = now.tick - before.tick
        for index, core in enumerate(self._cores):
            counters = core.scalar.counters
            for loop, (old, new) in enumerate(zip(before.counters[index], now.counters[index], strict=True)):
                counters[loop] = new + times * (new - old)
            scalar, *lanes = [
                times * (new - old) for old, new in zip(before.busy[index], now.busy[index], strict=True)
            ]
            core.scalar.busy += scalar
            for number, lane in enumerate(core.lanes):
                lane.skipped_busy += lanes[number]
                if now.touched[index][number] > before.touched[index][number]:
                    lane.last_tick += times * period
        recorded = self._log[before.logged : now.logged]
        if recorded:
            self._log.append(Repeat(tuple(recorded), period, times))
        self._timeline.skip(times * period)
        self._statistics.jumps += 1
        self._statistics.periods += times
        self._statistics.ticks += times * period


def _trips_left(
    cores: Sequence[CoreRun], before: tuple[tuple[int, ...], ...], now: tuple[tuple[int, ...], ...]
) -> int:
    """Periods for which every core stays in the loop that moved on in the last one; 0 if several loops of one
    core did.
    """
    left: int | None = None
    for core, old, new in zip(cores, before, now, strict=True):
        if old == new:
            continue
        moved = [loop for loop, (first, second) in enumerate(zip(old, new, strict=True)) if first != second]
        if len(moved) > 1:
            return 0
        loop = moved[0]
        trips = (core.block.trips[loop] - 1 - new[loop]) // (new[loop] - old[loop])
        left = trips if left is None else min(left, trips)
    return left or 0


def core_state(core: CoreRun, now: int) -> State:
    """All that the future of a core depends on, relative to tick `now`, but for the trips of its loops."""
    scalar, lanes, block = core.scalar, core.lanes, core.block
    scalar_from, lanes_from = _earliest(core, now)
    parts: list[Any] = [
        scalar.step,
        scalar.position,
        scalar_from - now,
        scalar.asleep,
        scalar.full,
        scalar.flag,
        scalar.done,
        scalar.wanted is not None,
    ]
    for number, lane in enumerate(lanes):
        doing = lane.doing
        earliest = lanes_from[number]
        # an arrival before this is hidden by the work that was before it
        reach = earliest - block.heads[number]
        _, arrival, complete, start = lane.times
        parts += [
            -1 if doing is None else id(doing),
            (start - now, lane.flow.remaining) if doing and doing[0] == TRANSFER else None,
            earliest - now,
            max(arrival, reach) - now,
            max(complete, earliest) - now,
            lane.first_tick < 0 and lane.first < 0,
            tuple([(max(issue, reach) - now, id(operation)) for issue, operation in lane.queue]),
            _since_last(lane.free, scalar_from, now),
            _since_last(lane.in_flight, earliest, now),
            _since(lane.ready, earliest, now),
        ]
    parts += [member.state(now) for member in core.barriers.values()]
    for (_, target), tokens in zip(block.ends, core.tokens, strict=True):
        bound = scalar_from if target < 0 else lanes_from[target] - block.heads[target]
        parts.append(_since(tokens, bound, now))
    return tuple(parts)


def _since(ticks: Collection[int], bound: int, now: int) -> tuple[int, ...] | int:
    """Ticks from now, none before a bound that the state has already; just their number if none is behind
    it, as is usual.
    """
    if not ticks or max(ticks) <= bound:
        return len(ticks)
    return tuple([max(at, bound) - now for at in ticks])


def _since_last(ticks: deque[int], bound: int, now: int) -> tuple[int, ...] | int:
    """The same of ticks that rise."""
    if not ticks or ticks[-1] <= bound:
        return len(ticks)
    return tuple([at - now if at > bound else bound - now for at in ticks])


def _earliest(core: CoreRun, now: int) -> tuple[int, list[int]]:
    """For the scalar unit and each pipe, a tick before which it will do nothing more.

    A unit that waits goes on no earlier than the one that it waits for (at a barrier its own core's may be
    through with its part already); a pipe on the links not before now.
    """
    scalar, lanes, ends = core.scalar, core.lanes, core.block.ends
    own = scalar.time
    earliest = [
        max(lane.times[3], now)
        if lane.doing is None or (lane.doing and lane.doing[0] == TRANSFER)
        else lane.times[0]
        for lane in lanes
    ]
    waits: list[tuple[int, int]] = []  # who waits for whom, -1 = the scalar unit
    for number, lane in enumerate(lanes):
        if lane.doing == ():
            waits.append((number, -1))
        elif lane.doing is not None and lane.doing[0] == WAIT and lane.doing[1] not in core.barriers:
            waits.append((number, ends[lane.doing[1]][0]))
    if scalar.flag >= 0 and scalar.flag not in core.barriers:
        waits.append((-1, ends[scalar.flag][0]))
    elif scalar.full >= 0 and not lanes[scalar.full].free:
        waits.append((-1, scalar.full))
    changed = True
    rounds = 0
    while changed and rounds <= len(lanes):
        changed, rounds = False, rounds + 1
        for waiting, other in waits:
            bound = own if other == -1 else earliest[other]
            if waiting == -1:
                if bound > own:
                    own, changed = bound, True
            elif bound > earliest[waiting]:
                earliest[waiting], changed = bound, True
    return own, earliest
