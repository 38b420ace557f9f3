"""Small changes that many passes of the graph engine make; each keeps names of outputs and the values of
everything.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace


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
    if node.control and (is_output(graph, old) or any(reader.graph is not graph for reader in old.consumers)):
        return False
    if any(tensor.uses or is_output(graph, tensor) for tensor in node.outputs[1:]):
        return False
    if is_output(graph, old) and (
        source.producer is None or source.producer.graph is not graph or is_output(graph, source)
    ):
        return False
    replace(graph, [node], [(old, source)], deep=False)
    return True


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
    return len(tensor._uses) == 1 and (graph is None or not is_output(graph, tensor))


def is_standard(node: Node | None, *op_types: str) -> bool:
    """Whether a node is one of these standard ONNX operators."""
    return node is not None and not node.domain and node.op_type in op_types
