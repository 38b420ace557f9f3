"""Writes docs/scheduling_results.md: what each technique of the graph engine adds, and what it costs to
compile.

    python scripts/make_scheduling_page.py                 all (a few minutes)
    python scripts/make_scheduling_page.py googlenet       these only, printed

Times, bytes and tasks are simulated and repeat exactly; times of compilation are those of this machine, the
best of three.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.ir import Graph

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = ROOT / "docs" / "scheduling_results.md"
NETWORKS = ("resnet50", "googlenet", "bert_base_s128", "yolov5s")
CHIPS = ("Ascend310", "Ascend310P3")
STREAMS = "MainStream:4"

_BARE: dict[str, Any] = {
    "schedule": "host",
    "fusion": "off",
    "optimize": False,
    "disable_reuse_memory": True,
    "enable_single_stream": True,
}
# Each step does what those before it do; the first stands for itself.
STEPS: Mapping[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "graph, launched by the host": _BARE,
    "+ graph engine": {"optimize": True},
    "+ fusion": {"fusion": "all"},
    "+ sink": {"schedule": "sink"},
    "+ memory reuse": {"disable_reuse_memory": False},
    "+ streams": {"enable_single_stream": False, "multi_stream_parallel_mode": STREAMS},
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One execution in microseconds, the seconds that compiling took, MiB of memory without weights, and
    tasks.
    """

    time_us: float
    compile_s: float
    memory_mib: float
    tasks: int


def settings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Options of every step."""
    chosen: dict[str, Any] = {}
    for name, options in STEPS.items():
        chosen = dict(options) if not name.startswith("+") else {**chosen, **options}
        yield name, chosen


def cost(graph: Graph, chip: str, options: Mapping[str, Any]) -> Cost:
    """Compiles three times and simulates once."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model: CompiledModel = asim.compile(graph, chip, **options)
        seconds.append(time.perf_counter() - start)
    peak = model.program.memory.peak_bytes / 2**20
    return Cost(asim.simulate(model).duration_us, min(seconds), peak, len(model.program.tasks))


def rows(name: str, chip: str) -> Iterator[str]:
    """The lines of a table: a step each, against the graph that the host launches, and against the step
    before.
    """
    graph = asim.load(MODELS / f"{name}.onnx")
    costs = {step: cost(graph, chip, options) for step, options in settings()}
    base, last = costs["graph, launched by the host"], None
    for step, found in costs.items():
        gain = (
            f"{(last.time_us / found.time_us - 1) * 100:+.1f} %"
            if last is not None and step.startswith("+")
            else ""
        )
        extra = (
            f"{found.compile_s - last.compile_s:+.2f}" if last is not None and step.startswith("+") else ""
        )
        cells = (
            f"{found.time_us:,.0f}",
            f"{base.time_us / found.time_us:.2f}",
            gain,
            found.tasks,
            f"{found.memory_mib:.2f}",
        )
        yield f"| {step} | {' | '.join(map(str, cells))} | {found.compile_s:.2f} | {extra} |"
        last = found


def page(names: tuple[str, ...]) -> Iterator[str]:
    """The lines of the page."""
    yield "# What the graph engine adds, step by step"
    yield ""
    yield (
        "Written by `scripts/make_scheduling_page.py`; docs/scheduling.md says what the steps are and "
        "what to make of the figures."
    )
    yield (
        "Batch 1. Speed is against the graph that the host launches unoptimised; gain is the throughput "
        "that a step adds to the one"
    )
    yield "before; compile times are seconds on the machine that wrote this page."
    for chip in CHIPS:
        for name in names:
            yield f"\n## {name} on {chip}\n"
            yield "| step | time (us) | speed | gain | tasks | memory (MiB) | compile (s) | more |"
            yield "|---|---|---|---|---|---|---|---|"
            yield from rows(name, chip)


if __name__ == "__main__":
    wanted = tuple(sys.argv[1:])
    lines = list(page(wanted or NETWORKS))
    if wanted:
        print("\n".join(lines))
    else:
        TARGET.write_text("\n".join(lines) + "\n")
