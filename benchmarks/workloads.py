"""Graphs that the benchmarks run: matrix products, a network from a file, stacks of transformer layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ascendsim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor


def gemm(m: int, k: int, n: int) -> Graph:
    """A float16 product of [m, k] and a weight of [k, n]."""
    b = ascendsim.GraphBuilder("gemm", dtype=DType.FLOAT16)
    b.output(b.op("MatMul", b.input("a", (m, k)), b.weight("w", (k, n))), "y")
    return b.build()


def bert_large_gemms(tokens: int = 512, hidden: int = 1024, heads: int = 16) -> Graph:
    """The 38 products of one BERT-large layer, none of which waits for another: projections, attention by
    head, feed-forward.
    """
    b = ascendsim.GraphBuilder("bert_large_gemms", dtype=DType.FLOAT16)
    size = hidden // heads
    shapes = (
        [(tokens, hidden, hidden)] * 4 + [(tokens, size, tokens)] * heads + [(tokens, tokens, size)] * heads
    )
    shapes += [(tokens, hidden, 4 * hidden), (tokens, 4 * hidden, hidden)]
    for number, (m, k, n) in enumerate(shapes):
        product = b.op("MatMul", b.input(f"a{number}", (m, k)), b.weight(f"w{number}", (k, n)))
        b.output(product, f"y{number}")
    return b.build()


def transformer(
    layers: int, hidden: int = 768, heads: int = 12, sequence: int = 128, batch: int = 1
) -> Graph:
    """Encoder layers as in BERT: attention and a network of four times the width, each with a residual and a
    normalisation.
    """
    b = ascendsim.GraphBuilder(f"transformer{layers}")

    def dense(x: Tensor, inputs: int, outputs: int) -> Tensor:
        return b.op("Add", b.op("MatMul", x, b.weight("w", (inputs, outputs))), b.weight("b", (outputs,)))

    def split(x: Tensor, order: list[int]) -> Tensor:
        return b.op("Transpose", b.op("Reshape", x, [batch, sequence, heads, hidden // heads]), perm=order)

    def norm(x: Tensor) -> Tensor:
        return b.op("LayerNormalization", x, b.weight("g", (hidden,)), b.weight("b", (hidden,)), axis=-1)

    x = b.input("x", (batch, sequence, hidden))
    for number in range(layers):
        with b.scope(f"layer{number}"):
            q, k, v = (
                split(dense(x, hidden, hidden), [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
                for name in "qkv"
            )
            weights = b.op("Softmax", b.op("Mul", b.op("MatMul", q, k), (hidden // heads) ** -0.5), axis=-1)
            mixed = b.op(
                "Reshape",
                b.op("Transpose", b.op("MatMul", weights, v), perm=[0, 2, 1, 3]),
                [batch, sequence, hidden],
            )
            x = norm(b.op("Add", x, dense(mixed, hidden, hidden)))
            x = norm(b.op("Add", x, dense(b.op("Gelu", dense(x, hidden, 4 * hidden)), 4 * hidden, hidden)))
    b.output(x, "y")
    return b.build()


MODELS = Path(__file__).parent.parent / "tests" / "data" / "models"


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the benchmark table.

    Attributes:
        graph: Loads or builds the graph.
        target_s: Seconds that a whole process may take on 2 cores; None = no target of its own.
    """

    graph: Callable[[], Graph]
    target_s: float | None = None


WORKLOADS: dict[str, Workload] = {
    "gemm-1024": Workload(lambda: gemm(1024, 1024, 1024), 0.4),
    "gemm-4096": Workload(lambda: gemm(4096, 4096, 4096), 0.5),
    "gemm-16384": Workload(lambda: gemm(16384, 16384, 16384), 0.8),
    "bert-large-gemms": Workload(bert_large_gemms, 1.0),
    "resnet50-b1": Workload(lambda: ascendsim.load(MODELS / "resnet50.onnx"), 2.0),
    "resnet50-b64": Workload(lambda: ascendsim.load(MODELS / "resnet50.onnx", batch=64), 3.0),
    "bert-large-b32": Workload(lambda: transformer(24, 1024, 16, 128, 32), 4.0),
    "transformer-12": Workload(lambda: transformer(12)),
    "transformer-96": Workload(lambda: transformer(96)),
}
CHIPS = ("Ascend310", "Ascend910B1")
