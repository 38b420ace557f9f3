"""What an operator says of itself besides shapes, values, work and axes: small facts that other layers ask
for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ascendsim.graph.ir import Node, Tensor
from ascendsim.opset.axes import AxesRule


class Kind(Enum):
    """What an operator is for, for colours and groups in reports."""

    CONVOLUTION = "Convolution"
    MATMUL = "Matrix product"
    ELEMENTWISE = "Elementwise"
    REDUCTION = "Normalisation, pooling, reduction"
    MOVEMENT = "Data movement"
    OTHER = "Other"


class Precision(Enum):
    """Which of CANN's lists for mixed precision an operator is on (ATC documentation of --modify_mixlist).

    WHITE operators gain by float16 and bear it: products on the Cube. BLACK operators lose by it: sums,
    exponentials, normalisations. GRAY operators follow what they are given. SUMS do so too, and give float32
    whatever they take, since sums over a batch leave float16; PRODUCT_SUMS are white and do the same
    (gradients of filters). STATISTICS are normalisations by sums that were made before: data and the first
    result follow the first input, in float32 inside, and statistics and parameters stay float32 (profiles of
    training steps have BNTrainingUpdate and BNTrainingReduceGrad so). ATTENTION is white, and its first two
    results, maxima and sums of rows, are float32; of ATTENTION_ONLY the second one, logarithms of sums.
    BITS are those that read or make the bits of the user's
    model, so its types stay in every mode.
    """

    WHITE = "white"
    BLACK = "black"
    GRAY = "gray"
    SUMS = "sums"
    PRODUCT_SUMS = "product sums"
    STATISTICS = "statistics"
    ATTENTION = "attention"
    ATTENTION_ONLY = "attention only"
    BITS = "bits"

    @property
    def sensitive(self) -> bool:
        return self is Precision.BLACK

    @property
    def on_cube(self) -> bool:
        """Whether products on the Cube are what the operator does."""
        products = (Precision.WHITE, Precision.PRODUCT_SUMS, Precision.ATTENTION, Precision.ATTENTION_ONLY)
        return self in products

    def gives_float32(self, output: int) -> bool:
        """Whether a result is float32 whatever the operands are."""
        if self is Precision.STATISTICS:
            return output > 0
        if self is Precision.ATTENTION:
            return output < 2
        if self is Precision.ATTENTION_ONLY:
            return output == 1
        return self in (Precision.SUMS, Precision.PRODUCT_SUMS)


class Sign(Enum):
    """What is known of the sign of an operator's results."""

    ANY = "any"
    NEVER_NEGATIVE = "never negative"
    POSITIVE = "positive"


class Elements(Enum):
    """What becomes of the inputs' numbers, which says how another element type changes the results.

    KEPT results are some of them: moved, repeated, chosen, the largest; the same in every type that holds
    them. COMPARED results tell how they compare, in a type of their own. COMPUTED results come by arithmetic:
    the same up to overflow and rounding. REAL is that for floating-point numbers only.
    """

    KEPT = "kept"
    COMPARED = "compared"
    COMPUTED = "computed"
    REAL = "real"


class OpPattern(Enum):
    """FE's classes of operators for UB fusion; the value is CANN's spelling."""

    ELEMWISE = "ElemWise"
    BROADCAST = "Broadcast"
    COMM_REDUCE = "CommReduce"
    SEGMENT = "Segment"
    CONVOLUTION = "Convolution"
    DEPTHWISE = "DepthwiseConvolution"
    CONV3D = "Conv3d"
    CONV_BACKPROP = "Conv2d_backprop_input"
    MATMUL = "Matmul"
    GEMM = "GEMM"
    BATCH_MATMUL = "BatchMatmul"
    BN_UPDATE = "bn_update"
    BN_REDUCE = "bn_reduce"
    DEQUANT = "dequant"
    QUANT = "quant"
    REQUANT = "requant"
    POOL2D = "Pool2d"
    MAX_POOL = "MaxPool"
    STRIDED_READ = "strided_read"
    STRIDED_WRITE = "strided_write"
    CONFUSION_TRANSPOSE = "confusiontranspose"
    FIXPIPE = "fixpipe"
    AIPP = "aipp"
    TRANSDATA = "TransData"
    OPAQUE = "Opaque"


