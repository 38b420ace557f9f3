"""Which feature maps share their channels, so that they can only be widened together.

Operators that keep channels apart (elementwise, pooling, batch normalisation, depthwise convolution) put
their maps into one class. A convolution ends a class on its input side and begins one on its output side. A
Concat of channels makes one class out of several others; classes that Concats join form a group, which is
widened as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ascendsim.graph.ir import Graph, Node, Tensor, Use
from ascendsim.opset import OpSet
from ascendsim.opset.axes import AxisMap, Link, Relation
from ascendsim.opset.facts import Facts

BLOCK = 16  # C0 of float16
CHANNELS = Link(Relation.PARALLEL, 1)  # channels stay channels


class Kind(Enum):
    """What an operator does with channels."""

    CONV = "mixes them by constant weights"
    SAME = "keeps them apart"
    CONCAT = "puts them one behind the other"
    OTHER = "does something else"


@dataclass(eq=False, slots=True)
class ChannelClass:
    """Maps that share their channels.

    Attributes:
        channels: How many.
        tensors: The maps, in execution order.
        makers: Convolutions that make some of them.
        concats: Concats that make some of them.
        leaks: Who reads them but cannot take more channels; None stands for the graph's outputs.
        fixed: Why they cannot be widened, empty if they can.
        places: New position of every channel; None while they stay where they are.
        total: Channels after widening.
    """

    channels: int
    tensors: list[Tensor] = field(default_factory=list)
    makers: list[Node] = field(default_factory=list)
    concats: list[Node] = field(default_factory=list)
    leaks: list[tuple[Tensor, Use | None]] = field(default_factory=list)
    fixed: str = ""
    places: tuple[int, ...] | None = None
    total: int = 0


@dataclass(eq=False, slots=True)
class ChannelGroup:
    """Classes that Concats join.

    Attributes:
        classes: In execution order of their first maps.
        makers: Convolutions whose output channels are no multiple of 16 and grow (or would, if it could be
            done).
        refused: Why nothing grows; empty if something does.
    """

    classes: list[ChannelClass] = field(default_factory=list)
    makers: list[Node] = field(default_factory=list)
    refused: str = ""

    @property
    def channels(self) -> int:
        """Channels of the first convolution."""
        return self.makers[0].output.static_shape[1]

    @property
    def aligned(self) -> int:
        """The next multiple of 16."""
        return -(-self.channels // BLOCK) * BLOCK


def kind_of(node: Node, opset: OpSet) -> Kind:
    """What a node does with the channels of its first output."""
    if node.domain or not node.outputs or any(not is_map(tensor) for tensor in node.outputs[:1]):
        return Kind.OTHER
    if node.op_type == "Conv":
        weight = node.required(1)
        if not weight.is_constant or any(
            tensor is not None and not tensor.is_constant for tensor in node.inputs[2:]
        ):
            return Kind.OTHER
        if is_depthwise(node):
            return Kind.SAME
        return Kind.CONV if int(node.attr("group", 1)) == 1 else Kind.OTHER
    if node.op_type == "Concat":
        return (
            Kind.CONCAT if int(node.attr("axis", 0)) in (1, 1 - len(node.output.static_shape)) else Kind.OTHER
        )
    return Kind.SAME if _keeps_apart(node, opset.get(node).facts) else Kind.OTHER


def _keeps_apart(node: Node, facts: Facts) -> bool:
    """Whether channels stay apart, and added ones, which are zeros at first, never become NaN: their weights
    behind are zeros as well.
    """
    axes = facts.axes(node)
    kept = any(is_map(tensor) and axes.link(port, 1) == CHANNELS for port, tensor in enumerate(node.inputs))
    if not facts.finite or not kept or any(tensor.uses for tensor in node.outputs[1:]):
        return False
    return all(_serves_channels(node, port, axes, facts) for port in range(node.input_count))


def _serves_channels(node: Node, port: int, axes: AxisMap, facts: Facts) -> bool:
    """Whether an input is a map with all channels, a constant, or the same for all channels."""
    tensor = node.input(port)
    if tensor is None or tensor.is_constant:
        return tensor is None or tensor.is_static
    if port in facts.parameters or not tensor.is_static:
        return False
    met = [link for axis, link in axes.towards(port, 1) if tensor.static_shape[axis] != 1]
    return not met or (met == [CHANNELS] and shares_channels(tensor, node.output))


def is_map(tensor: Tensor | None) -> bool:
    """Whether a tensor is a feature map: floating-point values [N, C, H, W] that are not constant."""
    return (
        tensor is not None
        and not tensor.is_constant
        and tensor.is_static
        and len(tensor.static_shape) == 4
        and tensor.dtype is not None
        and tensor.dtype.is_float
    )


def is_depthwise(node: Node) -> bool:
    """Whether every channel is convolved on its own, one result each."""
    groups, weight = int(node.attr("group", 1)), node.required(1)
    return groups > 1 and weight.is_static and weight.static_shape[:2] == (groups, 1)


def shares_channels(tensor: Tensor | None, output: Tensor) -> bool:
    """Whether an input of an operator that keeps channels apart has them all."""
    return tensor is not None and is_map(tensor) and tensor.static_shape[1] == output.static_shape[1]


def channel_groups(graph: Graph, opset: OpSet) -> tuple[ChannelGroup, ...]:
    """All groups with a convolution whose output channels are no multiple of 16, with their solved
    positions.
    """
    kinds = {node: kind_of(node, opset) for node in graph.topological()}
    classes = _classes(graph, kinds)
    ordered = list(dict.fromkeys(classes.values()))
    joined = _joined(kinds, classes, ordered)
    groups = []
    for members in joined:
        group = ChannelGroup(members)
        growing = [node for item in members for node in item.makers if item.channels % BLOCK]
        if not growing:
            continue
        _solve(members, classes)
        group.makers = [node for node in growing if classes[node.output].places is not None]
        if not group.makers:
            group.makers = growing
            group.refused = classes[growing[0].output].fixed or "a Concat needs them where they are"
        groups.append(group)
    return tuple(groups)


def _classes(graph: Graph, kinds: dict[Node, Kind]) -> dict[Tensor, ChannelClass]:
    classes: dict[Tensor, ChannelClass] = {}
    for tensor in graph.inputs:
        if is_map(tensor):
            classes[tensor] = ChannelClass(
                tensor.static_shape[1], [tensor], fixed=f"{tensor.name} is an input of the network"
            )
    for node, kind in kinds.items():
        for output in node.outputs:
            if not is_map(output):
                continue
            own = ChannelClass(output.static_shape[1], [output])
            if kind is Kind.SAME:
                for source in node.inputs:
                    if source is not None and shares_channels(source, output) and source in classes:
                        own = _merge(own, classes[source], classes)
            elif kind is Kind.CONV:
                own.makers.append(node)
            elif kind is Kind.CONCAT:
                own.concats.append(node)
            else:
                own.fixed = f"they come from {node.op_type} {node.name}"
            for tensor in own.tensors:
                classes[tensor] = own
    outputs = set(graph.outputs)
    for tensor, owner in classes.items():
        owner.leaks.extend((tensor, use) for use in tensor.uses if not _takes(use, kinds))
        if tensor in outputs:
            owner.leaks.append((tensor, None))
    return classes


def _merge(a: ChannelClass, b: ChannelClass, classes: dict[Tensor, ChannelClass]) -> ChannelClass:
    if a is b:
        return a
    merged = ChannelClass(
        b.channels,
        [*b.tensors, *a.tensors],
        [*b.makers, *a.makers],
        [*b.concats, *a.concats],
        [],
        b.fixed or a.fixed,
    )
    for tensor in merged.tensors:
        classes[tensor] = merged
    return merged


def _takes(use: Use, kinds: dict[Node, Kind]) -> bool:
    """Whether a reader can work on more channels."""
    kind = kinds.get(use.node, Kind.OTHER)
    if kind is Kind.CONV:
        return use.index == 0
    return kind in (Kind.SAME, Kind.CONCAT)


def _joined(
    kinds: dict[Node, Kind], classes: dict[Tensor, ChannelClass], ordered: list[ChannelClass]
) -> list[list[ChannelClass]]:
    """Classes in groups that Concats join."""
    group_of = {item: [item] for item in ordered}
    for node, kind in kinds.items():
        if kind is not Kind.CONCAT:
            continue
        for tensor in filter(None, node.inputs):
            a = group_of[classes[node.output]]
            b = group_of[classes[tensor]] if tensor in classes else a
            if a is not b:
                a.extend(b)
                for item in b:
                    group_of[item] = a
    seen: dict[int, list[ChannelClass]] = {}
    for item in ordered:
        seen.setdefault(id(group_of[item]), group_of[item])
    return list(seen.values())


def _solve(members: list[ChannelClass], classes: dict[Tensor, ChannelClass]) -> None:
    """Gives every class its new positions; a class whose Concats disagree stays, and so does what feeds these
    Concats.
    """
    while True:
        for item in members:
            item.places, item.total = None, item.channels
        clash = next((found for item in members if (found := _place(item, classes, ())) is not None), None)
        if clash is None:
            return
        clash.fixed = clash.fixed or "Concats would put them in different places"
        for node in clash.concats:
            for tensor in filter(None, node.inputs):
                if tensor in classes:
                    classes[tensor].fixed = (
                        classes[tensor].fixed or f"Concat {node.name} needs them where they are"
                    )


def _place(
    item: ChannelClass, classes: dict[Tensor, ChannelClass], path: tuple[ChannelClass, ...]
) -> ChannelClass | None:
    """Places one class and those that its Concats read; gives the class that cannot be placed, if there is
    one.
    """
    if item.places is not None:
        return None
    if item in path:
        return item
    wanted: set[tuple[tuple[int, ...], int]] = set()
    for node in item.concats:
        places: list[int] = []
        start = 0
        for tensor in filter(None, node.inputs):
            source, count = classes.get(tensor), tensor.static_shape[1]
            clash = _place(source, classes, (*path, item)) if source is not None else None
            if clash is not None:
                return clash
            own = source.places if source is not None and source.places is not None else range(count)
            places += [start + place for place in own]
            start += source.total if source is not None else count
        wanted.add((tuple(places), start))
    same = (tuple(range(item.channels)), item.channels)
    if item.fixed:
        return None if wanted <= {same} else item
    if len(wanted) > 1:
        return item
    chosen, total = next(iter(wanted)) if wanted else (same[0], -(-item.channels // BLOCK) * BLOCK)
    if total != item.channels:
        item.places, item.total = chosen, total
    return None
