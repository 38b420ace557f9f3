"""Writes docs/scheduling_results.md and its picture: what each technique of the graph engine adds.

    python scripts/make_scheduling_page.py                 all (a minute or two)
    python scripts/make_scheduling_page.py googlenet       these only, printed

Times, bytes and tasks are simulated and repeat exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import ascendsim as asim
from ascendsim.plot.figures import save_figure

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = ROOT / "docs" / "scheduling_results.md"
PICTURE = ROOT / "docs" / "images" / "graph_engine.png"
NETWORKS = ("resnet50", "googlenet", "bert_base_s128")
CHIPS = ("Ascend310P3", "Ascend910B1")
GRAPH = ("constant folding", "L2 fusion")  # first and last technique that changes the graph
REST = ("sinking", "several streams")


def rows(found: asim.BuildUp, eager_us: float) -> Iterator[str]:
    """The lines of a table: a technique each."""
    yield f"\n## {found.network} on {found.soc}\n"
    yield "| technique | time (us) | gain | in all | tasks | memory (MiB) |"
    yield "|---|---|---|---|---|---|"
    yield f"| eager | {eager_us:,.0f} |  |  |  |  |"
    for name, time, gain, whole, tasks, memory in found.table():
        yield f"| {name} | {time:,.0f} | {gain:+.1f} % | {whole:+.1f} % | {tasks} | {memory:.2f} |"


def summary(all_found: list[asim.BuildUp]) -> Iterator[str]:
    """One line a network and chip: what groups of techniques add."""
    yield "| network, chip | the graph made smaller (folding, engine, fusion) | sinking, memory reuse, streams | all |"
    yield "|---|---|---|---|"
    for found in all_found:
        gains = (found.gain(*ends) for ends in (GRAPH, REST, (GRAPH[0], REST[1])))
        yield f"| {found.network}, {found.soc} | {' | '.join(f'{gain:+.0%}' for gain in gains)} |"


def picture(all_found: list[asim.BuildUp]) -> None:
    """Waterfalls, networks side by side, chips under each other."""
    figure = Figure(figsize=(7.2 * len(NETWORKS), 4.4 * len(CHIPS)), dpi=70, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(CHIPS), len(NETWORKS), squeeze=False)
    for ax, found in zip(axes.flat, all_found, strict=True):
        found.plot(ax)
    save_figure(figure, PICTURE)


def page(all_found: list[asim.BuildUp], eager: list[float]) -> Iterator[str]:
    """The lines of the page."""
    yield "# What the graph engine adds, step by step"
    yield ""
    yield "Written by `scripts/make_scheduling_page.py`; docs/scheduling.md says what the steps are and what to make of"
    yield "the figures. Batch 1. Gain is the throughput that a technique adds to the row before, in all to the first row."
    yield ""
    yield "![waterfalls of three networks on two chips](images/graph_engine.png)"
    yield ""
    yield from summary(all_found)
    for found, eager_us in zip(all_found, eager, strict=True):
        yield from rows(found, eager_us)


if __name__ == "__main__":
    wanted = tuple(sys.argv[1:])
    all_found, eager = [], []
    for chip in CHIPS:
        for name in wanted or NETWORKS:
            graph = asim.load(MODELS / f"{name}.onnx")
            all_found.append(asim.build_up(graph, chip))
            eager.append(asim.simulate(asim.compile(graph, chip, schedule="eager")).duration_us)
    lines = "\n".join(page(all_found, eager)) + "\n"
    if wanted:
        print(lines)
    else:
        TARGET.write_text(lines)
        picture(all_found)
