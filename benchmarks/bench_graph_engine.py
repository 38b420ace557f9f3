"""Speed of the graph engine: BERT-large, graphs of up to 20,000 nodes, and 1 GiB of weights of which half are
copies.

python -m pytest benchmarks/bench_graph_engine.py -m benchmark --benchmark-enable
python -m benchmarks.bench_graph_engine
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim as asim
from ascendsim.graph.ir import Graph
from benchmarks.workloads import transformer

BERT_LARGE_SECONDS = 3.0
LONG_SECONDS = 20.0  # for 20,000 nodes
WEIGHT_BYTES = 16 << 20


def chain(nodes: int) -> Graph:
    """Blocks of five nodes: shape arithmetic that folds, a neutral product, and what stays."""
    b = asim.GraphBuilder("chain")
    x = b.input("x", (64, 64))
    for _ in range(nodes // 5):
        same = b.op("Mul", b.op("Reshape", x, b.op("Shape", x)), 1.0)
        x = b.op("Relu", b.op("Add", same, 2.0))
    b.output(x, "y")
    return b.build()


def copies(pairs: int) -> Graph:
    """Weights of 16 MiB, each of them twice, all of one shape."""
    b = asim.GraphBuilder("copies")
    total = b.input("x", (2048, 2048))
    for number in range(pairs):
        values = np.full((2048, 2048), number, np.float32)
        values[number, number] = -1
        for array in (values, values.copy()):
            total = b.op("Add", total, b.constant(array))
    b.output(total, "y")
    return b.build()


CASES = {
    "BERT-large": (lambda: transformer(24, 1024, 16, 128, 32), BERT_LARGE_SECONDS),
    "5,000 nodes": (lambda: chain(5_000), LONG_SECONDS / 4),
    "10,000 nodes": (lambda: chain(10_000), LONG_SECONDS / 2),
    "20,000 nodes": (lambda: chain(20_000), LONG_SECONDS),
    "1 GiB of weights": (lambda: copies(32), 10.0),
}


@pytest.mark.benchmark
@pytest.mark.parametrize("name", CASES)
def test_optimising_takes_seconds(benchmark: BenchmarkFixture, name: str) -> None:
    make, limit = CASES[name]
    graph = make()
    result = benchmark.pedantic(lambda: asim.optimize(graph), rounds=3, warmup_rounds=1)
    assert benchmark.stats.stats.median <= limit
    if name == "1 GiB of weights":
        assert result.before.constant_bytes - result.after.constant_bytes == 32 * WEIGHT_BYTES


def main() -> None:
    """Prints seconds for each case, of the wall clock and of the processor."""
    for name, (make, limit) in CASES.items():
        graph = make()
        wall, processor = time.perf_counter(), time.process_time()
        result = asim.optimize(graph)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(f"{name:20}{wall:8.2f} s wall {processor:8.2f} s processor (limit {limit:4.1f})  {result}")


if __name__ == "__main__":
    main()
