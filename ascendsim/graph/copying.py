"""Copying a graph: new nodes, tensors and use lists; constants share their arrays."""

from __future__ import annotations

from ascendsim.graph.ir import AttributeValue, Graph, Node, Tensor


def copy_graph(graph: Graph, outer: dict[Tensor, Tensor] | None = None) -> Graph:
    """Returns a deep copy; `outer` maps tensors of an enclosing graph that a subgraph captures."""
    new = Graph(graph.name, metadata=dict(graph.metadata))
    new._counter = graph._counter
    mapped: dict[Tensor, Tensor] = dict(outer or {})
    for name, tensor in graph.tensors.items():
        twin = mapped[tensor] = new._tensors[name] = Tensor(
            name, tensor.dtype, tensor.shape, tensor.format, tensor.constant
        )
        twin.origin_dtype = tensor.origin_dtype
    new.inputs.extend(mapped[t] for t in graph.inputs)
    nodes: dict[Node, Node] = {}
    for node in graph.nodes:
        twin_node = nodes[node] = Node(node.op_type, node.name, node.domain)
        inputs = [None if t is None else mapped.get(t, t) for t in node.inputs]
        new._append(twin_node, inputs, [mapped[t] for t in node.outputs])
        twin_node.attributes = {key: _copy_attribute(value, mapped) for key, value in node.attributes.items()}
        twin_node.origin.update(node.origin)
    for node, twin_node in nodes.items():
        for before in node.control:
            twin_node.add_control(nodes[before])
    new.outputs.extend(mapped.get(t, t) for t in graph.outputs)
    return new


def _copy_attribute(value: AttributeValue, mapped: dict[Tensor, Tensor]) -> AttributeValue:
    if isinstance(value, Graph):
        return copy_graph(value, mapped)
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple(copy_graph(item, mapped) for item in value)
    return value
