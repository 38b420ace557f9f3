"""How far a padded axis reaches: which tensors get it, what has to change with them, and who cannot take it.

The operators' axes (`opset.axes`) say it: slices that stay apart stay apart with more of them, and groups of
slices keep their ratio. A Softmax along the axis needs a mask, after which a product may sum over it. All
else reads the tensor as it was (a leak).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.axes import AxisMap, Relation
from ascendsim.opset.structure import constant_ints

Sizes = dict[int, int]  # new size by axis


@dataclass(slots=True)
class PaddedPart:
    """What changes when an axis grows.

    Attributes:
        sizes: New sizes of the tensors that get longer, the first one among them.
        nodes: Operators that work on them.
        constants: Operator, port, axis and new size of constants that grow along.
        reshapes: Operators whose input holds the shape of the result.
        masked: Softmax operators and the axis that they go along.
        leaks: Operators and ports that read a tensor as it was.
    """

    sizes: dict[Tensor, Sizes] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: list[tuple[Node, int, int, int]] = field(default_factory=list)
    reshapes: list[Node] = field(default_factory=list)
    masked: list[tuple[Node, int]] = field(default_factory=list)
    leaks: list[tuple[Node, int]] = field(default_factory=list)

    @property
    def weightless(self) -> set[Tensor]:
        """Results in which what was added is zero along the last axis."""
        return {node.output for node, _ in self.masked}


def padded_part(graph: Graph, tensor: Tensor, axis: int, size: int, opset: OpSet) -> PaddedPart:
    """Follows a tensor whose axis grows to `size`."""
    part = PaddedPart({tensor: {axis: size}})
    for node in graph.topological():
        ports = [port for port, given in enumerate(node.inputs) if given is not None and given in part.sizes]
        if ports and not _Step(node, opset, part, ports).taken():
            part.leaks += [(node, port) for port in ports]
    return part


@dataclass(slots=True)
class _Step:
    """One operator, some of whose inputs have grown."""

    node: Node
    opset: OpSet
    part: PaddedPart
    ports: list[int]
    _results: dict[int, Sizes] = field(default_factory=dict)
    _constants: list[tuple[Node, int, int, int]] = field(default_factory=list)
    _masked: list[tuple[Node, int]] = field(default_factory=list)

    def taken(self) -> bool:
        """Whether it works on what has grown; then the part has it."""
        facts = self.opset.get(self.node).facts
        links, told = facts.axes(self.node), facts.shape_port
        grows = all(self._grows(port, axis, links) for port in self.ports for axis in self._sizes(port))
        if not grows or not facts.finite or not self._others_follow(links):
            return False
        if told is not None and (told in self.ports or constant_ints(self.node.input(told)) is None):
            return False
        self.part.nodes.append(self.node)
        self.part.constants += self._constants
        self.part.masked += self._masked
        if told is not None and self._results.get(0):
            self.part.reshapes.append(self.node)
        for output, sizes in self._results.items():
            self.part.sizes[self.node.outputs[output]] = sizes
        return True

    def _sizes(self, port: int) -> Sizes:
        given = self.node.input(port)
        return {} if given is None else self.part.sizes.get(given, {})

    def _grows(self, port: int, axis: int, links: AxisMap) -> bool:
        """Whether the results can have more along an axis of an input."""
        size = self._sizes(port)[axis]
        for output in range(len(self.node.outputs)):
            link = links.link(port, axis, output)
            if link.relation is Relation.CHOSEN and link.axis is None and self._picks_old(port, axis):
                continue
            if link.relation is Relation.REDUCED and self._sums_weights():
                continue
            masked = (
                link.relation is Relation.WHOLE and self.node.op_type == "Softmax" and self._is_last(axis)
            )
            if link.axis is None or not (link.by_slices or masked) or size % link.take:
                return False
            if masked:
                self._masked.append((self.node, axis))
            wanted = size // link.take * link.make
            if self._results.setdefault(output, {}).setdefault(link.axis, wanted) != wanted:
                return False
        return True

    def _is_last(self, axis: int) -> bool:
        return axis == len(self.node.required(0).static_shape) - 1

    def _picks_old(self, port: int, axis: int) -> bool:
        """Whether a Gather takes slices that were there before."""
        picks = constant_ints(self.node.input(1)) if self.node.op_type == "Gather" and port == 0 else None
        return picks is not None and all(0 <= i < self.node.required(0).static_shape[axis] for i in picks)

    def _sums_weights(self) -> bool:
        """Whether a product sums over the axis on both sides, and what was added weighs nothing."""
        if self.node.op_type != "MatMul" or self.node.domain:
            return False
        left, right = self.node.required(0), self.node.required(1)
        inner = (len(left.static_shape) - 1, len(right.static_shape) - 2)
        both = inner[0] in self._sizes(0) and inner[1] in self._sizes(1)
        return both and left in self.part.weightless

    def _others_follow(self, links: AxisMap) -> bool:
        """Whether all other inputs can have the new sizes: constants grow, single slices are repeated."""
        for output, sizes in self._results.items():
            for axis, size in sizes.items():
                for port, given in enumerate(self.node.inputs):
                    for own, link in () if given is None else links.towards(port, axis, output):
                        assert given is not None
                        if own in self._sizes(port) or given.static_shape[own] == 1:
                            continue
                        if link.relation is Relation.WHOLE and self._sizes(port):
                            continue  # the inner axis of a group whose outer one has grown
                        if link.relation is not Relation.PARALLEL or given.constant is None:
                            return False
                        self._constants.append((self.node, port, own, size))
        return True
