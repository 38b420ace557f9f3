"""Finds data races between the pipes of a block by walking it: no slot is read while it is being written, or
written while read.

Instructions of one pipe are in order; pipes are ordered by flags alone, the n-th wait by the n-th set
(initial counts first). Each pipe carries a vector clock of what is known to be complete; two accesses of
different pipes to the same bytes, one of them a write, must be ordered by it. Meant for tests and small
programs, as it visits every instruction that runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ascendsim.core.errors import CompileError
from ascendsim.isa.instructions import (
    Allocation,
    Barrier,
    Buffer,
    Instruction,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.listing import instruction_name
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order, reads, static, writes

Place: TypeAlias = tuple[Buffer, str]
Clock: TypeAlias = list[int]  # by pipe: how many of its instructions are complete
_PIPES = tuple(Pipe)
_NUMBERS = {pipe: number for number, pipe in enumerate(_PIPES)}
_WORK, _SET, _WAIT, _BARRIER = KINDS = tuple(range(4))
_KINDS: Mapping[type, int] = {SetFlag: _SET, WaitFlag: _WAIT, Barrier: _BARRIER}


class _Access(NamedTuple):
    place: Place
    low: int
    high: int
    write: bool
    operand: Operand


class _Step(NamedTuple):
    """An instruction that runs.

    Attributes:
        pipe: Number of its pipe.
        instruction: The instruction.
        variables: Of the loops around it.
        kind: Whether it works, sets a flag, waits for one or is a barrier.
        flag: Its name.
        after: Of other pipes, how many instructions must be complete before it: those that touch the same
            bytes. What a later write covers is left out, as that one must come after it itself.
    """

    pipe: int
    instruction: Instruction
    variables: Mapping[str, int]
    kind: int
    flag: str
    after: tuple[tuple[int, int], ...]


class Form(NamedTuple):
    """What is the same in every trip of an instruction.

    Attributes:
        pipe, kind, flag: See `_Step`.
        operands: Of those that another pipe may meet: whether it writes it, where it lies, and the operand.
    """

    pipe: int
    kind: int
    flag: str
    operands: tuple[tuple[bool, Place, Operand], ...]


class _Range(NamedTuple):
    """Bytes that instructions touch together.

    Attributes:
        low, high: The first one, and the one behind the last.
        touched: Number of the last instruction by pipe, and whether it wrote, since all was written anew.
    """

    low: int
    high: int
    touched: dict[tuple[int, bool], int]


class _Touch(NamedTuple):
    pipe: int
    number: int
    write: bool
    low: int
    high: int
    instruction: Instruction


class Walk:
    """A block's instructions in the order in which they run, with the bytes that each touches: worked out
    once, for as many checks as ask.

    Args:
        block: The block. Its allocations stay, of its flags a check may leave some out.
    """

    def __init__(self, block: Block) -> None:
        self._allocations = {allocation.name: allocation for allocation in block.allocations}
        self._steps: list[_Step] = []
        body = block.body  # forms go by the identity of its instructions
        self._left = in_order(body)
        self._forms = forms(body)
        self._done = [0] * len(_PIPES)
        self._found: dict[Place, dict[tuple[int, int], list[_Range]]] = {}  # what meets a range
        self._whole = False

    def __iter__(self) -> Iterator[_Step]:
        return iter(self._steps) if self._whole else self._walked()

    def _walked(self) -> Iterator[_Step]:
        yield from self._steps
        for instruction, variables in self._left:
            pipe, kind, flag, operands = self._forms[id(instruction)]
            after = self._after(pipe, operands, variables) if kind == _WORK else ()
            self._steps.append(_Step(pipe, instruction, variables, kind, flag, after))
            yield self._steps[-1]
        self._whole = True

    def accesses(self, step: _Step) -> list[_Access]:
        """What a step reads and writes."""
        return [
            _access(operand, write, step.variables, self._allocations)
            for write, operand in _operands(step.instruction)
        ]

    def _after(
        self, pipe: int, operands: Iterable[tuple[bool, Place, Operand]], variables: Mapping[str, int]
    ) -> tuple[tuple[int, int], ...]:
        """See `_Step`."""
        self._done[pipe] += 1
        needed: dict[int, int] = {}
        for write, place, operand in operands:
            low = _start(operand, variables, self._allocations)
            high = low + operand.bytes
            ranges = self._meeting(place, low, high)
            for its_low, its_high, touched in ranges:
                for (its_pipe, its_write), number in touched.items():
                    if its_pipe != pipe and (write or its_write) and number > needed.get(its_pipe, 0):
                        needed[its_pipe] = number
                if write and low <= its_low and its_high <= high:
                    touched.clear()
            ranges[0].touched[pipe, write] = self._done[pipe]
        return tuple(needed.items())

    def _meeting(self, place: Place, low: int, high: int) -> list[_Range]:
        """The range of some bytes, and then all others so far that share bytes with it."""
        ranges = self._found.setdefault(place, {})
        known = ranges.get((low, high))
        if known is None:
            own = _Range(low, high, {})
            known = [own]
            for first, *_ in ranges.values():
                if first.low < high and low < first.high:
                    known.append(first)
                    ranges[first.low, first.high].append(own)
            ranges[low, high] = known
        return known


def forms(body: Iterable[Statement]) -> dict[int, Form]:
    """The instructions of a body by their identity. Places that nobody writes, or that one pipe has for
    itself, are left out: nothing in them needs an order between pipes.
    """
    touched = [
        (instruction, [(write, _place(operand), operand) for write, operand in _operands(instruction)])
        for instruction, _ in static(body)
    ]
    pipes: dict[Place, set[Pipe]] = {}
    written: set[Place] = set()
    for instruction, operands in touched:
        for write, place, _ in operands:
            pipes.setdefault(place, set()).add(instruction.pipe)
            if write:
                written.add(place)
    return {
        id(instruction): Form(
            _NUMBERS[instruction.pipe],
            _KINDS.get(type(instruction), _WORK),
            instruction.flag if isinstance(instruction, SetFlag | WaitFlag) else "",
            tuple([each for each in operands if len(pipes[each[1]]) > 1 and each[1] in written]),
        )
        for instruction, operands in touched
    }


def _operands(instruction: Instruction) -> list[tuple[bool, Operand]]:
    """What an instruction reads, then what it writes, and which of the two."""
    return [
        (write, operand)
        for write, operands in ((False, reads(instruction)), (True, writes(instruction)))
        for operand in operands
    ]


def _place(operand: Operand) -> Place:
    """What an operand lies in: global memory by region, a buffer as a whole."""
    return operand.buffer, operand.name if operand.buffer is Buffer.GM else ""


def check_hazards(block: Block, limit: int = 20_000) -> None:
    """Walks at most `limit` instructions of a block and looks for races.

    Raises:
        CompileError: Two accesses that may happen at the same time, or a wait without a set before it in
            program order.
    """
    check_order(Walk(block), {flag.name: flag.initial for flag in block.flags}, limit)


def has_race(walk: Walk, flags: Mapping[str, int], limit: int) -> bool:
    """Whether `check_order` finds anything, in a fraction of its time."""
    clocks: list[Clock] = [[0] * len(_PIPES) for _ in _PIPES]
    tokens = {name: deque([[0] * len(_PIPES)] * initial) for name, initial in flags.items()}
    left = limit
    for pipe, _, _, kind, flag, after in walk:
        if _SET <= kind <= _WAIT and flag not in flags:
            continue
        if not left:
            break
        left -= 1
        reached = clocks[pipe]
        if kind == _WORK:
            reached[pipe] += 1
            for other, number in after:
                if reached[other] < number:
                    return True
        elif kind == _SET:
            tokens[flag].append(reached.copy())
        elif kind == _WAIT:
            if not tokens[flag]:
                return True
            reached[:] = map(max, reached, tokens[flag].popleft())
        else:
            clocks = _after_barrier(clocks, pipe)
    return False


def _after_barrier(clocks: list[Clock], pipe: int) -> list[Clock]:
    """What the pipes know after a barrier; if it is one of all pipes, each knows what all have done."""
    if _PIPES[pipe] is not Pipe.S:
        return clocks
    known = [own[number] for number, own in enumerate(clocks)]
    return [known.copy() for _ in clocks]


def check_order(walk: Walk, flags: Mapping[str, int], limit: int) -> None:
    """The same for a walk of a block.

    Args:
        walk: Of the block.
        flags: Those that order its pipes, with how often each is set at first. Instructions of other flags
            (of several cores, or left out) do nothing and do not count.
        limit: How many instructions to look at.

    Raises:
        CompileError: As `check_hazards`.
    """
    clocks: list[Clock] = [[0] * len(_PIPES) for _ in _PIPES]
    tokens = {name: deque([[0] * len(_PIPES)] * initial) for name, initial in flags.items()}
    touched: dict[Place, list[_Touch]] = {}
    left = limit
    for step in walk:
        pipe, instruction, _, kind, flag, _ = step
        if _SET <= kind <= _WAIT and flag not in flags:
            continue
        if not left:
            break
        left -= 1
        clock = clocks[pipe]
        if kind == _SET:
            tokens[flag].append(clock.copy())
        elif kind == _WAIT:
            if not tokens[flag]:
                raise CompileError(
                    f"wait for flag {flag!r}",
                    "must follow its set in program order",
                    remedy="move the set up",
                )
            clock[:] = map(max, clock, tokens[flag].popleft())
        elif kind == _BARRIER:
            clocks = _after_barrier(clocks, pipe)
        else:
            clock[pipe] += 1
            for place, low, high, write, operand in walk.accesses(step):
                touch = _Touch(pipe, clock[pipe], write, low, high, instruction)
                touched[place] = _meet(touched.get(place, ()), touch, clock, operand)


def _access(
    operand: Operand, write: bool, variables: Mapping[str, int], allocations: Mapping[str, Allocation]
) -> _Access:
    """What an operand lies in, and its bytes there."""
    low = _start(operand, variables, allocations)
    return _Access(_place(operand), low, low + operand.bytes, write, operand)


def _start(operand: Operand, variables: Mapping[str, int], allocations: Mapping[str, Allocation]) -> int:
    """The first byte of an operand in what it lies in."""
    low = operand.offset.at(variables)
    if operand.buffer is Buffer.GM:
        return low
    allocation = allocations[operand.name]
    return low + allocation.offset + operand.slot.at(variables) % allocation.slots * allocation.slot_bytes


def _meet(earlier: Collection[_Touch], touch: _Touch, clock: Clock, operand: Operand) -> list[_Touch]:
    """Compares an access with the earlier ones and returns those that later ones still have to be compared
    with.
    """
    kept = []
    pipe, _, write, low, high, _ = touch
    for other in earlier:
        its_pipe, number, its_write, its_low, its_high, _ = other
        if its_low >= high or low >= its_high:  # as nearly all do
            kept.append(other)
            continue
        ordered = its_pipe == pipe or clock[its_pipe] >= number
        if not ordered and (its_write or write):
            raise _race(other, touch, operand)
        # A write that covers an earlier access and is ordered after it stands for it from now on.
        covered = write and ordered and low <= its_low and its_high <= high
        # Reads of the same bytes by the same pipe: the last one stands for all.
        again = not its_write and (its_pipe, its_low, its_high) == (pipe, low, high)
        if not covered and not again:
            kept.append(other)
    kept.append(touch)
    return kept


def _race(other: _Touch, touch: _Touch, operand: Operand) -> CompileError:
    first, second = (
        f"{_PIPES[item.pipe].value} {instruction_name(item.instruction)}" for item in (other, touch)
    )
    return CompileError(
        f"{operand.buffer.value}.{operand.name}",
        f"must not be {'written' if touch.write else 'read'} by {second} while {first} "
        f"{'writes' if other.write else 'reads'} it",
        remedy="order the two pipes by a flag",
    )
