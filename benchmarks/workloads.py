"""Graphs that the benchmarks run: matrix products, a network from a file, stacks of transformer layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ascendsim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import InferContext, default_opset

OPERATORS = default_opset()


def _infer(node: Node) -> None:
    OPERATORS.get(node).infer(InferContext(node))


def gemm(m: int, k: int, n: int) -> Graph:
    """A float16 product of [m, k] and a weight of [k, n]."""
    b = ascendsim.GraphBuilder("gemm", infer=_infer, dtype=DType.FLOAT16)
    b.output(b.op("MatMul", b.input("a", (m, k)), b.weight("w", (k, n))), "y")
    return b.build()


def transformer(layers: int, hidden: int = 768, heads: int = 12, sequence: int = 128, batch: int = 1) -> Graph:
    """Encoder layers as in BERT: attention and a network of four times the width, each with a residual and a normalisation."""
    b = ascendsim.GraphBuilder(f"transformer{layers}", infer=_infer)

    def dense(x: Tensor, inputs: int, outputs: int) -> Tensor:
        return b.op("Add", b.op("MatMul", x, b.weight("w", (inputs, outputs))), b.weight("b", (outputs,)))

    def split(x: Tensor, order: list[int]) -> Tensor:
        return b.op("Transpose", b.op("Reshape", x, [batch, sequence, heads, hidden // heads]), perm=order)

    def norm(x: Tensor) -> Tensor:
        return b.op("LayerNormalization", x, b.weight("g", (hidden,)), b.weight("b", (hidden,)), axis=-1)

    x = b.input("x", (batch, sequence, hidden))
    for number in range(layers):
        with b.scope(f"layer{number}"):
            q, k, v = (split(dense(x, hidden, hidden), [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]) for name in "qkv")
            weights = b.op("Softmax", b.op("Mul", b.op("MatMul", q, k), (hidden // heads) ** -0.5), axis=-1)
            mixed = b.op("Reshape", b.op("Transpose", b.op("MatMul", weights, v), perm=[0, 2, 1, 3]), [batch, sequence, hidden])
            x = norm(b.op("Add", x, dense(mixed, hidden, hidden)))
            x = norm(b.op("Add", x, dense(b.op("Gelu", dense(x, hidden, 4 * hidden)), 4 * hidden, hidden)))
    b.output(x, "y")
    return b.build()


MODELS = Path(__file__).parent.parent / "tests" / "data" / "models"
WORKLOADS: dict[str, Callable[[], Graph]] = {
    "gemm-1024": lambda: gemm(1024, 1024, 1024),
    "gemm-4096": lambda: gemm(4096, 4096, 4096),
    "gemm-16384": lambda: gemm(16384, 16384, 16384),
    "resnet50-b1": lambda: ascendsim.load(MODELS / "resnet50.onnx"),
    "resnet50-b64": lambda: ascendsim.load(MODELS / "resnet50.onnx", batch=64),
    "bert-large-b32": lambda: transformer(24, 1024, 16, 128, 32),
    "transformer-12": lambda: transformer(12),
    "transformer-96": lambda: transformer(96),
}
CHIPS = ("Ascend310", "Ascend910B1")
