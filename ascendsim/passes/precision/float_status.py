"""The check for overflow that the chip has, in the place of AllFinite.

    AllFinite(gradients...)    =>    cleared = NPUClearFloatStatus(NPUAllocFloatStatus())
                                     Less(ReduceSum(NPUGetFloatStatus(cleared, gradients...)), 1)

on chips whose cores note an overflow in a status register. The register is cleared before anything else runs
and read behind the gradients, so that nothing of their size is read for it (MindSpore's all_finite does the
same on "ascend910", and looks at the gradients on later chips).
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.passes.rewriting.replace import replace_root

_DOMAIN = "ascend"


def read_status(graph: Graph, opset: OpSet) -> int:
    """Rewrites all such checks; gives their number.

    Args:
        graph: Changed in place; types and shapes known as far as they can be.
        opset: Operators.
    """
    found = [node for node in graph.nodes if node.domain == _DOMAIN and node.op_type == "AllFinite"]
    for node in found:
        _rewrite(graph, node, opset)
    return len(found)


def _rewrite(graph: Graph, node: Node, opset: OpSet) -> None:
    def add(op_type: str, *inputs: Tensor | None, domain: str = "") -> Tensor:
        name = graph.fresh(f"{node.name}/{op_type}")
        made = graph.add_node(op_type, inputs, 1, name=name, domain=domain)
        made.origin.update({**node.origin, WIDE: True})
        if op_type == "ReduceSum":
            made.attributes["keepdims"] = 1
        opset.infer(made)
        return made.output

    first = graph.nodes[0]
    buffer = add("NPUAllocFloatStatus", domain=_DOMAIN)
    cleared = add("NPUClearFloatStatus", buffer, domain=_DOMAIN)
    for tensor in (buffer, cleared):  # ties of execution order go by insertion: before all that may overflow
        assert tensor.producer is not None
        graph.place_before(tensor.producer, first)
    status = add("NPUGetFloatStatus", cleared, *node.inputs, domain=_DOMAIN)
    one = graph.add_constant(graph.fresh(f"{node.name}/one"), np.ones(1, np.float32))
    replace_root(graph, node, add("Less", add("ReduceSum", status), one))
