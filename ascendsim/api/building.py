"""The graph builder that users hold: it knows all operators, so that every step infers types and shapes and
finds mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.graph import builder
from ascendsim.graph.ir import Node
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef, OpSet


class GraphBuilder(builder.GraphBuilder):
    """Builds a graph step by step; every step returns the tensor that it made, with its type and shape.

    b = asim.GraphBuilder("tiny")
    x = b.input("x", (1, 3, 8, 8))
    b.output(b.op("Relu", x), "y")
    model = asim.compile(b.build())

    Args:
        name: Of the graph.
        infer: Called with each new node to set types and shapes of its outputs; by default the operators' own
            shape rules.
        dtype: Element type of inputs, weights and plain numbers that do not say otherwise.
        operators: Operators of your own, the same as for `compile`.

    Raises:
        UnsupportedOperatorError: By `op`, if there is no such operator.
        GraphError: By `op`, if the inputs do not fit the operator, or ONNX's schema has no such attribute.
    """

    @checked()
    def __init__(
        self,
        name: str = "graph",
        infer: Callable[[Node], None] | None = None,
        dtype: DType = DType.FLOAT32,
        operators: Sequence[OpDef] = (),
    ) -> None:
        super().__init__(name, infer or _checked_infer(opset_with(operators)), dtype)


def _checked_infer(opset: OpSet) -> Callable[[Node], None]:
    """Sets types and shapes of a node's outputs after a look at the names of its attributes."""

    def infer(node: Node) -> None:
        if node.attributes and not node.domain:
            from ascendsim.frontends.onnx.schemas import check_names

            check_names(node.attributes, node.op_type, None, f"node {node.name!r} ({node.op_type})")
        opset.infer(node)

    return infer
