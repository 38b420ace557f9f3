"""Groups of nodes that become composites: marks on nodes, and the check that no path between members leads
outside.

A node's group is `origin["graph_kernel"]`, a number and a name. While only marks exist, precision and layout
work on plain nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count

from ascendsim.core.dtypes import DType
from ascendsim.graph.composites import lies_inside
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet

MARK = "graph_kernel"
_TYPES = frozenset({DType.FLOAT16, DType.FLOAT32, DType.INT32, DType.INT8, DType.UINT8, DType.BOOL})


@dataclass(frozen=True, slots=True)
class Mark:
    """The group of a node."""

    number: int
    name: str


def mark_of(node: Node) -> Mark | None:
    """The group that a node belongs to."""
    mark = node.origin.get(MARK)
    return mark if isinstance(mark, Mark) else None


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
        inside = set(nodes)
        last, first = max(self.place[node] for node in inside), min(self.place[node] for node in inside)
        behind = self._reached(inside, last)
        return {node for node in behind if self._reaches(node, inside, first)} if behind else set()

    def _reached(self, inside: set[Node], last: int) -> set[Node]:
        found: set[Node] = set()
        pending = [node for node in self.users(inside) if self.place[node] < last]
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending.extend(
                    user for user in self.users([node]) if self.place[user] < last and user not in inside
                )
        behind_last = {node for node in found if any(user in inside for user in self.users([node]))}
        if not behind_last:
            return set()
        return found

    def _reaches(self, start: Node, inside: set[Node], first: int) -> bool:
        seen: set[Node] = set()
        pending = [start]
        while pending:
            node = pending.pop()
            for user in self.users([node]):
                if user in inside:
                    return True
                if user not in seen and self.place[user] > first:
                    seen.add(user)
                    pending.append(user)
        return False

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
        return all(item.is_static and item.dtype in _TYPES and item.elements > 0 for item in tensors)
