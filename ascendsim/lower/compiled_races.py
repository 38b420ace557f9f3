"""Blocks as arrays of numbers, in which compiled code looks for races (`ascendsim_kernels.flag_races`).

It finds what `isa.hazards.has_race` finds, in a twentieth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from ascendsim.isa.hazards import KINDS, Place, forms
from ascendsim.isa.instructions import Affine, Buffer, Loop, Operand, Pipe, Statement
from ascendsim.isa.program import Block
from ascendsim_kernels import flag_races as kernels
from ascendsim_kernels.flag_races import Ints

# kinds go into the arrays as they are
assert (kernels.WORK, kernels.SET, kernels.WAIT, kernels.BARRIER) == KINDS

MOST_RANGES = 4096  # of bytes that instructions touch together
_PIPES = len(Pipe)
_SCALAR = tuple(Pipe).index(Pipe.S)


class CompiledRaces:
    """A block's code, for walks with any numbers of trips.

    Attributes:
        trips: Of its loops, in program order; those that never run are left out.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._flags = {flag.name: number for number, flag in enumerate(block.flags)}
        self._initial = np.array([flag.initial for flag in block.flags], np.int64)
        self._allocations = {allocation.name: allocation for allocation in block.allocations}
        self._forms = forms(block.body)
        self._rows: list[tuple[int, ...]] = []
        self._operands: list[tuple[int, ...]] = []
        self._terms: list[tuple[int, int]] = []
        self._places: dict[Place, int] = {}
        self.trips: list[int] = []
        self._flatten(block.body, {})
        self._rows.append((kernels.END, 0, 0, 0, 0))

    def _flatten(self, body: Iterable[Statement], open_loops: Mapping[str, int]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                if statement.trips > 0:
                    loop, first = len(self.trips), len(self._rows)
                    self.trips.append(statement.trips)
                    self._flatten(statement.body, {**open_loops, statement.variable: loop})
                    if len(self._rows) > first:
                        self._rows.append((kernels.LOOP, 0, loop, first, 0))
                continue
            pipe, kind, flag, operands = self._forms[id(statement)]
            first = len(self._operands)
            for write, place, operand in operands:
                self._operands.append(self._operand(write, place, operand, open_loops))
            self._rows.append((kind, pipe, self._flags.get(flag, -1), first, len(operands)))

    def _operand(
        self, write: bool, place: Place, operand: Operand, open_loops: Mapping[str, int]
    ) -> tuple[int, ...]:
        number = self._places.setdefault(place, len(self._places))
        base, own = operand.offset.base, self._affine(operand.offset, open_loops)
        if operand.buffer is Buffer.GM:
            return (number, write, base, operand.bytes, *own, 0, 0, 0, 0, 0)
        there = self._allocations[operand.name]
        slot = self._affine(operand.slot, open_loops)
        base += there.offset
        return (
            number,
            write,
            base,
            operand.bytes,
            *own,
            operand.slot.base,
            *slot,
            there.slots,
            there.slot_bytes,
        )

    def _affine(self, value: Affine, open_loops: Mapping[str, int]) -> tuple[int, int]:
        """The first of its terms, and how many they are."""
        first = len(self._terms)
        self._terms += [(open_loops[name], step) for name, step in value.terms]
        return first, len(value.terms)

    def walk(self, trips: Sequence[int], limit: int) -> CompiledWalk | None:
        """The steps of a walk with these trips, as far as a check of so many steps may look; None if it does
        not fit.
        """
        code = np.array(self._rows, np.int64)
        times, counters = np.array(trips, np.int64), np.zeros(len(trips), np.int64)
        count = kernels.count_steps(code, times, counters, limit)
        steps, after = np.empty((count, 3), np.int64), np.zeros((count, _PIPES), np.int64)
        fits = kernels.write_steps(
            code,
            np.array(self._operands, np.int64).reshape(-1, kernels.OPERAND),
            np.array(self._terms, np.int64).reshape(-1, 2),
            times,
            counters,
            np.full(len(self._places), -1, np.int64),
            np.empty((MOST_RANGES, 3), np.int64),
            np.zeros((MOST_RANGES, _PIPES, 2), np.int64),
            np.zeros(_PIPES, np.int64),
            steps,
            after,
        )
        return CompiledWalk(steps, after, self._flags, self._initial) if fits else None


class CompiledWalk:
    """The steps of a walk, and what must be complete before each."""

    def __init__(self, steps: Ints, after: Ints, flags: Mapping[str, int], initial: Ints) -> None:
        self._steps, self._after, self._flags, self._initial = steps, after, flags, initial
        named = steps[(steps[:, kernels.KIND] == kernels.SET) & (steps[:, kernels.FLAG] >= 0), kernels.FLAG]
        self._sets = np.bincount(named, minlength=len(flags)).astype(np.int64)
        self._tokens = np.empty((int(self._sets.sum() + initial.sum()), _PIPES), np.int64)
        self._ends, self._clocks = np.empty((len(flags), 2), np.int64), np.empty((_PIPES, _PIPES), np.int64)

    def has_race(self, flags: Collection[str], limit: int) -> bool:
        """See `isa.hazards.has_race`; all flags are those of the block."""
        kept = np.array([name in flags for name in self._flags], np.int64)
        return bool(
            kernels.has_race(
                self._steps,
                self._after,
                kept,
                self._initial,
                self._sets,
                limit,
                _SCALAR,
                self._clocks,
                self._tokens,
                self._ends,
            )
        )
