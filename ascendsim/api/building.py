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
        GraphError: By `op`, if the inputs do not fit the operator (their number and types by ONNX's schema,
            their shapes by its rule), or if the schema has no such attribute.
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
    """Sets types and shapes of a node's outputs after a look at what its schema says, if ONNX has it."""

    def infer(node: Node) -> None:
        if not node.domain:
            from ascendsim.frontends.onnx.schemas import Checks, schema_of

            schema = schema_of(node.op_type)
            if schema is not None:
                checks = Checks(schema, f"node {node.name!r} ({node.op_type})")
                checks.names(node.attributes)
                checks.ports(node.inputs)
                checks.types([None if tensor is None else tensor.origin_dtype for tensor in node.inputs])
                for name, value in node.attributes.items():
                    checks.value(name, value)
        opset.infer(node)

    return infer
