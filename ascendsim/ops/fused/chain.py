"""A chain of vector operators as one piece of work: what is between them stays in the Unified Buffer.

The members' instructions follow each other on every tile; only tensors that come from outside are read, and
only those that somebody outside reads are written. UB fusion and graph-kernel composites share this
description, however they hold their groups. Reductions may be members: a row that is reduced and used again
is swept once more for every such step, as in softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ascendsim.graph.composites import outside_tensors
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.fused.chain_space import REDUCTIONS, RENAMING, ChainSpace, data_inputs, space_of_chain
from ascendsim.ops.fused.windows import window_chain
from ascendsim.ops.shared.common import walking_shape
from ascendsim.opset import OpSet
from ascendsim.opset.work import LowerContext, NoTask, Over, Ref, Step, Stream, VectorWork

# their result is an input's elements: inside a tile there is nothing to do
COPIES = frozenset({("", "Expand"), ("ascend", "Assign")})


@dataclass(frozen=True, slots=True)
class _Member:
    """A node that computes, with its own work."""

    node: Node
    work: VectorWork | None  # None for copies


def chain_work(
    nodes: Sequence[Node],
    opset: OpSet,
    context: LowerContext,
    *,
    outputs: Collection[Tensor] | None = None,
    ref: Callable[[Tensor], Ref] = Ref.of,
    immediates: bool = False,
) -> VectorWork | None:
    """The work of a group of nodes that one task computes; None where they have no iteration space in common.

    Members: elementwise operators, reductions over one set of axes, operators along rows (softmax,
    normalisations), and operators that only rename or broadcast; or a pooling and elementwise operators
    behind it. Refused are other operators, those of the AI CPU, reductions of different axes, and values that
    are neither one a row, one a column nor one in all but are made inside.

    Args:
        nodes: In execution order.
        opset: Operators.
        context: The chip.
        outputs: What is read outside and so written; by default what the graph says.
        ref: Names the global memory of a tensor.
        immediates: Whether constants of one element are part of the instructions and not read from memory.
    """
    windows = window_chain(nodes, opset, context) if outputs is None else None
    if windows is not None:
        return windows
    roots: dict[Tensor, Tensor] = {}

    def root(tensor: Tensor) -> Tensor:
        while tensor in roots:
            tensor = roots[tensor]
        return tensor

    members = _members(nodes, opset, context, roots)
    if members is None:
        return None
    row_operators = {m.node: m.work.cols for m in members if m.work is not None and _is_row_operator(m)}
    space = space_of_chain(nodes, root, row_operators)
    if space is None:
        return None
    written = [
        tensor for tensor in (outside_tensors(nodes) if outputs is None else outputs) if tensor.elements
    ]
    made = {root(member.node.output) for member in members}
    beside = _beside(members)
    cut = _cut(space, made, _channel_rows(members, root, space))
    if cut is None or not _in_order(members, space, root, cut):
        return None
    steps: list[Step] = []
    for member in members:
        over = cut.over(space, root(member.node.output))
        if over is None:
            return None
        steps += _steps(member, over, space, root)

    def named(stream: Stream, tensor: Tensor) -> Stream:
        return replace(stream, ref=replace(stream.ref, region=ref(tensor).region))

    streams_in = _streams_in(
        members,
        made | _immediates(members, opset),
        root,
        space,
        cut,
        ref=ref,
        named=named,
        immediates=immediates,
    )
    streams_in += [
        Stream(ref(source), cut.over(space, source) or "all")
        for source in dict.fromkeys(root(tensor) for tensor in written)
        if source not in made
        and source not in beside
        and all(stream.ref != ref(source) for stream in streams_in)
    ]
    copied = {root(member.node.output) for member in members if member.work is None}
    rows = math.prod(size for axis, size in enumerate(space.sizes) if axis not in cut.columns)
    streams_out = []
    for tensor in written:
        if tensor in beside:
            own_rows, stream = beside[tensor]
            if stream.over != "all" and own_rows != rows:
                return None
            streams_out.append(named(stream, tensor))
            continue
        over = cut.over(space, root(tensor))
        if over is None:
            return None
        streams_out.append(Stream(ref(tensor), over))
        if root(tensor) not in made or root(tensor) in copied:
            steps.append(Step("vadds", tensor.element_type, over))
    if not streams_out or not steps:
        return None
    full = [tensor for tensor in space.axes if space.is_full(tensor)]
    maps = [m.work.maps for m in members if m.work is not None and m.work.rows == rows and m.work.maps]
    return VectorWork(
        rows=rows,
        cols=space.elements // rows,
        steps=tuple(steps),
        inputs=tuple(streams_in),
        outputs=tuple(streams_out),
        reduces=cut.reduces,
        sweeps=_sweeps(members, root, space),
        gather_bytes=_piece(space, min((tensor.element_type.itemsize for tensor in full), default=2)),
        live_bytes=_live_bytes(members, root, space, written),
        maps=maps[0] if maps and cut.reduces == "none" else None,
        own_tiling=context.open_shapes and outputs is None,  # composites are compiled for their shapes
    )


def _members(
    nodes: Sequence[Node], opset: OpSet, context: LowerContext, roots: dict[Tensor, Tensor]
) -> list[_Member] | None:
    """Nodes that compute; the others are noted in `roots`. None if one cannot be a member."""
    members = []
    inside = set(nodes)
    for node in nodes:
        if node.control or opset.on_ai_cpu(node, context.aicpu_types):
            return None
        if any(consumer in inside for tensor in node.outputs[1:] for consumer in tensor.consumers):
            return None
        definition = opset.get(node)
        if (node.domain, node.op_type) in COPIES:
            if node.op_type == "Assign":
                roots[node.output] = node.required(1)
            else:
                members.append(_Member(node, None))
            continue
        work = definition.work(node, context)
        if isinstance(work, NoTask) and (node.op_type in RENAMING or work.aliases) and node.input_count:
            roots[node.output] = node.required(0)
        elif isinstance(work, VectorWork) and _may_join(node, work):
            members.append(_Member(node, work))
        else:
            return None
    return members


def _beside(members: Sequence[_Member]) -> dict[Tensor, tuple[int, Stream]]:
    """Further outputs of members (running mean and variance, masks), with the rows of the member's own work
    and how they lie in it.
    """
    found: dict[Tensor, tuple[int, Stream]] = {}
    for member in members:
        if member.work is None:
            continue
        streams = {stream.ref.region: stream for stream in member.work.outputs}
        for tensor in member.node.outputs[1:]:
            if tensor.name in streams:
                found[tensor] = member.work.rows, streams[tensor.name]
    return found


def _may_join(node: Node, work: VectorWork) -> bool:
    """Whether it computes every element on its own, reduces, or works along rows."""
    elements = math.prod(walking_shape(node.output))
    if node.op_type in REDUCTIONS:
        return work.reduces != "none"
    if work.rows * work.cols != elements or work.gather_bytes or work.reduces == "rows":
        return False
    return all(math.prod(walking_shape(tensor)) <= elements for tensor in data_inputs(node))


def _is_row_operator(member: _Member) -> bool:
    return member.work is not None and member.work.reduces == "cols" and member.node.op_type not in REDUCTIONS


@dataclass(frozen=True, slots=True)
class _Cut:
    """Which axes are columns, and in which direction the chain reduces."""

    columns: frozenset[int]
    reduces: Literal["none", "cols", "rows"]

    def over(self, space: ChainSpace, tensor: Tensor) -> Over | None:
        """How a tensor lies in rows and columns; None if it lies across them or is not known."""
        axes = space.axes.get(tensor)
        if axes is None:
            return None
        if len(axes) == len(space.sizes):
            return "all"
        if not axes:
            return "one"
        if self.columns.issuperset(axes):
            return "col"
        return "row" if self.columns.isdisjoint(axes) else None


def _channel_rows(
    members: Sequence[_Member], root: Callable[[Tensor], Tensor], space: ChainSpace
) -> frozenset[int]:
    """Rows of members that have one value a channel, which is no broadcast: the tensor's axis is not the last
    one of the space.
    """
    found = set()
    for member in members:
        if member.work is not None:
            regions = {
                stream.ref.region
                for stream in (*member.work.inputs, *member.work.outputs)
                if stream.over in ("row", "col")
            }
            tensors = (*data_inputs(member.node), *member.node.outputs)
            if any(tensor.name in regions and root(tensor) not in space.axes for tensor in tensors):
                found.add(member.work.rows)
    return frozenset(found)


def _cut(
    space: ChainSpace, made: Collection[Tensor], channel_rows: frozenset[int] = frozenset()
) -> _Cut | None:
    """Rows and columns: reductions decide; else the place where the fewest tensors lie across, by preference
    that of the channels.

    Of equal places it is the one where the most tensors have one value for every column or for every row.
    What has fewer had best be repeated over rows: inside of a row it makes rows long, whose tiles then hold
    it at their full length.
    """
    last = len(space.sizes) - 1
    if space.folded:
        columns = space.folded if last in space.folded else frozenset(range(last + 1)) - space.folded
        return _Cut(columns, "cols" if last in space.folded else "rows")
    parts = [tensor for tensor, axes in space.axes.items() if 0 < len(axes) <= last]
    best: tuple[tuple[int, bool, int, int], _Cut] | None = None
    for start in range(last + 1):
        cut = _Cut(frozenset(range(start, last + 1)), "none")
        across = [tensor for tensor in parts if cut.over(space, tensor) is None]
        elsewhere = bool(channel_rows) and math.prod(space.sizes[:start]) not in channel_rows
        whole = (tuple(range(start)), tuple(range(start, last + 1)))
        partial = [space.axes[tensor] for tensor in parts if space.axes[tensor] not in whole]
        misfits = sum(2 if last not in axes and cut.columns.issuperset(axes) else 1 for axes in partial)
        price = (
            sum(tensor in made for tensor in across),
            elsewhere,
            sum(tensor.elements for tensor in across),
            misfits,
        )
        if best is None or price < best[0]:
            best = (price, cut)
    if best is None:
        return _Cut(frozenset(), "none")
    return None if best[0][0] else best[1]


def _levels(members: Sequence[_Member], root: Callable[[Tensor], Tensor]) -> dict[Node, int]:
    """How many reductions lie before each node."""
    reached: dict[Tensor, int] = {}
    levels: dict[Node, int] = {}
    for member in members:
        level = max((reached.get(root(tensor), 0) for tensor in data_inputs(member.node)), default=0)
        levels[member.node] = level
        if member.node.op_type in REDUCTIONS:
            level += 1
        elif member.work is not None and _is_row_operator(member):
            level += member.work.sweeps - 1
        reached[root(member.node.output)] = level
    return levels


def _touches_all(member: _Member, root: Callable[[Tensor], Tensor], space: ChainSpace) -> bool:
    return any(space.is_full(root(tensor)) for tensor in (*data_inputs(member.node), member.node.output))


def _in_order(
    members: Sequence[_Member], space: ChainSpace, root: Callable[[Tensor], Tensor], cut: _Cut
) -> bool:
    """Whether one pass will do: sums over rows are known only after the last tile, so nothing may use them on
    every element.
    """
    if cut.reduces != "rows":
        return True
    levels = _levels(members, root)
    return all(levels[member.node] == 0 or not _touches_all(member, root, space) for member in members)


def _sweeps(members: Sequence[_Member], root: Callable[[Tensor], Tensor], space: ChainSpace) -> int:
    levels = _levels(members, root)
    sweeps = [1]
    for member in members:
        if _touches_all(member, root, space):
            own = member.work.sweeps if member.work is not None and _is_row_operator(member) else 1
            sweeps.append(levels[member.node] + own)
    return max(sweeps)


def _steps(member: _Member, over: Over, space: ChainSpace, root: Callable[[Tensor], Tensor]) -> list[Step]:
    """The member's instructions; those of a small tensor work on one value a row, a column or in all."""
    if member.work is None:
        return []
    if _touches_all(member, root, space):
        return list(member.work.steps)
    return [replace(step, over=over) for step in member.work.steps]


