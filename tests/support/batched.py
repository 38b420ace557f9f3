"""Small networks with a batch, and their traffic, for tests of L2 fusion."""

from __future__ import annotations

from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.ir import Graph, Tensor
from tests.support.fusing import new_builder, random


def residual_net(batch: int = 8, size: int = 32, channels: int = 16, blocks: int = 2) -> Graph:
    """Convolutions with a residual sum in each block, pooled and classified."""
    b = new_builder()

    def conv(x: Tensor, outputs: int, kernel: int, seed: int) -> Tensor:
        weight = random(outputs, int(x.static_shape[1]), kernel, kernel, seed=seed) / (3 * kernel)
        return b.op("Conv", x, weight, random(outputs, seed=seed), pads=[kernel // 2] * 4)

    x = b.input("x", (batch, 3, size, size))
    y = b.op("Relu", conv(x, channels, 3, 1))
    for number in range(blocks):
        inner = b.op("Relu", conv(y, channels, 3, 2 + number))
        y = b.op("Relu", b.op("Add", conv(inner, channels, 1, 20 + number), y))
    y = b.op("Flatten", b.op("GlobalAveragePool", y))
    b.output(b.op("Gemm", y, random(channels, 10, seed=9), random(10, seed=8)), "scores")
    return b.build()


def traffic(model: CompiledModel, level: str = "ddr") -> int:
    """Bytes that all tasks of a run move at one level."""
    return sum(record.read_bytes[level] + record.write_bytes[level] for record in simulate(model).trace.tasks)
