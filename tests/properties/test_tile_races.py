"""The checker of races against one that tries all interleavings, on random small programs; random programs
without races; and what any legal order of a program without races computes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.gate import in_one

LONG = bool(os.environ.get("ASCENDSIM_LONG"))
PAIRS = {("MTE2", "V"), ("V", "MTE2"), ("V", "MTE3"), ("MTE3", "V"), ("MTE2", "MTE3"), ("MTE3", "MTE2")}
SLOTS, LANES = 3, 8
MOVES = {"load": "MTE2", "add": "V", "store": "MTE3"}


@dataclass(frozen=True)
class Step:
    """One call: "load" (MTE2), "add" (V), "store" (MTE3) on slots of UB, "set", "wait", "barrier"."""

    what: str
    pipe: str
    to: int = 0
    of: int = 0
    pair: tuple[str, str] = ("", "")


def draw(random, length):
    """A random program: instructions in conflict with the one before them on another pipe mostly wait for it.

    Every wait stands behind its set, and each flag is used once.
    """
    steps, unused = [], set(PAIRS)
    care = random.random()
    while sum(step.what in MOVES for step in steps) < length:
        kind = random.choice(list(MOVES))
        to, of = (int(slot) for slot in random.integers(0, SLOTS, 2))
        step = Step(kind, MOVES[kind], to, of)
        for other in [one for one in steps[::-1] if one.what in MOVES and conflict(one, step)]:
            pair = (other.pipe, step.pipe)
            if random.random() > care:
                continue
            if pair in unused:
                unused.remove(pair)
                steps += [Step("set", pair[0], pair=pair), Step("wait", pair[1], pair=pair)]
            elif other.pipe == step.pipe or len(unused) < 3:
                steps.append(Step("barrier", step.pipe if other.pipe == step.pipe else "ALL"))
        steps.append(step)
    return steps


def touches(step):
    """What a step reads and writes: (place, whether it writes); a load has bytes of its own to come from."""
    ub = [("UB", step.to, step.what != "store")]
    if step.what == "add":
        ub += [("UB", step.of, False)]
    return ub + ([("GM", step.of, True)] if step.what == "store" else [])


def conflict(one, two):
    """Whether two accesses need an order that pipes do not give by themselves."""
    shared = any(a[:2] == b[:2] and (a[2] or b[2]) for a, b in product(touches(one), touches(two)))
    if not shared or one.pipe != two.pipe:
        return shared
    writes = any(a[:2] == b[:2] and a[2] and b[2] for a, b in product(touches(one), touches(two)))
    return writes and one.pipe != "V"  # the compiler orders the vector unit; transfers only begin in order


def interleavings_meet(steps):
    """All pairs of steps in conflict that run at the same time in some interleaving.

    Every instruction begins and ends; those of a transferring pipe begin in order and may end in any. A flag
    is set when all before it on its pipe has ended, and does not hold what comes behind it. All states that
    can be reached are visited.
    """
    queues = {
        pipe: [n for n, step in enumerate(steps) if step.pipe == pipe] for pipe in ("MTE2", "V", "MTE3")
    }
    stops = [n for n, step in enumerate(steps) if step.what == "barrier" and step.pipe == "ALL"]
    found, seen = set(), set()
    start = (tuple(0 for _ in queues), frozenset(), frozenset(), 0)
    todo = [start]
    names = list(queues)
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        places, running, flags, passed = state
        limit = stops[passed] if passed < len(stops) else len(steps)
        for one in running:
            for two in running:
                if one < two and conflict(steps[one], steps[two]):
                    found.add((one, two))
            fewer = frozenset((pair, left - {one}) for pair, left in flags)
            todo.append((places, running - {one}, fewer, passed))
        heads = [
            queues[name][place] if place < len(queues[name]) else len(steps)
            for name, place in zip(names, places, strict=True)
        ]
        if not running and passed < len(stops) and min(heads) > limit:
            todo.append((places, running, flags, passed + 1))
        for at, head in enumerate(heads):
            if head >= limit:
                continue
            step, own = steps[head], frozenset(n for n in running if steps[n].pipe == names[at])
            on = (*places[:at], places[at] + 1, *places[at + 1 :])
            done = (step.pair, frozenset())
            if step.what == "set":
                todo.append((on, running, flags | {(step.pair, own)}, passed))
            elif step.what == "wait" and done in flags:
                todo.append((on, running, flags - {done}, passed))
            elif step.what == "barrier" and not own:
                todo.append((on, running, flags, passed))
            elif step.what in ("load", "store") or (step.what == "add" and not own):
                todo.append((on, running | {head}, flags, passed))
    return found


@asc.jit
def play(x, z, steps):
    """Runs a program; step n stands on line n of nothing, so each has a form of its own by its operands."""
    slots = [asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 32 * at, LANES) for at in range(SLOTS)]
    xs, zs = asc.GlobalTensor(), asc.GlobalTensor()
    xs.set_global_buffer(x)
    zs.set_global_buffer(z)
    for number, step in enumerate(steps):
        event = asc.HardEvent["_".join(step.pair)] if step.pair[0] else None
        if step.what == "load":
            asc.data_copy(slots[step.to], xs[number * LANES :], LANES)
        elif step.what == "add":
            asc.add(slots[step.to], slots[step.to], slots[step.of], LANES)
        elif step.what == "store":
            asc.data_copy(zs[step.of * LANES :], slots[step.to], LANES)
        elif step.what == "set":
            asc.set_flag(event, 0)
        elif step.what == "wait":
            asc.wait_flag(event, 0)
        else:
            asc.pipe_barrier(asc.PipeID[f"PIPE_{step.pipe}"])


def played(steps, order="program"):
    x = np.random.default_rng(1).standard_normal(LANES * len(steps)).astype(np.float32)
    z = np.zeros(LANES * SLOTS, np.float32)
    result = asim.run_kernel(play, 1, x, z, steps, order=order)
    return [found for found in result.findings if found.kind == "race"], z


def pairs_of_pipes(steps, races):
    return {(steps[one].pipe, steps[two].pipe) for one, two in races}


@in_one("seed", range(1000 if LONG else 40))
def test_the_same_races_as_all_interleavings_show(seed):
    steps = draw(np.random.default_rng(seed), 6)
    races = interleavings_meet(steps)
    found, _ = played(steps)
    assert bool(found) == bool(races), steps
    # of two earlier accesses by one pipe the last one is named: pipes of what is found are pipes of races
    assert {item.pipes for item in found} <= pairs_of_pipes(steps, races)


def ordered(random, length):
    """A random program with a barrier of all pipes before each step that would race."""
    steps = []
    for step in draw(random, length):
        if step.what in ("set", "wait", "barrier"):
            continue
        if any(conflict(other, step) for other in since(steps)):
            steps.append(Step("barrier", "ALL"))
        steps.append(step)
    return steps


def since(steps):
    """Steps since the last barrier of all pipes."""
    last = max([n for n, step in enumerate(steps) if step.what == "barrier"], default=-1)
    return steps[last + 1 :]


@pytest.mark.parametrize("seed", range(500 if LONG else 25))
def test_random_programs_without_races(seed):
    steps = ordered(np.random.default_rng(seed), 40)
    found, values = played(steps)
    assert found == []
    for order in ("late", seed):
        found, again = played(steps, order)
        assert found == []
        np.testing.assert_array_equal(values, again)


def test_the_drawn_programs_are_of_both_kinds():
    racing = [bool(interleavings_meet(draw(np.random.default_rng(seed), 6))) for seed in range(30)]
    assert 5 < sum(racing) < 28