@dataclass(frozen=True, slots=True)
class Facts:
    """What other layers ask about an operator.

    Attributes:
        axes: How its outputs' axes come from its inputs'; see `opset.axes` and the families in
            `opset.structure`.
        kind: What it is for.
        precision: CANN's list for mixed precision.
        pattern: Its class in UB fusion where CANN names one (a function of the node where that depends on
            it); None = by its axes, see `opset.patterns`.
        sign: Of its results (a function of the node where it depends on that).
        finite: Whether all finite arguments give finite results, overflow of sums, products and squares
            apart.
        parameters: Ports of inputs that steer it and are read as numbers, not as data: whatever the precision
            mode, they keep their type.
        operands: Ports of matrices and filters that the Cube takes.
        shape_port: Port of the input that holds the shape of the result, if there is one.
        makes_maps: Whether it makes feature maps in blocked format out of something else.
        elements: What becomes of its inputs' numbers; None = nobody may give it another element type.
        by_order: Whether its results are numbers that it picks by their order, and their places: another type
            that keeps the order gives the same ones.
        typed: Ports whose element type is that of the results, so that all change together; none = all.
        indices: Ports of indices, which may have either integer type.
        maps: Ports of feature maps, of which an operator of Layout.FEATURE wants each in its format.
        makes_filters: Whether its result is a filter, which the Cube leaves in fractals.
        two_forms: Whether CANN's kernel has a form of high precision and one of high performance.
        versioned: Whether its work differs between versions of CANN (`gelu_two_exponents`,
            `sigmoid_polynomial` of `LowerContext`).
    """

    axes: AxesRule
    kind: Kind
    precision: Precision
    pattern: OpPattern | Callable[[Node], OpPattern] | None = None
    sign: Sign | Callable[[Node], Sign] = Sign.ANY
    finite: bool = True
    parameters: tuple[int, ...] = ()
    operands: tuple[int, ...] = ()
    shape_port: int | None = None
    makes_maps: bool = False
    elements: Elements | None = None
    by_order: bool = False
    typed: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    maps: tuple[int, ...] = (0,)
    makes_filters: bool = False
    two_forms: bool = False
    versioned: bool = False

    def data(self, node: Node) -> list[Tensor]:
        """Inputs whose element type is that of the data that a node works on: neither parameters nor indices,
        nor conditions of a choice.
        """
        return [
            tensor
            for port, tensor in enumerate(node.inputs)
            if tensor is not None
            and port not in (*self.parameters, *self.indices)
            and (not self.typed or port in self.typed)
        ]

    def sign_of(self, node: Node) -> Sign:
        """What is known of the sign of a node's results."""
        return self.sign if isinstance(self.sign, Sign) else self.sign(node)


def movement(
    axes: AxesRule,
    pattern: OpPattern | Callable[[Node], OpPattern] | None = None,
    *,
    parameters: tuple[int, ...] = (),
    shape_port: int | None = None,
    makes_maps: bool = False,
    kept: tuple[int, ...] | None = None,
    indices: tuple[int, ...] = (),
) -> Facts:
    """Facts of an operator that only moves data, whatever their type.

    Args:
        axes, pattern, parameters, shape_port, makes_maps, indices: As in `Facts`.
        kept: Ports of the elements that it moves (empty = all), if results have their type in any case.
    """
    return Facts(
        axes,
        Kind.MOVEMENT,
        Precision.GRAY,
        pattern,
        parameters=parameters,
        shape_port=shape_port,
        makes_maps=makes_maps,
        elements=None if kept is None else Elements.KEPT,
        typed=kept or (),
        indices=indices,
    )
