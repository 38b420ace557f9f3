"""Patterns of operators and how they are found in a graph.

A pattern is a tree that is read from its last operator backwards through its inputs:

    Op("Relu", Op("Conv", Any("x"), Const("w"), name="conv"), name="relu")

Captured names are unique; the same tensor name twice means the same tensor. Inner operators must feed nobody
outside the match unless `shared=True`, since a rewrite takes them away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Union

from ascendsim.graph.ir import Graph, Node, Tensor


@dataclass(frozen=True, slots=True)
class Any:
    """Any tensor."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Const:
    """A constant tensor (its values may be absent)."""

    name: str = ""


@dataclass(frozen=True, slots=True, init=False)
class Op:
    """One operator.

    Args:
        types: Operator type, or several joined by "|" ("Mul|Add").
        inputs: Patterns by input port; ports beyond them are free, None leaves a port free.
        name: Capture name of the node.
        commutative: Whether the given inputs may stand in any order.
        shared: Whether its output may have readers outside the match, or be a graph output.
        output: Output port that the reader takes.
    """

    types: tuple[str, ...]
    inputs: tuple[Pattern | None, ...]
    name: str
    commutative: bool
    shared: bool
    output: int

    def __init__(
        self,
        types: str,
        *inputs: Pattern | None,
        name: str = "",
        commutative: bool = False,
        shared: bool = False,
        output: int = 0,
    ) -> None:
        for key, value in (
            ("types", tuple(types.split("|"))),
            ("inputs", inputs),
            ("name", name or types.split("|")[0].lower()),
            ("commutative", commutative),
            ("shared", shared),
            ("output", output),
        ):
            object.__setattr__(self, key, value)


Pattern = Union[Op, Any, Const]


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found.

    Attributes:
        pattern: Name of the pattern.
        root: The last node of the match.
        nodes: Captured nodes by name; a rule that finds its matches itself may add lists under `lists`.
        tensors: Captured tensors by name.
        all_nodes: Every node of the match, root first.
    """

    pattern: str
    root: Node
    nodes: Mapping[str, Node]
    tensors: Mapping[str, Tensor]
    all_nodes: tuple[Node, ...]
    lists: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Name of the last node, by which reports name the match."""
        return self.root.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return tuple([node.name for node in self.all_nodes])


def single(pattern: str, *nodes: Node) -> Match:
    """A match of nodes that a rule has found itself, the one that names it first."""
    return Match(pattern, nodes[0], {}, {}, nodes)


def find_matches(graph: Graph, name: str, pattern: Op) -> Iterator[Match]:
    """All places where a pattern stands, in execution order of their last nodes. Matches may overlap."""
    outputs = {id(tensor) for tensor in graph.outputs}
    for node in graph.topological():
        if node.op_type in pattern.types and _fed(node, pattern):
            match = match_at(node, name, pattern, outputs)
            if match is not None:
                yield match


def operator_types(pattern: Op) -> Iterator[tuple[str, ...]]:
    """The types of every operator of a pattern: a match has one node for each."""
    yield pattern.types
    for item in pattern.inputs:
        if isinstance(item, Op):
            yield from operator_types(item)


def _fed(node: Node, pattern: Op) -> bool:
    """Whether operators of the types that a pattern asks for make a node's inputs, which nearly all
    candidates fail.
    """
    for port, wanted in enumerate(pattern.inputs):
        if isinstance(wanted, Op):
            tensors = node._inputs if pattern.commutative else node._inputs[port : port + 1]
            producers = [tensor.producer for tensor in tensors if tensor is not None]
            if all(producer is None or producer.op_type not in wanted.types for producer in producers):
                return False
    return True


def match_at(root: Node, name: str, pattern: Op, graph_outputs: set[int]) -> Match | None:
    """The match whose last node is `root`, or None."""
    for nodes, tensors in _match_node(root, pattern, {}, {}):
        inner = [node for node in nodes.values() if node is not root]
        if all(_private(node, pattern, nodes, graph_outputs) for node in inner):
            return Match(name, root, nodes, tensors, (root, *dict.fromkeys(inner)))
    return None


Captured = tuple[dict[str, Node], dict[str, Tensor]]


def _match_node(
    node: Node, pattern: Op, nodes: dict[str, Node], tensors: dict[str, Tensor]
) -> Iterator[Captured]:
    if node.domain not in ("", "ascend") or node.op_type not in pattern.types:
        return
    held = nodes.get(pattern.name)
    if held is not None and held is not node:
        return
    start = (nodes | {pattern.name: node}, tensors)
    if not pattern.inputs:
        yield start
        return
    count = len(pattern.inputs)
    orders = permutations(range(count)) if pattern.commutative else [tuple(range(count))]
    for order in orders:
        yield from _match_inputs(node, pattern.inputs, order, 0, start)


def _match_inputs(
    node: Node, wanted: tuple[Pattern | None, ...], order: tuple[int, ...], port: int, captured: Captured
) -> Iterator[Captured]:
    if port == len(wanted):
        yield captured
        return
    for found in _match_tensor(node.input(port), wanted[order[port]], *captured):
        yield from _match_inputs(node, wanted, order, port + 1, found)


def _match_tensor(
    tensor: Tensor | None, wanted: Pattern | None, nodes: dict[str, Node], tensors: dict[str, Tensor]
) -> Iterator[Captured]:
    if wanted is None:
        yield nodes, tensors
    elif tensor is None:
        return
    elif isinstance(wanted, Op):
        producer = tensor.producer
        if producer is not None and tensor.index == wanted.output:
            yield from _match_node(producer, wanted, nodes, tensors)
    elif isinstance(wanted, Const) and not tensor.is_constant:
        return
    elif not wanted.name:
        yield nodes, tensors
    elif tensors.get(wanted.name, tensor) is tensor:
        yield nodes, tensors | {wanted.name: tensor}


def _private(node: Node, pattern: Op, nodes: Mapping[str, Node], graph_outputs: set[int]) -> bool:
    """Whether nobody outside the match reads the node (or its pattern allows it)."""
    name = next(key for key, value in nodes.items() if value is node)
    if _find(pattern, name).shared:
        return True
    inside = {id(other) for other in nodes.values()}
    return all(
        id(t) not in graph_outputs and all(id(use.node) in inside for use in t.uses) for t in node.outputs
    )


def _find(pattern: Op, name: str) -> Op:
    stack: list[Pattern | None] = [pattern]
    while stack:
        item = stack.pop()
        if isinstance(item, Op):
            if item.name == name:
                return item
            stack.extend(item.inputs)
    raise KeyError(name)
