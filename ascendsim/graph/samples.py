"""How many samples one execution of a graph has."""

from __future__ import annotations

from ascendsim.graph.ir import Graph


def batch_of(graph: Graph) -> int:
    """First dimension of the first input with a static shape, 1 if there is none."""
    shapes = [tensor.static_shape for tensor in graph.inputs if tensor.is_static]
    return max(1, next((shape[0] for shape in shapes if shape), 1))
