"""Fills the table of docs/tile_values.md: how much of each network is computed by the blocks that were timed, and
how far that is from what operators compute.

    python scripts/make_tile_table.py                                    the whole table
    python scripts/make_tile_table.py resnet18 --soc_version Ascend310   prints the rows of some networks
    python scripts/make_tile_table.py --shares                           prints how many tasks have effects, of all

Weights and inputs are seeded. Every task runs from what the operators before it have made, so that a
difference is its own.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # tests.support

import ascendsim as asim
from ascendsim.api.tile_values import tiles_of
from tests.support.tile_runs import task_runs

MODELS = ROOT / "tests" / "data" / "models"
PAGE = ROOT / "docs" / "tile_values.md"
CHIPS = "Ascend310,Ascend910B1"
START, END = "<!-- table -->\n", "<!-- end of table -->"
HEAD = (
    "| network | chip | tasks | bytes | time | equal | largest difference | moved of timed | lack effects |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def row(path: Path, chip: str) -> str:
    """The line of a network on a chip."""
    model = asim.compile(asim.load(path, weights="random"), chip, fusion="all")
    found = asim.simulate(model).tile_coverage()
    runs = [run for run in task_runs(model) if not run.lacks]
    equal = sum(run.equal for run in runs)
    worst = max((run.difference for run in runs), default=0.0)
    timed, moved = (sum(run.moved[side] for run in runs) for side in (0, 1))
    lacking: Counter[str] = Counter()
    for name, count in found.lacking.items():
        lacking[name.split("+")[0]] += count
    listed = ", ".join(f"{name} {count}" for name, count in sorted(lacking.items()))
    shares = " | ".join(f"{share:.0%}" for share in (found.tasks, found.bytes, found.time))
    counts = f"{equal} of {len(runs)} | {worst:.1e} | {moved / max(1, timed):.1%}"
    return f"| {path.stem} | {chip} | {shares} | {counts} | {listed} |\n"


def shares(paths: Sequence[Path], chips: Sequence[str]) -> None:
    """Prints the tasks on AI Cores with effects, network by network and of all together; nothing is run."""
    total: Counter[str] = Counter()
    for path in paths:
        for chip in chips:
            model = asim.compile(asim.load(path, weights="random"), chip, fusion="all")
            tiles = tiles_of(model)
            tasks = [task.id for task in model.program.tasks if task.kind.on_cores]
            lacking = [task for task in tasks if tiles.lacks(task)]
            names = Counter(tiles.nodes(task)[0].op_type for task in lacking)
            total += Counter({"all": len(tasks), "lacking": len(lacking)}) + names
            print(path.stem, chip, f"{len(tasks) - len(lacking)} of {len(tasks)}", dict(names), flush=True)
    share = 1 - total["lacking"] / total["all"]
    print(f"{share:.1%} of {total.pop('all')} tasks; {total.pop('lacking')} lack effects: {dict(total)}")


def main() -> None:
    """Prints rows, and writes the page if they are all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="names in tests/data/models (default: all)")
    parser.add_argument("--soc_version", default=CHIPS, metavar="LIST", help=f"chips (default: {CHIPS})")
    parser.add_argument("--shares", action="store_true", help="print only how many tasks have effects")
    args = parser.parse_args()
    paths = [
        path for path in sorted(MODELS.glob("*.onnx")) if not args.networks or path.stem in args.networks
    ]
    if args.shares:
        shares(paths, args.soc_version.split(","))
        return
    rows = []
    for path in paths:
        for chip in args.soc_version.split(","):
            rows.append(row(path, chip))
            print(rows[-1], end="", flush=True)
    if not args.networks and args.soc_version == CHIPS:
        before, rest = PAGE.read_text().split(START)
        PAGE.write_text(before + START + HEAD + "".join(rows) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
