"""In-place results: an output takes the address of an input that nobody needs any more.

An operator allows it if element i of its result is made from element i of that input (`OpDef.in_place`): its
blocks write a tile only after they have read the same tile. Of a task with several operators, every path from
the input to a result must go through such operators. The plan decides in addition: equal bytes, the input's
last use, and neither of the two is the caller's, a weight or cut into slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.scopes import internal_tensors
from ascendsim.isa.program import Task
from ascendsim.opset import OpSet


@dataclass(frozen=True, slots=True)
class Takeover:
    """A result that may lie where an input lay.

    Attributes:
        task: Number of the task.
        result, source: Names of the tensors.
    """

    task: int
    result: str
    source: str


def takeovers(graph: Graph, tasks: Sequence[Task], opset: OpSet) -> list[Takeover]:
    """What operators allow for the tasks of a program, in launch order."""
    by_nodes: dict[tuple[str, ...], list[Task]] = {}
    for task in tasks:
        by_nodes.setdefault(task.nodes, []).append(task)
    return [
        item
        for names, own in by_nodes.items()
        for item in takeovers_of(own, [graph.node(name) for name in names], opset)
    ]


def takeovers_of(tasks: Sequence[Task], nodes: Sequence[Node], opset: OpSet) -> list[Takeover]:
    """What operators allow for the tasks of a node or scope; the first of several sources is preferred.

    Nothing where several tasks or the AI CPU do the work: what happens in which order is not known there.
    """
    if len(tasks) != 1 or not tasks[0].kind.on_cores or not any([opset.get(node).in_place for node in nodes]):
        return []
    inside = set(nodes)
    hidden = {id(tensor) for tensor in internal_tensors(nodes)} if len(nodes) > 1 else set()
    results = [tensor for node in nodes for tensor in node.outputs if id(tensor) not in hidden]
    sources = dict.fromkeys(
        t
        for node in nodes
        for t in node.inputs
        if t is not None and t.producer not in inside and not t.is_constant
    )
    found = []
    for source in sources:
        alike = [result for result in results if _alike(source, result)]
        readers = [node for node in nodes if source in node.inputs] if alike else []
        if all(_tile_by_tile(reader, source, inside, opset) for reader in readers):
            found += [Takeover(tasks[0].id, result.name, source.name) for result in alike]
    return found


def _tile_by_tile(node: Node, tensor: Tensor, inside: set[Node], opset: OpSet) -> bool:
    """Whether a node, and all nodes of the task that read its result, work element by element on what comes
    from a tensor.
    """
    waiting, seen = [(node, tensor)], set()
    while waiting:
        reader, given = waiting.pop()
        if reader in seen:
            continue
        seen.add(reader)
        if not opset.get(reader).in_place or not all(_same_shape(given, output) for output in reader.outputs):
            return False
        waiting += [
            (follower, output)
            for output in reader.outputs
            for follower in output.consumers
            if follower in inside
        ]
    return True


def _same_shape(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.format is other.format


def _alike(source: Tensor, result: Tensor) -> bool:
    return (
        _same_shape(source, result)
        and source.dtype is not None
        and result.dtype is not None
        and source.dtype.itemsize == result.dtype.itemsize
    )
