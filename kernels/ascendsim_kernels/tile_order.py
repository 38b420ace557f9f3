"""Orders in which the pipes of a core may execute what they were given.

The scalar unit hands rows out in the order of the program; each pipe takes its own one after the other; a
wait holds its pipe until the flag is set, and where the scalar unit waits nothing more is handed out. All
else may happen in any order.
"""

from __future__ import annotations

from typing import Any

from ascendsim_kernels.jit import kernel
from ascendsim_kernels.tile_race import (
    BARRIER,
    CROSS,
    FLAG,
    INSTRUCTION,
    KIND,
    NOTHING,
    PIPE,
    PIPES,
    SET,
    WAIT,
    S,
)

PROGRAM, LATE, RANDOM = range(3)
LENGTH = 24  # steps that a random order keeps its preferences for, on the mean


@kernel
def _draw(state: Any) -> Any:
    """A random number (xorshift)."""
    x = state[0]
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    state[0] = x
    return x & 0x7FFFFFFF


@kernel
def count(forms: Any, steps: Any, binary: Any, initial: Any, sums: Any, faults: Any) -> Any:
    """Follows flags through rows in the order of the program; returns whether no wait comes before its set.

    Args:
        forms: Number of each row's form.
        steps: By form: kind, pipe, flag.
        binary: By flag: whether it is one of the chip's, which cannot count.
        initial: By flag: how often it is set at the start.
        sums: By flag: sets less waits so far; brought up to date.
        faults: By flag: how often it was set although it was set already, the first such form, the form that
            had set it before, and the last form that set it.
    """
    straight = True
    for i in range(forms.size):
        kind, flag = steps[forms[i], KIND], steps[forms[i], FLAG]
        if kind == SET:
            if binary[flag] and sums[flag] >= 1:
                if faults[flag, 0] == 0:
                    faults[flag, 1] = forms[i]
                    faults[flag, 2] = faults[flag, 3]
                faults[flag, 0] += 1
            sums[flag] += 1
            faults[flag, 3] = forms[i]
        elif kind == WAIT:
            straight = straight and initial[flag] + sums[flag] > 0
            sums[flag] -= 1
    return straight


@kernel
def schedule(
    forms: Any,
    steps: Any,
    flags: Any,
    how: Any,
    manual: Any,
    end: Any,
    random: Any,
    preference: Any,
    heads: Any,
    following: Any,
    out: Any,
) -> Any:
    """Writes the numbers of rows that are executed to `out`, in their order; returns how many.

    Rows that are not executed wait for a flag, or for a reason to be (late, where more will come).

    Args:
        forms: Number of each row's form.
        steps: By form: kind, pipe, flag.
        flags: How often each flag is set; brought up to date.
        how: PROGRAM: in the order of the program as far as flags allow. LATE: transfers only when a wait or a
            barrier needs them. RANDOM: pipes by changing preferences.
        manual: Whether the compiler leaves the scalar unit alone; if not, what that reads or writes waits
            for all pipes.
        end: Whether nothing will follow: all that can be executed is.
        random: State of the random numbers.
        preference: By pipe: its rank (random).
        heads: Scratch: the first row of each pipe that waits.
        following: Scratch: by row, the next one of its pipe.
        out: Numbers of rows.
    """
    tails = heads[PIPES:]
    for pipe in range(PIPES):
        heads[pipe] = -1
    given, done, size = 0, 0, forms.size
    while True:
        # the scalar unit goes on as far as it can
        while given < size:
            form = forms[given]
            kind, pipe = steps[form, KIND], steps[form, PIPE]
            if kind == NOTHING or kind == CROSS:
                out[done] = given
                done += 1
                given += 1
                continue
            if pipe == S:
                if kind == WAIT:
                    if flags[steps[form, FLAG]] == 0:
                        break
                    flags[steps[form, FLAG]] -= 1
                elif kind == BARRIER or (kind == INSTRUCTION and not manual):
                    empty = True
                    for other in range(1, PIPES):
                        empty = empty and heads[other] < 0
                    if not empty:
                        break
                elif kind == SET:
                    flags[steps[form, FLAG]] += 1
                out[done] = given
                done += 1
                given += 1
                continue
            following[given] = -1
            if heads[pipe] < 0:
                heads[pipe] = given
            else:
                following[tails[pipe]] = given
            tails[pipe] = given
            given += 1
            if how == PROGRAM or (how == RANDOM and _draw(random) % 4 == 0):
                break
        pushed = given >= size
        stuck = not pushed and steps[forms[given], PIPE] == S
        best, score = -1, 0
        if how == RANDOM and _draw(random) % LENGTH == 0:
            for pipe in range(PIPES):
                preference[pipe] = _draw(random)
        for pipe in range(1, PIPES):
            row = heads[pipe]
            if row < 0:
                continue
            form = forms[row]
            if steps[form, KIND] == WAIT and flags[steps[form, FLAG]] == 0:
                continue
            if how == PROGRAM:
                rank = size - row  # the earliest
            elif how == LATE:
                rank = 1 if _compute(pipe) else 0
            else:
                rank = preference[pipe]
            if best < 0 or rank > score:
                best, score = pipe, rank
        if best < 0:
            if pushed or stuck:
                return done
            continue
        if how == LATE and not _compute(best) and not stuck and not end and pushed:
            needed = False  # does any pipe wait?
            for pipe in range(1, PIPES):
                needed = needed or (heads[pipe] >= 0 and _compute(pipe))
            if not needed:
                return done
        if how == LATE and not _compute(best):
            best = _needed(forms, steps, flags, heads, following, best, given, size)
        row = heads[best]
        form = forms[row]
        if steps[form, KIND] == WAIT:
            flags[steps[form, FLAG]] -= 1
        elif steps[form, KIND] == SET:
            flags[steps[form, FLAG]] += 1
        out[done] = row
        done += 1
        heads[best] = following[row]


@kernel
def _compute(pipe: Any) -> Any:
    """Whether a pipe computes (V, M); the others move data."""
    return pipe == 1 or pipe == 2


@kernel
def _needed(
    forms: Any, steps: Any, flags: Any, heads: Any, following: Any, best: Any, given: Any, size: Any
) -> Any:
    """The transferring pipe that sets, soonest, a flag which another pipe waits for; `best` if none does."""
    chosen, distance = best, 1 << 60
    for pipe in range(PIPES):
        row = heads[pipe] if pipe != S else (given if given < size else -1)
        if row < 0 or steps[forms[row], KIND] != WAIT or steps[forms[row], PIPE] != pipe:
            continue
        flag = steps[forms[row], FLAG]
        if flags[flag] > 0:
            continue
        for other in range(1, PIPES):
            at, length = heads[other], 0
            if other == pipe or at < 0:
                continue
            if steps[forms[at], KIND] == WAIT and flags[steps[forms[at], FLAG]] == 0:
                continue
            while at >= 0 and length < distance:
                if steps[forms[at], KIND] == SET and steps[forms[at], FLAG] == flag:
                    chosen, distance = other, length
                    break
                at = following[at]
                length += 1
    return chosen
