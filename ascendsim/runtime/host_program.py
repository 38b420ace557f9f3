"""The steps of a host run as one program, so that the machine runs them on one timeline.

Every task appears as often as it ran, under the name `<node>/<branch>/<task>`; its blocks are those of the
compiled piece with other names of regions (`isa.program.RenamedBlock`), so repeated iterations cost the
machine a look-up. What pieces hand to each other lies in buffers of its own in front of one arena that all
pieces share, since one runs at a time; constants that several pieces use lie there once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.program import (
    Access,
    BlockGroup,
    MemoryPlan,
    Program,
    ProgramInfo,
    Region,
    RenamedBlock,
    Task,
    owner_of,
)
from ascendsim.runtime.host_run import Step
from ascendsim.runtime.pieces import Piece


@dataclass(slots=True)
class _Timeline:
    """What is built up step by step: tasks, the buffers between pieces, and the graph of all that ran."""

    graph: Graph
    tasks: list[Task] = field(default_factory=list)
    buffers: dict[str, int] = field(default_factory=dict)  # bytes by name
    arena: int = 0
    weights: dict[str, int] = field(default_factory=dict)  # bytes by name
    weight_names: dict[Hashable, str] = field(default_factory=dict)  # by content, bytes and format
    digests: dict[int, bytes] = field(default_factory=dict)  # of values, by identity of the constant
    # region of a piece, name of what it shares bytes with
    inner: dict[str, tuple[Region, str | None]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)  # names of regions
    homes: dict[str, str] = field(default_factory=dict)  # names of buffers as regions
    names: dict[tuple[Piece, str], str] = field(default_factory=dict)  # names of a piece's regions
    nodes: dict[Piece, dict[str, str]] = field(default_factory=dict)
    bindings: dict[tuple[Piece, tuple[str, ...], tuple[str, ...]], tuple[Task, ...]] = field(
        default_factory=dict
    )
    last: dict[int, int] = field(default_factory=dict)  # last task by stream
    placed: dict[str, None] = field(default_factory=dict)  # as in ProgramInfo
    kept: dict[str, None] = field(default_factory=dict)
    engines: dict[str, str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """A name that no other region has, this one if it is free."""
        free, number = name, 1
        while free in self.taken:
            number += 1
            free = f"{name}~{number}"
        self.taken.add(free)
        return free

    def home(self, name: str) -> str:
        """The region of a buffer."""
        if name not in self.homes:
            self.homes[name] = self.fresh(name)
        return self.homes[name]

    def region(self, piece: Piece, name: str) -> str:
        """The region that a piece calls so."""
        if (piece, name) not in self.names:
            self.names[(piece, name)] = self.fresh(piece.prefix + name)
        return self.names[(piece, name)]


def timeline(
    steps: Iterable[Step], name: str, soc: str, mode: str, ends: Mapping[str, str], least: int = 0
) -> tuple[Graph, Program]:
    """One graph and one program for all that ran.

    Args:
        steps: In the order in which they ran.
        name: Of the model.
        soc: Name of the chip.
        mode: Who launches tasks: "sink" or "host".
        ends: Kind ("input", "output") of the buffers that are the model's own.
        least: Bytes of memory for all but constants that are there in any case.

    Returns:
        A graph with every node that ran, each once, and the program; its tasks have the names of these nodes.
    """
    made = _Timeline(Graph(name))
    looks = decisions = 0
    for step in steps:
        looks, decisions = looks + step.looks, decisions + step.decisions
        key = (step.piece, step.sources, step.results)
        tasks = made.bindings.get(key)
        if tasks is None:
            tasks = made.bindings[key] = _bind(made, step)
        if not tasks:
            continue
        _append(made, tasks, looks if mode != "sink" else 0, decisions if mode == "sink" else 0)
        looks = decisions = 0
    plan = _memory(made, ends, least)
    numbers: dict[str, list[int]] = {}
    for task in made.tasks:
        for node in task.nodes:
            numbers.setdefault(node, []).append(task.id)
    tasks_of = {node: tuple(ids) for node, ids in numbers.items()}
    placed, kept = tuple(made.placed), tuple(made.kept)
    info = ProgramInfo(soc, name, tasks_of, made.engines, l2_placed=placed, l2_kept=kept)
    return made.graph, Program(tuple(made.tasks), plan, mode, info)


def _append(made: _Timeline, tasks: Sequence[Task], looks: int, decisions: int) -> None:
    """Adds one execution of a piece: after all before it, whatever their streams."""
    first = len(made.tasks)
    before = dict(made.last)
    seen: set[int] = set()
    for number, task in enumerate(tasks):
        waits = tuple(first + other for other in task.waits_for)
        if task.stream not in seen:
            seen.add(task.stream)
            waits += tuple(last for stream, last in before.items() if stream != task.stream)
        made.last[task.stream] = first + number
        made.tasks.append(
            replace(
                task,
                id=first + number,
                waits_for=waits,
                read_backs=looks if number == 0 else 0,
                decisions=decisions if number == 0 else 0,
            )
        )


def _bind(made: _Timeline, step: Step) -> tuple[Task, ...]:
    """The tasks of a piece with its inputs and outputs in given buffers, numbered from 0."""
    piece = step.piece
    if piece not in made.nodes:
        made.nodes[piece] = _add_nodes(made, piece)
    names = _region_names(made, step)
    nodes = made.nodes[piece]
    numbers = {task.id: number for number, task in enumerate(piece.compiled.program.tasks)}
    info = piece.compiled.program.info
    for found, regions in ((made.placed, info.l2_placed), (made.kept, info.l2_kept)):
        found.update((names[region], None) for region in regions)
    return tuple(
        replace(
            task,
            id=numbers[task.id],
            name=nodes.get(task.name, piece.prefix + task.name),
            fused=tuple(nodes[node] for node in task.fused),
            waits_for=tuple(numbers[other] for other in task.waits_for),
            groups=tuple(BlockGroup(RenamedBlock(group.block, names), group.count) for group in task.groups),
            accesses=tuple(
                Access(names.get(a.region, a.region), a.unique_bytes, a.moved_bytes, a.write)
                for a in task.accesses
            ),
        )
        for task in piece.compiled.program.tasks
    )


def _region_names(made: _Timeline, step: Step) -> dict[str, str]:
    """Names in the whole program of the regions of a piece; notes the buffers and regions that are new."""
    piece = step.piece
    graph, regions = piece.compiled.graph, piece.compiled.program.memory.regions
    homes = {tensor.name: made.home(home) for tensor, home in zip(graph.inputs, step.sources, strict=True)}
    for tensor, home in zip(graph.outputs, step.results, strict=True):
        root = owner_of(regions, tensor.name)
        if regions[root].kind != "weight":
            homes.setdefault(root, made.home(home))
    # address ranges that inputs and outputs have for themselves: they lie in buffers outside instead
    outside = [(regions[name].offset, align(regions[name].bytes, REGION_BYTES)) for name in homes]
    taken: set[str] = set()
    names: dict[str, str] = {}
    for name, region in sorted(
        regions.items(), key=lambda item: item[1].alias_of is not None
    ):  # owners of bytes first
        root = owner_of(regions, name)
        if name in homes and homes[name] not in taken:
            taken.add(homes[name])
            names[name] = homes[name]
            made.buffers[homes[name]] = max(region.bytes, made.buffers.get(homes[name], 0))
        elif region.kind == "weight" and region.alias_of is None:
            names[name] = _weight(made, piece, graph.tensors.get(name), region)
        elif region.kind == "weight" or root in homes:
            weight = region.kind == "weight"
            names[name] = made.region(piece, name) if weight else made.fresh(piece.prefix + name)
            made.inner[names[name]] = (
                replace(region, offset=region.offset - regions[root].offset),
                names[root] if weight else homes[root],
            )
        else:
            names[name] = made.region(piece, name)
            moved = replace(
                region, offset=region.offset - sum(size for start, size in outside if start < region.offset)
            )
            made.inner.setdefault(names[name], (moved, None))
            made.arena = max(made.arena, moved.offset + moved.bytes)
    for name, region in regions.items():  # now that all have names: what shares whose bytes
        held = made.inner.get(names[name])
        if held is not None and region.alias_of is not None:
            made.inner[names[name]] = (replace(held[0], alias_of=names[region.alias_of]), held[1])
    return names


def _weight(made: _Timeline, piece: Piece, tensor: Tensor | None, region: Region) -> str:
    """The name of a constant: one for all pieces that have the same bytes in the same form."""
    key = (_content(made, tensor, region.name), region.bytes, tensor.format if tensor is not None else None)
    known = made.weight_names.get(key)
    if known is None:
        known = made.weight_names[key] = made.fresh(region.name)
        made.weights[known] = region.bytes
    return known


def _content(made: _Timeline, tensor: Tensor | None, name: str) -> Hashable:
    """What tells a constant from others: its values in their device type; its name if a file lacks the
    values.
    """
    constant = tensor.constant if tensor is not None else None
    if tensor is None or constant is None or not constant.available:
        return name
    digest = made.digests.get(id(constant))
    if digest is None:
        array = np.ascontiguousarray(constant.array())
        digest = made.digests[id(constant)] = hashlib.blake2b(
            array.reshape(-1).view(np.uint8).data, digest_size=16
        ).digest()
    return digest, tensor.dtype, tensor.shape


def _add_nodes(made: _Timeline, piece: Piece) -> dict[str, str]:
    """Adds the nodes of a piece to the graph of all that ran; returns their names there."""
    graph, into = piece.compiled.graph, made.graph
    twins: dict[Tensor, Tensor] = {}
    for tensor in graph.tensors.values():
        twin = Tensor(
            into.fresh(piece.prefix + tensor.name), tensor.dtype, tensor.shape, tensor.format, tensor.constant
        )
        twin.origin_dtype = tensor.origin_dtype
        twins[tensor] = into.add_tensor(twin)
    names: dict[str, str] = {}
    for node in graph.nodes:
        copy = into.add_node(
            node.op_type,
            [None if tensor is None else twins[tensor] for tensor in node.inputs],
            [twins[tensor] for tensor in node.outputs],
            name=piece.prefix + node.name,
            domain=node.domain,
        )
        copy.attributes.update(node.attributes)
        copy.origin.update(node.origin)
        names[node.name] = copy.name
    into.inputs.extend(twins[tensor] for tensor in graph.inputs)
    into.outputs.extend(twins[tensor] for tensor in graph.outputs)
    engines = piece.compiled.program.info.engines
    made.engines.update((names[node], engine) for node, engine in engines.items() if node in names)
    return names


def _memory(made: _Timeline, ends: Mapping[str, str], least: int) -> MemoryPlan:
    """Buffers between pieces, then the arena that all pieces share, then the constants."""
    last = max(0, len(made.tasks) - 1)
    kinds = {made.homes[home]: kind for home, kind in ends.items() if home in made.homes}
    regions: dict[str, Region] = {}
    at = 0
    for name, size in made.buffers.items():
        regions[name] = Region(name, at, size, kinds.get(name, "activation"), None, 0, last)
        at += align(size, REGION_BYTES)
    arena = at
    end = at = align(max(at + made.arena, least), REGION_BYTES)
    for name, size in made.weights.items():
        regions[name] = Region(name, at, size, "weight", None, 0, last)
        at += align(size, REGION_BYTES)
    for name, (region, home) in made.inner.items():
        base = arena if home is None else regions[home].offset
        shared = region.alias_of
        regions[name] = replace(
            region, name=name, offset=base + region.offset, alias_of=shared, first=0, last=last
        )
    return MemoryPlan(regions, end, at - end)
