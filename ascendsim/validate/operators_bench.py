"""What graphs of one operator are built with: where inputs come from, and the graph that comes out.

Inputs that another operator made a moment ago lie in L2 if they fit. In rows of a network's profile every
activation is therefore the output of an operator in front (a Neg), whose time is not counted; weights,
activations that the forward pass kept for a gradient, and the inputs of stand-alone samples come from DRAM.
Updates of weights come one after the other: each finds L2 full of what those before it have read and
written, and writes the latter back (`Bench.kept`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ascendsim import soc as chips
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.validate.operators_rows import Operand, OperatorRow

_LARGE = 1 << 20  # bytes from which it matters
_MADE = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT32)


@dataclass(frozen=True, slots=True)
class OneOperator:
    """A graph to time one operator in.

    Attributes:
        graph: The operator, and what makes its inputs.
        node: Its name.
        more: Names of others whose tasks count as well, each task once.
        precision: Precision mode to compile with.
        placed: Formats are in the graph already: lower it as it is.
        macs: Useful multiply-adds on the Cube.
        fusion: How much may be fused with it.
    """

    graph: Graph
    node: str
    more: tuple[str, ...] = ()
    precision: str = "must_keep_origin_dtype"
    placed: bool = False
    macs: int = 0
    fusion: str = "off"


@dataclass(slots=True)
class Bench:
    """A builder that knows where inputs come from. Rows are what ran on a device, where an Add may have
    operands of two types: the rules of ONNX's schemas, to which the graphs of users are held, are not for it.
    """

    row: OperatorRow
    builder: GraphBuilder = field(
        default_factory=lambda: GraphBuilder("operator", infer=default_opset().infer)
    )
    _made: list[Tensor] = field(default_factory=list)
    _kept_bytes: int = 0
    _built: int = 0

    def made(self, shape: tuple[int, ...], dtype: DType | None, format: Format = Format.ND) -> Tensor:
        """An input that an operator in front made; a plain graph input for samples and types that no vector
        operator negates.
        """
        kind = dtype or DType.FLOAT32
        if self.row.cold:
            return self.kept(shape, kind, format)
        given = self.stored(shape, kind, format)
        if not self.row.profiled or kind not in _MADE:
            return given
        made = self.builder.op("Neg", given)
        made.format = format
        self._made.append(made)
        return made

    def kept(self, shape: tuple[int, ...], dtype: DType, format: Format = Format.ND) -> Tensor:
        """A weight, its gradient, a moment or what is known not to lie in L2: in DRAM; others like it were
        worked on just before.
        """
        self._kept_bytes += math.prod(shape) * dtype.itemsize
        return self.stored(shape, dtype, format)

    @property
    def before(self) -> int:
        """How often the same was done just before, on other tensors: until L2 is full of these."""
        size = chips.load(self.row.soc).l2.size or 0
        return math.ceil(size / self._kept_bytes) if self._kept_bytes >= _LARGE else 0

    def stored(self, shape: tuple[int, ...], dtype: DType, format: Format = Format.ND) -> Tensor:
        """An input that lies in DRAM."""
        given = self.builder.input(f"in{len(self.builder.graph.inputs)}", shape, dtype)
        given.format = format
        return given

    def map_made(self, operand: Operand) -> Tensor:
        """A feature map in NC1HWC0 that an operator in front made (pooling of 1 x 1); a list of one value a
        channel lies in DRAM.
        """
        shape = logical(operand)
        assert operand.dtype is not None
        given = self.stored((shape[1],) if shape[0] == shape[2] == shape[3] == 1 else shape, operand.dtype)
        if len(given.static_shape) == 1:
            return given
        made = self.builder.op("MaxPool", given, kernel_shape=(1, 1))
        self._made.append(made)
        return made

    def all_made(self) -> list[Tensor]:
        """All inputs of the row, in the shapes in which they are stored."""
        return [self.made(operand.shape, operand.dtype) for operand in self.row.inputs]

    def finish(
        self,
        *outputs: Tensor,
        precision: str = "must_keep_origin_dtype",
        placed: bool = False,
        macs: int = 0,
        fusion: str = "off",
    ) -> OneOperator:
        """The graph with these outputs; what makes the first one is timed, and with fusion all that stands
        between the inputs and the outputs.
        """
        for tensor in outputs:
            self.builder.output(tensor)
        node = outputs[0].producer
        assert node is not None
        graph = self.builder.build()
        makers = {id(tensor.producer) for tensor in self._made}
        added, self._built = graph.nodes[self._built :], len(graph.nodes)
        others = [other.name for other in added if id(other) not in makers and other is not node]
        more = tuple(others) if fusion != "off" else ()
        return OneOperator(graph, node.name, more, precision, placed, macs, fusion)


def logical(operand: Operand) -> tuple[int, ...]:
    """(N, C, H, W) of an NC1HWC0 shape and (..., M, N) of a FRACTAL_NZ one, as padded."""
    if operand.format == "NC1HWC0":
        n, c1, h, w, c0 = operand.shape
        return (n, c1 * c0, h, w)
    if operand.format == "FRACTAL_NZ":
        *batch, n1, m1, m0, n0 = operand.shape
        return (*batch, m1 * m0, n1 * n0)
    return operand.shape
