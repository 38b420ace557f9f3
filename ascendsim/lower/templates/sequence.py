"""Sequence work: parts that run one after the other on the same cores, repeated (recurrent layers).

Where one kind of core runs all parts, they become one block program: the parts' bodies in a loop, and between
them a drain (the next part's loads wait until the stores before them are complete). What a part leaves in the
on-chip buffers is done with by then, so each part has them as a whole. Every turn of a repeated sequence needs
what all cores made before, so that the drain is a barrier of the cores there, at the price of a flag (that of
the chip's cross-core barrier is not published). Without repeats cores are assumed to reach the end of a part
together. Where cube and vector cores are apart,
they meet in global memory, and every part is a task of its own, as are parts on the AI CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

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
from ascendsim.isa.program import Block, BlockGroup, CoreKind
from ascendsim.isa.walk import static
from ascendsim.lower.templates.stage import Stage


def join_stages(stages: Sequence[Stage], repeat: int, cores: int = 0) -> list[Stage]:
    """One stage out of several if their cores are of one kind, else the stages in order, `repeat` times.

    Without repeats neighbours on one kind of core are one stage even if others run elsewhere.

    Args:
        cores: Cores that can wait for one another at the end of a part.
    """
    kinds = {stage.core for stage in stages}
    if len(stages) == 1 and repeat == 1:
        return list(stages)
    if None in kinds or len(kinds) != 1:
        if repeat > 1:
            return list(stages) * repeat
        runs = [(core, list(run)) for core, run in groupby(stages, key=lambda stage: stage.core)]
        return [stage for core, run in runs for stage in (run if core is None else join_stages(run, 1))]
    sizes: dict[str, int] = {}
    for stage in stages:
        for region, bytes in stage.sizes.items():
            sizes[region] = max(bytes, sizes.get(region, 0))
    sides = list(_side_by_side(stages))
    # equal blocks are in step anyway; blocks that do not run at the same time cannot wait for one another
    meet = repeat > 1 and len(sides) > 1 and sum(count for _, count in sides) <= cores
    starters = [_all_starters(stage) for stage in stages] if meet else None
    groups = tuple(BlockGroup(_joined(blocks, repeat, starters), count) for blocks, count in sides)
    return [Stage(groups, stages[0].kind, sizes)]


def _side_by_side(stages: Sequence[Stage]) -> Iterator[tuple[list[tuple[int, Block]], int]]:
    """Core by core, the blocks of all stages with the stage's number; equal neighbours as one."""
    ends = {0}
    runs: list[list[tuple[int, int, Block]]] = []
    for stage in stages:
        at, run = 0, []
        for group in stage.groups:
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
    blocks: Sequence[tuple[int, Block]], repeat: int, starters: Sequence[Sequence[Pipe]] | None
) -> Block:
    """The blocks' bodies one after the other, drained in between, in a loop.

    Args:
        blocks: What one core does, with the number of the part.
        starters: By part, the pipes that begin it on any core, if cores wait for one another after each part.
    """
    body: list[Statement] = []
    allocations: list[Allocation] = []
    flags: list[Flag] = []
    store = Pipe.FIX if blocks[0][1].core is CoreKind.CUBE else Pipe.MTE3
    drains: dict[Pipe, Flag] = {}
    own = dict(blocks)
    parts = list(own) if starters is None else list(range(len(starters)))
    for place, number in enumerate(parts):
        block, following = own.get(number), parts[(place + 1) % len(parts)]
        if block is not None:
            prefix = f"p{number}_"
            body.extend(_renamed(block.body, prefix))
            allocations.extend(
                replace(allocation, name=prefix + allocation.name, part=number)
                for allocation in block.allocations
            )
            flags.extend(replace(flag, name=prefix + flag.name) for flag in block.flags)
        if place < len(parts) - 1 or repeat > 1:
            for pipe in _starters(own[following]) if starters is None else starters[following]:
                name, shared = f"drained_{pipe.value}", starters is not None
                drain = drains.setdefault(pipe, Flag(name, store, pipe, 0, 1, shared))
                body += [SetFlag(store, drain.name), WaitFlag(pipe, drain.name)]
    whole = (Loop("step", repeat, tuple(body)),) if repeat > 1 else tuple(body)
    return Block(whole, tuple(allocations), (*flags, *drains.values()), blocks[0][1].core)


def _all_starters(stage: Stage) -> list[Pipe]:
    return list(dict.fromkeys(pipe for group in stage.groups for pipe in _starters(group.block)))


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


def _renamed(body: Iterable[Statement], prefix: str) -> Iterator[Statement]:
    def name(operand: Operand) -> Operand:
        return operand if operand.buffer is Buffer.GM else replace(operand, name=prefix + operand.name)

    for item in body:
        match item:
            case Loop():
                yield Loop(item.variable, item.trips, tuple(_renamed(item.body, prefix)))
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
                yield replace(item, flag=prefix + item.flag)
