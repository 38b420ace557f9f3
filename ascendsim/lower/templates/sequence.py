"""Sequence work: parts that run one after the other on the same cores, repeated (recurrent layers).

Where one kind of core runs all parts, they become one block program: the parts' bodies in a loop, and between them a drain (the
next part's loads wait until the stores before them are complete). Every part has a piece of the on-chip buffers of its own. Cores
are assumed to reach the end of a part together; the chip's cross-core barrier has no published cost. Where cube and vector cores
are apart, they meet in global memory, and every part is a task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ascendsim.isa.capacity import capacity
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
from ascendsim.lower.templates.stage import Stage
from ascendsim.soc.spec import SocSpec

GRAIN = 512  # bytes; a fractal


def buffers_for(soc: SocSpec, parts: int) -> SocSpec:
    """The chip as one of several parts sees it: its piece of each buffer, in whole fractals."""

    def piece(size: int | None) -> int | None:
        return None if size is None else size // parts // GRAIN * GRAIN or size

    buffers = soc.buffers
    smaller = replace(
        buffers, l0a=piece(buffers.l0a), l0b=piece(buffers.l0b), l0c=piece(buffers.l0c), l1=piece(buffers.l1), ub=piece(buffers.ub)
    )
    return replace(soc, buffers=smaller)


def moved_to_piece(block: Block, part: int, pieces_soc: SocSpec) -> tuple[Allocation, ...]:
    """The allocations of a part, in its piece of the buffers."""
    return tuple(
        replace(allocation, offset=allocation.offset + part * capacity(pieces_soc, allocation.buffer)) for allocation in block.allocations
    )


def join_stages(stages: Sequence[Stage], repeat: int, pieces_soc: SocSpec) -> list[Stage]:
    """One stage out of several if their cores are of one kind, else the stages in order, `repeat` times."""
    kinds = {group.block.core for stage in stages for group in stage.groups}
    if len(stages) == 1 and repeat == 1:
        return list(stages)
    if len(kinds) != 1:
        return [stage for _ in range(repeat) for stage in stages]
    sizes: dict[str, int] = {}
    for stage in stages:
        for region, bytes in stage.sizes.items():
            sizes[region] = max(bytes, sizes.get(region, 0))
    groups = tuple(BlockGroup(_joined(blocks, repeat, pieces_soc), count) for blocks, count in _side_by_side(stages))
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
        yield [(part, block) for part, run in enumerate(runs) for start, stop, block in run if start <= first < stop], end - first


def _joined(blocks: Sequence[tuple[int, Block]], repeat: int, pieces_soc: SocSpec) -> Block:
    """The blocks' bodies one after the other, drained in between, in a loop."""
    body: list[Statement] = []
    allocations: list[Allocation] = []
    flags: list[Flag] = []
    store = Pipe.FIX if blocks[0][1].core is CoreKind.CUBE else Pipe.MTE3
    drain = Flag("drained", store, Pipe.MTE2, 0, 1)
    for number, block in blocks:
        prefix = f"p{number}_"
        body.extend(_renamed(block.body, prefix))
        if repeat > 1 or number < blocks[-1][0]:
            body += [SetFlag(store, drain.name), WaitFlag(Pipe.MTE2, drain.name)]
        allocations.extend(replace(allocation, name=prefix + allocation.name) for allocation in moved_to_piece(block, number, pieces_soc))
        flags.extend(replace(flag, name=prefix + flag.name) for flag in block.flags)
    whole = (Loop("step", repeat, tuple(body)),) if repeat > 1 else tuple(body)
    return Block(whole, tuple(allocations), (*flags, drain), blocks[0][1].core)


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
