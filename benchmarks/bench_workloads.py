"""Time of the machine on whole workloads, with its shortcuts: matrix products, ResNet-50 with a batch, stacks of transformer layers.

    python -m pytest benchmarks/bench_workloads.py -m benchmark --benchmark-enable

`benchmarks.whole_process` measures the same work from the start of Python to its end.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim
from ascendsim.api.compiling import CompiledModel
from ascendsim.machine import Statistics, run
from benchmarks.workloads import CHIPS, WORKLOADS


def compiled(workload: str, chip: str) -> CompiledModel:
    """A workload compiled for a chip."""
    return ascendsim.compile(WORKLOADS[workload](), soc=chip)


@pytest.mark.benchmark
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_workload(benchmark: BenchmarkFixture, workload: str, chip: str) -> None:
    model = compiled(workload, chip)
    trace = benchmark.pedantic(lambda: run(model.program, model.soc), rounds=5, warmup_rounds=1)
    benchmark.extra_info["simulated_cycles"] = trace.cycles
    assert trace.end > 0


@pytest.mark.benchmark
@pytest.mark.parametrize("chip", CHIPS)
def test_layers_cost_little_more_than_one(chip: str) -> None:
    saved = {layers: Statistics() for layers in (12, 96)}
    for layers, statistics_of in saved.items():
        model = compiled(f"transformer-{layers}", chip)
        run(model.program, model.soc, statistics=statistics_of)
    assert saved[96].simulated < 2 * saved[12].simulated
