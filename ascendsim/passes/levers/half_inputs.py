"""Parameter change: float32 inputs of the network that come in float16 (ATC's --input_fp16_nodes).

x (float32) -> ...      becomes      x (float16) -> Cast(float32) -> ...

In the precision modes that compute in float16 anyway the Cast goes, and with it the one that the device did.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet


def with_half_inputs(graph: Graph, opset: OpSet) -> Graph | None:
    """A copy whose float32 inputs are float16; None if it has no such input."""
    made = copy_graph(graph)
    wide = [tensor for tensor in made.inputs if tensor.dtype is DType.FLOAT32 and tensor.uses]
    for tensor in wide:
        users = tensor.uses
        tensor.dtype = DType.FLOAT16
        node = made.add_node("Cast", [tensor], 1, made.fresh(f"{tensor.name}_float32"))
        node.attributes["to"] = DType.FLOAT32
        opset.infer(node)
        for use in users:
            use.node.set_input(use.index, node.output)
    return made if wide else None
