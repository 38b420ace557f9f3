"""`ascendsim search MODEL --space FILE.toml`: the best points of a space that is too large to be swept."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ascendsim.cli.model_options import check_folder, natural, positive
from ascendsim.cli.sweep_options import (
    add_single_options,
    add_worker_options,
    print_columns,
    single_axes,
)
from ascendsim.cli.variants import parts
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder, read_text
from ascendsim.core.interrupts import code_of

NAME = "search"
HELP = "look for the best chip, batch and options in a space that a file describes"
_SHOWN = ("Time(us)", "Samples/s", "Memory(MiB)")
_MOST_BYTES = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="path of a model")
    add_single_options(parser, several=True)
    text = (
        "TOML file of further axes: batch = [1, 8], and under [set] figures of the chip, lists or ranges: "
        "dram.read_gb_per_s = { low = 40, high = 80 }"
    )
    parser.add_argument("--space", metavar="FILE.toml", help=text)
    text = "columns that are to be small, axes among them (default: Time(us) if nothing is to be large)"
    parser.add_argument("--minimize", metavar="COLUMN,COLUMN", help=text)
    parser.add_argument("--maximize", metavar="COLUMN,COLUMN", help="columns that are to be large")
    parser.add_argument("--trials", type=positive, default=100, metavar="N", help="questions (default: 100)")
    text = "questions that are asked together (default: 4)"
    parser.add_argument("--at_a_time", type=positive, default=4, metavar="N", help=text)
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of the questions (default: 0)")
    add_worker_options(parser)
    parser.add_argument("--output", metavar="DIR", help="folder for search.csv and pareto.csv")


def run(args: argparse.Namespace) -> int:
    from ascendsim.sweep import search

    check_folder(args.output)
    large = parts(args.maximize, "--maximize") if args.maximize else ()
    small = parts(args.minimize, "--minimize") if args.minimize else () if large else ("Time(us)",)
    goals = (*small, *large)
    try:
        found = search(
            args.model,
            {} if args.space is None else read_space(args.space),
            small,
            maximize=large,
            trials=args.trials,
            at_a_time=args.at_a_time,
            seed=args.seed,
            store=args.store,
            workers=args.workers,
            retry=args.retry,
            progress=True,
            **single_axes(args),
        )
    except KeyboardInterrupt as stop:
        kept = "nothing is kept; --store FILE would" if args.store is None else "the same command goes on"
        print(f"ascendsim: interrupted; {kept}", file=sys.stderr)
        return code_of(stop)
    if not len(found.table()):
        print_columns(found.failed().columns, found.failed().records())
        return 1
    table = found.pareto()
    axes = table.columns[: table.columns.index("Time(us)")]
    print(f"{len(found.table())} points, {len(found.failed())} failed; no other is better than")
    print_columns(tuple(dict.fromkeys((*axes, *goals, *_SHOWN))), table.records())
    if args.output is not None:
        folder = make_folder(args.output)
        for name, each in (("search", found.table()), ("pareto", table)):
            each.to_csv(folder / f"{name}.csv")
            print(f"wrote {folder / name}.csv")
    return 0


def read_space(path: str) -> dict[str, Any]:
    """The axes that a TOML file describes.

    Raises:
        InputError: If it cannot be read, is no TOML, or has nothing in it.
    """
    import tomllib

    subject, form = f"space {path!r}", "write axes, for example batch = [1, 8]"
    text = read_text(path, subject, _MOST_BYTES)
    try:
        space = tomllib.loads(text)
    except (RecursionError, tomllib.TOMLDecodeError) as error:
        raise InputError(subject, f"is not valid TOML: {error}", remedy=form) from None
    if not space:
        raise InputError(subject, "is empty", remedy=form)
    return space
