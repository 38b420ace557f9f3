"""Writes docs/sweep_results.md and its pictures: what a sweep costs, a Pareto front, what figures of a chip weigh.

    python scripts/make_sweep_page.py                  all but the costs, which stay as they are (three minutes of CPU)
    python scripts/make_sweep_page.py --costs          the costs too (three minutes more): for a machine that does nothing else
    python scripts/make_sweep_page.py --store DIR      keeps the rows there, so that it goes on where it was stopped

Simulated figures repeat exactly; wall and CPU times are those of the machine that measured them.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ascendsim as asim
from ascendsim.core.table import Table

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = ROOT / "docs" / "sweep_results.md"
IMAGES = ROOT / "docs" / "images"
RESNET, BERT = MODELS / "resnet50.onnx", MODELS / "bert_large_s128.onnx"
CHIPS = ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"]
BATCHES = [1, 2, 4, 8, 16, 32, 64]
WORKERS = (1, 2)
EXPONENTS, CYCLES = "vector.cycles_per_repeat.vexp.float16", 4  # as Ascend910B's tables have them
SHOWN = ("Figure", "Assumed", "Low", "High", "Change at low(%)", "Change at high(%)", "Elasticity")


def spent() -> float:
    """CPU seconds of this process and of the workers that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def costs() -> list[str]:
    """The 56 points with one and two workers, without a store; the rows must be the same."""
    lines, found = [], []
    for workers in WORKERS:
        before, started = spent(), time.perf_counter()
        found.append(asim.sweep([RESNET, BERT], soc=CHIPS, batch=BATCHES, workers=workers))
        wall, cpu = time.perf_counter() - started, spent() - before
        assert found[-1].table() == found[0].table()
        lines.append(f"| {workers} | {wall:.0f} | {cpu:.0f} | {cpu / len(found[-1]):.1f} |")
    return lines


def known_costs() -> list[str]:
    """The lines of costs that the page has."""
    return re.findall(r"^\| [12] \| \d+ \|.*$", TARGET.read_text(), re.MULTILINE) if TARGET.exists() else []


def markdown(table: Table, columns: Sequence[str]) -> Iterator[str]:
    """Some columns of a table."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in table.records():
        yield f"| {' | '.join(cell(row[column]) for column in columns)} |"


def cell(value: object) -> str:
    """A cell as people read it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def formula_errors(exact: asim.Sweep, quick: asim.Sweep) -> tuple[float, float, float]:
    """Largest and mean distance of times with tiles by a formula, and how much sooner they are there."""
    pairs = list(zip(exact.rows, quick.rows, strict=True))
    ratios = [b.answer.figures["Time(us)"] / a.answer.figures["Time(us)"] - 1 for a, b in pairs]
    sooner = sum(a.answer.seconds for a, _ in pairs) / sum(b.answer.seconds for _, b in pairs)
    return max(map(abs, ratios)), sum(map(abs, ratios)) / len(ratios), sooner


def page(folder: Path, measure: bool) -> Iterator[str]:
    """The lines of the page."""
    yield "# What sweeps show\n"
    yield "Made by `python scripts/make_sweep_page.py`; [sweep.md](sweep.md) says how sweeps work.\n"
    yield "## What it costs\n"
    yield f"ResNet-50 and BERT-large (128 tokens), batch 1 to 64, on {', '.join(CHIPS)}: {2 * len(CHIPS) * len(BATCHES)} points. Wall and CPU seconds on a"
    yield "machine of two hardware threads; the rows are equal to the bit.\n"
    yield "| workers | wall (s) | CPU (s) | CPU a point (s) |\n|---|---|---|---|"
    yield from costs() if measure else known_costs()
    asked: dict[str, Any] = {"soc": CHIPS, "batch": BATCHES, "store": folder / "bert.db"}
    bert = asim.sweep(BERT, **asked)
    quick = asim.sweep(BERT, **asked, options={"tiling": "closed_form"})
    most, mean, sooner = formula_errors(bert, quick)
    yield f"\nWith tiles by a formula (`screen=True` looks at all points so) a point of BERT-large is there {sooner:.1f} times as soon; times are {100 * mean:.1f} % off "
    yield f"on average, {100 * most:.1f} % at most.\n"
    bert.plot_pareto("Memory(MiB)", "Samples/s").save(IMAGES / "sweep_pareto.png")
    yield "## BERT-large: samples a second against memory\n"
    yield "Device memory without weights, which are the same for all batches.\n\n![Pareto front](images/sweep_pareto.png)\n"
    yield from markdown(
        bert.pareto(), ("soc", "batch", "Time(us)", "Samples/s", "Memory(MiB)", "Cube(%)", "DDR(%)")
    )
    yield from weights(folder)


