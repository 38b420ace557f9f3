"""What cores know of one another by the flags between them: a clock a core, handed on with every flag."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.cross_checks import IDS
from ascendsim.isa.instructions import Pipe
from ascendsim.tile.accesses import PIPES
from ascendsim.tile.findings import Finding, Findings
from ascendsim_kernels import tile_race as r

_Clock = NDArray[np.int64]


class Follower(Protocol):
    """Whoever follows one core (`CoreChecker`).

    Attributes:
        core: Number that findings have of it.
        mine: Its number among those that wait for one another.
    """

    core: int
    mine: int

    def released(self, pipe: int) -> _Clock:
        """What is complete on the core when a pipe sets a flag."""

    def learned(self, clock: _Clock) -> None:
        """The core has waited for others, which knew this of it."""

    def say_others(self) -> None:
        """Says what was found between this core and others."""

    def extent(self, memory: int) -> tuple[int, int] | None:
        """Bytes that the core wrote to a memory."""


class Crossing:
    """The cores of a launch that wait for one another.

    A clock says, for each core and pipe, which row is known to be complete. A flag hands on what the core
    that sets it knows, and what is complete in the pipe that sets it; only the scalar unit waits for flags of
    other cores, so what it learns is known to all that is issued later.

    Attributes:
        names: By core: what it is called.
        tables, latest: By core: memories and their columns, as in `tile_race`.
        clocks: By core: its clock.
        outs: By core: the pipe that adds to global memory.
        logs: By core: where its log of forms lies.
        cores: Who follows the cores that have begun.

    Args:
        names: What the cores are called.
        memories: Memories that each of them sees.
    """

    def __init__(self, names: Sequence[str], memories: int) -> None:
        size = len(names)
        self.names = list(names)
        self.tables: NDArray[np.int64] = np.zeros((size, memories, r.MEMORY_WIDTH), np.int64)
        self.latest: NDArray[np.int64] = np.zeros((size, memories, r.LATEST), np.int64)
        self.clocks: _Clock = np.zeros((size, size, r.PIPES), np.int64)
        self.outs: NDArray[np.int64] = np.full(size, r.MTE3, np.int64)
        self.logs: NDArray[np.int64] = np.zeros(size, np.int64)
        self.cores: dict[int, Follower] = {}
        self._waiting: dict[tuple[int, int, int], deque[tuple[_Clock, str]]] = {}  # waiter, flag, setter

    def released(self, core: int, flag: int, pipe: Pipe, waiters: Sequence[int], where: str) -> None:
        """A core has set a flag in a pipe.

        Args:
            core: The core.
            flag: The flag's number.
            pipe: The pipe.
            waiters: Cores that may wait for it.
            where: File, line and call.
        """
        checker = self.cores[core]
        clock = self.clocks[core].copy()
        clock[core] = checker.released(PIPES[pipe])
        for waiter in waiters:
            self._waiting.setdefault((waiter, flag, core), deque()).append((clock, where))

    def taken(self, core: int, flag: int, setters: Sequence[int]) -> None:
        """A core has waited for a flag that others have set.

        Args:
            core: The core.
            flag: The flag's number.
            setters: Those others.
        """
        for setter in setters:
            waiting = self._waiting.get((core, flag, setter))
            if waiting:  # empty if the two do not agree on the flag's mode
                np.maximum(self.clocks[core], waiting.popleft()[0], out=self.clocks[core])
        self.cores[core].learned(self.clocks[core, core])

    def say(self) -> None:
        """Says what was found between cores."""
        for core in sorted(self.cores):
            self.cores[core].say_others()

    def left_set(self, findings: Findings) -> None:
        """Says which flags were set more often than they were waited for."""
        for (waiter, flag, setter), waiting in self._waiting.items():
            if not waiting or flag >= IDS:
                continue
            text = (
                f"sets cross-core flag {flag} on {self.names[setter]}, which {self.names[waiter]} does not"
                " wait for: it is left set at the end"
            )
            where, remedy = waiting[-1][1], "wait for it as often as it is set"
            found = Finding("left set", where, text, self.cores[setter].core, -1, remedy)
            findings.add(found, count=len(waiting))
