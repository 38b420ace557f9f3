"""Races between cores that wait for one another, against a graph of what comes before what: random programs
of two teams of a cube core and two vector cores.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc

TEAMS = 2
CORES = [(kind, team, sub) for team in range(TEAMS) for kind, sub in (("aic", 0), ("aiv", 0), ("aiv", 1))]
PLACES, LANES = 2, 64  # places in global memory, elements of each
PIPES = {"aic": ("MTE2", "FIX"), "aiv": ("MTE2", "MTE3")}  # that read and write global memory


@dataclass(frozen=True)
class Step:
    """One call: "read", "write", "sum" of a place; "set", "wait" of a flag between cores, (id, mode); "then",
    a local flag from one pipe to the other; "barrier"; "sync".
    """

    what: str
    place: int = 0
    pipe: str = ""
    flag: tuple[int, int] = (0, 0)
    to: str = ""


def members(core, mode):
    """Cores that a core waits for."""
    kind, team, _ = core
    if mode == 0:
        return [other for other in CORES if other[0] == kind]
    inside = [other for other in CORES if other[1] == team]
    wanted = "aiv" if mode == 1 or kind == "aic" else "aic"
    return [other for other in inside if other[0] == wanted]


def draw(random):
    """Steps by core, few accesses among many flags.

    Sets stand before their waits in one order of all, so that nothing hangs.
    """
    steps = {core: [] for core in CORES}
    late = []  # waits that come later
    often = random.random() * 0.5
    for _ in range(random.integers(4, 14)):
        core = CORES[random.integers(len(CORES))]
        reads, writes = PIPES[core[0]]
        place, dice = int(random.integers(PLACES)), random.random()
        if dice < often:
            what = ("read", "write", "sum")[random.choice(3, p=(0.45, 0.35, 0.2))]
            steps[core].append(Step(what, place, reads if what == "read" else writes))
        elif dice < often + 0.06:
            steps[core].append(Step("barrier"))
        elif dice < often + 0.16:
            steps[core].append(Step("then", pipe=writes, to=reads))
        elif dice < often + 0.2:
            for each in CORES:
                steps[each].append(Step("sync"))
        else:
            mode = int(random.choice(3, p=(0.2, 0.2, 0.6)))
            core = core if mode != 1 else ("aiv", core[1], 0)
            waiters = members(core, mode)
            second = random.random() < 0.6  # a flag is set by one pipe of a core only
            number = {0: 0, 1: 4, 2: 6}[mode] + 2 * (core[0] == "aic" and mode != 1) + second
            flag = int(number), mode
            for setter in members(waiters[0], mode):
                steps[setter].append(Step("set", flag=flag, pipe=PIPES[setter[0]][second]))
            late += [(waiter, Step("wait", flag=flag)) for waiter in waiters]
        while late and random.random() < 0.8:
            waiter, step = late.pop(0)
            steps[waiter].append(step)
    for waiter, step in late:
        steps[waiter].append(step)
    return steps


def before(steps):
    """Reachability among (core, number, "issue" or "done")."""
    edges = defaultdict(set)
    sets, waits = defaultdict(list), defaultdict(list)
    synced = defaultdict(list)
    for core, listed in steps.items():
        for i, step in enumerate(listed):
            issue, done = (core, i, "issue"), (core, i, "done")
            edges[issue].add(done)
            if i + 1 < len(listed):
                edges[issue].add((core, i + 1, "issue"))
            for j in range(i):
                earlier = listed[j]
                if step.what in ("barrier", "sync"):
                    edges[core, j, "done"].add(issue)
                if step.what in ("set", "then") and earlier.pipe == step.pipe:
                    edges[core, j, "done"].add(done)
                if earlier.what == "then" and earlier.to == step.pipe:
                    edges[core, j, "done"].add(done)
            if step.what == "set":
                sets[core, step.flag].append(done)
            if step.what == "wait":
                waits[core, step.flag].append(issue)
            if step.what == "sync":
                synced[core].append(i)
    for (core, flag), listed in waits.items():
        for number, issue in enumerate(listed):
            for setter in members(core, flag[1]):
                edges[sets[setter, flag][number]].add(issue)
    for one in CORES:
        for other in CORES:
            for i, j in zip(synced[one], synced[other], strict=True):
                if one != other:
                    edges[one, i, "issue"] |= {
                        (other, j, "done"), *([(other, j + 1, "issue")] if j + 1 < len(steps[other]) else [])
                    }  # fmt: skip
    return edges


def reached(edges, start):
    found, waiting = set(), [start]
    while waiting:
        for node in edges[waiting.pop()]:
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def races(steps):
    """Kinds of findings: "cores" for accesses of two cores that nothing orders, "race" for those of one."""
    edges, found = before(steps), set()
    touching = [
        (core, i, step)
        for core, listed in steps.items()
        for i, step in enumerate(listed)
        if step.what in ("read", "write", "sum")
    ]
    known = {(core, i): reached(edges, (core, i, "done")) for core, i, _ in touching}
    for at, (core, i, step) in enumerate(touching):
        for other, j, second in touching[:at]:
            kinds = {step.what, second.what}
            if step.place != second.place or kinds in ({"read"}, {"sum"}):
                continue
            if (other, j, "done") not in known[core, i] and (core, i, "done") not in known[other, j]:
                found.add("race" if core == other else "cores")
    return found


@asc.jit(mixed=True, together=True)
def program(z, steps):
    """What one core does, in the order of its list."""
    kind = "aic" if asc.ascend_is_aic() else "aiv"
    team = asc.get_block_idx() if kind == "aic" else asc.get_block_idx() // 2
    gm, f32, pos = asc.GlobalTensor(), asc.float32, asc.TPosition
    gm.set_global_buffer(z)
    source, target = (pos.CO1, pos.A1) if kind == "aic" else (pos.VECOUT, pos.VECIN)
    out = asc.LocalTensor(f32, source, 0, 256)
    for number, step in enumerate(steps[kind, team, asc.get_sub_block_idx()]):
        place = gm[step.place * LANES :]
        if step.what == "read":
            asc.data_copy(asc.LocalTensor(f32, target, 4096 + 256 * number, LANES), place, LANES)
        elif step.what in ("write", "sum"):
            if step.what == "sum":
                asc.set_atomic_add(f32)
            if kind == "aic":
                asc.fixpipe(place, out, asc.FixpipeParamsV220(16, 4, 16, 16))
            else:
                asc.data_copy(place, out, LANES)
            asc.set_atomic_none()
        elif step.what == "barrier":
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        elif step.what == "sync":
            asc.sync_all(is_aiv_only=False)
        elif step.what == "then":
            event = asc.HardEvent[f"{step.pipe}_{step.to}"]
            asc.set_flag(event, 0)
            asc.wait_flag(event, 0)
        elif step.what == "set":
            asc.cross_core_set_flag(*step.flag, asc.PipeID[f"PIPE_{step.pipe}"])
        else:
            asc.cross_core_wait_flag(*step.flag)


SEEDS = 1000 if os.environ.get("ASCENDSIM_LONG") else 60


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_races_are_those_of_the_graph(first):
    for seed in range(first, first + 20):
        steps = draw(np.random.default_rng(seed))
        if any(steps.values()):
            result = asim.run_kernel(program, TEAMS, np.zeros(PLACES * LANES, np.float32), steps)
            found = {one.kind for one in result.findings} & {"cores", "race", "left set"}
            assert found == races(steps), (seed, [str(one) for one in result.findings])


def test_programs_with_and_without_races_were_drawn():
    drawn = [races(draw(np.random.default_rng(seed))) for seed in range(100)]
    assert 25 <= sum("cores" in found for found in drawn) <= 75
    assert sum("race" in found for found in drawn) >= 5