def weights(folder: Path) -> Iterator[str]:
    """What the figures of Ascend310 weigh."""
    asked: dict[str, Any] = {"batch": 1, "store": folder / "weights.db"}
    found = asim.sensitivity(BERT, "Ascend310", **asked)
    cores = asim.sensitivity(BERT, "Ascend310", values={"ai_cores": [1, 3]}, **asked)
    found.plot().save(IMAGES / "sweep_tornado.png")
    still = [probe for probe in found.probes if not probe.reach(found.duration_us)]
    yield "\n## What the figures of Ascend310 weigh for BERT-large at batch 1\n"
    yield f"{len(found.probes)} figures, each at 0.8 and at 1.25 of its value: {2 * len(found.probes) + 1} runs. {len(still)} of them change nothing here; "
    yield f"{len(found.left_out)} more are switches, 0, part of the chip's structure, or matter to images only.\n\n![Tornado](images/sweep_tornado.png)\n"
    yield from markdown(found.table().top(12), SHOWN)
    yield "\nFigures that no factor can move, by values of their own:\n"
    yield from markdown(cores.table(), SHOWN)
    yield from reasons(found, cores, asked)
    yield f"\nHow far figures could move the time, each on its own and all at their quicker or slower side: those that are assumed, {found.band()}; all of them, "
    yield f"{found.band('all')}.\n"
    yield "Morris's method moves the eight with the largest change together (4 walks, 36 runs). mu* is the mean effect of a figure over its whole span; sigma is as "
    yield "large where the effect depends on where the others are.\n"
    yield from markdown(found.morris(), ("Figure", "mu(us)", "mu*(us)", "sigma(us)"))


def reasons(found: asim.Sensitivity, cores: asim.Sensitivity, asked: dict[str, Any]) -> Iterator[str]:
    """Why bandwidth, clock and cores weigh what they do: which unit hides which."""
    gelus = [
        task
        for task in asim.simulate(asim.compile(asim.load(BERT, batch=1), "Ascend310")).op_summary().records()
        if task["OP Type"] == "BatchMatMulV2" and "gelu" in str(task["Op Name"])
    ]
    moved = ["dram.read_gb_per_s", "frequency_mhz"]
    other: dict[str, Any] = {**asked, "set": {EXPONENTS: CYCLES}, "values": {"ai_cores": [1, 3]}}
    quick = asim.sensitivity(BERT, "Ascend310", moved, **other)
    ours = {row["Figure"]: row for row in (*found.table().records(), *cores.table().records())}
    theirs = {row["Figure"]: row for row in quick.table().records()}
    yield f"\nWhat bandwidth, clock and cores weigh hangs on {len(gelus)} products with Gelu behind them, {gelus[0]['Task Duration(us)']:.0f} us each. For {gelus[0]['mte2_time(us)']:.0f} us of these the weights come in over DDR, and for"
    yield f"{gelus[0]['vec_time(us)']:.0f} us, hidden behind that, the Vector unit works, mostly on exponents (`{EXPONENTS}`, {asim.soc.load('Ascend310').vector.cycles_per_repeat['vexp.float16']:g} cycles a repeat, assumed). So more bandwidth soon ends at the"
    yield f"Vector unit, and a slower clock or one core alone brings it out. With the {CYCLES} cycles of Ascend910B the network takes {quick.duration_us:,.1f} us, and the same figures weigh:\n"
    ends = ("Change at low(%)", "Change at high(%)")
    yield f"| Figure | {' | '.join(ends)} | {' | '.join(f'{end}, {CYCLES} cycles' for end in ends)} |\n|---|---|---|---|---|"
    for name in (*moved, "ai_cores"):
        yield f"| {name} | {' | '.join(cell(row[name][end]) for row in (ours, theirs) for end in ends)} |"


def main() -> int:
    """Writes the page."""
    os.environ["ASCENDSIM_CACHE"] = "off"  # what is timed below is a first look
    parser = argparse.ArgumentParser(description="Writes docs/sweep_results.md and its pictures.")
    parser.add_argument("--store", type=Path, metavar="DIR", help="folder that keeps the rows")
    parser.add_argument("--costs", action="store_true", help="measure what the 56 points cost")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.store or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [*page(folder, args.costs)]
        text = "\n".join(lines)  # some hold the blank line behind them
        TARGET.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
