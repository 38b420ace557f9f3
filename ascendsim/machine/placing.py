"""Which blocks of a task go to which of the free cores, and how long it takes until they begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ascendsim.machine.clock import Clock
from ascendsim.machine.free_cores import FreeCores
from ascendsim.machine.tasks import TaskRun
from ascendsim.machine.wiring import Team, TeamFlags
from ascendsim.soc.spec import LaunchSpec


class Placed(NamedTuple):
    """Blocks that start together and do the same.

    Attributes:
        group: Number of the group of blocks in its task.
        cores: One for each block.
        flags: Of their team.
    """

    group: int
    cores: tuple[int, ...]
    flags: TeamFlags | None


@dataclass(frozen=True, slots=True)
class Delays:
    """Ticks between the arrival of blocks and their first instructions.

    Attributes:
        each: For every block after a task's first.
        init: After all are dispatched.
    """

    each: int
    init: int

    @classmethod
    def of(cls, launch: LaunchSpec, clock: Clock) -> Delays:
        return cls(clock.ns(launch.block_dispatch_ns), clock.ns(launch.kernel_init_ns))

    def dispatch(self, batch: Sequence[Placed], first: bool) -> int:
        """Ticks that it takes to dispatch blocks together; `first` = none of their task were before."""
        return (sum(len(placed.cores) for placed in batch) - (1 if first else 0)) * self.each


def place(run: TaskRun, left: list[int], free: FreeCores, groups: bool) -> list[Placed]:
    """Takes free cores for as many blocks of a task as there are, and counts them off from those left.

    Args:
        groups: Whether blocks that do the same go together.
    """
    if run.wiring.together and not _fits(run, free):
        return []  # its blocks wait for one another, so that some of them alone would hold cores for nothing
    batch: list[Placed] = []
    for index, block in enumerate(run.blocks):
        team = run.wiring.team_with(index)
        if team is None:
            cores = free.take(block.compiled.block.core, left[index])
            left[index] -= len(cores)
            batch += [Placed(index, part, None) for part in _parts(cores, groups)]
        elif index == team.cube:
            batch += _place_teams(run, left, team, free, groups)
    return batch


def _parts(cores: tuple[int, ...], groups: bool) -> list[tuple[int, ...]]:
    """Cores that are simulated together."""
    if not groups:
        return [(core,) for core in cores]
    return [cores] if cores else []


def _place_teams(
    run: TaskRun, left: list[int], team: Team, free: FreeCores, groups: bool
) -> Iterator[Placed]:
    """Puts as many teams on free cores as there are; all of them are in lock-step, if groups are."""
    taken = free.take_teams(team.vector_cores, left[team.cube])
    for together in [taken] if groups and taken else [[one] for one in taken]:
        flags = run.wiring.flags_of(len(together), len(together) * team.vector_cores)
        left[team.cube] -= len(together)
        yield Placed(team.cube, tuple([cube for cube, _ in together]), flags)
        first = 0
        for index, count in team.vectors.items():
            left[index] -= len(together) * count
            cores = tuple([core for _, own in together for core in own[first : first + count]])
            first += count
            for part in _parts(cores, groups):
                yield Placed(index, part, flags)


def _fits(run: TaskRun, free: FreeCores) -> bool:
    """Whether there is a free core for every block of a task."""
    teams = run.wiring.teams
    if teams:
        wanted = sum(run.task.groups[team.cube].count for team in teams)
        if wanted > len(free.teams(max(team.vector_cores for team in teams))):
            return False
    return all(count <= free.count(kind) for kind, count in run.wanted_cores.items())
