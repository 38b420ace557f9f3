"""Races between cores that wait for one another: accesses to the same bytes of global memory which no flag
between the cores orders, whatever the order in which the cores were run.

Every core keeps the columns of `tile_race` for itself. `clock` says of all other cores, pipe by pipe, which
row is known to be complete before this core's next instruction begins; what stands in their columns behind
that may happen at any time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_memory import pointer_i32
from ascendsim_kernels.tile_race import (
    ATOMIC,
    BOX,
    BOXES,
    HIGHEST,
    INSTRUCTION,
    KIND,
    LOWEST,
    MEMORY,
    N0,
    N1,
    N2,
    OPERAND,
    PIPES,
    RUN,
    RUNS,
    SIZE,
    WRITE,
    add,
    extent,
    move,
    scan,
)

FOREIGN = 2  # of a report: its column OTHER holds this and the number of the other core
_EVER = 1 << 62


@kernel
def meet_others(
    mine: Any,
    chip: Any,
    forms: Any,
    numbers: Any,
    values: Any,
    starts: Any,
    steps: Any,
    boxes: Any,
    runs: Any,
    memories: Any,
    latest: Any,
    clock: Any,
    outs: Any,
    logs: Any,
    reports: Any,
) -> None:
    """Compares rows of one core with what other cores have done.

    Args:
        mine: Number of the core.
        chip: Memories before this one are on the chip, each core's own.
        forms, numbers, values, starts, steps, boxes, runs: As in `tile_race.race`.
        memories: By core: table of memories.
        latest: By core: `latest` of `tile_race.race`.
        clock: By core and pipe: the last row that is known to be complete.
        outs: By core: the pipe that writes to global memory where it adds.
        logs: By core: where its `log` lies.
        reports: Table of races; the first row holds their number.
    """
    span = np.zeros(2, np.int64)
    for i in range(forms.size):
        form = forms[i]
        if steps[form, KIND] != INSTRUCTION:
            continue
        for box in range(steps[form, BOX], steps[form, BOX] + steps[form, BOXES]):
            memory, write = boxes[box, MEMORY], boxes[box, WRITE]
            if memory < chip:
                continue
            address = values[starts[i] + boxes[box, OPERAND]]
            begin, end = extent(boxes, runs, box)
            for other in range(latest.shape[0]):
                if other == mine:
                    continue
                written = latest[other, memory, LOWEST], latest[other, memory, HIGHEST]
                for column in range(2 * PIPES):
                    pipe, wrote = column >> 1, column & 1
                    source = outs[other] if pipe == ATOMIC else pipe
                    limit = clock[other, source]
                    if latest[other, memory, column] <= limit or not (wrote or write):
                        continue
                    if write == 2 and column == 2 * ATOMIC + 1:
                        continue  # sums: any order will do
                    if wrote and (written[1] <= address + begin or address + end <= written[0]):
                        continue
                    early = _first(box, address, column, limit, boxes, runs, memories[other], span)
                    if early > 0:
                        first = carray(pointer_i32(logs[other] + 4 * early), 1)[0]
                        add(
                            reports,
                            first,
                            form,
                            box,
                            FOREIGN + other,
                            early,
                            numbers[i],
                            span[0],
                            span[1],
                            memory,
                            wrote,
                        )


@kernel
def _first(
    box: Any, address: Any, column: Any, limit: Any, boxes: Any, runs: Any, memories: Any, span: Any
) -> Any:
    """The last row behind a limit in a column of the bytes of a box, in the first piece that has one."""
    memory = boxes[box, MEMORY]
    size = memories[memory, SIZE]
    for piece in range(boxes[box, N0] * boxes[box, N1] * boxes[box, N2]):
        base = address + move(boxes, box, piece)
        for run in range(boxes[box, RUN], boxes[box, RUN] + boxes[box, RUNS]):
            low, high = max(0, base + runs[run, 0]), min(size, base + runs[run, 0] + runs[run, 1])
            if low < high:
                early = scan(memories, memory, column, low, high, limit, _EVER, span)
                if early > 0:
                    return early
    return 0
