"""One workload in this process, by stage: `python -m benchmarks.one WORKLOAD CHIP`."""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import ascendsim
from benchmarks.workloads import WORKLOADS


def main(workload: str, chip: str) -> None:
    """Loads or builds a graph, compiles it, simulates it, and says where the time went."""
    times = [time.perf_counter()]
    graph = WORKLOADS[workload].graph()
    times.append(time.perf_counter())
    model = ascendsim.compile(graph, soc=chip)
    times.append(time.perf_counter())
    result = ascendsim.simulate(model)
    times.append(time.perf_counter())
    load, compile_, simulate = (later - earlier for earlier, later in pairwise(times))
    print(
        f"{workload} on {chip}: {len(result.trace.tasks)} tasks, {result.duration_us:,.1f} us; "
        f"graph {load:.3f} s, compile {compile_:.3f} s, simulate {simulate:.3f} s"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in WORKLOADS:
        raise SystemExit(
            f"usage: python -m benchmarks.one WORKLOAD CHIP, with a workload out of {', '.join(WORKLOADS)}"
        )
    main(*sys.argv[1:])
