"""Instruction records of a run, with repeated stretches kept once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from ascendsim.isa.instructions import Instruction
from ascendsim.isa.listing import instruction_name, moved_bytes
from ascendsim.trace.records import InstructionRecord


@dataclass(frozen=True, slots=True)
class Repeat:
    """Records that come `times` more times, each time `period` ticks later.

    Attributes:
        items: What was recorded in one period: records and shorter repeats.
    """

    items: tuple[Item, ...]
    period: int
    times: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Records of one task that another task repeats.

    Attributes:
        items: What was recorded.
        later: Ticks by which the copy comes later.
        task: Id of the other task.
    """

    items: tuple[Item, ...]
    later: int
    task: int


Item = Union[InstructionRecord, Repeat, Copy]


class Log:
    """Collects records in the order in which the machine places instructions in time."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._names: dict[int, tuple[str, int]] = {}

    def add(
        self, task: int, cores: tuple[int, ...], pipe: str, instruction: Instruction, start: int, end: int
    ) -> None:
        """Adds an instruction of a task on a group of cores."""
        # the program keeps every instruction alive, so ids stay unique
        known = self._names.get(id(instruction))
        if known is None:
            known = self._names[id(instruction)] = (instruction_name(instruction), moved_bytes(instruction))
        self.items.append(InstructionRecord(task, cores, pipe, known[0], start, end, known[1]))

    def expanded(self) -> Iterator[InstructionRecord]:
        """All records, repeated ones included."""
        return expand(self.items)


def expand(items: Iterable[Item], later: int = 0, task: int | None = None) -> Iterator[InstructionRecord]:
    """Records with every repeat written out, `later` ticks later, and of another task if one is given.

    >>> one = InstructionRecord(0, (0,), "M", "mmad", 5, 7)
    >>> [item.start for item in expand([one, Repeat((one,), 10, 2)], later=100)]
    [105, 115, 125]
    """
    for item in items:
        if isinstance(item, Repeat):
            for time in range(1, item.times + 1):
                yield from expand(item.items, later + time * item.period, task)
        elif isinstance(item, Copy):
            yield from expand(item.items, later + item.later, item.task)
        else:
            number = item.task if task is None else task
            yield InstructionRecord(
                number, item.cores, item.pipe, item.name, item.start + later, item.end + later, item.bytes
            )
