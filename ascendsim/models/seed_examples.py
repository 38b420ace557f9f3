"""Small graphs on which fusion is explained: a product with bias and relu, a convolution with bias or normalisation, a split.

Weights are seeded, float16 unless said otherwise, so that no Cast stands around the operators that matter.
"""

from __future__ import annotations

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
    product = b.op("MatMul", x, b.constant(_half(random.standard_normal((k, n)) / np.sqrt(k)), "w"), name="MatMul")
    biased = b.op("Add", product, b.constant(_half(random.standard_normal(n)), "bias"), name="Bias")
    b.output(b.op("Relu", biased, name="Relu"), "y")
    return b.build()


def conv_bias(channels: int = 64, size: int = 56) -> Graph:
    """A 3x3 convolution and an Add of one number a channel, which L0C can do while it accumulates."""
    b, random = _builder("Conv + Bias"), np.random.default_rng(0)
    made = _conv(b, b.input("x", (1, channels, size, size)), channels, random)
    b.output(b.op("Add", made, b.constant(_half(random.standard_normal((1, channels, 1, 1))), "bias"), name="Bias"), "y")
    return b.build()


def conv_bn_relu(channels: int = 64, size: int = 56, *, training: bool = False) -> Graph:
    """A 3x3 convolution, batch normalisation and Relu.

    In inference the normalisation disappears into the weights. In training it needs the sums of what the convolution makes, so that it is
    split in two: one part belongs to the convolution, the other to the Relu.

    Args:
        channels: In and out.
        size: Height and width.
        training: Whether the normalisation computes mean and variance.
    """
    b, random = _builder("Conv + BatchNorm + Relu" + (" in training" if training else "")), np.random.default_rng(0)
    made = _conv(b, b.input("x", (1, channels, size, size)), channels, random)
    constants = [b.constant(_half(random.uniform(0.5, 1.5, channels)), name) for name in ("scale", "offset", "mean", "variance")]
    names = ["normalised", "running_mean", "running_variance"] if training else ["normalised"]
    normalised = b.ops("BatchNormalization", made, *constants, outputs=names, name="BatchNorm", training_mode=int(training))
    b.output(b.op("Relu", normalised[0], name="Relu"), "y")
    for statistic in normalised[1:]:
        b.output(statistic)
    return b.build()


def _builder(name: str) -> GraphBuilder:
    opset = default_opset()
    return GraphBuilder(name, infer=lambda node: opset.get(node).infer(InferContext(node)), dtype=DType.FLOAT16)


def _conv(b: GraphBuilder, x: Tensor, channels: int, random: np.random.Generator) -> Tensor:
    weights = random.standard_normal((channels, channels, 3, 3)) / np.sqrt(9 * channels)
    return b.op("Conv", x, b.constant(_half(weights), "w"), name="Conv", pads=[1, 1, 1, 1])


def _half(values: Array) -> Array:
    return values.astype(np.float16)
