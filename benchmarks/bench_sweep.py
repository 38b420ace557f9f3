"""Points a second of a sweep, in one warm process: at least one of BERT-large.

    python -m pytest benchmarks/bench_sweep.py -m benchmark --benchmark-enable

Times are CPU times of the process (one thread), which other load of the machine changes less than wall time.
"""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim

MODELS = Path(__file__).parents[1] / "tests" / "data" / "models"
TARGET_POINTS_A_SECOND = {"bert_large_s128": 1.0}
RATES = count(40)  # bandwidths that were not asked for before


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("model", ["bert_large_s128", "resnet50", "lenet5"])
def test_points(benchmark: BenchmarkFixture, model: str) -> None:
    def point() -> ascendsim.Sweep:
        rate = next(RATES)
        return ascendsim.sweep(
            MODELS / f"{model}.onnx", batch=[1], set={"dram.read_gb_per_s": rate}, workers=1
        )

    found = benchmark.pedantic(point, rounds=5, warmup_rounds=1)  # type: ignore[no-untyped-call]
    assert not len(found.failed())
    assert benchmark.stats is not None
    seconds = benchmark.stats.stats.median
    benchmark.extra_info["points_a_second"] = 1 / seconds
    assert 1 / seconds >= TARGET_POINTS_A_SECOND.get(model, 0.0)


@pytest.mark.benchmark
def test_what_is_kept_costs_next_to_nothing(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    asked = {"batch": list(range(1, 21)), "store": tmp_path / "s.db", "workers": 1}
    first = ascendsim.sweep(MODELS / "lenet5.onnx", **asked)
    again = benchmark(lambda: ascendsim.sweep(MODELS / "lenet5.onnx", **asked))
    assert again.table() == first.table()
