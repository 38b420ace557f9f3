"""Workloads in a running process: compile and simulate, and the machine alone, with its shortcuts.

    python -m pytest benchmarks/bench_workloads.py -m benchmark --benchmark-enable

Times are CPU times of the process (one thread), which other load of the machine changes less than wall time.
`benchmarks.whole_process` measures the same work from the start of Python to its end.
"""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim
from ascendsim.compiler.model import CompiledModel
from ascendsim.machine import Statistics, run
from benchmarks.workloads import CHIPS, WORKLOADS

IN_PROCESS_TARGETS_S = {"gemm-1024": 0.05}


def compiled(workload: str, chip: str) -> CompiledModel:
    """A workload compiled for a chip."""
    return ascendsim.compile(WORKLOADS[workload].graph(), soc=chip)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_build_compile_and_simulate(benchmark: BenchmarkFixture, workload: str, chip: str) -> None:
    result = benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: ascendsim.simulate(compiled(workload, chip)), rounds=5, warmup_rounds=1
    )
    benchmark.extra_info["device_us"] = result.duration_us
    assert benchmark.stats is not None
    assert benchmark.stats.stats.median <= IN_PROCESS_TARGETS_S.get(workload, float("inf"))


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_machine(benchmark: BenchmarkFixture, workload: str, chip: str) -> None:
    model = compiled(workload, chip)
    trace = benchmark.pedantic(lambda: run(model.program, model.soc), rounds=5, warmup_rounds=1)  # type: ignore[no-untyped-call]
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
