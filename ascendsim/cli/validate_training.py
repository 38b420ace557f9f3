"""`ascendsim validate training`: simulated training steps against published throughput."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table
from ascendsim.cli.model_options import positive, progress
from ascendsim.cli.scores import print_worst, score_cells
from ascendsim.core.files import write_whole

if TYPE_CHECKING:
    from ascendsim.validate import Prediction

    Pair = tuple[Prediction, Prediction]


def configure(parser: argparse.ArgumentParser, models: Path) -> None:
    """Adds the options; `models` is where the network structures are in a checkout."""
    parser.add_argument(
        "--groups",
        default="910A",
        metavar="LIST",
        help="910A: steps as one graph; 910A eager: PyTorch, operator by operator (default: 910A)",
    )
    parser.add_argument(
        "--networks", metavar="LIST", help="networks to run, by name (default: all with a measurement)"
    )
    parser.add_argument("--max_batch", type=positive, metavar="N", help="leave out larger batch sizes")
    parser.add_argument(
        "--models",
        default=str(models),
        metavar="DIR",
        help="folder with the network structures (default: that of a checkout)",
    )
    parser.add_argument(
        "--worst",
        type=positive,
        default=5,
        metavar="N",
        help="steps to list, largest errors first (default: 5)",
    )
    parser.add_argument("--csv", metavar="FILE", help="write every step with the simulated figure")


def run(args: argparse.Namespace) -> int:
    """Simulates, prints and writes."""
    from ascendsim.core.errors import InputError
    from ascendsim.validate.training import GROUPS, training_points, training_predictions, unusable_steps

    groups = _listed("groups", args.groups, GROUPS)
    points = training_points(groups)
    if args.networks is not None:
        names = _listed("networks", args.networks, sorted({point.model for point in points}))
        points = tuple(point for point in points if point.model in names)
    if args.max_batch is not None:
        points = tuple(point for point in points if point.batch <= args.max_batch)
    if not points:
        raise InputError("option --max_batch", "leaves no step", repr(args.max_batch))
    done: list[Pair] = []
    with progress("simulating", "steps") as show:
        for pair in training_predictions(points, Path(args.models)):
            done.append(pair)
            if show is not None:
                show(len(done), len(points))
    for group in groups:
        part = [pair for pair in done if pair[0].point.group == group]
        if part:
            _print(group, part, args.worst)
    for unusable in unusable_steps(groups):
        print(f"not scored: {unusable.network}, batch {unusable.batch}, {unusable.framework}: {unusable.why}")
    if args.csv:
        print(f"wrote {write_whole(Path(args.csv), _csv(done).encode())}")
    return 0


def _listed(option: str, text: str, known: Sequence[str] | dict[str, str]) -> list[str]:
    from ascendsim.core.errors import InputError, suggest

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise InputError(
                f"option --{option}: {name!r}", "has no published training step", remedy=suggest(name, known)
            )
    return names


def _print(group: str, part: Sequence[Pair], count: int) -> None:
    """The scores of a group and its worst steps."""
    from ascendsim.validate import score, worst

    own, base = [pair[0] for pair in part], [pair[1] for pair in part]
    rows = [
        (name, *score_cells(score(found))) for name, found in (("ascendsim", own), ("roofline x 3", base))
    ]
    print_table(
        ("", "steps", "MAPE %", "median %", "bias %", "Spearman"), rows, title=f"training, chip {group}"
    )
    print_worst(worst(own, count))


def _csv(done: Sequence[Pair]) -> str:
    lines = ["group,network,batch,measured_per_s,simulated_per_s,error,roofline_per_s"]
    for own, base in done:
        point = own.point
        figures = f"{point.throughput:.3f},{own.throughput:.3f},{own.error:.4f},{base.throughput:.3f}"
        lines.append(f"{point.group},{point.model},{point.batch},{figures}")
    return "\n".join(lines) + "\n"
