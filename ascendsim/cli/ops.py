"""`ascendsim ops list`: which operators are supported, and how each runs on the chip."""

from __future__ import annotations

import argparse

from ascendsim.cli.common import print_table

NAME = "ops"
HELP = "list the supported operators"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    actions.add_parser("list", help="every operator with its CANN type and format wish")


def run(args: argparse.Namespace) -> int:
    from ascendsim.ops import opset_with

    rows = [
        (
            (f"{op.domain}::" if op.domain else "") + op.name,
            op.cann or op.name,
            op.layout.value,
            "AI Core" if op.lower is not None else "AI CPU",
        )
        for op in sorted(opset_with(), key=lambda op: op.key)
    ]
    print_table(("operator", "CANN type", "layout", "engine"), rows)
    print(f"{len(rows)} operators")
    return 0
