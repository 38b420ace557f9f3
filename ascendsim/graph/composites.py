"""Composites: several nodes held as one node with a subgraph, as MindSpore's graph kernels are.

The node is `ascend::GraphKernel`; attribute `body` holds the subgraph, whose inputs and outputs are those of
the node in order, and `graph_kernel` the name. Constants that are part of the instructions (one element) or
that steer an operator (axes, shapes) lie in the body.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor

DOMAIN = "ascend"
GRAPH_KERNEL = "GraphKernel"
BODY = "body"
NAME = "graph_kernel"


def is_composite(node: Node) -> bool:
    """Whether a node is a composite."""
    return (node.domain, node.op_type) == (DOMAIN, GRAPH_KERNEL)


def body_of(node: Node) -> Graph:
    """The subgraph of a composite."""
    body = node.attributes[BODY]
    assert isinstance(body, Graph)
    return body


def outside_tensors(nodes: Collection[Node]) -> tuple[Tensor, ...]:
    """Outputs of the nodes that other nodes or the graph's outputs read, in order."""
    inside = set(nodes)
    given = {
        output for graph in {node.graph for node in nodes} if graph is not None for output in graph.outputs
    }
    return tuple(
        tensor
        for node in nodes
        for tensor in node.outputs
        if tensor in given or any(use.node not in inside for use in tensor.uses)
    )


def lies_inside(tensor: Tensor) -> bool:
    """Whether a constant becomes part of the composite that reads it."""
    if tensor.constant is None or not tensor.constant.available:
        return False
    return tensor.elements == 1 or tensor.element_type is DType.INT64


def body_graph(nodes: Iterable[Node], name: str) -> tuple[Graph, list[Tensor], list[Tensor]]:
    """A copy of some nodes as a graph of its own.

    Args:
        nodes: In execution order; nothing outside may lie between them.
        name: Of the new graph.

    Returns:
        The graph, and the tensors that are its inputs and outputs in the graph around it.
    """
    members = list(nodes)
    made = {tensor for node in members for tensor in node.outputs}
    body = Graph(name)
    twins: dict[Tensor, Tensor] = {}
    outer_inputs: list[Tensor] = []

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            copy = Tensor(tensor.name, tensor.dtype, tensor.shape, tensor.format)
            copy.origin_dtype = tensor.origin_dtype
            twins[tensor] = body.add_tensor(copy)
        return twins[tensor]

    for node in members:
        for tensor in node.inputs:
            if tensor is None or tensor in made or tensor in twins:
                continue
            copy = twin(tensor)
            if lies_inside(tensor):
                copy.constant = tensor.constant
            else:
                body.inputs.append(copy)
                outer_inputs.append(tensor)
        inner = body.add_node(
            node.op_type,
            [None if tensor is None else twin(tensor) for tensor in node.inputs],
            [twin(tensor) for tensor in node.outputs],
            name=node.name,
            domain=node.domain,
        )
        inner.attributes.update(node.attributes)
        inner.origin.update(node.origin)
    outer_outputs = list(outside_tensors(members))
    body.outputs.extend(twins[tensor] for tensor in outer_outputs)
    return body, outer_inputs, outer_outputs
