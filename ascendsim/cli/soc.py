"""`ascendsim soc list` and `ascendsim soc show NAME`: the chips, and every figure of one with its source."""

from __future__ import annotations

import argparse

from ascendsim import soc
from ascendsim.cli.common import add_set_option, parse_settings, print_table
from ascendsim.core.errors import InputError
from ascendsim.core.files import write_whole
from ascendsim.core.table import Cell
from ascendsim.soc.listing import chips

NAME = "soc"
HELP = "list the chips, or show every figure of one with its source"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show")
    actions.add_parser("list", help="the built-in chips", description="Lists the built-in chips.")
    show = actions.add_parser(
        "show",
        help="every figure of a chip",
        description="Shows every figure of a chip with unit and source.",
    )
    show.add_argument("chip", help="name of a chip, or path of a chip file (.toml)")
    add_set_option(show)
    text = "print a complete chip file (TOML) instead, to start a chip of your own from"
    show.add_argument("--toml", action="store_true", help=text)
    show.add_argument("--output", metavar="FILE.toml", help="with --toml: write it to this file")


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        _list()
        return 0
    if args.output is not None and not (args.toml and args.output.endswith(".toml")):
        rule = "goes with --toml" if not args.toml else "must end in .toml"
        raise InputError("option --output", rule, repr(args.output))
    spec = soc.load(args.chip, parse_settings(args.set))
    if not args.toml:
        _show(spec)
    elif args.output is None:
        print(soc.chip_file(spec), end="")
    else:
        print(f"wrote {write_whole(args.output, soc.chip_file(spec).encode())}")
    return 0


def _list() -> None:
    table = chips()
    rows = [[_text(cell) for cell in row] for row in table]
    print_table(table.columns, rows)
    aliases = ", ".join(f"{alias} = {name}" for alias, name in soc.ALIASES.items())
    print(f"also: {aliases}")
    print("boards (--set dram.size=48GiB for another memory than the chip's file has, see soc show):")
    owned = [
        (board.name, board.chip, board.chips, " or ".join(map(str, board.memory_gib)))
        for board in soc.boards()
    ]
    print_table(("board", "chip", "chips", "GiB a chip"), owned)


def _text(cell: Cell) -> str:
    return "unknown" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell)


def _show(spec: soc.SocSpec) -> None:
    print(
        f"{spec.name}: {spec.architecture}, generation {spec.generation}, fp16 peak "
        f"{spec.peak_fp16_tflops:.1f} TFLOPS"
    )
    rows = [
        (
            row.key,
            f"{row.value} {row.unit}".rstrip(),
            f"assumed {row.source}".rstrip() if row.assumed else row.source,
        )
        for row in soc.spec_table(spec)
    ]
    print_table(("key", "value", "source"), rows)
    print(f"{len(spec.assumed)} figures are assumed")
    if spec.missing:
        print(f"cannot be run, these are missing: {', '.join(spec.missing)}")
