"""`ascendsim calibrate`: fits a chip's documented constants to measurements of one's own and writes a chip
file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import MODELS, add_soc_option, print_table
from ascendsim.cli.scores import score_cells

if TYPE_CHECKING:
    from ascendsim.validate.own_chip import OwnChip

NAME = "calibrate"
HELP = "fit a chip's constants to measurements of your own, as a chip file"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        required=True,
        metavar="FILE",
        help="the measurements, a CSV file: columns onnx, batch, throughput_per_s or latency_ms_per_batch "
        "(docs/validate.md)",
    )
    add_soc_option(parser, required=True, help="the shipped chip to fit")
    parser.add_argument(
        "--models",
        default=str(MODELS),
        metavar="DIR",
        help="folder with the networks (default: that of a checkout)",
    )
    parser.add_argument(
        "--constants", metavar="LIST", help="keys of the constants that may move (default: all documented)"
    )
    parser.add_argument(
        "--output",
        metavar="FILE.toml",
        help="chip file to write, for --soc_version (default: CHIP_own.toml); names the chip",
    )


def run(args: argparse.Namespace) -> int:
    """Fits, prints what came out and writes the chip file."""
    from ascendsim.core.errors import InputError
    from ascendsim.validate.own_chip import fit_chip

    target = Path(args.output or f"{args.soc_version}_own.toml")
    if target.suffix != ".toml":
        raise InputError("option --output", "must end in .toml", repr(str(target)))
    if not target.parent.is_dir():
        raise InputError(f"option --output: {str(target.parent)!r}", "is no folder", remedy="make it first")
    names = None if args.constants is None else [name.strip() for name in args.constants.split(",")]
    found = fit_chip(args.rows, args.soc_version, models=args.models, constants=names, report=_note)
    _print(found)
    print(f"wrote {found.save(target)}: use it with --soc_version {target}")
    return 0


def _note(line: str) -> None:
    print(line, file=sys.stderr)


def _print(found: OwnChip) -> None:
    from ascendsim.validate import score

    table = found.table()
    cells = [[cell if isinstance(cell, str) else f"{cell or 0:g}" for cell in row] for row in table]
    print_table(table.columns, cells, title=f"{found.soc} fitted on {found.source}")
    print()
    parts = (
        (f"{found.soc} as shipped", found.before),
        ("fitted", found.fitted.seen),
        ("fitted without the network", found.fitted.unseen),
    )
    rows = [(name, *score_cells(score(part))) for name, part in parts]
    print_table(("", "points", "MAPE %", "median %", "bias %", "Spearman"), rows)
    print()
    if found.left_out:
        print_table(("left out", "because"), [(row.where, row.reason) for row in found.left_out])
        print()
