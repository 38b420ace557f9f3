"""Time and peak memory of whole processes: start Python, build or load a graph, compile it, simulate it.

python -m benchmarks.whole_process                   all workloads: median of five processes each
python -m benchmarks.whole_process WORKLOAD CHIP     one workload in this process, by stage
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise

import ascendsim
from ascendsim.machine import Statistics, run
from benchmarks.workloads import CHIPS, WORKLOADS


def whole_process(workload: str, chip: str) -> tuple[float, float]:
    """Seconds and peak memory in MB of a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.whole_process", workload, chip], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{workload} on {chip} failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def in_this_process(workload: str, chip: str) -> None:
    """Runs a workload once and prints where the time went."""
    times = [time.perf_counter()]
    graph = WORKLOADS[workload]()
    times.append(time.perf_counter())
    model = ascendsim.compile(graph, soc=chip)
    times.append(time.perf_counter())
    saved = Statistics()
    trace = run(model.program, model.soc, statistics=saved)
    times.append(time.perf_counter())
    build, compile_, machine = (later - earlier for earlier, later in pairwise(times))
    print(f"{workload} {chip}: {trace.duration_us:.1f} us; graph {build:.3f} s, compile {compile_:.3f} s, machine {machine:.3f} s; {saved}")


def main(arguments: list[str]) -> None:
    """Runs one workload, or all of them in processes of their own."""
    if arguments:
        in_this_process(*arguments)
        return
    for chip in CHIPS:
        for workload in WORKLOADS:
            runs = [whole_process(workload, chip) for _ in range(5)]
            seconds = statistics.median(second for second, _ in runs)
            print(f"{workload:16s} {chip:12s} {seconds:6.2f} s {max(memory for _, memory in runs):6.0f} MB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
