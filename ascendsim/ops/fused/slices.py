"""Which nodes of a group can be computed together slice by slice, and along which axes.

    x[N, C] -> add -> sum over C -> divide -> y[N, C]        one stage, along N
    x[N, C] -> add -> sum over N -> divide -> y[N, C]        one stage, along C
    x[N, C] -> add -> sum over N and C -> divide -> y        add along N; the sum whole; divide along N

Axes that slices of one tensor and of another share (`OpDef.facts.axes`: parallel, group) form a class. A
stage is a set of nodes with a class: each slice of what they make follows from the same slice of what has an
axis in the class, and from all of what has none. Nodes whose bits could depend on the length of an axis
(sums by NumPy, products) are computed whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.fused.program import DTypeOf, expression, renamed
from ascendsim.ops.reduce.reduction import FoldCompute
from ascendsim.opset import OpSet
from ascendsim.opset.axes import Relation
from ascendsim.opset.facts import Kind

Axis = tuple[Tensor, int]
WHOLE = None  # in place of a class: not cut at all
SMALL = 64  # a node whose tensors take less than this part of the room may be computed whole
LEAST = 2  # elements of an axis in a slice: an axis of one element is another case for sums


@dataclass(frozen=True, slots=True)
class Cut:
    """How the tensors of a stage are cut.

    Attributes:
        axes: By tensor, the axis that is cut; tensors that are not here are read whole.
        bounds: Where slices begin and end, in parts of the axis.
        parts: Into how many equal parts each axis can be cut.
    """

    axes: Mapping[Tensor, int]
    bounds: tuple[int, ...]
    parts: int

    def slices(self, tensor: Tensor, number: int) -> tuple[slice, ...]:
        """The index of a slice of a tensor."""
        axis = self.axes.get(tensor)
        if axis is None:
            return ()
        unit = tensor.static_shape[axis] // self.parts
        return (slice(None),) * axis + (slice(self.bounds[number] * unit, self.bounds[number + 1] * unit),)

    def shape(self, tensor: Tensor, number: int) -> tuple[int, ...]:
        """The shape of a slice of a tensor."""
        shape, axis = list(tensor.static_shape), self.axes.get(tensor)
        if axis is not None:
            shape[axis] = shape[axis] // self.parts * (self.bounds[number + 1] - self.bounds[number])
        return tuple(shape)


@dataclass(slots=True)
class Stage:
    """Nodes that are computed together.

    Attributes:
        options: Classes of axes along which all of them can be cut; WHOLE is one of them where no node makes
            much.
        nodes: In execution order.
    """

    options: frozenset[Axis | None]
    nodes: list[Node] = field(default_factory=list)


def bytes_of(tensors: Iterable[Tensor], dtype_of: DTypeOf) -> int:
    """Bytes of tensors on the host."""
    return sum(tensor.elements * dtype_of(tensor).itemsize for tensor in tensors)


class Slicing:
    """The stages of a group of nodes.

    Args:
        nodes: In execution order.
        opset: Operators.
        dtype_of: NumPy type of any tensor in this run.
        room: Bytes that one slice of all tensors of a stage may take.
    """

    def __init__(self, nodes: Sequence[Node], opset: OpSet, dtype_of: DTypeOf, room: int) -> None:
        self._opset, self._dtype_of, self._room = opset, dtype_of, room
        self._parents: dict[Axis, Axis] = {}
        self._parts: dict[Axis, int] = {}
        self._sliced = {node for node in nodes if self._same_bits(node)}
        for node in nodes:
            if node in self._sliced:
                self._join(node)
        self.stages = self._dealt(nodes)

    def _same_bits(self, node: Node) -> bool:
        """Whether a node gives the same bits on slices as on the whole."""
        if renamed(node) is not None or expression(node, self._opset, self._dtype_of) is not None:
            return True
        definition = self._opset.get(node)
        facts = definition.facts
        if (
            not definition.foldable
            or definition.compute_body
            or node.subgraphs
            or facts.shape_port is not None
        ):
            return False
        compute = definition.compute
        if isinstance(compute, FoldCompute):
            return compute.by_kernel(self._dtype_of(node.required(0)))
        return facts.kind in (Kind.ELEMENTWISE, Kind.MOVEMENT)

    def _join(self, node: Node) -> None:
        axes = self._opset.get(node).facts.axes(node)
        for (port, output), links in axes.links.items():
            source = node.input(port)
            if source is None:
                continue
            for axis, link in enumerate(links):
                if not link.by_slices or link.axis is None:
                    continue
                first, second = self._of((source, axis)), self._of((node.outputs[output], link.axis))
                parts = math.gcd(self._parts[first], self._parts[second])
                if link.relation is Relation.GROUP:
                    parts = math.gcd(parts, source.static_shape[axis] // link.take)
                self._parents[second] = first
                self._parts[first] = parts

    def _of(self, axis: Axis) -> Axis:
        """The representative of an axis's class."""
        if axis not in self._parents:
            self._parents[axis], self._parts[axis] = axis, axis[0].static_shape[axis[1]]
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def _axis(self, tensor: Tensor, of_class: Axis) -> int | None:
        """The axis of a tensor in a class; -1 where it has several."""
        found = [axis for axis in range(len(tensor.static_shape)) if self._of((tensor, axis)) == of_class]
        return None if not found else found[0] if len(found) == 1 else -1

    def _options(self, node: Node) -> frozenset[Axis | None]:
        """Classes along which a node can be cut."""
        found: set[Axis | None] = set()
        if node in self._sliced:
            first = node.outputs[0]
            classes = {self._of((first, axis)) for axis in range(len(first.static_shape))}
            found.update(one for one in classes if self._parts[one] >= LEAST and self._fits(node, one))
        tensors = [tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None]
        if not found or bytes_of(tensors, self._dtype_of) * SMALL <= self._room:
            found.add(WHOLE)
        return frozenset(found)

    def _fits(self, node: Node, of_class: Axis) -> bool:
        """Whether slices of all outputs follow from slices of what has an axis in the class."""
        facts = self._opset.get(node).facts
        axes, only = facts.axes(node), renamed(node)
        steering = {*facts.parameters, facts.shape_port}
        made_of_slices = expression(node, self._opset, self._dtype_of) is not None  # or of repeated elements
        for number, output in enumerate(node.outputs):
            target = self._axis(output, of_class)
            if target is None or target < 0:
                return False
            for port, source in enumerate(node.inputs):
                if source is None or (only is not None and source is not only):
                    continue
                axis = self._axis(source, of_class)
                if axis is None:
                    if not axes.of(port, number) and source.elements > 1 and port not in steering:
                        return False
                    continue
                if axis < 0:
                    return False
                link = axes.link(port, axis, number)
                if not link.by_slices or link.axis != target:
                    return False
                made_of_slices = True
        return made_of_slices

    def _dealt(self, nodes: Sequence[Node]) -> list[Stage]:
        """Each node in the first stage behind what it reads that can be cut as it can."""
        stages: list[Stage] = []
        place: dict[Tensor, int] = {}
        for node in nodes:
            options = self._options(node)
            first = max((place.get(tensor, 0) for tensor in node.inputs if tensor is not None), default=0)
            chosen = next((n for n in range(first, len(stages)) if stages[n].options & options), len(stages))
            if chosen == len(stages):
                stages.append(Stage(options))
            stages[chosen].options &= options
            stages[chosen].nodes.append(node)
            place.update(dict.fromkeys(node.outputs, chosen))
        return stages

    def cut(self, stage: Stage) -> Cut | None:
        """How a stage is cut; None if it is computed whole."""
        classes = [one for one in stage.options if one is not WHOLE]
        if WHOLE in stage.options or not classes:
            return None
        tensors = dict.fromkeys(
            tensor for node in stage.nodes for tensor in (*node.inputs, *node.outputs) if tensor is not None
        )
        wanted = -(-bytes_of(tensors, self._dtype_of) // self._room)

        def price(of_class: Axis) -> tuple[int, int]:
            """Few slices last, then those that lie in pieces."""
            places = [axis for tensor in tensors if (axis := self._axis(tensor, of_class)) is not None]
            return -min(wanted, self._count(tensors, of_class)), sum(places)

        best = min(classes, key=price)
        axes = {
            tensor: axis for tensor in tensors if (axis := self._axis(tensor, best)) is not None and axis >= 0
        }
        parts, count = self._parts[best], min(wanted, self._count(tensors, best))
        return Cut(axes, tuple(parts * number // count for number in range(count + 1)), parts)

    def _count(self, tensors: Iterable[Tensor], of_class: Axis) -> int:
        """The most slices that a class allows."""
        parts = self._parts[of_class]
        sizes = [
            tensor.static_shape[axis]
            for tensor in tensors
            if (axis := self._axis(tensor, of_class)) is not None
        ]
        return max(1, parts if min(sizes) >= LEAST * parts else parts // LEAST)