def _immediates(members: Sequence[_Member], opset: OpSet) -> set[Tensor]:
    """Scales and zero points that are numbers in a member's instructions: its own work reads none of them."""
    return {
        tensor
        for member in members
        if member.work is not None
        for port in opset.get(member.node).facts.parameters
        if (tensor := member.node.input(port)) is not None
        and tensor.is_constant
        and tensor.elements == 1
        and all(stream.ref.region != tensor.name for stream in member.work.inputs)
    }


def _streams_in(
    members: Sequence[_Member],
    known: Collection[Tensor],
    root: Callable[[Tensor], Tensor],
    space: ChainSpace,
    cut: _Cut,
    *,
    ref: Callable[[Tensor], Ref],
    named: Callable[[Stream, Tensor], Stream],
    immediates: bool,
) -> list[Stream]:
    streams: dict[Tensor, Stream] = {}
    rows = math.prod(size for axis, size in enumerate(space.sizes) if axis not in cut.columns)
    for member in members:
        for tensor in data_inputs(member.node):
            source = root(tensor)
            if source in known or source in streams:
                continue
            if (
                immediates
                and source.constant is not None
                and source.constant.available
                and source.elements == 1
            ):
                continue
            over = cut.over(space, source)
            stream = Stream(ref(source), over or "all")
            if over is None and member.work is not None:
                own = {item.ref.region: item for item in member.work.inputs}.get(tensor.name, stream)
                if own.ref.bits_of is not None:
                    stream = named(own, source)
                elif member.work.rows == rows:
                    stream = replace(stream, over=own.over)
            streams[source] = stream
    return list(streams.values())


