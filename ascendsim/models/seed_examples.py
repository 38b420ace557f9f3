"""The two networks of MindSpore's tutorial on graph-kernel fusion.

NetBasicFuse      y = x * 2 + 1          two basic operators: one composite after the basic stage
NetCompositeFuse  y = (x * 2 + 1) ^ 3    Pow is no basic operator: it joins in the composite stage
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext


def _infer(node: Node) -> None:
    default_opset().get(node).infer(InferContext(node))


def net_basic_fuse(shape: Sequence[int] = (4, 4)) -> Graph:
    """Mul and TensorAdd on float32.

    Args:
        shape: Of input "x" and output "y".
    """
    b = GraphBuilder("NetBasicFuse", infer=_infer)
    x = b.input("x", shape)
    b.output(b.op("Add", b.op("Mul", x, 2.0, name="mul"), 1.0, name="add"), "y")
    return b.build()


def net_composite_fuse(shape: Sequence[int] = (4, 4)) -> Graph:
    """Mul, TensorAdd and Pow on float32.

    Args:
        shape: Of input "x" and output "y".
    """
    b = GraphBuilder("NetCompositeFuse", infer=_infer)
    x = b.input("x", shape)
    line = b.op("Add", b.op("Mul", x, 2.0, name="mul"), 1.0, name="add")
    b.output(b.op("Pow", line, 3.0, name="pow"), "y")
    return b.build()
