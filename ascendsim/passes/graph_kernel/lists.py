"""MindSpore's lists of operators for graph-kernel fusion, and MindSpore's names for the operators of the
graph.

>>> "Pow" in operators("composite"), "Pow" in operators("basic")
(True, False)
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from ascendsim.graph.composites import NAME, is_composite
from ascendsim.graph.ir import Graph, Node

ListName = Literal["basic", "composite", "reduce", "cluster", "expander"]
RELEASE = "v0.7.0-beta"  # whose two stages these are; expanders exist from v1.0 on and are taken from v1.3
EXPANDER_RELEASE = "v1.3.0"
# joins a list only when kernels, and with them element types, are selected
AFTER_SELECTION = frozenset({"Cast"})

# Composites that never grow (v0.7, pass/fuse_graph_kernel.cc)
NEVER_GROWN = frozenset(
    {"BNTrainingUpdateSum", "ApplyMomentum", "LayerNormForward", "LambNextMV", "LambUpdateWithLR"}
)

_NAMES: Mapping[str, str] = {
    "Add": "TensorAdd",
    "Div": "RealDiv",
    "Sum": "AddN",
    "Max": "Maximum",
    "Min": "Minimum",
    "LessOrEqual": "LessEqual",
    "GreaterOrEqual": "GreaterEqual",
    "Where": "Select",
    "Unsqueeze": "ExpandDims",
    "Expand": "BroadcastTo",
    "Gelu": "GeLU",
    "LayerNormalization": "LayerNorm",
    "Relu": "ReLU",
    "ReduceSumSquare": "SquareSumV1",
    "SoftmaxGrad": "SoftmaxGradExt",
    "Conv": "Conv2D",
}


@cache
def operators(name: ListName, release: str = RELEASE) -> frozenset[str]:
    """MindSpore's names of the operators on a list."""
    text = files("ascendsim.passes.graph_kernel").joinpath("data", "ops.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(row["op"] for row in rows if row["mindspore_tag"] == release and row["list"] == name)


def mindspore_type(node: Node) -> str:
    """The operator as MindSpore names it; of a composite, its name."""
    if is_composite(node):
        return str(node.attr(NAME))
    if node.op_type in ("Max", "Min") and node.input_count != 2:
        return node.op_type  # MindSpore's take two
    return _NAMES.get(node.op_type, node.op_type)


def with_mindspore_types(graph: Graph) -> Graph:
    """Renames the operators of a graph and of its composites' bodies for a dump; returns the graph."""
    for node in graph.nodes:
        for _, body in node.subgraphs:
            with_mindspore_types(body)
        node.op_type, node.domain = mindspore_type(node), ""
    return graph