def _piece(space: ChainSpace, itemsize: int) -> int:
    """Length of the contiguous pieces of a row that is reduced; 0 where rows, or what lies between them, are
    contiguous as a whole.
    """
    if not space.folded:
        return 0
    axes = range(len(space.sizes))
    last = axes[-1] in space.folded
    inner = [axis for axis in axes if (axis in space.folded) is last]
    run = [axis for axis in inner if all(other in inner for other in axes[axis:])]
    return 0 if run == inner else math.prod(space.sizes[axis] for axis in run) * itemsize


def _live_bytes(
    members: Sequence[_Member], root: Callable[[Tensor], Tensor], space: ChainSpace, written: Sequence[Tensor]
) -> int:
    """The most bytes an element of the space takes for values that lie in UB between their making and their
    last use.
    """
    kept = {root(tensor) for tensor in written}
    last: dict[Tensor, int] = {}
    for place, member in enumerate(members):
        for tensor in data_inputs(member.node):
            last[root(tensor)] = place
    born = [root(m.node.output) for m in members]
    most = 0
    for place in range(len(members)):
        held = [
            tensor
            for number, tensor in enumerate(born[: place + 1])
            if members[number].work is not None
            and tensor not in kept
            and space.is_full(tensor)
            and last.get(tensor, -1) >= place
        ]
        most = max(most, sum(tensor.element_type.itemsize for tensor in held))
    return most
