"""Small graphs on which fusion is explained: products, convolutions, a split, and the two networks of
MindSpore's tutorial.

Weights are seeded, float16 unless said otherwise, so that no Cast stands around the operators that matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext


def matmul_bias_relu(m: int = 512, k: int = 512, n: int = 512) -> Graph:
    """Relu(x @ w + bias): three tasks that each write the output, or one that writes it once.

    Args:
        m: Rows of x.
        k: Columns of x.
        n: Columns of the result.
    """
    b, random = _builder("MatMul + Bias + Relu"), np.random.default_rng(0)
    x = b.input("x", (m, k))
    product = b.op(
        "MatMul", x, b.constant(_half(random.standard_normal((k, n)) / np.sqrt(k)), "w"), name="MatMul"
    )
    biased = b.op("Add", product, b.constant(_half(random.standard_normal(n)), "bias"), name="Bias")
    b.output(b.op("Relu", biased, name="Relu"), "y")
    return b.build()


def conv_bias(channels: int = 64, size: int = 56) -> Graph:
    """A 3x3 convolution and an Add of one number a channel, which L0C can do while it accumulates."""
    b, random = _builder("Conv + Bias"), np.random.default_rng(0)
    made = _conv(b, b.input("x", (1, channels, size, size)), channels, random)
    b.output(
        b.op(
            "Add", made, b.constant(_half(random.standard_normal((1, channels, 1, 1))), "bias"), name="Bias"
        ),
        "y",
    )
    return b.build()


def conv_bn_relu(channels: int = 64, size: int = 56, *, training: bool = False) -> Graph:
    """A 3x3 convolution, batch normalisation and Relu.

    In inference the normalisation disappears into the weights. In training it needs the sums of what the
    convolution makes, so that it is split in two: one part belongs to the convolution, the other to the Relu.

    Args:
        channels: In and out.
        size: Height and width.
        training: Whether the normalisation computes mean and variance.
    """
    b, random = (
        _builder("Conv + BatchNorm + Relu" + (" in training" if training else "")),
        np.random.default_rng(0),
    )
    made = _conv(b, b.input("x", (1, channels, size, size)), channels, random)
    constants = [
        b.constant(_half(random.uniform(0.5, 1.5, channels)), name)
        for name in ("scale", "offset", "mean", "variance")
    ]
    names = ["normalised", "running_mean", "running_variance"] if training else ["normalised"]
    normalised = b.ops(
        "BatchNormalization", made, *constants, outputs=names, name="BatchNorm", training_mode=int(training)
    )
    b.output(b.op("Relu", normalised[0], name="Relu"), "y")
    for statistic in normalised[1:]:
        b.output(statistic)
    return b.build()


def net_basic_fuse(shape: Sequence[int] = (4, 4)) -> Graph:
    """NetBasicFuse, y = x * 2 + 1 in float32: two basic operators, one composite after the basic stage.

    Args:
        shape: Of input "x" and output "y".
    """
    b = _builder("NetBasicFuse", DType.FLOAT32)
    b.output(b.op("Add", b.op("Mul", b.input("x", shape), 2.0, name="mul"), 1.0, name="add"), "y")
    return b.build()


def net_composite_fuse(shape: Sequence[int] = (4, 4)) -> Graph:
    """NetCompositeFuse, y = (x * 2 + 1) ^ 3 in float32: Pow is no basic operator, it joins in the composite
    stage.

    Args:
        shape: Of input "x" and output "y".
    """
    b = _builder("NetCompositeFuse", DType.FLOAT32)
    line = b.op("Add", b.op("Mul", b.input("x", shape), 2.0, name="mul"), 1.0, name="add")
    b.output(b.op("Pow", line, 3.0, name="pow"), "y")
    return b.build()


def _builder(name: str, dtype: DType = DType.FLOAT16) -> GraphBuilder:
    opset = default_opset()
    return GraphBuilder(name, infer=lambda node: opset.get(node).infer(InferContext(node)), dtype=dtype)


def _conv(b: GraphBuilder, x: Tensor, channels: int, random: np.random.Generator) -> Tensor:
    weights = random.standard_normal((channels, channels, 3, 3)) / np.sqrt(9 * channels)
    return b.op("Conv", x, b.constant(_half(weights), "w"), name="Conv", pads=[1, 1, 1, 1])


def _half(values: Array) -> Array:
    return values.astype(np.float16)
