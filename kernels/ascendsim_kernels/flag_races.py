"""Whether pipes of a block meet in the same bytes when some of its flags are left out.

What `ascendsim.isa.hazards` works out, on arrays of int64 with columns as named here: first the steps of the
block in the order in which they run, each with what must be complete before it, and then, for any choice of
flags, whether the pipes know that it is.
"""

from __future__ import annotations

from numpy import int64
from numpy.typing import NDArray

from ascendsim_kernels.jit import lean

Ints = NDArray[int64]

# columns of an instruction; of a loop's end FLAG is its number and FIRST the row where it begins
KIND, PIPE, FLAG, FIRST, COUNT = range(5)
WORK, SET, WAIT, BARRIER, LOOP, END = range(6)
INSTRUCTION = 5

# columns of an operand: bytes by its place, and where they begin: the sums of BASE and of SLOT with terms
PLACE, WRITE, BASE, BYTES, TERM0, TERMS, SLOT, SLOT_TERM0, SLOT_TERMS, SLOTS, SLOT_BYTES = range(11)
OPERAND = 11
OF_LOOP, STEP = range(2)  # of a term

LOW, HIGH, NEXT = range(3)  # of a range of bytes; the next one of its place


@lean
def count_steps(code: Ints, trips: Ints, counters: Ints, limit: int) -> int:
    """Steps until a block has ended, or has done its work for so many times; `counters` are zeros by loop,
    and are so again.
    """
    at = steps = work = 0
    while code[at, KIND] != END and work < limit:
        kind = code[at, KIND]
        if kind == LOOP:
            at = turned(code, trips, counters, at)
            continue
        steps += 1
        if kind == WORK or kind == BARRIER:
            work += 1
        at += 1
    for loop in range(len(counters)):
        counters[loop] = 0
    return steps


@lean
def turned(code: Ints, trips: Ints, counters: Ints, at: int) -> int:
    """The row behind a loop's end: back to its start while trips are left."""
    loop = code[at, FLAG]
    counters[loop] += 1
    if counters[loop] < trips[loop]:
        first: int = code[at, FIRST]
        return first
    counters[loop] = 0
    return at + 1


@lean
def first_byte(operand: int, operands: Ints, terms: Ints, counters: Ints) -> int:
    """The first byte of an operand in what it lies in, in the trips that loops are in."""
    low: int = operands[operand, BASE]
    first = operands[operand, TERM0]
    for term in range(first, first + operands[operand, TERMS]):
        low += terms[term, STEP] * counters[terms[term, OF_LOOP]]
    slots = operands[operand, SLOTS]
    if slots:
        slot = operands[operand, SLOT]
        first = operands[operand, SLOT_TERM0]
        for term in range(first, first + operands[operand, SLOT_TERMS]):
            slot += terms[term, STEP] * counters[terms[term, OF_LOOP]]
        low += slot % slots * operands[operand, SLOT_BYTES]
    return low


