"""The kinds of edges that the tuning guide of the Ascend 310 lists for L2 fusion."""

from __future__ import annotations

from collections.abc import Mapping

from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet
from ascendsim.opset.facts import OpPattern
from ascendsim.opset.patterns import pattern_of

_OTHER = frozenset({"ai_cpu", "links"})


def seed_edges(graph: Graph, opset: OpSet, engines: Mapping[str, str]) -> frozenset[str]:
    """Tensors from a reduction to segment-wise operators, and from an AI Core operator to another engine.

    Args:
        graph: The device graph.
        opset: Operators.
        engines: Engine by node name, as lowering tells.
    """
    found = set()
    for node in graph.nodes:
        if engines.get(node.name) in (*_OTHER, "none"):
            continue
        reduces = pattern_of(node, opset) is OpPattern.COMM_REDUCE
        for tensor in node.outputs:
            users = tensor.consumers
            if not users:
                continue
            segments = reduces and all(pattern_of(user, opset) is OpPattern.SEGMENT for user in users)
            if segments or all(engines.get(user.name) in _OTHER for user in users):
                found.add(tensor.name)
    return frozenset(found)
