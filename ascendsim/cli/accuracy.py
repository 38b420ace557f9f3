"""`ascendsim accuracy MODEL`: a device run beside float32 (or a dump), tensor by tensor; which operators must
stay in float32.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import parse_settings, print_table
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    check_folder,
    chip_settings,
    load_graph,
    positive,
)

if TYPE_CHECKING:
    from ascendsim.accuracy import Accuracy

NAME = "accuracy"
HELP = "compare the device's values with float32, tensor by tensor; find what must stay in float32"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    add_chip_options(parser)
    parser.add_argument(
        "--input",
        action="append",
        metavar="NAME=FILE.npy",
        help="values of an input; others are random; may be repeated",
    )
    text = "folder of .npy files to compare with, named after tensors or operators (default: float32)"
    parser.add_argument("--golden", metavar="DIR", help=text)
    text = "largest relative Euclidean distance that is no trouble (default: 0.05)"
    parser.add_argument("--limit", type=_limit, default=0.05, metavar="X", help=text)
    text = "find a small set of operators that brings the outputs within --limit if it stays in float32"
    parser.add_argument("--keep", action="store_true", help=text)
    parser.add_argument(
        "--top", type=positive, default=10, metavar="N", help="tensors in the printed table (default: 10)"
    )
    text = (
        "folder for accuracy.csv and accuracy.png; with --keep also keep_dtype.cfg, modify_mixlist.json, "
        "keep.csv and keep.png"
    )
    parser.add_argument("--output", metavar="DIR", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.accuracy import accuracy
    from ascendsim.accuracy.comparing import closed
    from ascendsim.accuracy.dumps import read_array
    from ascendsim.core.files import make_folder
    from ascendsim.runtime import random_inputs

    check_folder(args.output)
    given = {
        name: read_array(path)
        for name, path in parse_settings(args.input, option="--input", form="NAME=FILE.npy").items()
    }
    settings = chip_settings(args)
    graph = closed(load_graph(args), given, settings["operators"])
    inputs = random_inputs(graph, args.seed) | given
    found = accuracy(graph, inputs, golden=args.golden, **settings)
    _print(found, args.limit, args.top)
    kept = found.keep(args.limit) if args.keep else None
    if kept is not None:
        print(f"\n{kept}\n")
        rows = [
            (
                point.label,
                point.operators,
                f"{point.error:.2g}",
                f"{point.duration_us:,.1f}",
                f"{longer:+.1f}",
            )
            for point, longer in zip(kept.points, kept.table.column("Time(%)"), strict=True)
        ]
        print_table(("kept in float32", "operators", "error", "us", "%"), rows)
    if args.output is None:
        return 0
    folder = make_folder(Path(args.output))
    found.to_csv(folder / "accuracy.csv")
    found.plot(args.limit).save(folder / "accuracy.png")
    written = ["accuracy.csv", "accuracy.png"]
    if kept is not None:
        kept.write_keep_dtype(folder / "keep_dtype.cfg")
        kept.write_modify_mixlist(folder / "modify_mixlist.json")
        kept.table.to_csv(folder / "keep.csv")
        kept.plot().save(folder / "keep.png")
        written += ["keep_dtype.cfg", "modify_mixlist.json", "keep.csv", "keep.png"]
    for name in written:
        print(f"wrote {folder / name}")
    return 0


def _print(found: Accuracy, limit: float, top: int) -> None:
    """The line, and the tensors around the place where it begins."""
    print(found.line(limit))
    if found.numerics.findings:
        print(f"numbers: {found.numerics}")
    first = found.first(limit)
    place = 0 if first is None else max(0, found.rows.index(first) - 2)
    shown = found.rows[place : place + top]
    cells = [
        (
            row.golden_name,
            row.mine_type,
            row.overflow if row.measures else "not compared",
            "-" if not row.measures else f"{row.error('CosineSimilarity'):.2g}",
            "-" if not row.measures else f"{row.error():.2g}",
            row.why,
        )
        for row in shown
    ]
    heads = ("operator", "device", "overflow", "1 - cosine", "distance", "why not compared")
    print_table(heads, cells, f"tensors {place} to {place + len(shown) - 1} of {len(found.rows)}:")


def _limit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")
    return value
