"""Sequence work: parts that run one after the other on the same cores, repeated (recurrent layers).

Where one kind of core runs all parts, they become one block program: the parts' bodies in a loop, and
between them a drain (the next part's loads wait until the stores before them are complete). What a part
leaves in the on-chip buffers is done with by then, so each part has them as a whole. Every turn of a
repeated sequence needs what all cores made before, so that the drain is a barrier of the cores there
(`issue.barrier_ns`). Without repeats cores are assumed to reach the end of a part together.

Where cube and vector cores are apart, they meet in global memory. A repeated sequence is still one task, of
both kinds of cores, which meet at a barrier after each part: so does CANN's DynamicRNN for the 910B (one
kernel, `dynamic_rnn_910b.cpp`; in `LstmFP16.cpp` every step is a product, SyncAll, the gates, SyncAll).
Without repeats every part is a task of its own, as are parts on the AI CPU; parts that teams of both kinds
of cores do are one task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import TypeAlias

from ascendsim.isa.instructions import (
    Allocation,
    Buffer,
    Flag,
    Img2Col,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, BlockGroup, CoreKind, TaskKind
from ascendsim.isa.walk import static
from ascendsim.lower.templates.stage import Stage

_Side: TypeAlias = tuple[list[tuple[int, Block]], int]  # a core's blocks by part, and how many cores
STEP = "step"  # variable of the loop over the turns of a repeated sequence
NO_CORES: Mapping[CoreKind, int] = MappingProxyType({})


def join_stages(
    stages: Sequence[Stage], repeat: int, cores: Mapping[CoreKind, int] = NO_CORES
) -> list[Stage]:
    """One stage out of several if their cores are of one kind or wait for one another, else the stages in
    order, `repeat` times.

    Without repeats neighbours on one kind of core are one stage even if others run elsewhere.

    Args:
        cores: Cores of each kind that can wait for one another at the end of a part.
    """
    kinds = {stage.core for stage in stages}
    if len(stages) == 1 and repeat == 1:
        return list(stages)
    if repeat == 1 and all(stage.kind is TaskKind.MIX_AIC for stage in stages):
        return [_teams_in_turn(stages)]
    together = None not in kinds and (repeat > 1 or len(kinds) == 1)
    sides = [side for kind in CoreKind for side in _side_by_side(stages, kind)] if together else []
    meet = repeat > 1 and len(sides) > 1 and _fit(sides, cores)  # equal blocks are in step anyway
    if not together or (len(kinds) > 1 and not meet):
        if repeat > 1:
            return list(stages) * repeat
        runs = [(core, list(run)) for core, run in groupby(stages, key=lambda stage: stage.core)]
        return [stage for core, run in runs for stage in (run if core is None else join_stages(run, 1))]
    sizes = _largest_sizes(stages)
    starters = [_all_starters(stage) for stage in stages] if meet else None
    groups = tuple(BlockGroup(_joined(blocks, repeat, starters), count) for blocks, count in sides)
    return [Stage(groups, stages[0].kind if len(kinds) == 1 else TaskKind.AI_CORE, sizes)]


def _teams_in_turn(stages: Sequence[Stage]) -> Stage:
    """Stages of teams of cube and vector cores as one: a team goes on to its next part by itself."""
    cubes, vectors = (
        [replace(stage, groups=tuple(g for g in stage.groups if g.block.core is kind)) for stage in stages]
        for kind in (CoreKind.CUBE, CoreKind.VECTOR)
    )
    each = vectors[0].groups[0].count // cubes[0].groups[0].count
    groups: list[BlockGroup] = []
    sides = zip(_side_by_side(cubes, CoreKind.CUBE), _side_by_side(vectors, CoreKind.VECTOR), strict=True)
    for number, ((cube, count), (vector, _)) in enumerate(sides):
        for blocks, cores in ((cube, count), (vector, count * each)):
            block = replace(_joined(blocks, 1, None), cross=blocks[0][1].cross)
            groups.append(BlockGroup(block, cores, number))
    inside = frozenset().union(*(stage.inside for stage in stages))
    return Stage(tuple(groups), TaskKind.MIX_AIC, _largest_sizes(stages), inside=inside)


def _largest_sizes(stages: Sequence[Stage]) -> dict[str, int]:
    """By region, what any of the stages can touch of it."""
    sizes: dict[str, int] = {}
    for stage in stages:
        for region, bytes in stage.sizes.items():
            sizes[region] = max(bytes, sizes.get(region, 0))
    return sizes


def _fit(sides: Sequence[_Side], cores: Mapping[CoreKind, int]) -> bool:
    """Whether all blocks run at the same time: else they cannot wait for one another."""
    wanted: dict[CoreKind, int] = {}
    for blocks, count in sides:
        wanted[blocks[0][1].core] = wanted.get(blocks[0][1].core, 0) + count
    return all(count <= cores.get(kind, 0) for kind, count in wanted.items())


def _side_by_side(stages: Sequence[Stage], kind: CoreKind) -> Iterator[_Side]:
    """Core by core of a kind, the blocks of all stages with the stage's number; equal neighbours as one."""
    ends = {0}
    runs: list[list[tuple[int, int, Block]]] = []
    for stage in stages:
        at, run = 0, []
        for group in stage.groups if stage.core is kind else ():
            run.append((at, at + group.count, group.block))
            at += group.count
            ends.add(at)
        runs.append(run)
    for first, end in pairwise(sorted(ends)):
        yield (
            [
                (part, block)
                for part, run in enumerate(runs)
                for start, stop, block in run
                if start <= first < stop
            ],
            end - first,
        )


