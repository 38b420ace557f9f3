"""MindSpore's lists of operators for graph-kernel fusion, under MindSpore's names (`OpDef.mindspore`).

>>> "Pow" in operators("composite"), "Pow" in operators("basic")
(True, False)
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Literal

from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet

ListName = Literal["basic", "composite", "reduce", "cluster", "expander"]
RELEASE = "v0.7.0-beta"  # whose two stages these are; expanders exist from v1.0 on and are taken from v1.3
EXPANDER_RELEASE = "v1.3.0"
# joins a list only when kernels, and with them element types, are selected
AFTER_SELECTION = frozenset({"Cast"})

# Composites that never grow (v0.7, pass/fuse_graph_kernel.cc)
NEVER_GROWN = frozenset(
    {"BNTrainingUpdateSum", "ApplyMomentum", "LayerNormForward", "LambNextMV", "LambUpdateWithLR"}
)


@cache
def operators(name: ListName, release: str = RELEASE) -> frozenset[str]:
    """MindSpore's names of the operators on a list."""
    text = files("ascendsim.passes.graph_kernel").joinpath("data", "ops.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(row["op"] for row in rows if row["mindspore_tag"] == release and row["list"] == name)


def with_mindspore_types(graph: Graph, opset: OpSet) -> Graph:
    """Renames the operators of a graph and of its composites' bodies for a dump; returns the graph."""
    for node in graph.nodes:
        for _, body in node.subgraphs:
            with_mindspore_types(body, opset)
        node.op_type, node.domain = opset.mindspore_type(node), ""
    return graph
