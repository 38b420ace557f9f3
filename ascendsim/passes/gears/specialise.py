"""A graph with open input shapes, inferred anew for given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet
from ascendsim.passes.infer import Inference


def with_input_shapes(graph: Graph, opset: OpSet, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """A copy of a graph with other input shapes; every shape inferred anew, shape arithmetic folded.
    Constants share their arrays.

    Args:
        graph: Stays as it is.
        opset: The operators.
        shapes: By input name; inputs that are left out keep theirs.

    Raises:
        GraphError: If a shape rule is broken with these shapes; names the node.
    """
    copy = copy_graph(graph)
    inference = Inference(opset)
    inference.restart(copy)
    for tensor in copy.inputs:
        if tensor.name in shapes:
            tensor.shape = tuple(shapes[tensor.name])
    inference.visit_all(copy.topological())
    inference.finish(copy)
    return copy
