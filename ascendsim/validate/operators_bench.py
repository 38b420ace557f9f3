"""What graphs of one operator are built with: where inputs come from, and the graph that comes out.

Inputs that another operator made a moment ago lie in L2 if they fit. In rows of a network's profile every
activation is therefore the output of an operator in front (a Neg), whose time is not counted; weights,
activations that the forward pass kept for a gradient, and the inputs of stand-alone samples come from DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascendsim.api.building import GraphBuilder
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.validate.operators_rows import Operand, OperatorRow


@dataclass(frozen=True, slots=True)
class OneOperator:
    """A graph to time one operator in.

    Attributes:
        graph: The operator, and what makes its inputs.
        node: Its name.
        precision: Precision mode to compile with.
        placed: Formats are in the graph already: lower it as it is.
        macs: Useful multiply-adds on the Cube.
    """

    graph: Graph
    node: str
    precision: str = "must_keep_origin_dtype"
    placed: bool = False
    macs: int = 0


@dataclass(slots=True)
class Bench:
    """A builder that knows where inputs come from."""

    row: OperatorRow
    builder: GraphBuilder = field(default_factory=lambda: GraphBuilder("operator"))

    def made(self, shape: tuple[int, ...], dtype: DType | None, format: Format = Format.ND) -> Tensor:
        """An input that an operator in front made; a plain graph input for samples and types that no vector
        operator negates.
        """
        kind = dtype or DType.FLOAT32
        given = self.stored(shape, kind, format)
        if not self.row.profiled or kind not in (DType.FLOAT32, DType.FLOAT16, DType.INT32):
            return given
        made = self.builder.op("Neg", given)
        made.format = format
        return made

    def stored(self, shape: tuple[int, ...], dtype: DType, format: Format = Format.ND) -> Tensor:
        """An input that lies in DRAM."""
        given = self.builder.input(f"in{len(self.builder.graph.inputs)}", shape, dtype)
        given.format = format
        return given

    def finish(
        self, *outputs: Tensor, precision: str = "must_keep_origin_dtype", placed: bool = False, macs: int = 0
    ) -> OneOperator:
        for tensor in outputs:
            self.builder.output(tensor)
        node = outputs[0].producer
        assert node is not None
        return OneOperator(self.builder.build(), node.name, precision, placed, macs)


def logical(operand: Operand) -> tuple[int, ...]:
    """(N, C, H, W) of an NC1HWC0 shape, channels as padded."""
    if operand.format != "NC1HWC0":
        return operand.shape
    n, c1, h, w, c0 = operand.shape
    return (n, c1 * c0, h, w)
