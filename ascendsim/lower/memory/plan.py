"""The plan of device memory: lives from the uses of tasks, pieces that share bytes, offsets.

A piece lives from the first to the last task that uses it (inclusive, so that a task's outputs never overlap
its inputs, but for results that the operator may write in place). Graph inputs and outputs live for the whole
run, weights lie behind the arena of all others, equal ones once. A region that is another name of a tensor
(reshape), or a slice of one (parts of a Concat that are written in place), shares its bytes and prolongs its
life.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import REGION_BYTES, Format, align
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Region
from ascendsim.lower.memory.arrange import apart, best_fit, first_fit
from ascendsim.lower.memory.draft import Draft
from ascendsim.lower.memory.in_place import Takeover
from ascendsim.lower.memory.order import TaskOrder
from ascendsim.lower.memory.pieces import Board
from ascendsim.lower.memory.weights import equal_weights


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """How memory is planned.

    Attributes:
        reuse: Whether tensors whose lives are apart may share bytes (ATC's `--disable_reuse_memory` turns it
            off).
        online: Memory is given out in the order of execution, as an allocator does that knows nothing of what
            comes.
    """

    reuse: bool = True
    online: bool = False


def plan_memory(
    graph: Graph,
    uses: Sequence[Iterable[str]],
    aliases: Mapping[str, str],
    workspaces: Mapping[str, int],
    *,
    cuts: Mapping[str, tuple[int, int]] | None = None,
    internal: Collection[str] = (),
    order: TaskOrder | None = None,
    takeovers: Iterable[Takeover] = (),
    options: MemoryOptions | None = None,
) -> MemoryPlan:
    """Places every tensor and workspace.

    Args:
        graph: The compiled graph.
        uses: By task id: names of all regions that the task's node (or program) reads or writes.
        aliases: Name of a tensor -> name of the tensor whose memory it is.
        workspaces: Bytes of scratch regions by name.
        cuts: Aliases that are slices: logical axis, and index of the first element along it.
        internal: Tensors that never leave the Unified Buffer of a fused task: they get no memory.
        order: Which task happens before which; one stream by default.
        takeovers: Results that operators may write where an input lies, in the order of tasks.
        options: How to plan.
    """
    options, cuts = options or MemoryOptions(), cuts or {}
    order = order or TaskOrder.single(len(uses))
    draft = Draft(graph, uses, aliases, workspaces, internal)
    if options.reuse and not options.online:
        draft.take_over(takeovers, order)
    board = Board(draft.pieces(), order)
    planner = first_fit if options.online else best_fit
    places, peak = planner(board) if options.reuse else apart(board)
    offsets = {piece.name: int(offset) for piece, offset in zip(board.pieces, places, strict=True)}
    same = equal_weights(graph.tensors[name] for name in draft.weights) if options.reuse else {}
    at = peak
    for name in draft.weights:
        if name not in same:
            offsets[name] = at
            at += align(draft.bytes[name], REGION_BYTES)
    shared = {**aliases, **same}

    def address(name: str) -> int:
        if name in shared:
            inside = slice_offset(graph.tensors[aliases[name]], *cuts[name]) if name in cuts else 0
            return address(shared[name]) + inside
        return offsets[draft.place_of(name)]

    own = Board(draft.own_pieces(), order) if draft.taken else board
    spans = {
        piece.name: span
        for piece, *span in zip(own.pieces, *(ends.tolist() for ends in own.spans), strict=True)
    }
    everything = [0, max(0, len(uses) - 1)]
    regions: dict[str, Region] = {}
    for name, bytes in draft.sizes.items():
        first, last = spans.get(draft.root(name), everything)
        size = bytes if name in aliases else draft.bytes[name]
        over = draft.taken.get(name)
        regions[name] = Region(
            name, address(name), size, draft.kinds[name], shared.get(name), first, last, cuts.get(name), over
        )
    return MemoryPlan(regions, peak, at - peak)


def slice_offset(whole: Tensor, axis: int, first: int) -> int:
    """Bytes from the start of a tensor to the first element of a slice; slices of NC1HWC0 along channels
    start at a block.

    Raises:
        CompileError: If the format does not store slices along the axis in one piece an outer index.
    """
    stored, itemsize = whole.storage_shape, whole.element_type.itemsize
    stacked = whole.format is Format.NC1HWC0 or (whole.format is Format.FRACTAL_NZ and len(stored) > 4)
    if axis == 0 and stacked:
        return first * math.prod(stored[1:]) * itemsize
    if whole.format is Format.NC1HWC0 and axis == 1:
        block = stored[-1]
        if first % block == 0:
            return first // block * math.prod(stored[2:]) * itemsize
    elif whole.format in (Format.ND, Format.NCHW):
        return first * math.prod(stored[axis + 1 :]) * itemsize
    raise CompileError(
        f"tensor {whole.name!r}",
        f"cannot be cut along axis {axis} at {first} in {whole.format.value}",
        remedy="please report this",
    )
