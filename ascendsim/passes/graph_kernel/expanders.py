"""Expanders: composite operators written out in basic ones (`opset.expansion`), in their place."""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import InferContext, OpSet
from ascendsim.opset.expansion import Writer
from ascendsim.passes.rewriting.outputs import typed_like
from ascendsim.passes.rewriting.replace import SOURCES, replace, sources_of

FLOATS = (DType.FLOAT16, DType.FLOAT32)


def expandable(opset: OpSet) -> frozenset[str]:
    """MindSpore's names of the operators that can be written out."""
    return frozenset(item.mindspore_name for item in opset if item.expand is not None)


def expand(graph: Graph, node: Node, opset: OpSet) -> list[Node] | None:
    """Replaces a node by basic ones.

    Args:
        graph: Changed in place.
        node: What is expanded.
        opset: Operators.

    Returns:
        The new nodes in order, behind those of the graph; None (and nothing changed) if the node cannot be
        expanded.
    """
    definition = opset.find(node.op_type, node.domain)
    if definition is None or definition.expand is None:
        return None
    steering = definition.facts.parameters  # axes, of int64 or int32
    data = [tensor for port, tensor in enumerate(node.inputs) if tensor is not None and port not in steering]
    if any(tensor.element_type not in FLOATS or not tensor.is_static for tensor in (*data, node.output)):
        return None
    writer = Writer(graph, lambda made: opset.get(made).infer(InferContext(made)), node)
    result = definition.expand(writer)
    if result is None or result.producer is None:
        return None
    old = node.output
    typed_like(result, old)
    for made in writer.made:
        made.origin.update(node.origin)
        made.origin[SOURCES] = sources_of([node])
    label = old.name
    replace(graph, [node], [(old, result)], writer.made, deep=False)
    graph.rename_tensor(result, label)
    return writer.made