@lean
def write_steps(
    code: Ints,
    operands: Ints,
    terms: Ints,
    trips: Ints,
    counters: Ints,
    first_range: Ints,
    ranges: Ints,
    touched: Ints,
    done: Ints,
    steps: Ints,
    after: Ints,
) -> bool:
    """Writes the steps down.

    Args:
        code, operands, terms: Of the block.
        trips: Of its loops.
        counters: Zeros, by loop.
        first_range: By place, -1.
        ranges: Room for ranges of bytes.
        touched: Zeros: by range, pipe and direction, the last instruction that touched it.
        done: Zeros, by pipe.
        steps: Receives kind, pipe and flag of each.
        after: Zeros; receives, by step and pipe, how many instructions must be complete before it.

    Returns:
        Whether the ranges had room.
    """
    at = number = made = 0
    while number < len(steps):
        kind = code[at, KIND]
        if kind == LOOP:
            at = turned(code, trips, counters, at)
            continue
        pipe = code[at, PIPE]
        steps[number, KIND], steps[number, PIPE], steps[number, FLAG] = kind, pipe, code[at, FLAG]
        if kind == WORK:
            done[pipe] += 1
            for operand in range(code[at, FIRST], code[at, FIRST] + code[at, COUNT]):
                low = first_byte(operand, operands, terms, counters)
                high = low + operands[operand, BYTES]
                place, write = operands[operand, PLACE], operands[operand, WRITE]
                own, other = -1, first_range[place]
                while other >= 0:
                    its_low, its_high = ranges[other, LOW], ranges[other, HIGH]
                    if its_low == low and its_high == high:
                        own = other
                    if other == own or (its_low < high and low < its_high):
                        for its_pipe in range(len(done)):
                            if its_pipe != pipe:
                                last = touched[other, its_pipe, 1]
                                if write and touched[other, its_pipe, 0] > last:
                                    last = touched[other, its_pipe, 0]
                                if last > after[number, its_pipe]:
                                    after[number, its_pipe] = last
                        if write and low <= its_low and its_high <= high:
                            for its_pipe in range(len(done)):
                                touched[other, its_pipe, 0] = touched[other, its_pipe, 1] = 0
                    other = ranges[other, NEXT]
                if own < 0:
                    if made == len(ranges):
                        return False
                    own = made
                    ranges[own, LOW], ranges[own, HIGH], ranges[own, NEXT] = low, high, first_range[place]
                    first_range[place] = own
                    made += 1
                touched[own, pipe, write] = done[pipe]
        number += 1
        at += 1
    return True


@lean
def has_race(
    steps: Ints,
    after: Ints,
    kept: Ints,
    initial: Ints,
    sets: Ints,
    limit: int,
    scalar: int,
    clocks: Ints,
    tokens: Ints,
    ends: Ints,
) -> bool:
    """Whether two pipes may touch the same bytes at a time, one of them to write, or a flag is waited for
    that is not set.

    Args:
        steps, after: As written by `write_steps`.
        kept: Whether a flag counts, by its number; steps of others are left out.
        initial: How often a flag is set at first.
        sets: How often steps set it.
        limit: How many steps to look at.
        scalar: Number of the pipe whose barriers are for all.
        clocks: Room for what each pipe knows to be complete of each.
        tokens: Room for what flags tell.
        ends: Room for the first token of a flag, and the one behind its last.
    """
    pipes = len(clocks)
    for pipe in range(pipes):
        for other in range(pipes):
            clocks[pipe, other] = 0
    room = 0
    for flag in range(len(kept)):  # tokens of each flag lie behind one another
        ends[flag, 0] = room
        ends[flag, 1] = room + initial[flag]
        for token in range(room, room + initial[flag]):
            for other in range(pipes):
                tokens[token, other] = 0
        room += initial[flag] + sets[flag]
    left = limit
    for number in range(len(steps)):
        kind, pipe, flag = steps[number, KIND], steps[number, PIPE], steps[number, FLAG]
        if (kind == SET or kind == WAIT) and (flag < 0 or not kept[flag]):
            continue
        if not left:
            break
        left -= 1
        if kind == WORK:
            clocks[pipe, pipe] += 1
            for other in range(pipes):
                if clocks[pipe, other] < after[number, other]:
                    return True
        elif kind == SET:
            end = ends[flag, 1]
            for other in range(pipes):
                tokens[end, other] = clocks[pipe, other]
            ends[flag, 1] = end + 1
        elif kind == WAIT:
            first = ends[flag, 0]
            if first == ends[flag, 1]:
                return True
            for other in range(pipes):
                if tokens[first, other] > clocks[pipe, other]:
                    clocks[pipe, other] = tokens[first, other]
            ends[flag, 0] = first + 1
        elif pipe == scalar:
            for own in range(pipes):
                for other in range(pipes):
                    clocks[own, other] = clocks[other, other]
    return False
