"""What a graph takes from its run before: inputs whose next value it gives itself, as a training step does
with parameters and moments; or whose gradient it gives, for somebody else to update them.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Tensor

UPDATED = ".updated"  # behind the name of an input: the output that it is in the next run
GRAD = ".grad"  # behind the name of what is differentiated by: its gradient


def is_carried(graph: Graph, given: Tensor) -> bool:
    """Whether a graph gives the next value of one of its inputs."""
    return _gives(graph, f"{given.name}{UPDATED}")


def is_trained(graph: Graph, given: Tensor) -> bool:
    """Whether a graph gives the gradient of one of its inputs."""
    return _gives(graph, f"{given.name}{GRAD}")


def _gives(graph: Graph, name: str) -> bool:
    return any(tensor.name == name for tensor in graph.outputs)
