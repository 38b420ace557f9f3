"""Small changes that many passes of the graph engine make; each keeps names of outputs and the values of
everything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.graph.ir import Array, Graph, Node, Tensor


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and every subgraph in it, outer ones first."""
    yield graph
    for node in graph.holders:
        for _, subgraph in node.subgraphs:
            yield from all_graphs(subgraph)


def same_type(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape (known to be), element types and format."""
    return (
        one.shape is not None
        and one.shape == other.shape
        and None not in one.shape
        and one.dtype is other.dtype
        and one.origin_dtype is other.origin_dtype
        and one.format is other.format
    )


def bypass(node: Node, source: Tensor) -> bool:
    """Lets everything that reads the first output of a node read `source` instead, and removes the node.

    A graph output keeps its name: `source` takes it over, if a node of the same graph makes it and it is no
    output itself.

    Who read the node waits for what it waited for; who waited for it waits for that and for what makes
    `source`.

    Returns:
        False, and nothing changed, if the output's name cannot be kept, another output of the node is used,
        or a control edge holds a node that makes an output of the graph or that a subgraph reads.
    """
    graph = node.graph
    assert graph is not None
    old = node.output
    if node.control and (
        _is_output(graph, old) or any(reader.graph is not graph for reader in old.consumers)
    ):
        return False
    if any(tensor.uses or _is_output(graph, tensor) for tensor in node.outputs[1:]):
        return False
    if _is_output(graph, old):
        if source.producer is None or source.producer.graph is not graph or _is_output(graph, source):
            return False
        name = old.name
        graph.rename_tensor(old, graph.fresh(f"{name}_replaced"))
        graph.rename_tensor(source, name)
    for needed in node.control:
        for reader in old.consumers:
            reader.add_control(needed)
    graph.replace_uses(old, source)
    for follower in node.followers:
        for before in (*node.control, source.producer):
            if before is not None and before.graph is graph:
                follower.add_control(before)
    remove(node)
    return True


def remove(node: Node) -> None:
    """Removes a node whose outputs nobody reads, and the constants that only it read."""
    graph = node.graph
    assert graph is not None
    inputs = node.inputs
    graph.remove_node(node)
    drop_constants(graph, inputs)


def remove_unread(node: Node) -> None:
    """Removes a node of which nobody reads an output and for which nobody waits."""
    graph = node.graph
    if (
        graph is None
        or node.followers
        or any(tensor.uses or _is_output(graph, tensor) for tensor in node.outputs)
    ):
        return
    remove(node)


def drop_constants(graph: Graph, tensors: tuple[Tensor | None, ...]) -> int:
    """Removes those of some tensors that are constants of the graph which nobody reads; returns how many."""
    dropped = 0
    for tensor in dict.fromkeys(tensors):
        if tensor is None or tensor.constant is None or tensor.producer is not None or tensor.uses:
            continue
        if graph.tensors.get(tensor.name) is tensor and not _is_output(graph, tensor):
            graph.remove_tensor(tensor)
            dropped += 1
    return dropped


def make_reshape(node: Node, source: Tensor) -> None:
    """Turns a node with a static first output into a Reshape of `source` to that output's shape, in place."""
    graph = node.graph
    assert graph is not None
    inputs = node.inputs
    shape = graph.add_constant(
        graph.fresh(f"{node.name}_shape"), np.array(node.output.static_shape, np.int64)
    )
    node.op_type, node.domain = "Reshape", ""
    node.attributes.clear()
    if 0 in node.output.static_shape:
        node.attributes["allowzero"] = 1  # a 0 in the shape means 0, not "as in the input"
    node.set_input(0, source)
    node.set_input(1, shape)
    node.truncate_inputs(2)
    drop_constants(graph, inputs)


def small_value(tensor: Tensor | None, most: int = 4096) -> Array | None:
    """The values of a constant of at most `most` elements that has them, else None."""
    if tensor is None or tensor.constant is None or not tensor.constant.available:
        return None
    return tensor.constant.array() if tensor.is_static and tensor.elements <= most else None


def only_reader(tensor: Tensor) -> bool:
    """Whether a tensor has exactly one use and is no output of its graph."""
    graph = tensor.producer.graph if tensor.producer is not None else None
    return len(tensor._uses) == 1 and (graph is None or not _is_output(graph, tensor))


def is_standard(node: Node | None, *op_types: str) -> bool:
    """Whether a node is one of these standard ONNX operators."""
    return node is not None and not node.domain and node.op_type in op_types


def _is_output(graph: Graph, tensor: Tensor) -> bool:
    return any(tensor is output for output in graph.outputs)
