"""Digests of what the project makes of every network of tests/data/models, to see that a change of form
changes nothing else.

    python scripts/fingerprint.py > before.txt            a line for each network, chip and fusion level
    python scripts/fingerprint.py --compare before.txt    prints the lines that differ; exit code 1 if there
                                                          are any
    ... resnet18 lenet5 --soc_version Ascend310 --fusion off,all --values

Each line has a digest of the programs (listings), of the timing (every record of a task), of the tables and
of the fusion report; with --values one of the outputs that device arithmetic gives for seeded weights
and inputs too (the same on one machine and number of threads).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import ascendsim as asim
from ascendsim.core.errors import AscendSimError
from ascendsim.isa.listing import task_listing

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
CHIPS = "Ascend310,Ascend310P3,Ascend910B1"
LEVELS = "off,graph,ub,all,graph-kernel"


def digest(*texts: object) -> str:
    """Twelve digits that stand for some texts."""
    return hashlib.sha256("\n".join(map(str, texts)).encode()).hexdigest()[:12]


def digests(graph: asim.Graph, chip: str, level: str, values: bool) -> Iterator[str]:
    """name=digest of everything about one compilation."""
    model = asim.compile(graph, soc=chip, fusion=level)
    result = asim.run(model, asim.random_inputs(model)) if values else asim.simulate(model)
    yield "program=" + digest(*(task_listing(task) for task in model.program.tasks))
    yield "memory=" + digest(model.memory)
    yield "timing=" + digest(result.duration_us, *result.trace.tasks)
    yield "tables=" + digest(
        *(table.to_csv() for table in (result.op_summary(), result.op_statistic(), result.task_time()))
    )
    yield "fusion=" + digest(model.fusion, *((item.name, item.op_type) for item in model.graph.topological()))
    if values:
        yield "values=" + digest(
            *(hashlib.sha256(array.tobytes()).hexdigest() for array in result.outputs.values())
        )


def lines(args: argparse.Namespace) -> Iterator[str]:
    """One line a network, chip and level."""
    for path in sorted(MODELS.glob("*.onnx")):
        if args.networks and path.stem not in args.networks:
            continue
        graph = asim.load(path, weights="random")
        for chip in args.soc_version.split(","):
            for level in args.fusion.split(","):
                try:
                    found = " ".join(digests(graph, chip, level, args.values))
                except AscendSimError as error:
                    found = f"refused={digest(error)}"
                yield f"{path.stem} {chip} {level} {found}"


def main() -> int:
    """Prints the lines, or those that differ from a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--soc_version", default=CHIPS)
    parser.add_argument("--fusion", default=LEVELS)
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    args = parser.parse_args()
    known = set(args.compare.read_text().splitlines()) if args.compare else set()
    different = 0
    for line in lines(args):
        if line not in known:
            different += 1
            print(line, flush=True)
    return int(bool(args.compare and different))


if __name__ == "__main__":
    sys.exit(main())