def _joined(
    blocks: Sequence[tuple[int, Block]],
    repeat: int,
    starters: Sequence[Sequence[tuple[Pipe, CoreKind | None]]] | None,
) -> Block:
    """The blocks' bodies one after the other, drained in between, in a loop.

    Args:
        blocks: What one core does, with the number of the part.
        starters: By part, the pipes that begin it on any core, with its kind, if cores wait for one another
            after each part.
    """
    body: list[Statement] = []
    allocations: list[Allocation] = []
    flags: list[Flag] = []
    core = blocks[0][1].core
    store = Pipe.FIX if core is CoreKind.CUBE else Pipe.MTE3
    drains: dict[Pipe, Flag] = {}
    own = dict(blocks)
    parts = list(own) if starters is None else list(range(len(starters)))
    for place, number in enumerate(parts):
        block, following = own.get(number), parts[(place + 1) % len(parts)]
        if block is not None:
            prefix = f"p{number}_"
            body.extend(_renamed(block.body, prefix, {flag.name for flag in block.flags}))
            allocations.extend(
                replace(allocation, name=prefix + allocation.name, part=number)
                for allocation in block.allocations
            )
            flags.extend(replace(flag, name=prefix + flag.name) for flag in block.flags)
        if place < len(parts) - 1 or repeat > 1:
            begin = (
                [(p, core) for p in _starters(own[following])] if starters is None else starters[following]
            )
            for pipe, kind in begin:
                # a core of another kind lacks the pipe, and does nothing in that part: any pipe can wait
                waits, shared = pipe if kind is core else Pipe.MTE2, starters is not None
                drain = drains.setdefault(pipe, Flag(f"drained_{pipe.value}", store, waits, 0, 1, shared))
                body += [SetFlag(store, drain.name), WaitFlag(waits, drain.name)]
    whole = (Loop(STEP, repeat, tuple(body)),) if repeat > 1 else tuple(body)
    return Block(whole, tuple(allocations), (*flags, *drains.values()), core)


def _all_starters(stage: Stage) -> list[tuple[Pipe, CoreKind | None]]:
    return list(
        dict.fromkeys((pipe, stage.core) for group in stage.groups for pipe in _starters(group.block))
    )


def _starters(block: Block) -> list[Pipe]:
    """Pipes that work on buffers before another pipe of the block tells them to: those that load, or make
    values of nothing.
    """
    signals = {flag.name for flag in block.flags if not flag.initial}
    told: set[Pipe] = {Pipe.S}  # which counts and works out addresses, or waits for what it reads
    starters: list[Pipe] = []
    for item, _ in static(block.body):
        if item.pipe in told:
            continue
        if isinstance(item, WaitFlag):
            told |= {item.pipe} if item.flag in signals else set()
        elif not isinstance(item, SetFlag):
            told.add(item.pipe)
            starters.append(item.pipe)
    return starters


def _renamed(body: Iterable[Statement], prefix: str, flags: Collection[str]) -> Iterator[Statement]:
    """The statements with buffers and flags of a part; flags between cores are those of all parts."""

    def name(operand: Operand) -> Operand:
        return operand if operand.buffer is Buffer.GM else replace(operand, name=prefix + operand.name)

    for item in body:
        match item:
            case Loop():
                yield Loop(item.variable, item.trips, tuple(_renamed(item.body, prefix, flags)))
            case Move() | Img2Col():
                yield replace(item, dst=name(item.dst), src=name(item.src))
            case Mmad():
                bias = None if item.bias is None else name(item.bias)
                yield replace(item, dst=name(item.dst), a=name(item.a), b=name(item.b), bias=bias)
            case Vector():
                yield replace(item, dst=name(item.dst), srcs=tuple(name(source) for source in item.srcs))
            case Scalar():
                dsts, srcs = (tuple(name(operand) for operand in side) for side in (item.dsts, item.srcs))
                yield replace(item, dsts=dsts, srcs=srcs)
            case SetFlag() | WaitFlag():
                yield replace(item, flag=prefix + item.flag) if item.flag in flags else item
