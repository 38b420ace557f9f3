"""Time and peak memory of whole processes, from the start of Python to its end, beside other simulators.

    python -m benchmarks.whole_process                       every workload and chip, median of five
    python -m benchmarks.whole_process --runs 9 gemm-1024    some workloads
    python -m benchmarks.whole_process --csv FILE            writes the table, too

Each run starts Python anew, loads or builds a graph, compiles and simulates it (`benchmarks.one`). Modules
are compiled to bytecode beforehand, as in every installed package. Runs of different workloads take turns, so
that what else the machine does meets all of them; `cpu` is the time that the process spent computing, which
other load changes less than `wall`.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.workloads import CHIPS, WORKLOADS

PEERS = Path(__file__).parent / "data" / "peers.csv"
HELP = "ascendsim --help"
HELP_TARGET_S = 0.25
YARDSTICK = (
    "python -c 'import numpy, simpy'"  # what a process costs that does nothing else, under the same load
)
LAYERS = ("transformer-12", "transformer-96")  # may differ by less than `LAYERS_TARGET`
LAYERS_TARGET = 2.0
MEMORY_TARGET_MB = 600


@dataclass(slots=True)
class Row:
    """Runs of one workload on one chip."""

    workload: str
    chip: str
    command: list[str]
    target_s: float | None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # peak of resident memory in MB

    def run(self, environment: dict[str, str]) -> None:
        """Runs it once.

        Raises:
            SystemExit: If the process failed.
        """
        start = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        self.wall.append(time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(self.command)} failed")
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.memory.append(usage.ru_maxrss / 1024)


def rows(names: Sequence[str]) -> list[Row]:
    """Rows of the table in order."""
    found = [
        Row(name, chip, [sys.executable, "-m", "benchmarks.one", name, chip], WORKLOADS[name].target_s)
        for chip in CHIPS
        for name in names
    ]
    script = Path(sys.executable).with_name("ascendsim")
    yardstick = Row(YARDSTICK, "", [sys.executable, "-c", "import numpy, simpy"], None)
    return [
        yardstick,
        *found,
        *([Row(HELP, "", [str(script), "--help"], HELP_TARGET_S)] if set(names) == set(WORKLOADS) else []),
    ]


def measure(table: Sequence[Row], runs: int) -> None:
    """Runs every row once for its bytecode, then `runs` times in turns."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "OPENBLAS_NUM_THREADS": "1"}
        environment["ASCENDSIM_CACHE"] = "off"  # as a user's first run of a network
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(runs + 1):
            for row in table:
                row.run(environment)
                if turn == 0:
                    row.wall, row.cpu, row.memory = [], [], []


def peers() -> dict[str, list[dict[str, str]]]:
    """Other simulators that did the work of a workload to its end, fastest first."""
    lines = [line for line in PEERS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found: dict[str, list[dict[str, str]]] = {}
    for entry in csv.DictReader(lines):
        if entry["wall_s"]:
            found.setdefault(entry["workload"], []).append(entry)
    return {
        name: sorted(entries, key=lambda entry: float(entry["wall_s"])) for name, entries in found.items()
    }


COLUMNS = (
    "workload",
    "chip",
    "wall s",
    "cpu s",
    "memory MB",
    "target s",
    "met",
    "other simulators (wall s, theirs/ours)",
)


def cells(table: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table as text; targets are held against the median wall time."""
    others = peers()
    result: list[tuple[str, ...]] = []
    for row in table:
        wall = statistics.median(row.wall)
        beside = [
            f"{entry['system']} {entry['wall_s']} ({float(entry['wall_s']) / wall:.1f}x)"
            for entry in others.get(row.workload, ())
        ]
        target, met = (
            ("", "")
            if row.target_s is None
            else (f"{row.target_s:g}", "yes" if wall <= row.target_s else "no")
        )
        figures = (
            f"{wall:.2f}",
            f"{statistics.median(row.cpu):.2f}",
            f"{max(row.memory):.0f}",
            target,
            met,
            ", ".join(beside),
        )
        result.append((row.workload, row.chip, *figures))
    return result


def summary(table: Sequence[Row]) -> list[str]:
    """What concerns several rows: few layers against many, and memory."""
    lines = []
    for chip in CHIPS:
        few, many = (
            next((row for row in table if (row.workload, row.chip) == (name, chip)), None) for name in LAYERS
        )
        if few is not None and many is not None:
            wall, cpu = (
                statistics.median(many_) / statistics.median(few_)
                for many_, few_ in ((many.wall, few.wall), (many.cpu, few.cpu))
            )
            lines.append(
                f"{LAYERS[1]} against {LAYERS[0]} on {chip}: wall {wall:.2f}x, cpu {cpu:.2f}x (target: "
                f"below {LAYERS_TARGET:g}x)"
            )
    lines.append(
        f"load of the machine in the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    lines.append(
        f"peak memory: {max(max(row.memory) for row in table):.0f} MB (target: below {MEMORY_TARGET_MB} MB)"
    )
    return lines


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"out of {', '.join(WORKLOADS)} (default: all)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="writes the table")
    arguments = parser.parse_args()
    unknown = set(arguments.workloads) - set(WORKLOADS)
    if unknown or arguments.runs < 1:
        parser.error(
            f"unknown workloads: {', '.join(sorted(unknown))}" if unknown else "--runs must be at least 1"
        )
    table = rows([name for name in WORKLOADS if name in (arguments.workloads or WORKLOADS)])
    measure(table, arguments.runs)
    lines = [COLUMNS, *cells(table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print("\n".join(["", *summary(table)]))
    if arguments.csv is not None:
        with arguments.csv.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
