"""The one way to replace nodes: readers, outputs of the graph with their names, control edges and origin are
kept, and what became dead goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.control import ControlEdges
from ascendsim.passes.rewriting.outputs import copy_of, hand_out, is_output
from ascendsim.passes.rewriting.removal import remove_dead_from, remove_unread

SOURCES = "source_names"  # key in Node.origin: the user's operators that a node stands for


def sources_of(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Names of the user's operators that some nodes stand for, each once."""
    return tuple(dict.fromkeys(name for node in nodes for name in node.origin.get(SOURCES, (node.name,))))


@contextmanager
def replacing(graph: Graph, nodes: Sequence[Node], sources: bool = True) -> Iterator[None]:
    """What is made within the block takes the place of some nodes, the last of which comes first.

    It gets their control edges and stands for the same operators of the user; where nothing is made, what is
    left of the nodes does. Without `sources` the graph is another model of the user's, with operators of its
    own.
    """
    edges = ControlEdges.of(nodes)
    names, additions = sources_of(nodes[::-1]), graph.additions
    edges.detach()
    yield
    made = graph.added_since(additions)
    edges.restore(graph, made)
    if sources:
        for node in made or [node for node in nodes if node.graph is graph]:
            node.origin[SOURCES] = names


def replace(
    graph: Graph,
    nodes: Sequence[Node],
    pairs: Sequence[tuple[Tensor, Tensor]],
    made: Sequence[Node] = (),
    deep: bool = True,
) -> None:
    """Lets new tensors stand for results of some nodes outside them, and removes the nodes and what else
    became dead.

    Outputs of the graph keep their names: a name moves to the new tensor; where that has a name of its own to
    keep (a graph input, another graph output, a constant), an Identity takes it.

    Args:
        graph: Of the nodes.
        nodes: They go, unless somebody still needs them.
        pairs: (old result, new tensor).
        made: Nodes that take over the control edges.
        deep: Whether producers that nobody needs any more go too.

    Raises:
        GraphError: If shapes or types are known and differ: readers of the old tensor could not read the new
            one.
    """
    inside, copies = set(nodes), []
    edges = ControlEdges.of(nodes)
    edges.detach()
    for old, new in pairs:
        if old is new:
            continue
        _check(old, new)
        for use in old.uses:
            if use.node not in inside:
                use.node.set_input(use.index, new)
        if is_output(graph, old):
            if new.producer is None or new.producer.graph is not graph or is_output(graph, new):
                maker = old.producer
                assert maker is not None
                copies.append(copy_of(graph, new, old, f"{maker.name}_identity"))
                new = copies[-1].output
            hand_out(graph, old, new)
    if deep:
        remove_dead_from(*nodes)
    else:
        for node in nodes:
            remove_unread(node)
    sources = [new.producer for _, new in pairs if new.producer is not None]
    edges.restore(graph, [*made, *copies], sources)


def replace_root(graph: Graph, root: Node, new: Tensor) -> None:
    """Lets `new` stand for the first output of a match's last node (see `replace`)."""
    replace(graph, [root], [(root.output, new)])


def replace_outputs(graph: Graph, node: Node, tensors: Sequence[Tensor]) -> None:
    """Lets tensors stand for the outputs of a node (see `replace`)."""
    replace(graph, [node], list(zip(node.outputs, tensors, strict=True)))


def insert_after(tensor: Tensor, new: Tensor) -> None:
    """Lets all operators that read `tensor` read `new`, which is made from it; graph outputs stay."""
    for use in tensor.uses:
        if use.node is not new.producer:
            use.node.set_input(use.index, new)


def _check(old: Tensor, new: Tensor) -> None:
    subject, rule = f"tensor {new.name!r}", f"to stand for {old.name!r}"
    if old.shape is not None and new.shape is not None and old.shape != new.shape:
        raise GraphError(subject, f"must have shape {list(old.shape)} {rule}", list(new.shape))
    if old.dtype is not None and new.dtype is not None and old.dtype is not new.dtype:
        raise GraphError(subject, f"must have type {old.dtype} {rule}", new.dtype)
