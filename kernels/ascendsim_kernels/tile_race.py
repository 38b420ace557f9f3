"""Races: accesses to the same bytes that nothing orders, whatever the order in which they were run.

Every pipe has a clock: the last row of each pipe that is known to be complete before its next instruction
begins. Setting a flag hands the clock on, waiting for it takes it over, a barrier learns what its pipe (or
all pipes) have done, and what the scalar unit knows all instructions know that it issues later.

A memory has a column for each pipe and direction: the last row that read (or wrote) each block of 32 bytes.
Blocks that an access touches in part are kept byte by byte from then on. Columns 2 * PIPES and 2 * PIPES + 1
hold the last read and the last write of other cores, where this core has been since; where cores wait for one
another, their columns are apart (`tile_cross`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_memory import pointer_i32, pointer_u8

S, V, M, MTE1, MTE2, MTE3, FIX = range(7)
ATOMIC = 7  # stands for the pipe that writes to global memory, where it adds
PIPES = 8
COLUMNS = 2 * PIPES + 2
# Columns of a form
KIND, PIPE, FLAG, BOX, BOXES, STRICT = range(6)
FORM = 6
NOTHING, INSTRUCTION, SET, WAIT, BARRIER, CROSS = range(6)
# Columns of a box
MEMORY, WRITE, OPERAND, RUN, RUNS, N0, S0, N1, S1, N2, S2, UNIT = range(12)
BOX_WIDTH = 12
# Columns of a memory, behind the addresses of its columns: block by block, and byte by byte
PARTLY, SIZE, PROMOTED, SHARED = (2 * COLUMNS + i for i in range(4))
MEMORY_WIDTH = 2 * COLUMNS + 4
LOWEST, HIGHEST = COLUMNS, COLUMNS + 1  # of `latest`, behind its columns: bytes that this core wrote
LATEST = COLUMNS + 2
# Columns of a report
FIRST, SECOND, PLACE, OTHER, EARLY, LATE, LOW, HIGH, COUNT, SPACE, EARLY_WRITES, LAST = range(12)
REPORT = 12
MANUAL, START, VERSION, OUT = range(4)  # of the state
STATE = 4
TOKENS = 256  # clocks that a flag keeps


@kernel
def race(
    forms: Any,
    numbers: Any,
    values: Any,
    starts: Any,
    steps: Any,
    boxes: Any,
    runs: Any,
    memories: Any,
    latest: Any,
    log: Any,
    known: Any,
    seen: Any,
    tokens: Any,
    queue: Any,
    state: Any,
    reports: Any,
) -> None:
    """Takes rows of one core in an order that its flags allow.

    Args:
        forms: Number of each row's form.
        numbers: Number of each row, counted over all cores, in the order of the program.
        values: Values of all rows.
        starts: Where the values of each row begin.
        steps: By form: kind, pipe, flag, boxes.
        boxes: What forms touch.
        runs: Stretches of boxes: first byte and length.
        memories: Table of memories.
        latest: By memory and column: the last row in it; then the bytes that this core wrote.
        log: By number of a row: its form.
        known: The clock of each pipe.
        seen: By pipe: what it has taken over from the scalar unit.
        tokens: By flag: clocks that wait to be taken.
        queue: By flag: the first token and their number.
        state: See MANUAL and so on.
        reports: Table of races; the first row holds their number.
    """
    for i in range(forms.size):
        form, row = forms[i], numbers[i]
        kind, pipe = steps[form, KIND], steps[form, PIPE]
        if kind == NOTHING:
            continue
        if pipe != S and seen[pipe] != state[VERSION]:
            for q in range(PIPES):
                known[pipe, q] = max(known[pipe, q], known[S, q])
            seen[pipe] = state[VERSION]
        if kind == INSTRUCTION:
            first = steps[form, BOX]
            for box in range(first + steps[form, BOXES] - 1, first - 1, -1):  # an instruction reads first
                address = values[starts[i] + boxes[box, OPERAND]]
                _meet_all(
                    box, address, form, pipe, row, boxes, runs, memories, latest, log, known, state, reports
                )
            for box in range(first, first + steps[form, BOXES]):  # its own operands do not meet each other
                address = values[starts[i] + boxes[box, OPERAND]]
                _leave_all(box, address, pipe, row, boxes, runs, memories, latest, state)
            if steps[form, STRICT]:
                _operands(i, form, row, values, starts, steps, boxes, runs, state, reports)
        elif kind == SET:
            flag = steps[form, FLAG]
            place = (queue[flag, 0] + queue[flag, 1]) % TOKENS
            for q in range(PIPES):
                tokens[flag, place, q] = known[pipe, q]
            tokens[flag, place, pipe] = row
            queue[flag, 1] += 1
        elif kind == WAIT:
            flag = steps[form, FLAG]
            if queue[flag, 1] > 0:
                place = queue[flag, 0]
                for q in range(PIPES):
                    known[pipe, q] = max(known[pipe, q], tokens[flag, place, q])
                queue[flag, 0] = (place + 1) % TOKENS
                queue[flag, 1] -= 1
            if pipe == S:
                state[VERSION] += 1
        elif kind == CROSS:
            continue  # what other cores let this one know has come into its clock already
        elif pipe == S:  # a barrier of all pipes
            for q in range(PIPES):
                known[S, q] = row
            state[VERSION] += 1
        else:
            known[pipe, pipe] = row


@kernel
def _meet_all(
    box: Any,
    address: Any,
    form: Any,
    pipe: Any,
    row: Any,
    boxes: Any,
    runs: Any,
    memories: Any,
    latest: Any,
    log: Any,
    known: Any,
    state: Any,
    reports: Any,
) -> None:
    size = memories[boxes[box, MEMORY], SIZE]
    for piece in range(boxes[box, N0] * boxes[box, N1] * boxes[box, N2]):
        base = address + move(boxes, box, piece)
        for run in range(boxes[box, RUN], boxes[box, RUN] + boxes[box, RUNS]):
            low, high = max(0, base + runs[run, 0]), min(size, base + runs[run, 0] + runs[run, 1])
            if low < high:
                _meet(box, low, high, form, pipe, row, boxes, memories, latest, log, known, state, reports)


@kernel
def _leave_all(
    box: Any,
    address: Any,
    pipe: Any,
    row: Any,
    boxes: Any,
    runs: Any,
    memories: Any,
    latest: Any,
    state: Any,
) -> None:
    memory, write = boxes[box, MEMORY], boxes[box, WRITE]
    column = 2 * (ATOMIC if write == 2 else pipe) + (1 if write else 0)
    size = memories[memory, SIZE]
    for piece in range(boxes[box, N0] * boxes[box, N1] * boxes[box, N2]):
        base = address + move(boxes, box, piece)
        for run in range(boxes[box, RUN], boxes[box, RUN] + boxes[box, RUNS]):
            low, high = max(0, base + runs[run, 0]), min(size, base + runs[run, 0] + runs[run, 1])
            if low < high:
                _leave(memories, latest, memory, column, low, high, row, state[START])


@kernel
def _meet(
    box: Any,
    low: Any,
    high: Any,
    form: Any,
    pipe: Any,
    row: Any,
    boxes: Any,
    memories: Any,
    latest: Any,
    log: Any,
    known: Any,
    state: Any,
    reports: Any,
) -> None:
    """Compares an access with the last ones of all pipes, and in shared memory of other cores."""
    memory, write, unit = boxes[box, MEMORY], boxes[box, WRITE], boxes[box, UNIT]
    span = np.zeros(2, np.int64)
    for column in range(COLUMNS):
        if latest[memory, column] == 0:
            continue
        wrote = column & 1
        if not (wrote or write):
            continue
        other = column >> 1
        if write == 2 and column == 2 * ATOMIC + 1:
            continue  # sums: any order will do
        if memories[memory, SHARED]:
            early = scan(memories, memory, column, low, high, 0, state[START], span)
            if early > 0:
                _report(reports, early, row, form, box, memory, log, wrote, span, True)
        if other == PIPES:
            continue
        source = state[OUT] if other == ATOMIC else other
        limit = known[pipe, source]
        if latest[memory, column] <= limit:
            continue
        if source == pipe:
            if pipe == S or pipe == M:
                continue
            if pipe == V:
                if not state[MANUAL]:
                    continue
            elif not (wrote and write):
                continue
        elif source == S and (not state[MANUAL] or not wrote):
            continue  # issued after it; the compiler orders what the scalar unit writes
        elif unit and ((pipe == M and source == FIX) or (pipe == FIX and source == M)):
            continue  # the unit flag orders the two piece by piece
        early = scan(memories, memory, column, low, high, max(limit, state[START] - 1), row, span)
        if early == 0:
            continue
        if pipe == S and not state[MANUAL]:  # the compiler makes the scalar unit wait
            known[S, source] = max(known[S, source], early)
            state[VERSION] += 1
        else:
            _report(reports, early, row, form, box, memory, log, wrote, span, False)


@kernel
def scan(
    memories: Any, memory: Any, column: Any, low: Any, high: Any, above: Any, below: Any, span: Any
) -> Any:
    """The last row between two others that stands in a column for some bytes, 0 if none; `span` becomes the
    bytes from the first to the last that such rows touched.
    """
    blocks = memories[memory, column]
    if blocks == 0:
        return 0
    first, last = low >> 5, (high - 1) >> 5
    rows = carray(pointer_i32(blocks + 4 * first), last - first + 1)
    found = np.int32(0)
    over, under = np.int32(above), np.int32(min(below, 2147483647))
    for i in range(last - first + 1):
        value = rows[i]
        found = max(found, value if value > over and value < under else np.int32(0))
    partly = memories[memory, PARTLY] > 0
    if found == 0 and not partly:
        return 0
    best = np.int64(found)
    span[0], span[1] = high, low
    if found > 0:
        for i in range(last - first + 1):
            if rows[i] > over and rows[i] < under:
                span[0] = min(span[0], max(low, (first + i) << 5))
                span[1] = max(span[1], min(high, (first + i + 1) << 5))
    if partly:
        promoted = carray(pointer_u8(memories[memory, PROMOTED] + first), last - first + 1)
        for i in range(last - first + 1):
            if promoted[i]:
                start, end = max(low, (first + i) << 5), min(high, (first + i + 1) << 5)
                single = carray(pointer_i32(memories[memory, COLUMNS + column] + 4 * start), end - start)
                for j in range(end - start):
                    if single[j] > over and single[j] < under:
                        best = max(best, np.int64(single[j]))
                        span[0], span[1] = min(span[0], start + j), max(span[1], start + j + 1)
    return best


@kernel
def _leave(
    memories: Any, latest: Any, memory: Any, column: Any, low: Any, high: Any, row: Any, start: Any
) -> None:
    """Notes an access to bytes low .. high - 1 in a column."""
    latest[memory, column] = max(latest[memory, column], row)
    if column & 1:
        latest[memory, LOWEST] = min(latest[memory, LOWEST], low)
        latest[memory, HIGHEST] = max(latest[memory, HIGHEST], high)
    foreign = memories[memory, SHARED] and column != 2 * ATOMIC + 1  # sums of other cores stay in sight
    hidden = 2 * PIPES + (column & 1)
    first, last = low >> 5, (high - 1) >> 5
    if low & 31:
        _promote(memories, memory, first)
    if high & 31:
        _promote(memories, memory, last)
    count = last - first + 1
    rows = carray(pointer_i32(memories[memory, column] + 4 * first), count)
    now = np.int32(row)
    if foreign:
        before = carray(pointer_i32(memories[memory, hidden] + 4 * first), count)
        for i in range(count):
            if rows[i] > 0 and rows[i] < start:
                before[i] = rows[i]
                latest[memory, hidden] = row
    if memories[memory, PARTLY] == 0:
        for i in range(count):
            rows[i] = now
        return
    promoted = carray(pointer_u8(memories[memory, PROMOTED] + first), count)
    for i in range(count):
        if not promoted[i]:
            rows[i] = now
            continue
        begin, end = max(low, (first + i) << 5), min(high, (first + i + 1) << 5)
        single = carray(pointer_i32(memories[memory, COLUMNS + column] + 4 * begin), end - begin)
        if foreign:
            covered = carray(pointer_i32(memories[memory, COLUMNS + hidden] + 4 * begin), end - begin)
            for j in range(end - begin):
                if single[j] > 0 and single[j] < start:
                    covered[j] = single[j]
                    latest[memory, hidden] = row
        for j in range(end - begin):
            single[j] = now


@kernel
def _promote(memories: Any, memory: Any, block: Any) -> None:
    """From here on the bytes of a block are kept one by one."""
    promoted = carray(pointer_u8(memories[memory, PROMOTED] + block), 1)
    if promoted[0]:
        return
    promoted[0] = 1
    memories[memory, PARTLY] += 1
    for column in range(COLUMNS):
        if memories[memory, column]:
            rows = carray(pointer_i32(memories[memory, column] + 4 * block), 1)
            single = carray(pointer_i32(memories[memory, COLUMNS + column] + 128 * block), 32)
            for j in range(32):
                single[j] = rows[0]
            rows[0] = 0


@kernel
def _operands(
    i: Any,
    form: Any,
    row: Any,
    values: Any,
    starts: Any,
    steps: Any,
    boxes: Any,
    runs: Any,
    state: Any,
    reports: Any,
) -> None:
    """Reports a target that shares bytes with a source and does not begin where it does."""
    first = steps[form, BOX]
    to = values[starts[i] + boxes[first, OPERAND]]
    for box in range(first + 1, first + steps[form, BOXES]):
        of = values[starts[i] + boxes[box, OPERAND]]
        if to == of or boxes[box, MEMORY] != boxes[first, MEMORY] or boxes[box, WRITE]:
            continue
        low, high = _common(boxes, runs, first, to, box, of)
        if low < high:
            add(reports, form, form, box, -1, row, row, low, high, boxes[box, MEMORY], 0)


@kernel
def extent(boxes: Any, runs: Any, box: Any) -> Any:
    """First byte of a box and the one behind the last, from its address."""
    low, high = np.int64(0), np.int64(0)
    for number, step in ((N0, S0), (N1, S1), (N2, S2)):
        move = (boxes[box, number] - 1) * boxes[box, step]
        low, high = low + min(0, move), high + max(0, move)
    last = boxes[box, RUN] + boxes[box, RUNS] - 1
    return low + runs[boxes[box, RUN], 0], high + runs[last, 0] + runs[last, 1]


@kernel
def _common(boxes: Any, runs: Any, one: Any, at: Any, two: Any, of: Any) -> Any:
    """The first stretch of bytes that two boxes share; empty if there is none."""
    low, high = extent(boxes, runs, one)
    begin, end = extent(boxes, runs, two)
    if at + low >= of + end or of + begin >= at + high:
        return 0, 0
    for a in range(boxes[one, N0] * boxes[one, N1] * boxes[one, N2]):
        here = at + move(boxes, one, a)
        for r in range(boxes[one, RUN], boxes[one, RUN] + boxes[one, RUNS]):
            start, stop = here + runs[r, 0], here + runs[r, 0] + runs[r, 1]
            for b in range(boxes[two, N0] * boxes[two, N1] * boxes[two, N2]):
                there = of + move(boxes, two, b)
                for s in range(boxes[two, RUN], boxes[two, RUN] + boxes[two, RUNS]):
                    low = max(start, there + runs[s, 0])
                    high = min(stop, there + runs[s, 0] + runs[s, 1])
                    if low < high:
                        return low, high
    return 0, 0


@kernel
def move(boxes: Any, box: Any, number: Any) -> Any:
    """Bytes from the address of a box to one of its pieces."""
    inner = number % boxes[box, N2]
    middle = number // boxes[box, N2] % boxes[box, N1]
    outer = number // boxes[box, N2] // boxes[box, N1]
    return outer * boxes[box, S0] + middle * boxes[box, S1] + inner * boxes[box, S2]


@kernel
def _report(
    reports: Any,
    early: Any,
    row: Any,
    form: Any,
    box: Any,
    memory: Any,
    log: Any,
    wrote: Any,
    span: Any,
    cross: Any,
) -> None:
    add(reports, log[early], form, box, 1 if cross else 0, early, row, span[0], span[1], memory, wrote)


@kernel
def add(
    reports: Any,
    first: Any,
    second: Any,
    box: Any,
    other: Any,
    early: Any,
    row: Any,
    low: Any,
    high: Any,
    memory: Any,
    wrote: Any,
) -> None:
    """Adds a case to the table of races: to the line of the same two forms, or a line of its own."""
    number = reports[0, 0]
    for at in range(1, number + 1):
        if (
            reports[at, FIRST] == first
            and reports[at, SECOND] == second
            and reports[at, PLACE] == box
            and reports[at, OTHER] == other
            and reports[at, EARLY_WRITES] == wrote
        ):
            if reports[at, LAST] != row:
                reports[at, COUNT] += 1
                reports[at, LAST] = row
            elif reports[at, LATE] == row:
                reports[at, LOW], reports[at, HIGH] = min(reports[at, LOW], low), max(reports[at, HIGH], high)
            return
    if number + 1 >= reports.shape[0]:
        return
    reports[0, 0] = number + 1
    reports[number + 1, FIRST], reports[number + 1, SECOND] = first, second
    reports[number + 1, PLACE], reports[number + 1, OTHER] = box, other
    reports[number + 1, EARLY], reports[number + 1, LATE] = early, row
    reports[number + 1, LOW], reports[number + 1, HIGH] = low, high
    reports[number + 1, COUNT], reports[number + 1, SPACE] = 1, memory
    reports[number + 1, EARLY_WRITES], reports[number + 1, LAST] = wrote, row
