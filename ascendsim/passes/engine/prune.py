"""PrunePass: only what named outputs need stays. And the naming of outputs, as ATC's --out_nodes has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.removal import all_graphs, drop_unread_constants, remove

SUBJECT = "option outputs"


@dataclass(frozen=True, slots=True)
class PrunePass:
    """Walks backwards from the outputs over data and control edges, and removes every node that it does not
    meet.

    Inputs of the model stay though nobody reads them any more, so that its interface is what its users know.
    """

    name: str = "PrunePass"

    def run(self, graph: Graph) -> PassResult:
        removed = sum(_prune(scope) for scope in reversed(list(all_graphs(graph))))
        constants = sum(drop_unread_constants(scope) for scope in all_graphs(graph)) if removed else 0
        return PassResult.of({"removed nodes": removed, "removed constants": constants})


@dataclass(frozen=True, slots=True)
class UnusedConstPass:
    """Removes constants that nobody reads."""

    name: str = "UnusedConstPass"

    def run(self, graph: Graph) -> PassResult:
        return PassResult.of({"removed constants": sum(map(drop_unread_constants, all_graphs(graph)))})


def _prune(graph: Graph) -> int:
    needed: set[Node] = set()
    stack = [tensor.producer for tensor in graph.outputs if tensor.producer is not None]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        stack.extend(before for before in graph.predecessors(node) if before.graph is graph)
    if len(needed) == len(graph):
        return 0
    removed = 0
    for node in reversed(graph.topological()):
        if node in needed:
            continue
        remove(node)
        removed += 1
    return removed


def parse_out_nodes(text: str) -> tuple[str, ...]:
    """Reads ATC's --out_nodes: "node1:0;node2:1", or names of tensors.

    Raises:
        InputError: If it names nothing.

    >>> parse_out_nodes("conv1:0; fc:1")
    ('conv1:0', 'fc:1')
    """
    names = tuple(filter(None, (part.strip() for part in text.split(";"))))
    if not names:
        raise InputError("option --out_nodes", 'must have the form "node1:0;node2:1"', repr(text))
    return names


def select_outputs(graph: Graph, outputs: Sequence[str] | str) -> PassResult:
    """Makes some tensors the outputs of a graph and removes what they do not need; arguments and errors as in
    `name_outputs`.
    """
    name_outputs(graph, outputs)
    return PrunePass().run(graph)


def name_outputs(graph: Graph, outputs: Sequence[str] | str) -> None:
    """Makes some tensors the outputs of a graph, in this order; what they do not need is left for
    `PrunePass`.

    Args:
        graph: Changed in place.
        outputs: "node:index" (ATC's form) or tensor names; a text may name several, separated by semicolons.

    Raises:
        InputError: If something is no node or tensor of the graph, has no such output, is an input or a
            weight, or comes twice.
    """
    names = parse_out_nodes(outputs) if isinstance(outputs, str) else tuple(outputs)
    if not names:
        raise InputError(SUBJECT, 'must name tensors or "node:index"', repr(outputs))
    chosen: list[Tensor] = []
    for name in names:
        tensor = _find(graph, name)
        if tensor in chosen:
            raise InputError(f"{SUBJECT}: {name!r}", "comes twice", remedy="name it once")
        chosen.append(tensor)
    graph.outputs[:] = chosen


def _find(graph: Graph, name: str) -> Tensor:
    tensor = graph.tensors.get(name)
    if tensor is not None:
        if tensor.producer is None:
            raise InputError(f"{SUBJECT}: {name!r}", "must be computed by a node", "an input or a weight")
        return tensor
    node_name, _, index = name.rpartition(":")
    nodes = {node.name: node for node in graph.nodes}
    node = nodes.get(node_name or name)
    if node is None:
        known = [*nodes, *(tensor.name for tensor in graph.tensors.values() if tensor.producer is not None)]
        remedy = suggest(node_name or name, known)
        raise InputError(f"{SUBJECT}: {name!r}", "is no node:index and no tensor of the model", remedy=remedy)
    if not index.isascii() or not index.isdigit() or len(index) > 9 or int(index) >= len(node.outputs):
        raise InputError(
            f"{SUBJECT}: {name!r}", f"must have an index from 0 to {len(node.outputs) - 1}", repr(index)
        )
    return node.outputs[int(index)]
