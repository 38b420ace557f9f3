"""What a memory plan comes to: its peak against the largest live set, against GE's assigners, and what equal
weights save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Program
from ascendsim.lower.memory.arrange import apart, first_fit
from ascendsim.lower.memory.blocks import assign_blocks, binary_classes, max_classes
from ascendsim.lower.memory.draft import Draft
from ascendsim.lower.memory.order import TaskOrder
from ascendsim.lower.memory.pieces import Board


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """A memory plan in numbers, in bytes.

    Attributes:
        peak: Of the plan: inputs, outputs, activations, workspaces.
        lower_bound: The largest live set, results in place counted once: no plan can do with less.
        in_place: Bytes of results that lie where an input lay.
        planners: What others come to on the same tensors, none of them in place: "binary-block", "max-block"
            and the smaller of them, which GE takes; "first fit" (an allocator that does not know what comes),
            "no reuse".
        weights: Bytes of weights on the device.
        saved_weights: Bytes that equal weights would have taken too.
        live: By task: bytes alive while it runs.
    """

    peak: int
    lower_bound: int
    in_place: int
    planners: Mapping[str, int]
    weights: int
    saved_weights: int
    live: tuple[int, ...]


def memory_figures(graph: Graph, program: Program) -> MemoryFigures:
    """Works out the figures of a program's memory plan."""
    regions = program.memory.regions
    aliases = {name: region.alias_of for name, region in regions.items() if region.alias_of is not None}
    workspaces = {name: region.bytes for name, region in regions.items() if region.kind == "workspace"}
    internal = [name for name in graph.tensors if name not in regions]
    draft = Draft(graph, _uses(graph, program), aliases, workspaces, internal)
    order = TaskOrder.of(program.tasks)
    own = Board(draft.own_pieces(), order)
    sizes = own.sizes.tolist()
    binary, largest = (assign_blocks(own, classes(sizes))[1] for classes in (binary_classes, max_classes))
    planners = {
        "GE: smaller of the two": min(binary, largest),
        "binary-block": binary,
        "max-block": largest,
        "first fit": first_fit(own)[1],
        "no reuse": apart(own)[1],
    }
    draft.taken.update(
        (name, region.in_place_of) for name, region in regions.items() if region.in_place_of is not None
    )
    board = Board(draft.pieces(), order)
    shared = sum(
        align(region.bytes, REGION_BYTES)
        for region in regions.values()
        if region.kind == "weight" and region.alias_of is not None
    )
    return MemoryFigures(
        peak=program.memory.peak_bytes,
        lower_bound=board.lower_bound(),
        in_place=sum(align(draft.bytes[name], REGION_BYTES) for name in draft.taken),
        planners=planners,
        weights=program.memory.weight_bytes,
        saved_weights=shared,
        live=tuple(board.live_bytes().tolist()),
    )


def _uses(graph: Graph, program: Program) -> list[list[str]]:
    """By task: regions that it or its nodes touch."""
    regions = program.memory.regions
    uses = []
    for task in program.tasks:
        tensors = (
            tensor for name in task.nodes for tensor in (*graph.node(name).inputs, *graph.node(name).outputs)
        )
        names = [
            *(tensor.name for tensor in tensors if tensor is not None),
            *(access.region for access in task.accesses),
        ]
        uses.append([name for name in dict.fromkeys(names) if name in regions])
    return uses
