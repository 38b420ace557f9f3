"""Attention as one task of a split chip: each cube core in a team with its vector cores.

Row blocks (queries of a head) go to teams; a unit is a row block by one block of keys:

    cube      before(0)  before(1)  after(0)  before(2)  after(1) ...
    vector               scores(0)  scores(1)  join(0)   scores(2)  join(1) ...

`before`: FIXPIPE stores products in scratch memory, where the vector cores fetch them, each its half of the
rows; they store the Cube's next operands there. Scratch memory is small and stays in L2. Who is far enough is
told by flags between the cores (mode 2). Units of one kind follow each other in a loop, whatever row block
they belong to: their times are equal, and what a team has in all decides its time.

Teams get row blocks by the keys that they see: the longest first, to the team that has least (CANN's kernel
balances causal masks by the same sum).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import FRACTAL_ROWS, align, ceil_div
from ascendsim.isa.instructions import Scalar
from ascendsim.isa.program import Block, BlockGroup, CoreKind, TaskKind
from ascendsim.lower.emit import BlockBuilder
from ascendsim.lower.templates.attention_cube import AttentionCube
from ascendsim.lower.templates.attention_units import Unit, cross_flags
from ascendsim.lower.templates.attention_vector import AttentionVector
from ascendsim.lower.templates.stage import Stage, sizes_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.attention import AttentionWork, EqualHeads
from ascendsim.opset.regions import refs_of
from ascendsim.soc.spec import SocSpec

Run = list[tuple[Unit, int]]  # kinds of units, and how many of each


def lower_attention(work: AttentionWork, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of the work.

    Raises:
        CompileError: If cube and vector cores of the chip are not apart: CANN has no such kernel there.
    """
    if not soc.split_cores or not soc.ai_cores or soc.vector_cores < soc.ai_cores:
        raise CompileError(
            "attention as one kernel",
            "runs on chips whose cube and vector cores are apart",
            soc.name,
            'write it as its formula (attention="formula" of the PyTorch front end), or take an Ascend910B',
        )
    each = min(2, soc.vector_cores // soc.ai_cores)
    shares = _shares(work, soc.ai_cores)
    teams = sum(shares.values())
    groups: list[BlockGroup] = []
    for number, (share, count) in enumerate(shares.items()):
        run = list(share)
        groups.append(BlockGroup(_cube(work, soc, run), count, number))
        groups.append(
            BlockGroup(_vector(work, soc, expansion, run, each, teams * each), count * each, number)
        )
    return Stage(tuple(groups), TaskKind.MIX_AIC, sizes_of(*refs_of(work)))


def units_of(work: AttentionWork, heads: EqualHeads, first: int) -> Iterator[Unit]:
    """Units of a row block of a head, in order; `first` is its first row."""
    group = heads.group
    rows = min(work.rows, heads.queries * group - first)
    query, end = first // group, ceil_div(first + rows, group)
    start, stop_at = heads.band.columns(query, end - query, heads.keys)
    start = start // FRACTAL_ROWS * FRACTAL_ROWS
    for column in range(start, stop_at, work.columns):
        stop = min(stop_at if work.trimmed else heads.keys, column + work.columns)
        cut = not heads.band.covers(query, end - query, range(column, stop))
        masked = bool(work.masks) and (work.masked or cut)
        yield Unit(rows, align(stop - column, FRACTAL_ROWS), masked, column == start, stop >= stop_at)


def _shares(work: AttentionWork, cores: int) -> dict[tuple[tuple[Unit, int], ...], int]:
    """What teams have, and how many have the same."""
    blocks: Counter[tuple[Unit, ...]] = Counter()
    for heads in work.heads:
        for first in range(0, heads.queries * heads.group, work.rows):
            blocks[tuple(units_of(work, heads, first))] += heads.count
    items = [
        (sum(unit.rows * unit.columns for unit in units), units, count)
        for units, count in blocks.items()
        if units
    ]
    teams = max(1, min(cores, sum(count for _, _, count in items)))
    loads = [(0, team) for team in range(teams)]
    owned: list[Counter[Unit]] = [Counter() for _ in range(teams)]
    for load, units, count in sorted(items, key=lambda item: -item[0]):
        for _ in range(count):
            least, team = heapq.heappop(loads)
            owned[team].update(units)
            heapq.heappush(loads, (least + load, team))
    found: Counter[tuple[tuple[Unit, int], ...]] = Counter()
    for own in owned:
        found[tuple(sorted(own.items(), reverse=True))] += 1
    return dict(found)


def _in_turn(
    b: BlockBuilder, run: Run, begin: Callable[[Unit], None], finish: Callable[[Unit], None]
) -> None:
    """Every unit begins before the one in front of it is finished."""
    previous: Unit | None = None
    for unit, count in run:
        begin(unit)
        if previous is not None:
            finish(previous)
        if count > 1:
            with b.loop("unit", count - 1):
                begin(unit)
                finish(unit)
        previous = unit
    if previous is not None:
        finish(previous)


def _start(b: BlockBuilder, work: AttentionWork) -> None:
    """What a core of a kernel of inference does first."""
    frequency = b.soc.vector_frequency_mhz if b.core is CoreKind.VECTOR else b.soc.frequency_mhz
    cycles = round(b.soc.kernels.attention_start_ns * frequency / 1000) if work.started else 0
    if cycles:
        b.emit(Scalar(cycles, "tiling and code"))


def _cube(work: AttentionWork, soc: SocSpec, run: Run) -> Block:
    b = BlockBuilder(soc, CoreKind.CUBE)
    _start(b, work)
    side = AttentionCube(b, work)
    side.begin()
    _in_turn(b, run, side.before, side.after)
    side.end()
    return replace(b.build(), cross=cross_flags(work, CoreKind.CUBE))


def _vector(
    work: AttentionWork, soc: SocSpec, expansion: Expansion, run: Run, each: int, cores: int
) -> Block:
    b = BlockBuilder(soc, CoreKind.VECTOR)
    _start(b, work)
    side = AttentionVector(b, work, expansion, each, cores)
    side.begin()
    _in_turn(b, run, side.scores, side.join)
    side.end()
    return replace(b.build(), cross=cross_flags(work, CoreKind.VECTOR))
