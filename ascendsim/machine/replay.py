"""Task replay: a task that was simulated before, from the same state and with nothing else on the cores, is
not simulated again.

What a task needs on cores that are all free follows from its blocks and from how its traffic splits between
L2 and DRAM; all else (which regions L2 holds, in which order it would give them up) acts through these shares
alone, and L2 itself is brought up to date for every task as if it ran. Blocks are compared by
`machine.block_key`, so names of regions do not matter. A task is recorded if nothing else was on the cores
while it ran, and replayed if no appointment comes up before its end. Where all other
streams wait for tasks to end, or have none left, nothing else can come up, so that replayed tasks cost no
events at all: the machine's time is moved on. The same holds for
a task that `machine.solo` can walk by itself: what it does is known before it begins.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from ascendsim.machine.fast_forward import Statistics
from ascendsim.machine.l2 import Shares
from ascendsim.machine.log import Copy, Log
from ascendsim.machine.outcome import Outcome
from ascendsim.machine.solo import Solo
from ascendsim.machine.tasks import TaskRun


@dataclass(frozen=True, slots=True)
class _Recording:
    run: TaskRun
    key: Hashable
    start: int
    logged: int
    outcomes: dict[Hashable, Outcome]  # where it goes


class Replay:
    """Outcomes of the tasks of a run, by what decides them.

    Args:
        outcomes: Those of tasks of which no instructions are recorded, of this and other runs.
    """

    def __init__(
        self, log: Log, statistics: Statistics, solo: Solo | None, outcomes: dict[Hashable, Outcome]
    ) -> None:
        self._log, self._statistics, self._solo = log, statistics, solo
        self._known = outcomes
        self._recorded: dict[Hashable, Outcome] = {}
        self._recording: _Recording | None = None

    def begin(self, run: TaskRun, now: int, appointment: int | None, recorded: bool) -> Outcome | None:
        """A task arrives at cores that are all free; returns what it will do if that is known.

        Args:
            now: The tick of the machine.
            appointment: When something else will happen at the earliest.
            recorded: Whether its instructions are recorded.
        """
        key, outcomes = _entry_key(run), self._recorded if recorded else self._known
        outcome = known = outcomes.get(key)
        if known is None and self._solo is not None and not recorded:
            outcome = self._solo.walk(run)
        if outcome is None:
            self._recording = _Recording(run, key, now, len(self._log.items), outcomes)
        else:
            outcomes[key] = outcome
        if outcome is None or (appointment is not None and appointment < now + outcome.ticks):
            self._statistics.simulated += 1
            return None
        if known is None:
            self._statistics.simulated += 1
            self._statistics.solo += 1
        else:
            self._statistics.replayed += 1
        return outcome

    def disturb(self) -> None:
        """A task arrives at cores that are not all free: none of the tasks on them can be recorded."""
        self._statistics.simulated += 1
        self._recording = None

    def finish(self, run: TaskRun, now: int) -> None:
        """A task has ended."""
        recording = self._recording
        if recording is None or recording.run is not run:
            return
        start, items = recording.start, tuple(self._log.items[recording.logged :])
        first, last = (None if tick < 0 else tick - start for tick in (run.work.first, run.work.last))
        recording.outcomes[recording.key] = Outcome(now - start, run.figures, first, last, items, start)
        self._recording = None

    def write(self, run: TaskRun, outcome: Outcome, start: int) -> None:
        """Gives a replayed task that arrived at tick `start` its figures and records."""
        first, last = (-1 if tick is None else tick + start for tick in (outcome.first, outcome.last))
        run.repeat(outcome.figures, first, last)
        if outcome.items:
            self._log.items.append(Copy(outcome.items, start - outcome.start, run.task.id))


def _entry_key(run: TaskRun) -> Hashable:
    """All that decides a task's time on free cores."""
    shares = run.shares
    blocks = [
        (block.compiled.number, block.count, tuple([_region_key(shares, name) for name in block.regions]))
        for block in run.blocks
    ]
    teams = tuple([(team.cube, tuple(team.vectors.items())) for team in run.wiring.teams])
    return teams, shares.bypass, run.readers, _ratio(shares.evicted), _ratio(shares.written), tuple(blocks)


def _region_key(shares: Shares, name: str) -> Hashable:
    read, written = shares.read_miss.get(name), shares.write_through.get(name)
    spread = shares.read_spread.get(name) if read is not None else None
    return (
        None if read is None else read.as_integer_ratio(),
        None if spread is None else spread.as_integer_ratio(),
        None if written is None else written.as_integer_ratio(),
    )


def _ratio(share: Fraction | None) -> tuple[int, int] | None:
    return None if share is None else share.as_integer_ratio()
