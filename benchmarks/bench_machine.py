"""Speed of the machine: pipe operations a second on the plain path (tracing and fast-forward off, shared
links on), and of compiled code that walks the same tasks by themselves.

    python -m pytest benchmarks/bench_machine.py -m benchmark --benchmark-enable
    python -m benchmarks.bench_machine

One pipe operation is one instruction on one pipe, flag statements included. `groups=False` simulates every
core by itself. Rates are by CPU time of the process (one thread), which other load of the machine changes
less than wall time.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import ascendsim_kernels.block_walk  # noqa: F401  loaded, it walks from the first task on
from ascendsim.isa.program import Block, Program
from ascendsim.isa.walk import static, times
from ascendsim.machine import run
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY

PLAIN: dict[str, Any] = {"fast_forward": False, "replay": False}
WAYS: dict[str, tuple[dict[str, Any], int]] = {"plain": (PLAIN, 300_000), "solo": ({}, 4_000_000)}
REGIONS = {name: 1 << 16 for name in ("a", "b", "c", "x", "y")}
CASES = {
    "matmul, 2 cores in lock-step": (matmul_block(100, 40), 2, True),
    "matmul, 2 cores apart": (matmul_block(50, 40), 2, False),
    "copy, 2 cores in lock-step": (copy_block(4000), 2, True),
    "copy, 2 cores apart": (copy_block(2000), 2, False),
}


def operations(block: Block) -> int:
    """Instructions that a block executes."""
    return sum(times(around) for _, around in static(block.body))


def case(name: str) -> tuple[Program, bool, int]:
    """A benchmark's program, whether cores are grouped, and its number of simulated pipe operations."""
    block, count, groups = CASES[name]
    return (
        program_of(task_of((block, count)), regions=REGIONS),
        groups,
        operations(block) * (1 if groups else count),
    )


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_machine_speed(benchmark: BenchmarkFixture, name: str, way: str) -> None:
    program, groups, count = case(name)
    options, least = WAYS[way]
    benchmark.extra_info["operations"] = count
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: run(program, TOY, groups=groups, **options), rounds=5, warmup_rounds=1
    )
    assert benchmark.stats is not None
    assert count / benchmark.stats.stats.median >= least


def main() -> None:
    """Prints the median rate of five runs for each case and way."""
    for way, (options, _) in WAYS.items():
        for name in CASES:
            program, groups, count = case(name)
            run(program, TOY, groups=groups, **options)
            seconds = []
            for _ in range(5):
                start = time.process_time()
                run(program, TOY, groups=groups, **options)
                seconds.append(time.process_time() - start)
            rate = count / statistics.median(seconds)
            print(f"{way:6s} {name:32s} {count:8d} operations {rate:12,.0f} operations/s")


if __name__ == "__main__":
    main()
