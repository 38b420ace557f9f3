"""`ascendsim validate models | training | operators | micro`: simulated against published networks, training
steps, operators and micro-benchmarks.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli import validate_micro, validate_operators, validate_training
from ascendsim.cli.common import MODELS, print_table
from ascendsim.cli.model_options import check_folder, positive, progress
from ascendsim.cli.scores import print_worst, score_cells
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import file_stem, make_folder, write_whole
from ascendsim.core.interrupts import code_of, interrupts_heard
from ascendsim.core.table import csv_text

if TYPE_CHECKING:
    from ascendsim.validate import Comparison, Point, Prediction
    from ascendsim.validate.rows import LeftOutRow

    Pair = tuple[Prediction, Prediction]

NAME = "validate"
HELP = "score the simulator against published measurements"

MOST_PROCESSES = 2  # each holds a network and its program: some hundred megabytes


def configure(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="models | training | operators | micro")
    models = kinds.add_parser(
        "models", help="throughput of whole networks", description="Scores the throughput of whole networks."
    )
    models.add_argument(
        "--chips",
        metavar="LIST",
        help="chips as published: 310, 310P3, 310P, 310B1, 910B4 (default: 310,310P3; with --rows: all)",
    )
    models.add_argument(
        "--rows",
        metavar="FILE",
        help="measurements of your own, a CSV file: columns onnx, soc, batch, throughput_per_s or "
        "latency_ms_per_batch (docs/validate.md)",
    )
    models.add_argument(
        "--models",
        default=str(MODELS),
        metavar="DIR",
        help="folder with the network structures (default: that of a checkout)",
    )
    models.add_argument("--fusion", default="all", metavar="LEVEL", help="fusion level (default: all)")
    models.add_argument("--max_batch", type=positive, metavar="N", help="leave out larger batch sizes")
    models.add_argument(
        "--worst",
        type=positive,
        default=10,
        metavar="N",
        help="points to list, largest errors first (default: 10)",
    )
    models.add_argument(
        "--csv", metavar="FILE", help="write every point with its prediction; if interrupted, those so far"
    )
    models.add_argument(
        "--output", metavar="DIR", help="folder for models.csv and a correlation picture a chip"
    )
    models.add_argument(
        "--leave_one_out",
        action="store_true",
        help="score each network with constants of the chip that were fitted without it",
    )
    steps = "throughput of training steps"
    validate_training.configure(
        kinds.add_parser("training", help=steps, description="Scores the throughput of training steps."),
        MODELS,
    )
    times = "times of single operators"
    validate_operators.configure(
        kinds.add_parser("operators", help=times, description="Scores the times of single operators.")
    )
    short = "programs of a few instructions"
    validate_micro.configure(
        kinds.add_parser(
            "micro", help=short, description="Scores instruction programs against micro-benchmarks."
        )
    )


def run(args: argparse.Namespace) -> int:
    if args.kind == "training":
        return validate_training.run(args)
    if args.kind == "operators":
        return validate_operators.run(args)
    if args.kind == "micro":
        return validate_micro.run(args)
    return _run_models(args)


def _run_models(args: argparse.Namespace) -> int:
    from ascendsim.validate import Comparison, predictions
    from ascendsim.validate.calibrate import unseen_values

    check_folder(args.output)
    points, left = _points(args)
    groups = list(dict.fromkeys(point.group for point in points))
    if args.output is not None:
        make_folder(args.output)
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(points))
    values = unseen_values(groups) if args.leave_one_out else None
    refused = None if args.rows is None else left
    coming = predictions(points, Path(args.models), args.fusion, values, processes, refused)
    done, stopped = _collected(coming, len(points))
    order = {point: number for number, point in enumerate(points)}
    outcome = Comparison.of_pairs(sorted(done, key=lambda pair: order[pair[0].point]))
    for group in groups:
        part = outcome.of(group)
        if part.simulated:
            _print(group, part, sum(point.group == group for point in points), args.worst)
    if left:
        print_table(("left out", "because"), [(row.where, row.reason) for row in left])
        print()
    if args.csv is not None:
        print(f"wrote {write_whole(Path(args.csv), _csv(outcome).encode())}")
    if stopped is not None:
        written = ", and no picture is drawn" if args.output is not None else ""
        print(
            f"ascendsim: interrupted: {len(done)} of {len(points)} points are done{written}", file=sys.stderr
        )
        return code_of(stopped)
    if args.output is not None:
        for group in groups:
            if outcome.of(group).simulated:
                _draw(group, outcome.of(group), Path(args.output))
        print(f"wrote {write_whole(Path(args.output) / 'models.csv', _csv(outcome).encode())}")
    return 0


def _points(args: argparse.Namespace) -> tuple[tuple[Point, ...], list[LeftOutRow]]:
    """What is to be simulated, and rows of the user's that cannot be.

    Raises:
        InputError: If the options do not fit each other, or nothing of the user's can be simulated.
    """
    from ascendsim.validate import measured_points, read_rows
    from ascendsim.validate.points import CHIPS

    left: list[LeftOutRow] = []
    if args.rows is None:
        groups = _groups("310,310P3" if args.chips is None else args.chips, CHIPS, "published measurements")
        points = measured_points(groups)
    else:
        if args.leave_one_out:
            raise InputError("option --leave_one_out", "is for published rows", remedy="leave out --rows")
        points, refused = read_rows(args.rows, Path(args.models))
        left += refused
        if args.chips is not None:
            groups = _groups(args.chips, {point.group for point in points}, "usable row")
            points = tuple([point for point in points if point.group in groups])
    found = tuple([point for point in points if args.max_batch is None or point.batch <= args.max_batch])
    if args.rows is not None and not found:
        first = f": {left[0].where}: {left[0].reason}" if left else ""
        raise InputError(f"measurements {args.rows!r}", f"have no usable row{first}")
    return found, left


def _groups(text: str, known: Collection[str], what: str) -> list[str]:
    """Chips of a list, all of which are known."""
    groups = [name.strip() for name in text.split(",") if name.strip()]
    for group in groups:
        if group not in known:
            raise InputError(f"option --chips: {group!r}", f"has no {what}", remedy=suggest(group, known))
    return groups


def _collected(coming: Iterator[Pair], total: int) -> tuple[list[Pair], KeyboardInterrupt | None]:
    """The predictions until the user interrupts, and that interrupt."""
    done: list[Pair] = []
    with progress("simulating", "points") as show, interrupts_heard() as check:
        try:
            for pair in coming:
                done.append(pair)
                if show is not None:
                    show(len(done), total)
                check()
        except KeyboardInterrupt as stop:
            return done, stop
    return done, None


def _print(group: str, part: Comparison, total: int, count: int) -> None:
    """The scores of a chip and its worst points; `total` points there are."""
    from ascendsim.validate import score, worst

    share = f", {len(part.simulated)} of {total} points" if len(part.simulated) < total else ""
    rows = [
        (name, *score_cells(score(list(predictions))))
        for name, predictions in (("ascendsim", part.simulated), ("roofline", part.roofline))
    ]
    print_table(
        ("", "points", "MAPE %", "median %", "bias %", "Spearman"), rows, title=f"chip {group}{share}"
    )
    print_worst(worst(part.simulated, count))


def _draw(group: str, part: Comparison, folder: Path) -> None:
    from ascendsim.plot import plot_correlation
    from ascendsim.validate import score

    own = score(part.simulated)
    note = f"{own.points} points, MAPE {own.mape:.1%}, bias {own.bias:+.1%}, Spearman {own.spearman:.3f}"
    names = [f"{p.point.model}" for p in part.simulated]
    measured, simulated = [p.point.throughput for p in part.simulated], [p.throughput for p in part.simulated]
    path = folder / f"correlation_{file_stem(Path(group).stem)}.png"
    plot_correlation(names, measured, simulated, f"Throughput on chip {group}", note).save(path)
    print(f"wrote {path}")


def _csv(outcome: Comparison) -> str:
    lines = []
    for own, base in zip(outcome.simulated, outcome.roofline, strict=True):
        point = own.point
        times = (f"{point.throughput:.3f}", f"{own.throughput:.3f}", f"{own.error:.4f}")
        lines.append((point.group, point.model, str(point.batch), *times, f"{base.throughput:.3f}"))
    heads = ("chip", "network", "batch", "measured_per_s", "simulated_per_s", "error", "roofline_per_s")
    return csv_text(heads, lines)
