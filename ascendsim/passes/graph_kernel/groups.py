"""Groups of nodes that become composites: marks on nodes, and the check that no path between members leads
outside.

A node's group is `origin["graph_kernel"]`, a number and a name. While only marks exist, precision and layout
work on plain nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from ascendsim.core.dtypes import DType
from ascendsim.graph.composites import lies_inside
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet

MARK = "graph_kernel"
TYPES = frozenset({DType.FLOAT16, DType.FLOAT32, DType.INT32, DType.INT8, DType.UINT8, DType.BOOL})


@dataclass(frozen=True, slots=True)
class Mark:
    """The group of a node."""

    number: int
    name: str


def mark_of(node: Node) -> Mark | None:
    """The group that a node belongs to."""
    mark = node.origin.get(MARK)
    return mark if isinstance(mark, Mark) else None


def _places(bits: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class Groups:
    """The groups of a graph, with its order of execution.

    Args:
        graph: Nodes are marked, nothing else changes.
        opset: Operators.
    """

    def __init__(self, graph: Graph, opset: OpSet) -> None:
        self.graph, self.opset = graph, opset
        self.order = graph.topological()
        self.place = {node: number for number, node in enumerate(self.order)}
        self.members: dict[int, set[Node]] = {}
        for node in self.order:
            mark = mark_of(node)
            if mark is not None:
                self.members.setdefault(mark.number, set()).add(node)
        self._before = {
            node: {other for other in graph.predecessors(node) if other in self.place} for node in self.order
        }
        self._after: dict[Node, set[Node]] = {node: set() for node in self.order}
        for node, predecessors in self._before.items():
            for other in predecessors:
                self._after[other].add(node)
        self._numbers = count(max(self.members, default=0) + 1)

    def sorted(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes in execution order."""
        return sorted(nodes, key=lambda node: self.place[node])

    def numbers_from_the_end(self) -> list[int]:
        """Groups, that of the last node first."""
        return sorted(
            self.members, key=lambda number: -max(self.place[node] for node in self.members[number])
        )

    def name(self, number: int) -> str:
        """The name of a group."""
        mark = mark_of(next(iter(self.members[number])))
        assert mark is not None
        return mark.name

    def mark(self, nodes: Collection[Node], name: str, number: int | None = None) -> int:
        """Makes nodes a group, or makes them the members of one that exists."""
        number = next(self._numbers) if number is None else number
        for node in self.members.get(number, ()):
            node.origin.pop(MARK, None)
        self.members[number] = set(nodes)
        for node in nodes:
            node.origin[MARK] = Mark(number, name)
        return number

    def dissolve(self, number: int) -> None:
        """Forgets a group; its nodes stay as they are."""
        for node in self.members.pop(number):
            node.origin.pop(MARK, None)

    def producers(self, nodes: Collection[Node]) -> set[Node]:
        """Nodes outside that some nodes need."""
        return {before for node in nodes for before in self._before[node]} - set(nodes)

    def users(self, nodes: Collection[Node]) -> set[Node]:
        """Nodes outside that need some nodes."""
        return {user for node in nodes for user in self._after[node]} - set(nodes)

    def between(self, nodes: Collection[Node]) -> set[Node]:
        """Nodes outside on a path between members: what makes a group a cycle if it were one node."""
        return {self.order[place] for place in _places(self._between(nodes))}

    def has_between(self, nodes: Collection[Node]) -> bool:
        """Whether there is any."""
        return self._between(nodes) != 0

    def _between(self, nodes: Collection[Node]) -> int:
        above = below = inside = 0
        for node in nodes:
            above |= self._paths[0][node]
            below |= self._paths[1][node]
            inside |= 1 << self.place[node]
        return above & below & ~inside

    @cached_property
    def _paths(self) -> tuple[dict[Node, int], dict[Node, int]]:
        """Of each node, the nodes with a path to it and those that it has a path to: numbers with a bit at
        the place of each, so that one operation follows all paths at once.
        """
        found: tuple[dict[Node, int], dict[Node, int]] = ({}, {})
        for reached, order, near in (
            (found[0], self.order, self._before),
            (found[1], self.order[::-1], self._after),
        ):
            for node in order:
                bits = 0
                for other in near[node]:
                    bits |= reached[other] | 1 << self.place[other]
                reached[node] = bits
        return found

    def type_of(self, node: Node) -> str:
        """MindSpore's name of a node's operator; of a composite, its own."""
        return self.opset.mindspore_type(node)

    def may_join(self, node: Node, types: Collection[str]) -> bool:
        """Whether a node is in no group, its operator is on a list, and its tensors are static and of types
        that the vector unit has.
        """
        if mark_of(node) is not None or self.type_of(node) not in types:
            return False
        if node.control or node.subgraphs or len(node.outputs) != 1:
            return False
        tensors = [
            item for item in (*node.inputs, *node.outputs) if item is not None and not lies_inside(item)
        ]
        return all(item.is_static and item.dtype in TYPES and item.elements > 0 for item in tensors)
