"""What a graph takes from its run before: inputs whose next value it gives itself, as a training step does
with parameters and moments.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Tensor

UPDATED = ".updated"  # behind the name of an input: the output that it is in the next run


def is_carried(graph: Graph, given: Tensor) -> bool:
    """Whether a graph gives the next value of one of its inputs."""
    wanted = f"{given.name}{UPDATED}"
    return any(tensor.name == wanted for tensor in graph.outputs)
