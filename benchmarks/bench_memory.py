"""Memory of values: a composite over more than 100 million elements.

    python -m pytest benchmarks/bench_memory.py -m benchmark --benchmark-enable -n0 -s
    python -m benchmarks.bench_memory [--rows N] [--whole]

The composite centres rows, takes exponentials and divides by their sum: ten tensors of the full size, of
which seven are neither inputs nor outputs. `--whole` computes it without slices, for comparison. Bytes are
those that are allocated beside device memory, which holds inputs and outputs; times are CPU times.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tracemalloc
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim
from ascendsim.compiler.model import CompiledModel
from ascendsim.ops.fused import composite
from ascendsim.ops.fused.bounded import ROOM, run_bounded
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.evaluate import compute_nodes
from tests.support.random_composites import CompositeWriter

ROWS, COLUMNS = 102_400, 1024
MOST_MIB = 64


def model_of(rows: int) -> CompiledModel:
    """The composite as a compiled model of one task."""
    w = CompositeWriter()
    x, y, bias = w.input((rows, COLUMNS)), w.input((rows, COLUMNS)), w.input((COLUMNS,))
    product = w.op("Mul", w.op("Add", x, bias), y)
    mean = w.op("Mul", w.reduce("ReduceSum", product, (1,)), 1 / COLUMNS)
    weight = w.op("Exp", w.op("Minimum", w.op("Sub", product, mean), 1.0))
    w.output(w.op("RealDiv", w.op("Mul", weight, x), w.reduce("ReduceSum", weight, (1,))))
    graph = ascendsim.load(json.dumps(w.file()).encode())
    return ascendsim.compile(
        graph, "Ascend910A", fusion="graph-kernel", precision_mode="must_keep_origin_dtype"
    )


def measured(rows: int) -> tuple[float, float, float]:
    """User and system seconds of the values, and MiB beside device memory."""
    model = model_of(rows)
    memory = DeviceMemory(model.graph, model.program.memory, "device")
    for name, array in ascendsim.random_inputs(model).items():
        memory.write(model.graph.tensors[name], array)
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF)
    compute_nodes(model.graph.topological(), model.opset, memory)
    after = resource.getrusage(resource.RUSAGE_SELF)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(memory.read(model.graph.outputs[0])[-1]).all()
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, most / 2**20


@pytest.mark.benchmark
def test_a_large_composite(benchmark: BenchmarkFixture) -> None:
    measured(64)  # kernels are loaded
    user, system, beside = benchmark.pedantic(lambda: measured(ROWS), rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info.update(user_s=user, system_s=system, beside_mib=beside)
    assert beside < MOST_MIB


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints times and memory."""
    parser = argparse.ArgumentParser(description="Memory of a large composite.")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--whole", action="store_true", help="without slices")
    options = parser.parse_args(arguments)
    measured(64)
    room = sys.maxsize if options.whole else ROOM
    with patch.object(composite, "run_bounded", partial(run_bounded, room=room)):
        user, system, beside = measured(options.rows)
    size = f"{options.rows * COLUMNS:,} elements"
    print(f"{size}: {user:.1f} s user, {system:.1f} s system, {beside:.0f} MiB beside device memory")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
