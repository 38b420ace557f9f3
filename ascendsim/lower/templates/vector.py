"""Blocks of vector work: the shares of the cores, and who writes their programs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil

from ascendsim.core.errors import CompileError
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import Buffer
from ascendsim.isa.program import BlockGroup
from ascendsim.lower.templates.maps import MapWriter
from ascendsim.lower.templates.planes import PlaneWriter
from ascendsim.lower.templates.row_writer import RowWriter
from ascendsim.lower.templates.searching import SearchWriter, searched_share
from ascendsim.lower.templates.sharing import Space, share_of, space_of
from ascendsim.lower.templates.stage import (
    Stage,
    fetch_code,
    share_groups,
    share_origins,
    sizes_of,
    vector_core,
    work_out_tiling,
)
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.turns import TurnWriter, share_of_blocks
from ascendsim.lower.templates.vector_notes import AXES
from ascendsim.lower.templates.vector_writer import VectorWriter
from ascendsim.lower.templates.windows import WindowWriter
from ascendsim.opset.work import Step, VectorWork
from ascendsim.soc.spec import SocSpec


def lower_vector(work: VectorWork, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of vector work.

    Raises:
        CompileError: If an intrinsic is unknown or not even one row piece fits into UB.
    """
    work = in_parts(work, soc)
    if work.windows is not None:
        with suppress(CompileError):  # not even a row of the result fits into UB with what it is made of
            return _stage(work, soc, expansion)
        work = replace(work, windows=None)
    return _stage(work, soc, expansion)


def _stage(work: VectorWork, soc: SocSpec, expansion: Expansion) -> Stage:
    core, kind = vector_core(soc)
    if soc.split_cores:  # how such kernels go through maps there is not known
        work = replace(work, maps=None)
    space = space_of(work)
    steps = expansion.expand(work.steps)
    share_rows, share_cols = _share(work, space, steps, soc)
    writer: Callable[..., VectorWriter] = PlaneWriter if work.planes else VectorWriter
    if work.in_turn and work.reduces == "cols":
        writer = RowWriter
    if work.maps is not None:
        writer = MapWriter
    if work.search is not None:
        writer = SearchWriter
    if work.reduces == "none" and work.blocks > (0 if work.in_turn else soc.vector_units):
        writer = TurnWriter
    if work.windows is not None:
        writer = partial(WindowWriter, share=share_rows)
    groups = []
    axes = [(space.rows, share_rows), (space.cols, share_cols)]
    shares = list(share_groups(axes))
    for (rows, cols), count in shares:
        builder = expansion.builder(core)
        if work.own_tiling:
            work_out_tiling(builder, 0 if work.code_at_hand else sum(count for _, count in shares))
        if work.long_code:
            fetch_code(builder, sum(count for _, count in shares))
        groups.append(BlockGroup(writer(builder, work, space, steps, rows, cols).write(), count))
    idle = soc.vector_units - sum(count for _, count in shares)
    if expansion.noted:
        named = [(name, *axis) for name, axis in zip(AXES, axes, strict=True)]
        groups = [replace(one, origins=at) for one, at in zip(groups, share_origins(named), strict=True)]
    if work.cores == "all" and idle > 0:
        groups.append(BlockGroup(expansion.builder(core).build(), idle))
    return Stage(tuple(groups), kind, sizes_of(*(stream.ref for stream in (*work.inputs, *work.outputs))))


def _share(work: VectorWork, space: Space, steps: tuple[Step, ...], soc: SocSpec) -> tuple[int, int]:
    """Rows and columns of one core's share."""
    if work.search is not None:
        return searched_share(work.search, steps[-1], soc)
    if work.blocks:
        return share_of_blocks(space.rows, work.blocks, soc), space.cols
    return share_of(work, space, steps, soc)


def in_parts(work: VectorWork, soc: SocSpec) -> VectorWork:
    """The work with each element as several if what a single one is made of fills UB (a resize to very few
    points): they are partial results then, each from a part of the inputs.
    """
    elements, room = work.rows * work.cols, capacity(soc, Buffer.UB) / 4
    each = sum(stream.ref.bytes / elements for stream in work.inputs if stream.over == "all")
    if work.reduces != "none" or each <= room:
        return work
    return replace(work, cols=work.cols * ceil(each / room), windows=None)
